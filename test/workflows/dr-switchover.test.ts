import { scenarioWithLogin } from '../support/logins';
import { pair, openScenario, temporaryDirectory } from '../support/scenario';
import type { Scenario } from '../support/scenario';
import { cell, expectFewEvents } from '../support/matrix';

const directory = temporaryDirectory('cert');

describe('a planned DR switchover without a fault', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened), {
    topology: pair(3),
    deployment: { objectives: { outage: '10m', loss: 'none', unprotected: '1ms' } },
  });

  it(cell('drSwitchover', 'no fault', 'changes the roles, loses nothing, waits for nobody in the outage'), async () => {
    const run = await scenario.start();
    await run.people();
    const report = await run.report();

    expect(report.outcome).toBe('completed');
    expect(report.loss?.loss).toBe('none');
    expect(report.outage?.peopleMs).toBe(0);
    expect(report.outage?.totalMs).toBeGreaterThan(0);
    expect(report.leftToDo).toEqual([]);
    // Nothing went wrong, and nothing reads as if it had: the kept token of the new primary is information.
    expect(report.findings.map(({ severity, code }) => [severity, code])).toEqual([['info', 'token-kept']]);
    expect(report.objectives?.map(({ verdict }) => verdict)).toEqual(['met', 'met', 'missed']);
    expect(scenario.calls('east', 'dr/primary/demote')).toBe(1);
    expect(scenario.calls('west', 'dr/secondary/promote')).toBe(1);
    expect(report.finalState.map(({ cluster, dr }) => [cluster, dr?.mode])).toEqual([
      ['east', 'secondary'],
      ['west', 'primary'],
    ]);
    expect(report.tokens.map(({ cluster, state }) => [cluster, state])).toEqual([
      ['west', 'kept'],
      ['east', 'deleted'],
    ]);
    await expectFewEvents('drSwitchover', run);
  });
});

describe('a planned DR switchover with a dead standby on each side, by workers that log in with a certificate', () => {
  let scenario: Scenario;
  beforeAll(async () => {
    ({ scenario } = await scenarioWithLogin('cert', directory, { topology: pair(3) }));
  });
  afterAll(() => scenario.stop());

  it(cell('drSwitchover', 'no fault', 'is shown to the approvers, and the others carry it out'), async () => {
    for (const side of ['east', 'west'] as const) {
      const cluster = scenario.service.cluster(side);
      await cluster.killNode(cluster.nodes.findIndex((node) => node !== cluster.leadership.active));
    }
    const run = await scenario.start();
    await run.people();
    const report = await run.report();

    expect(report.outcome).toBe('completed');
    expect(report.loss?.loss).toBe('none');
    expect(report.steps.filter(({ outcome }) => outcome !== 'done')).toEqual([]);
    expect(scenario.calls('east', 'auth/cert/login')).toBeGreaterThan(0);
  });
});
