import { runbookPlan } from '../../src/contracts/plan-schema';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { changeDrPrimaryByHand, joinDrByHand } from '../support/by-hand';
import { CHANGING, loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import type { ScenarioOptions } from '../support/scenario';
import { Scenario, WAIT_MS } from '../support/scenario';

const RUNBOOK = 'secondaryRepointing';
const PERFORMANCE = '/v1/sys/replication/performance';
const UPDATE = `POST ${PERFORMANCE}/secondary/update-primary`;
const TOKEN = `POST ${PERFORMANCE}/primary/secondary-token`;
const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };

const cluster = (name: string) => ({ name, nodes: 1 });
const readings = { performanceSecondariesFollow: false, leaderChangeChance: 0 };

/** East with two DR secondaries. */
const dr = new Lane(() =>
  Scenario.start({
    topology: {
      readings,
      clusters: ['east', 'west', 'north'].map(cluster),
      dr: [{ primary: 'east', secondaries: ['west', 'north'] }],
    },
    drSets: { main: ['east', 'west', 'north'] },
  }),
);

/**
 * East with a DR secondary, and europe, which is performance secondary of east and DR primary of europe-dr at once. It
 * does not follow by itself where east and west change roles.
 */
function payments(): ScenarioOptions {
  return {
    topology: {
      readings,
      mounts: ['kv/', 'secret/', 'us-customers/'],
      clusters: ['east', 'west', 'europe', 'europe-dr'].map(cluster),
      performance: { primary: 'east', secondaries: [{ name: 'europe', filter: FILTER }] },
      dr: [
        { primary: 'east', secondaries: ['west'] },
        { primary: 'europe', secondaries: ['europe-dr'] },
      ],
    },
    drSets: { main: ['east', 'west'], eu: ['europe', 'europe-dr'] },
  };
}
const performance = new Lane(() => Scenario.start(payments()));

const start = (scenario: Scenario, input: object) => scenario.run(RUNBOOK, input);

const europeTo = (primary: string, form: 'token' | 'addresses') => ({
  kind: 'performance',
  primary,
  secondary: 'europe',
  form,
});

/** What is kept away from europe does not reach it, what is not does; and its own DR secondary has what it has. */
async function expectFiltered(scenario: Scenario, primary: string): Promise<void> {
  const stamp = `${primary} ${scenario.service.now()}`;
  scenario.service.cluster(primary).write('us-customers/smith', { stamp });
  scenario.service.cluster(primary).write('secret/for-all', { stamp });
  const [europe, copy] = [scenario.service.cluster('europe'), scenario.service.cluster('europe-dr')];
  const deadline = Date.now() + WAIT_MS;
  while (copy.read('secret/for-all')?.['stamp'] !== stamp && Date.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 20));
  for (const each of [europe, copy]) {
    expect(each.read('secret/for-all')).toEqual({ stamp });
    expect(each.read('us-customers/smith')).toBeUndefined();
  }
}

/** The former DR primary joins its set again, and becomes DR primary. */
async function changeBack(scenario: Scenario, from: string, to: string): Promise<void> {
  await joinDrByHand(scenario, from, to);
  await changeDrPrimaryByHand(scenario, from, to);
}

