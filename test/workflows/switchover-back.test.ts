import { lastPrimaryChange } from '../../activities/roles/primary-changes';
import { drPrimaries } from '../support/faults';
import { cell } from '../support/matrix';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

const COOL_DOWN = 'cool-down since the last change of the primary';
const LIMITS = { coolDown: '10m' };

/** Failback is the switchover with roles swapped; it does not follow at once. */
describe('switching over back', () => {
  let scenario: Scenario;
  // Marker and proof work on an old engine too.
  const mounts = [{ path: 'kv/', version: 1 as const }];
  openScenario((opened) => (scenario = opened), { limits: LIMITS, topology: { mounts } });

  it(cell('drSwitchover', 'refused', 'before the cool-down has passed; with a shorter one it passes'), async () => {
    const first = await scenario.start({ go: 'auto' });
    await first.people({ go: false });
    expect(await first.report()).toMatchObject({ outcome: 'completed' });
    expect(scenario.service.cluster('west').read('kv/runbooks-marker-after')).toEqual({ writtenOn: 'west' });
    const sources = { records: scenario.recordsOfAWorker(), log: { warn: () => undefined } as never };
    const known = await lastPrimaryChange(sources, scenario.name);
    expect(known).toMatchObject({ last: { runbook: 'drSwitchover', cluster: 'west' } });

    const failure = await (await scenario.start({ to: 'east' })).failure();
    expect(failure.code).toBe('PRECONDITION_FAILED');
    expect(failure.message).toContain(COOL_DOWN);
    expect(drPrimaries(scenario)).toEqual(['west']);

    scenario.limit({ coolDown: '1ms' });
    const run = await scenario.start({ to: 'east', go: 'auto' });
    await run.people({ go: false });
    expect(await run.report()).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, parkings: [] });
    expect(drPrimaries(scenario)).toEqual(['east']);
    expect(scenario.service.calls.filter(({ path }) => path.includes('kv/data/'))).toEqual([]);
  });
});
