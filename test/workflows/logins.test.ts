/** Workers that hold no stored token: an AppRole, whose primary goes; and a stored token that ends in the middle of a run. */
import { writeFileSync } from 'node:fs';
import { FAILOVER_LIMITS, failoverPeople, startFailover } from '../support/failover';
import { scenarioWithLogin } from '../support/logins';
import { Scenario, temporaryDirectory } from '../support/scenario';

jest.setTimeout(240_000);
const directory = temporaryDirectory('approle');
const HOUR = 3_600_000;

let scenario: Scenario;
const logins = () =>
  scenario.service.calls
    .filter(({ path }) => path.endsWith('/login'))
    .map(({ cluster, status }) => `${cluster} ${status}`);

describe('workers without a stored token', () => {
  beforeAll(async () => {
    const opened = await scenarioWithLogin('approle', directory, { limits: FAILOVER_LIMITS });
    ({ scenario } = opened);
    scenario.guards(opened.setUp.secrets);
  });
  afterAll(() => scenario.stop());

  it('fails over with no token in hand: the worker logs in at the new primary, once it serves', async () => {
    const { service } = scenario;
    const revoked = () => service.calls.filter(({ path }) => path.endsWith('revoke-self')).map(({ status }) => status);
    const planned = await (await scenario.start({ dryRun: true }, `plan:${scenario.name}`)).report();
    expect(planned.preconditions.map(({ observed }) => observed).join()).toContain('login by approle');
    await scenario.stopWorker();
    expect(revoked()).toContain(204);
    await service.cluster('east').kill();
    service.calls.length = 0;
    await scenario.startWorker();
    const run = await startFailover(scenario);
    await failoverPeople(run);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.steps.map(({ name }) => name)).toContain('See that west takes a write');
    expect(new Set(logins())).toEqual(new Set(['west 200']));
  });

  it('with a stored token that ends in the middle the step parks and names its file; another one there, and it goes on', async () => {
    const stored = await Scenario.start({ rights: { ttlMs: HOUR } });
    try {
      const run = await stored.start();
      await run.shares();
      await run.approve('plan');
      await run.waitsFor('approval', ({ gate }) => gate === 'go');
      stored.service.advanceClock(2 * HOUR);
      await run.approve('go', 'henry');
      const parked = await run.waitsFor('decision');
      expect(parked).toMatchObject({
        code: 'PERMISSION_DENIED',
        next: `Renew the credential of east: file ${stored.tokenFile}; then retry.`,
      });
      writeFileSync(stored.tokenFile, stored.workersToken('east'));
      await run.decide('retry');
      expect((await run.report()).outcome).toBe('completed');
    } finally {
      await stored.stop();
    }
  });
});
