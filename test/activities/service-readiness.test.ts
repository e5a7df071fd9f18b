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

  it('is ready once the same node is active before and after the marker was read; nothing is written for that', async () => {
    const written = await marker();
    const before = bench.service.calls.length;
    const result = await bench.call('awaitServiceReady', { ...ready, marker: written });
    expect(result.stableActiveNode).toBe(bench.cluster('east').addresses[0]);
    expect(result.primaryAt).toBeLessThanOrEqual(result.markerReadAt ?? 0);
    expect(result.markerReadAt).toBeLessThanOrEqual(result.readyAt);
    const calls = bench.service.calls.slice(before);
    // Where the marker is was found out before the outage: it is not looked up in it.
    expect(calls.filter(({ method, path }) => !['GET', 'LIST'].includes(method) || path.includes('ui/mounts'))).toEqual(
      [],
    );
  });

  it('is not ready where the marker is another one, or on a secondary', async () => {
    const other = { ...(await marker()), value: 'of another run' };
    bench.limit({ serviceReadyMs: 400 });
    const failures = await Promise.all([
      bench.failure('awaitServiceReady', { ...ready, marker: other }),
      bench.failure('awaitServiceReady', { ...ready, cluster: 'west' }),
    ]);
    // Other data are for people to judge, and no answer is none about data.
    expect(failures.map(({ code, retryable }) => [code, retryable])).toEqual([
      ['STATE_DIVERGED', false],
      ['CONFIRMATION_TIMEOUT', false],
    ]);
    expect(failures.map(({ details }) => details['observed'])).toEqual([
      'another marker',
      expect.stringContaining('secondary'),
    ]);
  });

  it('reads no path but the one of the inventory, and shows no credential to a cluster of another DR set', async () => {
    const forged = await ActivityBench.start({ drSets: { one: ['east'], two: ['west'] } });
    const start = forged.service.calls.length;
    const input = { deployment: DEPLOYMENT, kind: 'dr' as const, cluster: 'west', credentialOf: 'east' };
    await forged.refused('proveWrite', input, 'PRECONDITION_FAILED', {
      details: { needed: 'a cluster of DR set two' },
    });
    expect(forged.service.calls).toHaveLength(start);
    await forged.stop();

    const before = bench.service.calls.length;
    const somewhere = { mount: 'secret', path: 'of-somebody', version: 2 } as const;
    await bench.call('awaitServiceReady', { ...ready, marker: { ...(await marker()), place: somewhere } });
    const paths = bench.service.calls.slice(before).map(({ path }) => path);
    expect(paths.filter((path) => path.includes('somebody'))).toEqual([]);
    expect(paths).toContain('/v1/kv/data/runbooks-marker');
  });

  it('does not keep clients out of a cluster that refuses our own credential alone, and tells it', async () => {
    const bare = await ActivityBench.start({
      cluster: () => ({ credential: { file: join(bench.directory, 'no-such-token') } }),
    });
    const found = await bare.call('awaitServiceReady', ready);
    expect(found.findings).toEqual([expect.objectContaining({ code: 'marker-not-read' })]);
    // Nor were its quotas: that is not the same as none.
    expect(found.clientsRefused).toBe('not-known');
    await bare.stop();
    const before = await marker();
    const refused = { endpoint: 'GET /v1/kv/data/runbooks-marker', action: { status: 403 } } as const;
    // For a moment after a promotion good tokens may be refused.
    bench.service.faults.add({ ...refused, times: 2 });
    expect(await bench.call('awaitServiceReady', { ...ready, marker: before })).not.toHaveProperty('findings');
    bench.service.faults.add({ ...refused, times: Infinity });
    const told = await bench.call('awaitServiceReady', { ...ready, marker: before });
    expect(told.findings?.[0]?.text).toContain('PERMISSION_DENIED');
    expect(told).not.toHaveProperty('markerReadAt');
  });

  it('a write is proven on its own: what may pass is waited out, what is refused is told with what to look at', async () => {
    const write = 'POST /v1/kv/data/runbooks-marker-after';
    bench.service.faults.add({ endpoint: write, action: { status: 500 }, times: 2 });
    expect((await bench.call('proveWrite', { ...ready, marker: await marker() })).writtenAt).toBeGreaterThan(0);
    expect(bench.cluster('east').read('kv/runbooks-marker-after')).toEqual({ writtenOn: 'east' });
    bench.service.faults.add({ endpoint: write, action: { status: 403 } });
    await bench.refused('proveWrite', ready, 'PERMISSION_DENIED', {
      retryable: false,
      details: { findings: [expect.objectContaining({ code: 'write-not-proven', severity: 'critical' })] },
    });
  });

  it.each([
    [500, true],
    [502, false],
  ])('a write that is answered %i to the end names a full storage: %s', async (status, full) => {
    bench.limit({ serviceReadyMs: 500 });
    const endpoint = 'POST /v1/kv/data/runbooks-marker-after';
    bench.always(endpoint, { status });
    const { details } = await bench.failure('proveWrite', ready);
    for (const { next } of [details, (details['findings'] as { next?: unknown }[])[0] ?? {}]) {
      expect(next).toContain('stop the service on every node of east');
      expect(String(next).includes('storage of east is full')).toBe(full);
    }
  });

  it('names a blocked audit device instead of a cluster that never gets ready', async () => {
    const before = await marker();
    bench.limit({ serviceReadyMs: 400 });
    bench.cluster('east').auditBlocked = true;
    const failure = await bench.failure('awaitServiceReady', { ...ready, marker: before });
    bench.cluster('east').auditBlocked = false;
    expect(failure).toMatchObject({ code: 'AUDIT_DEVICE_BLOCKED', retryable: false });
    expect(failure.details['next']).toMatch(/audit devices/);
  });
});
