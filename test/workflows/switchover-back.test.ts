import { readPrimaryChanges } from '../../activities/support/switchover/primary-changes';
import type { Precondition } from '../../src/contracts/plan';
import { expectServiceOn } from '../support/faults';
import { cell } from '../support/matrix';
import { Scenario } from '../support/scenario';

const COOL_DOWN = 'cool-down since the last change of the primary';
const FLAPPING = 'roles do not flap';
const LIMITS = { coolDown: '10m', flappingChanges: 2, flappingWithin: '1h' };

/** Failback is the switchover with roles swapped; it does not follow at once, and roles do not flap, unless acknowledged. */
describe('switching over back', () => {
  let scenario: Scenario;
  beforeAll(async () => {
    scenario = await Scenario.start({ limits: LIMITS });
  });
  afterAll(() => scenario.stop());

  /** Closed runs appear in Temporal's visibility store a moment after their end. */
  const changesAre = async (count: number) => {
    const { limits } = scenario.inventory.deployments.get(scenario.name) ?? {};
    if (!limits) throw new Error('no limits');
    const sources = {
      temporal: scenario.client,
      log: { warn: () => undefined } as never,
      sealKeyring: scenario.sealKeyring,
    };
    for (;;) {
      const look = { ns: scenario.client.options.namespace, signal: new AbortController().signal };
      const found = await readPrimaryChanges(sources, scenario.name, limits, look);
      expect(found?.unattested ?? []).toEqual([]);
      if (found?.changes.length === count) return found.changes;
    }
  };
  const judged = async (input: Readonly<Record<string, unknown>>): Promise<ReadonlyMap<string, Precondition>> => {
    const report = await (await scenario.start({ ...input, dryRun: true })).report();
    expect(report.outcome).toBe('planned');
    return new Map(report.preconditions.map((each) => [each.name, each]));
  };

  it(cell('drSwitchover', 'refused', 'before the cool-down has passed; acknowledged it passes'), async () => {
    const first = await scenario.start({ go: 'auto' });
    await first.people({ go: false });
    expect(await first.report()).toMatchObject({ outcome: 'completed' });
    expect(await changesAre(1)).toMatchObject([{ runbook: 'drSwitchover' }]);

    const failure = await (await scenario.start({ to: 'east' })).failure();
    expect(failure.code).toBe('PRECONDITION_FAILED');
    expect(failure.message).toContain(COOL_DOWN);
    await expectServiceOn(scenario, 'west');

    const run = await scenario.start({ to: 'east', go: 'auto', acknowledgeFlapping: true });
    await run.people({ go: false });
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', plan: { content: { acknowledgeFlapping: true } } });
    expect(report.preconditions).toContainEqual(
      expect.objectContaining({
        name: COOL_DOWN,
        verdict: 'warn',
        observed: expect.stringContaining('acknowledged') as string,
      }),
    );
    await expectServiceOn(scenario, 'east');
  });

  it(cell('drSwitchover', 'refused', 'where roles flap; acknowledged it passes'), async () => {
    await changesAre(2);
    const refused = await judged({});
    expect(refused.get(FLAPPING)).toMatchObject({
      verdict: 'fail',
      observed: expect.stringContaining('2 within') as string,
      next: expect.stringContaining('acknowledgeFlapping') as string,
    });
    expect((await (await scenario.start({})).failure()).message).toContain(FLAPPING);
    const acknowledged = await judged({ acknowledgeFlapping: true });
    expect([COOL_DOWN, FLAPPING].map((name) => acknowledged.get(name)?.verdict)).toEqual(['warn', 'warn']);
  });
});
