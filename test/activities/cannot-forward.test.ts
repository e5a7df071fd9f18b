/** A DR secondary takes the place of a performance secondary: it serves reads at once, and writes once it follows the performance primary. */
import { DEPLOYMENT, holding, openBench, replicating } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  ...replicating({ main: ['east', 'west'], eu: ['europe', 'berlin'] }, {}, { readings: { leaderChangeChance: 0 } }),
});
afterEach(() => {
  bench.service.heal();
  bench.limit();
});

const europe = { deployment: DEPLOYMENT, cluster: 'europe' };
/** The performance primary is not reached any more. */
function cutOff(): void {
  bench.service.partition('europe', 'east');
  bench.service.advanceClock(5_000);
  bench.limit({ serviceReadyMs: 500, streamingMs: 300, heartbeatAgeMs: 1_000 });
}

it('is ready for reads, and reports that it is to follow; a DR primary of its own has no primary to follow', async () => {
  expect(await bench.call('awaitServiceReady', { ...europe, kind: 'dr' })).toMatchObject({ followsPrimary: true });
  const east = await bench.call('awaitServiceReady', { ...europe, cluster: 'east', kind: 'dr' });
  expect(east).not.toHaveProperty('followsPrimary');
});

it('follows once it streams from a working primary; otherwise people read what it cannot do, and no step is blocked', async () => {
  expect(await bench.call('awaitPerformancePrimary', europe)).toHaveProperty('followsAt');
  cutOff();
  const seen = await bench.call('awaitPerformancePrimary', europe);
  expect(seen).not.toHaveProperty('followsAt');
  const [finding] = seen.findings ?? [];
  expect(finding).toMatchObject({ severity: 'critical', code: 'cannot-forward', text: holding('serves reads') });
  expect(finding?.next).toContain('Do not stop europe');
});

it('a write that it cannot forward names the primary that it needs, and never the end of the cluster', async () => {
  cutOff();
  const { details } = await bench.failure('proveWrite', { ...europe, kind: 'dr' });
  for (const { next } of [details, (details['findings'] as { next?: unknown }[])[0] ?? {}]) {
    expect(next).toContain('cannot forward');
    expect(next).not.toMatch(/stop the service|start drFailover/);
  }
});
