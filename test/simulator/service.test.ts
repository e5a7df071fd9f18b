import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { startSimulatedService, type SimulatedCluster, type SimulatedService } from '../../src/simulator';
import { Storage } from '../../src/simulator/storage';
import { INTERFACE_ROWS } from '../support/endpoint-page';
import { call, deployment } from './client';

const DR = 'sys/replication/dr';

/** All 34 endpoints of the interface with what an unprepared call meets on the DR and performance primary. */
const ENDPOINTS = INTERFACE_ROWS.map(({ endpoint }) => {
  const [method = '', path = ''] = endpoint.replace(':id', 'some-id').split(' /');
  const needsOperationToken = path.startsWith(`${DR}/secondary`) && !/enable$|generate-public-key$/.test(path);
  return { method, path, status: path.endsWith('/status') ? 200 : needsOperationToken ? 400 : 403 };
});

let service: SimulatedService;
let east: SimulatedCluster;
beforeAll(async () => {
  service = await startSimulatedService(deployment());
  east = service.cluster('east');
});
afterAll(() => service.stop());

it('every endpoint requires its credential, accepts no other method, and is refused in a namespace', async () => {
  expect(ENDPOINTS).toHaveLength(34);
  const token = east.rootToken;
  for (const { method, path, status } of ENDPOINTS) {
    const answers = [
      await call(east, method, path),
      await call(east, 'PATCH', path, { token }),
      await call(east, method, path, { token, headers: { 'x-vault-namespace': 'team' } }),
    ];
    expect([path, ...answers.map((answer) => answer.status)]).toEqual([path, status, 415, 400]);
  }
});

it('the port of a node that is away is kept free for its return', () => {
  const ports = east.nodes.map(({ address }) => Number(new URL(address).port));
  // Where systems begin to give out ports by themselves.
  expect(ports.filter((port) => port < 1_024 || port >= 32_768)).toEqual([]);
});

it('a request that a standby forwarded can get lost: the effect is there, and the answer denies it', async () => {
  const base = 'sys/generate-root/attempt';
  const lost = service.faults.add({ cluster: 'east', endpoint: /./, action: 'break-forwarding' });
  const started = async () => (await call(east, 'GET', base)).at('started');
  const headers = { 'x-vault-no-request-forwarding': 'true' };
  expect((await call(east, 'POST', base, { node: 1, headers, body: {} })).status).toBe(307);
  expect([await started(), lost.hits]).toEqual([false, 0]);
  expect((await call(east, 'POST', base, { node: 1, body: {} })).status).toBe(307);
  expect([await started(), lost.hits]).toEqual([true, 1]);
  expect((await call(east, 'DELETE', base)).status).toBeLessThan(300);
});

it('a rate-limit quota counts on each node by itself, also requests that a standby forwards, and the longer path counts alone', async () => {
  const { rootToken: token } = east;
  const quota = (method: string, name: string, more: object = {}) =>
    call(east, method, `sys/quotas/rate-limit/${name}`, { token, ...more });
  // The one without a path comes last: it counts every call from then on.
  for (const [name, path] of Object.entries({ ofMount: 'kv/', ofAll: '' }))
    await quota('POST', name, { body: { path, rate: 1, interval: '1h', group_by: 'none' } });
  const statuses: number[] = [];
  for (const path of ['secret/app', 'kv/app'])
    for (const node of [0, 1, 0, 1]) statuses.push((await call(east, 'GET', path, { node, token })).status);
  for (const name of ['ofAll', 'ofMount'])
    expect(await quota('DELETE', name, { node: 2 })).toMatchObject({ status: 204 });
  expect(statuses).toEqual([404, 404, 429, 429, 404, 404, 429, 429]);
});

it('the record of calls keeps order, status and bodies, with secrets as digests only', async () => {
  await call(service.cluster('west'), 'POST', `${DR}/secondary/promote`, {
    token: 'hvs.canary-in-a-header',
    body: { dr_operation_token: 'hvs.canary-in-a-body', force: true, primary_cluster_addr: 'https://x:1' },
  });
  const path = `/v1/${DR}/secondary/promote`;
  const body = { force: true, primary_cluster_addr: 'https://x:1' };
  expect(service.calls.at(-1)).toMatchObject({ cluster: 'west', node: 0, method: 'POST', path, status: 403, body });
  expect(JSON.stringify(service.calls)).not.toContain('canary');
});

