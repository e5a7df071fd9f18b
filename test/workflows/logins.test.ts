/** Workers that hold no stored token: an AppRole, whose tokens end in the middle of a run, and whose primary goes. */
import { writeFileSync } from 'node:fs';
import { FAILOVER_LIMITS, failoverPeople, startFailover } from '../support/failover';
import { CHANGING, drPrimaries, statuses } from '../support/faults';
import { scenarioWithLogin } from '../support/logins';
import type { LoginSetUp } from '../support/logins';
import { at } from '../support/outage';
import { Scenario, temporaryDirectory } from '../support/scenario';

jest.setTimeout(240_000);
const directory = temporaryDirectory('approle');
const HOUR = 3_600_000;

let scenario: Scenario;
let setUp: LoginSetUp;

/** A busy primary, whose clients a quota stops. */
async function start(): Promise<void> {
  ({ scenario, setUp } = await scenarioWithLogin('approle', directory, {
    topology: { timing: { canaryMs: 300 } },
    limits: { ...FAILOVER_LIMITS, walStill: '400ms' },
    deployment: { quiesce: 'quota' },
  }));
  scenario.guards(setUp.secrets);
}

const logins = () =>
  scenario.service.calls
    .filter(({ path }) => path.endsWith('/login'))
    .map(({ cluster, status }) => `${cluster} ${status}`);

describe('workers without a stored token', () => {
  beforeAll(start);
  afterAll(() => scenario.stop());

  it('switches over with the printed policy; the token that ended while people were waited for is replaced by a new login', async () => {
    const run = await scenario.start({ go: 'auto' });
    await run.shares();
    await run.waitsFor('approval');
    const before = logins().length;
    // A canary in the moment of the demotion, which west never gets: both Merkle roots differ.
    const { service } = scenario;
    at(scenario, 'before', 'east', CHANGING.demote, (east) => {
      service.partition('east', 'west');
      east.writeCanary(service.now());
    });
    at(scenario, 'after', 'east', CHANGING.demote, () => service.heal());
    // Its longest life is over, and the worker cannot know that.
    scenario.service.advanceClock(3 * HOUR);
    await run.approve('plan');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [], loss: { loss: 'none' } });
    expect(report.loss?.why).toMatch(/clients are refused with 429 .* rose by \d within/);
    expect(
      statuses(scenario, 'west', 'DELETE /v1/sys/quotas/rate-limit/runbooks-' + (await run.status()).runId),
    ).toEqual([204]);
    expect(logins().slice(before)).toContain('east 200');
    expect(logins().filter((each) => !each.endsWith('200'))).toEqual([]);
    expect(drPrimaries(scenario)).toEqual(['west']);
    expect(report.preconditions.map(({ observed }) => observed).join()).toContain('login by approle');
  });

  it('fails over with no token in hand: the worker logs in at the new primary, once it serves', async () => {
    const { service } = scenario;
    const revoked = () => service.calls.filter(({ path }) => path.endsWith('revoke-self')).map(({ status }) => status);
    await scenario.stopWorker();
    expect(revoked()).toContain(204);
    await service.cluster('west').kill();
    service.calls.length = 0;
    await scenario.startWorker();
    const run = await startFailover(scenario);
    await failoverPeople(run);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.steps.map(({ name }) => name)).toContain('See that east takes a write');
    expect(new Set(logins())).toEqual(new Set(['east 200']));
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
