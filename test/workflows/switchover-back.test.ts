import { lastPrimaryChange } from '../../activities/roles/primary-changes';
import { drPrimaries } from '../support/faults';
import { cell } from '../support/matrix';
import { findCanaries } from '../support/canaries';
import { scenarioWithLogin } from '../support/logins';
import type { LoginSetUp } from '../support/logins';
import { temporaryDirectory } from '../support/scenario';
import type { Scenario } from '../support/scenario';

const directory = temporaryDirectory('jwt');
const COOL_DOWN = 'cool-down since the last change of the primary';
const LIMITS = { coolDown: '10m' };

/** Failback is the switchover with roles swapped; it does not follow at once. The workers log in by JWT, at each primary. */
describe('switching over back', () => {
  let scenario: Scenario;
  let setUp: LoginSetUp;
  beforeAll(async () => {
    // Marker and proof work on an old engine too.
    const mounts = [{ path: 'kv/', version: 1 as const }];
    ({ scenario, setUp } = await scenarioWithLogin('jwt', directory, { limits: LIMITS, topology: { mounts } }));
  });
  afterAll(() => scenario.stop());

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
    const logins = scenario.service.calls.filter(({ path }) => path.endsWith('auth/jwt/login'));
    expect(new Set(logins.map(({ status }) => status))).toEqual(new Set([200]));
    expect(findCanaries(scenario.logLines.join('\n'), setUp.secrets)).toEqual([]);
    expect(scenario.service.calls.filter(({ path }) => path.includes('kv/data/'))).toEqual([]);
  });
});