it('a role change restarts the cluster: for a while 500, 503 or no answer, and standbys show other modes for longer', async () => {
  const timing = { restartMs: 60_000, standbyModeLagMs: 60_000 };
  const own = await startSimulatedService(deployment({ timing, readings: { leaderChangeChance: 0 } }));
  try {
    const changing = own.cluster('east');
    await call(changing, 'POST', `${DR}/primary/demote`, { token: changing.rootToken });
    const seen = async (rounds: number, look: () => Promise<unknown>) => {
      const all = new Set<unknown>();
      for (let round = 0; round < rounds; round += 1) all.add(await look());
      return [...all].sort();
    };
    const status = () => call(changing, 'GET', `${DR}/status`).then((answer) => answer.status);
    expect(await seen(40, () => status().catch(() => 0))).toEqual([0, 500, 503]);
    const health = async (node: number) => {
      const answer = await call(changing, 'GET', 'sys/health', { node });
      return `${answer.status} ${answer.textAt('replication_dr_mode')}`;
    };
    expect(await health(0)).toBe('429 unknown');
    own.advanceClock(61_000);
    expect(await seen(20, () => health(1))).toEqual(['429 primary', '429 unknown']);
    own.advanceClock(60_000);
    expect(await health(1)).toBe('472 secondary');
    changing.sealNode(1);
    expect(await health(1)).toBe('503 unknown');
  } finally {
    await own.stop();
  }
});

it('a seed makes every random choice the same again; indexes are plain integers beyond 2^53', async () => {
  const describeRun = async (seed: number): Promise<unknown> => {
    const clusters = [{ name: 'a', nodes: 1, firstWal: '18014398509481985' }, { name: 'b' }];
    const run = await startSimulatedService({ seed, clusters, dr: [{ primary: 'a', secondaries: ['b'] }] });
    try {
      const { text: answer } = await call(run.cluster('a'), 'GET', `${DR}/status`);
      const { lastWal } = run.cluster('a').snapshotState().dr;
      expect(lastWal).toBeGreaterThan(2n ** 53n);
      expect(answer).toContain(`"last_dr_wal":${lastWal}`);
      return [...run.clusters.values()].map(({ clusterId, rootToken, keyShares }) => [clusterId, rootToken, keyShares]);
    } finally {
      await run.stop();
    }
  };
  const first = await describeRun(3);
  expect(await describeRun(3)).toEqual(first);
  expect(await describeRun(4)).not.toEqual(first);
});

describe('an arbitrary request of a client', () => {
  const expectUnharmed = async () => {
    expect((await call(east, 'GET', 'sys/health')).status).toBe(200);
    expect(east.snapshotState().dr.mode).toBe('primary');
  };
  const raw = (bytes: string) => {
    const socket = connect(Number(new URL(east.apiAddress).port), '127.0.0.1');
    socket.end(bytes);
    return text(socket);
  };

  it('beyond 32 MiB of body is answered with 413, without another effect, and the service keeps running', async () => {
    const body = `{"force":false,"padding":"${'x'.repeat(33 * 1024 * 1024)}"}`;
    const answer = await call(east, 'POST', `${DR}/primary/demote`, { token: east.rootToken, body });
    expect(answer.status).toBe(413);
    await expectUnharmed();
  });

  it('may have an invalid address, or end in the middle, and the service keeps running', async () => {
    const headers = 'HTTP/1.1\r\nhost: node\r\nconnection: close\r\n';
    expect(await raw(`GET // ${headers}\r\n`)).toMatch(/^HTTP\/1.1 403 /);
    expect(await raw(`GET http://[ ${headers}\r\n`)).toMatch(/^HTTP\/1.1 400 /);
    await raw(`POST /v1/${DR}/primary/demote ${headers}content-length: 100\r\n\r\n{"`);
    await expectUnharmed();
  });
});

it('a storage counts local writes in the whole index only, and sends no data that its log no longer has', () => {
  const storage = new Storage(10n);
  const secret = { type: 'secret', data: {} } as const;
  for (const key of ['data/x', 'token/x', 'local/x']) storage.write(key, secret, 0);
  expect([storage.lastWal, storage.lastWalOf('dr'), storage.lastWalOf('performance')]).toEqual([13n, 12n, 11n]);
  for (let n = 0; n < 40_000; n += 1) storage.write('data/x', secret, n);
  expect(storage.entriesAfter(storage.lastWal - 2n)?.map(({ at }) => at)).toEqual([39_998, 39_999]);
  expect([storage.entriesAfter(storage.lastWal), storage.entriesAfter(11n)]).toEqual([[], null]);
});
