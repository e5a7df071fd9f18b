/** The end of the outage: the new primary serves reads and writes. */
import { join } from 'node:path';
import { ActivityBench, DEPLOYMENT, openBench } from '../support/activity-environment';

let bench: ActivityBench;

openBench((opened) => (bench = opened));
beforeEach(() => {
  bench.service.faults.clear();
  bench.limit();
});

describe('service', () => {
  const marker = async () => bench.call('writeMarker', { deployment: DEPLOYMENT, kind: 'dr', cluster: 'east' });
  const ready = { deployment: DEPLOYMENT, kind: 'dr' as const, cluster: 'east', credentialOf: 'east' };

  it('is ready once the same node is active, the marker reads back and a write is taken', async () => {
    const result = await bench.call('awaitServiceReady', { ...ready, marker: await marker() });
    expect(result.stableActiveNode).toBe(bench.cluster('east').addresses[0]);
    expect(result.primaryAt).toBeLessThanOrEqual(result.markerReadAt ?? 0);
    expect(result.markerReadAt).toBeLessThanOrEqual(result.readyAt);
    expect(bench.cluster('east').read('kv/runbooks-marker-after')).toEqual({ writtenOn: 'east' });
  });

  it('is not ready where the marker is another one, on a secondary, or where writes fail; no audit device is blamed', async () => {
    const other = { ...(await marker()), value: 'of another run' };
    bench.limit({ serviceReadyMs: 1_000 });
    bench.service.faults.add({
      endpoint: 'POST /v1/kv/runbooks-marker-after',
      action: { status: 500 },
      times: Infinity,
    });
    const failures = await Promise.all([
      bench.failure('awaitServiceReady', { ...ready, marker: other }),
      bench.failure('awaitServiceReady', { ...ready, cluster: 'west' }),
      bench.failure('awaitServiceReady', ready),
    ]);
    for (const failure of failures) expect(failure).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', retryable: false });
    expect(failures.map(({ details }) => details['observed'])).toEqual([
      'another marker',
      expect.stringContaining('secondary'),
      expect.stringContaining('SERVICE_ERROR'),
    ]);
  });

  it('reads no path but the one of the inventory, and shows no credential to a cluster of another DR set', async () => {
    const forged = await ActivityBench.start({ drSets: { one: ['east'], two: ['west'] } });
    const start = forged.service.calls.length;
    const input = { deployment: DEPLOYMENT, kind: 'dr' as const, cluster: 'west', credentialOf: 'east' };
    expect(await forged.failure('awaitServiceReady', input)).toMatchObject({
      code: 'PRECONDITION_FAILED',
      details: { needed: 'one of west' },
    });
    expect(forged.service.calls).toHaveLength(start);
    await forged.stop();

    const before = bench.service.calls.length;
    await bench.call('awaitServiceReady', { ...ready, marker: { ...(await marker()), path: 'secret/of-somebody' } });
    const paths = bench.service.calls.slice(before).map(({ path }) => path);
    expect(paths.filter((path) => path.includes('somebody'))).toEqual([]);
    expect(paths).toContain('/v1/kv/runbooks-marker');
  });

  it('waits for its credential within its budget, and then ends', async () => {
    const bare = await ActivityBench.start({
      limits: { serviceReady: '1s' },
      cluster: () => ({ credential: { file: join(bench.directory, 'no-such-token') } }),
    });
    expect(await bare.failure('awaitServiceReady', ready)).toMatchObject({
      code: 'CONFIRMATION_TIMEOUT',
      retryable: false,
      details: { observed: expect.stringContaining('CREDENTIAL_UNAVAILABLE') as string },
    });
    await bare.stop();
  });

  it('waits out a service that fails for a moment', async () => {
    bench.service.faults.add({ endpoint: 'POST /v1/kv/runbooks-marker-after', action: { status: 500 }, times: 2 });
    expect((await bench.call('awaitServiceReady', ready)).readyAt).toBeGreaterThan(0);
  });

  it('names a blocked audit device instead of a cluster that never gets ready', async () => {
    const before = await marker();
    bench.limit({ serviceReadyMs: 1_000 });
    bench.cluster('east').auditBlocked = true;
    const failure = await bench.failure('awaitServiceReady', { ...ready, marker: before });
    bench.cluster('east').auditBlocked = false;
    expect(failure).toMatchObject({ code: 'AUDIT_DEVICE_BLOCKED', retryable: false });
    expect(failure.details['next']).toMatch(/audit devices/);
  });

  it('names a blocked audit device in the check of the credential, before anything is touched', async () => {
    bench.cluster('east').auditBlocked = true;
    const { preconditions } = await bench.call('assessDrSwitchover', { input: bench.input() });
    bench.cluster('east').auditBlocked = false;
    expect(preconditions.find(({ name }) => name === 'credential works')).toMatchObject({
      verdict: 'fail',
      observed: 'AUDIT_DEVICE_BLOCKED',
    });
  });
});
