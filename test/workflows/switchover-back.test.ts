import { setTimeout as delay } from 'node:timers/promises';
import { readPrimaryChanges } from '../../activities/roles/primary-changes';
import { expectServiceOn } from '../support/faults';
import { cell } from '../support/matrix';
import { Scenario } from '../support/scenario';

const COOL_DOWN = 'cool-down since the last change of the primary';
const LIMITS = { coolDown: '10m' };

/** Failback is the switchover with roles swapped; it does not follow at once. */
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
      await delay(200);
    }
  };
  it(cell('drSwitchover', 'refused', 'before the cool-down has passed; with a shorter one it passes'), async () => {
    const first = await scenario.start({ go: 'auto' });
    await first.people({ go: false });
    expect(await first.report()).toMatchObject({ outcome: 'completed' });
    expect(await changesAre(1)).toMatchObject([{ runbook: 'drSwitchover' }]);

    const failure = await (await scenario.start({ to: 'east' })).failure();
    expect(failure.code).toBe('PRECONDITION_FAILED');
    expect(failure.message).toContain(COOL_DOWN);
    await expectServiceOn(scenario, 'west');

    scenario.limit({ coolDown: '1ms' });
    const run = await scenario.start({ to: 'east', go: 'auto' });
    await run.people({ go: false });
    expect(await run.report()).toMatchObject({ outcome: 'completed' });
    await expectServiceOn(scenario, 'east');
  });
});