describe('a secondary that is to follow another primary', () => {
  runLanes(dr, performance);

  describe('for DR', () => {
    const north = { kind: 'dr', primary: 'west', secondary: 'north' };

    dr.it(cell(RUNBOOK, 'refused', 'DR by addresses, and where there is nothing to do'), async (scenario) => {
      for (const form of ['token', 'addresses']) {
        const again = await (await start(scenario, { ...north, primary: 'east', form })).failure();
        expect(again.message).toContain('something to do');
      }
      await changeDrPrimaryByHand(scenario, 'east', 'west');
      const run = await start(scenario, { ...north, secondary: 'east', form: 'addresses' });
      const { code, message } = await run.failure();
      expect(code).toBe('PRECONDITION_FAILED');
      expect(message).toContain('addresses are not allowed on a demoted cluster');
      const byNorth = await (await start(scenario, { ...north, form: 'addresses' })).failure();
      expect(byNorth.message).toContain('the primary knows the secondary');
      expect(scenario.calls('north', 'update-primary')).toBe(0);
    });

    dr.it(cell(RUNBOOK, 'no fault', 'DR, by token'), async (scenario) => {
      const run = await start(scenario, north);
      await run.shares();
      await run.approve('repoint');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
      expect(scenario.state('north').dr).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
      expect(scenario.state('north').operationTokens).toBe(0);
      expect(report.tokens).toEqual([expect.objectContaining({ cluster: 'north', state: 'deleted' })]);
      expect(report.steps.map(({ name }) => name)).toContain('Compare the Merkle roots of west and north');
      // East stays what it was: a demoted cluster that follows nobody.
      expect(scenario.state('east').dr.connectedTo).toBeUndefined();
      await expectFewEvents(RUNBOOK, run);
    });

    const REVOKE = 'POST /v1/sys/replication/dr/primary/revoke-secondary';
    const LOST = 'DR update-primary, secondary-token, revoke-secondary, attempt, update, operation-token/delete';
    dr.it(cell(RUNBOOK, 'lost answer', LOST), async (scenario) => {
      const faults = [
        loseAnswer(scenario, 'west', CHANGING.secondaryToken),
        loseAnswer(scenario, 'west', REVOKE),
        loseAnswer(scenario, 'east', CHANGING.updatePrimary),
        loseAnswer(scenario, 'east', CHANGING.startAttempt),
        loseAnswer(scenario, 'east', CHANGING.giveShare),
        loseAnswer(scenario, 'east', CHANGING.deleteToken),
      ];
      const run = await start(scenario, { ...north, secondary: 'east' });
      await run.shares();
      await approveLongAgo(scenario, run, 'repoint');
      await approveAgain(run, 'repoint');
      const report = await run.report();
      expect(faults.map(({ hits }) => hits)).toEqual(faults.map(() => 1));
      expect(report.gates).toHaveLength(2);
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(scenario.state('east').dr).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
      expect(scenario.state('east').operationTokens).toBe(0);
    });
  });

  describe('for performance', () => {
    performance.it(cell(RUNBOOK, 'refused', 'a version that is too old'), async (scenario) => {
      await changeDrPrimaryByHand(scenario, 'east', 'west');
      const clusters = [...scenario.service.clusters.values()];
      const versions = clusters.map(({ version }) => version);
      for (const each of clusters) each.version = '1.15.16+ent';
      const { message } = await (await start(scenario, europeTo('west', 'token'))).failure();
      expect(message).toContain('supported version (west)');
      clusters.forEach((each, index) => (each.version = versions[index] ?? ''));
      expect(scenario.calls('europe', 'update-primary')).toBe(0);
    });

    const refuseUpdate = (scenario: Scenario) =>
      scenario.service.faults.add({ cluster: 'europe', endpoint: UPDATE, action: { status: 403 }, times: Infinity });
    const GIVE = 'Give europe the addresses of west';

    performance.it(cell(RUNBOOK, 'parked, skip', 'update-primary by addresses'), async (scenario) => {
      refuseUpdate(scenario);
      const run = await start(scenario, europeTo('west', 'addresses'));
      await run.approve('repoint');
      await run.decide('skip', GIVE);
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      expect(report.leftToDo.join('\n')).toContain('europe was not seen following west');
      expect(scenario.state('europe').performance.connectedTo).toBeUndefined();
    });

    performance.it(
      `${cell(RUNBOOK, 'parked, retry', 'update-primary by addresses')}; ${cell(RUNBOOK, 'lost answer', 'update-primary by addresses')}`,
      async (scenario) => {
        const refused = refuseUpdate(scenario);
        const run = await start(scenario, europeTo('west', 'addresses'));
        await approveLongAgo(scenario, run, 'repoint');
        await approveAgain(run, 'repoint');
        await run.waitsFor('decision', ({ step }) => step === GIVE);
        refused.remove();
        scenario.service.calls.length = 0;
        const lost = loseAnswer(scenario, 'europe', UPDATE);
        await run.decide('retry', GIVE);
        expect(await run.report()).toMatchObject({ outcome: 'completed', leftToDo: [] });
        expect([lost.hits, statuses(scenario, 'europe', UPDATE)]).toEqual([1, [0]]);
        // A promoted DR secondary of the performance primary knows europe already: nothing is issued.
        expect(scenario.calls('west', 'secondary-token')).toBe(0);
        expect(scenario.state('europe').performance).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
        await expectFiltered(scenario, 'west');
      },
    );

    const LOST = 'performance update-primary by token, secondary-token, paths-filter';
    performance.it(cell(RUNBOOK, 'lost answer', LOST), async (scenario) => {
      // East serves again, and europe still knows west only.
      await changeBack(scenario, 'west', 'east');
      const id = scenario.state('europe').clusterId;
      const faults = [
        loseAnswer(scenario, 'east', `POST ${PERFORMANCE}/primary/paths-filter/${id}`),
        loseAnswer(scenario, 'east', TOKEN),
        loseAnswer(scenario, 'europe', UPDATE),
      ];
      const run = await start(scenario, europeTo('east', 'token'));
      await approveLongAgo(scenario, run, 'repoint');
      await approveAgain(run, 'repoint');
      const report = await run.report();
      const { warnings, choices } = runbookPlan.parse(report.plan?.content);
      expect(warnings.join(' ')).toContain('may receive what is kept away from it: us-customers/');
      expect(choices).toMatchObject({ filter: 'deny us-customers/', form: 'token' });
      expect(faults.map(({ hits }) => hits)).toEqual([1, 1, 1]);
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(statuses(scenario, 'europe', UPDATE)).toEqual([0]);
      expect(scenario.state('europe').performance).toMatchObject({ connectedTo: 'east', state: 'stream-wals' });
      expect(scenario.state('east').filters).toContain(id);
      await expectFiltered(scenario, 'east');
    });
  });
});
