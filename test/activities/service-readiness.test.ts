/** The end of the outage: the new primary serves reads and writes, hooks lead clients there, a probe proves it. */
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { join } from 'node:path';
import type { AddressInfo } from 'node:net';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';

const CANARY = 'hvs.canaryOfAHook0123456789';
const script = (text: string) => ['/bin/sh', '-c', text];

let bench: ActivityBench;
let clients: Server;
const statuses: number[] = [];
let fallback = 200;

beforeAll(async () => {
  clients = createServer((_request, response) => {
    response.writeHead(statuses.shift() ?? fallback);
    response.end(CANARY);
  });
  await new Promise<void>((resolve) => clients.listen(0, '127.0.0.1', resolve));
  bench = await ActivityBench.start({
    deployment: {
      hooks: {
        quiesce: { command: script('exit 0'), timeout: '20s' },
        traffic: { command: script(`echo ${CANARY}; echo ${CANARY} >&2; exit 3`), timeout: '20s' },
        probe: { url: `http://127.0.0.1:${(clients.address() as AddressInfo).port}/`, expectStatus: [200, 204] },
      },
    },
    limits: { serviceReady: '1s' },
  });
  bench.canary('what a hook and a probe answer', CANARY);
});
afterAll(async () => {
  await bench.stop();
  await new Promise((resolve) => clients.close(resolve));
});
beforeEach(() => {
  bench.service.faults.clear();
  statuses.length = 0;
  fallback = 200;
});

describe('service', () => {
  const marker = async () => bench.call('writeMarker', { deployment: DEPLOYMENT, cluster: 'east' });
  const ready = { deployment: DEPLOYMENT, cluster: 'east', credentialOf: 'east' };

  it('is ready once the same node is active, the marker reads back and a write is taken', async () => {
    const result = await bench.call('awaitServiceReady', { ...ready, marker: await marker() });
    expect(result.stableActiveNode).toBe(bench.cluster('east').addresses[0]);
    expect(result.primaryAt).toBeLessThanOrEqual(result.markerReadAt ?? 0);
    expect(result.markerReadAt).toBeLessThanOrEqual(result.readyAt);
    expect(bench.cluster('east').read('kv/runbooks-marker-after')).toEqual({ writtenOn: 'east' });
  });

  it('is not ready where the marker is another one, on a secondary, or where writes fail; no audit device is blamed', async () => {
    const other = { ...(await marker()), value: 'of another run' };
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
    const input = { deployment: DEPLOYMENT, cluster: 'west', credentialOf: 'east' };
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
    expect(preconditions.find(({ name }) => name === 'credential of the primary')).toMatchObject({
      verdict: 'fail',
      observed: 'AUDIT_DEVICE_BLOCKED',
    });
  });
});

describe('a hook', () => {
  const hook = (name: 'quiesce' | 'traffic', more: object = {}) =>
    ({ deployment: DEPLOYMENT, hook: name, from: 'east', to: 'west', ...more }) as const;

  it('runs once, and ends well with exit code 0', async () => {
    expect(await bench.call('runHook', hook('quiesce'))).toMatchObject({ outcome: 'done', calls: 1 });
  });

  it('that fails says its exit code, and nothing of what it wrote', async () => {
    const failure = await bench.failure('runHook', hook('traffic'));
    expect(failure).toMatchObject({ retryable: false, details: { observed: 'exit 3', outcomeKnown: false } });
    expect(bench.leaks()).toEqual([]);
  });

  it('that does not end is ended, and says so', async () => {
    const slow = await ActivityBench.start({
      deployment: { hooks: { quiesce: { command: ['/bin/sleep', '600'], timeout: '200ms' } } },
    });
    const failure = await slow.failure('runHook', hook('quiesce'));
    expect(failure.details['observed']).toBe('still running after 0.2 s, ended');
    await slow.stop();
  });

  it('that is cancelled ends as cancelled, not as failed', async () => {
    const slow = await ActivityBench.start({
      deployment: { hooks: { quiesce: { command: ['/bin/sleep', '600'], timeout: '60s' } } },
    });
    const failure = await slow.failure('runHook', hook('quiesce'), {
      onStart: (cancel) => void setTimeout(cancel, 50),
    });
    expect(failure.code).toBe('CancelledFailure');
    await slow.stop();
  });

  it('that cannot be started says why', async () => {
    const broken = await ActivityBench.start({
      deployment: { hooks: { quiesce: { command: ['/nowhere/hook'], timeout: '5s' } } },
    });
    const failure = await broken.failure('runHook', hook('quiesce'));
    expect(failure.details['observed']).toBe('exit ENOENT');
    expect((await broken.call('runHook', hook('traffic'))).outcome).toBe('already');
    await broken.stop();
  });

  it('sees where it is and who is who, and none of the environment of the worker', async () => {
    const secret = 'canary-of-the-workers-environment';
    process.env['RUNBOOKS_SEAL_KEYS'] = secret;
    process.env['SOME_TOKEN'] = secret;
    const file = join(bench.directory, 'environment');
    const watching = await ActivityBench.start({
      deployment: { hooks: { quiesce: { command: ['/bin/sh', '-c', `env > ${file}`], timeout: '20s' } } },
    });
    await writeFile(file, '');
    await watching.call('runHook', hook('quiesce'));
    delete process.env['RUNBOOKS_SEAL_KEYS'];
    delete process.env['SOME_TOKEN'];
    const seen = await readFile(file, 'utf8');
    expect(seen).toContain('RUNBOOK_HOOK=quiesce');
    expect(seen).toContain('RUNBOOK_FROM=east');
    expect(seen).toContain('RUNBOOK_TO=west');
    expect(seen).not.toContain(secret);
    await watching.stop();
  });
});

describe('the probe', () => {
  it('succeeds with the first expected status, and counts its tries', async () => {
    statuses.push(503, 429);
    expect(await bench.call('probeService', { deployment: DEPLOYMENT })).toMatchObject({ tries: 3 });
  });

  it('fails with the last status within its budget, and shows nothing of the body', async () => {
    fallback = 503;
    const failure = await bench.failure('probeService', { deployment: DEPLOYMENT, budgetMs: 300 });
    expect(failure).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', details: { observed: 'status 503' } });
    expect(bench.leaks()).toEqual([]);
  });

  it('refuses to claim anything where the inventory has none', async () => {
    const bare = await ActivityBench.start();
    expect((await bare.failure('probeService', { deployment: DEPLOYMENT })).code).toBe('PRECONDITION_FAILED');
    await bare.stop();
  });

  it('says that nobody answers', async () => {
    const { port } = clients.address() as AddressInfo;
    const dead = await ActivityBench.start({
      deployment: { hooks: { probe: { url: `http://127.0.0.1:${port === 1 ? 2 : 1}/` } } },
    });
    const failure = await dead.failure('probeService', { deployment: DEPLOYMENT, budgetMs: 100 });
    expect(failure.details['observed']).toContain('UNREACHABLE');
    await dead.stop();
  });
});
