import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { startSimulatedService, type SimulatedService } from '../../src/simulator';
import { call, deployment, eventually, join } from './client';

const DR = 'sys/replication/dr';
let service: SimulatedService;

beforeEach(async () => {
  service = await startSimulatedService(deployment());
});
afterEach(() => service.stop());

const demote = () =>
  call(service.cluster('east'), 'POST', `${DR}/primary/demote`, { token: service.cluster('east').rootToken });
const modeOfEast = () => service.cluster('east').snapshotState().dr.mode;

describe('the record of calls', () => {
  it('keeps order, status and bodies, with secrets as digests only', async () => {
    const canary = 'hvs.canary-in-a-body';
    await call(service.cluster('west'), 'POST', `${DR}/secondary/promote`, {
      token: 'hvs.canary-in-a-header',
      body: { dr_operation_token: canary, force: true, primary_cluster_addr: 'https://x:1' },
    });
    const last = service.calls.at(-1);
    expect(last).toMatchObject({
      cluster: 'west',
      node: 0,
      method: 'POST',
      path: `/v1/${DR}/secondary/promote`,
      status: 403,
    });
    expect(last?.body).toMatchObject({ force: true, primary_cluster_addr: 'https://x:1' });
    expect(JSON.stringify(service.calls)).not.toContain('canary');
  });
});

describe('role changes', () => {
  it('restart the cluster: for a while it answers 500, 503 or not at all, and standbys show other modes', async () => {
    await service.stop();
    service = await startSimulatedService(
      deployment({ timing: { restartMs: 60_000, standbyModeLagMs: 60_000 }, readings: { leaderChangeChance: 0 } }),
    );
    await demote();
    const seen = new Set<number>();
    for (let round = 0; round < 40; round += 1) {
      seen.add((await call(service.cluster('east'), 'GET', `${DR}/status`).catch(() => undefined))?.status ?? 0);
    }
    expect([...seen].sort()).toEqual([0, 500, 503]);
    const health = await call(service.cluster('east'), 'GET', 'sys/health');
    expect([health.status, health.at('replication_dr_mode')]).toEqual([429, 'unknown']);
    service.advanceClock(61_000);
    const modes = new Set<unknown>();
    for (let round = 0; round < 20; round += 1) {
      modes.add((await call(service.cluster('east'), 'GET', 'sys/health', { node: 1 })).at('replication_dr_mode'));
    }
    expect(modes).toEqual(new Set(['unknown', 'primary']));
    service.advanceClock(60_000);
    const settled = await call(service.cluster('east'), 'GET', 'sys/health', { node: 1 });
    expect([settled.status, settled.at('replication_dr_mode')]).toEqual([472, 'secondary']);
  });

  it('may move the leadership', async () => {
    await service.stop();
    service = await startSimulatedService(deployment({ readings: { leaderChangeChance: 1 } }));
    await demote();
    await eventually(() => service.cluster('east').snapshotState().activeNode === 1);
  });
});

describe('a blocked audit device', () => {
  it('leaves health at 200 and makes every authenticated call fail', async () => {
    const east = service.cluster('east');
    east.auditBlocked = true;
    expect((await call(east, 'GET', 'sys/health')).status).toBe(200);
    expect((await call(east, 'GET', 'secret/x', { token: east.rootToken })).status).toBe(500);
    expect((await call(east, 'GET', `${DR}/status`)).status).toBe(200);
    await expect(call(east, 'POST', 'sys/generate-root/attempt')).rejects.toThrow(/socket hang up/);
    east.auditBlocked = false;
    expect((await call(east, 'GET', 'sys/generate-root/attempt')).at('started')).toBe(false);
  });
});

it('a full storage refuses what writes, logins too, and nothing that only reads', async () => {
  const east = service.cluster('east');
  const token = east.rootToken;
  east.storage.isFull = true;
  for (const path of ['kv/x', 'auth/token/create', 'sys/policies/acl/p']) {
    const refused = await call(east, 'POST', path, { token, body: { policy: '#', n: 1 } });
    expect([refused.status, refused.textAt('errors', 0)]).toEqual([500, expect.stringContaining('no space left')]);
  }
  expect((await call(east, 'GET', 'sys/mounts', { token })).status).toBe(200);
  expect((await call(east, 'POST', 'sys/capabilities-self', { token, body: { paths: ['kv/x'] } })).status).toBe(200);
  east.storage.isFull = false;
  expect((await call(east, 'POST', 'kv/x', { token, body: { n: 1 } })).status).toBe(204);
});

describe('nodes', () => {
  it('have no leader without a quorum', async () => {
    const east = service.cluster('east');
    await east.killNode(1);
    await east.killNode(2);
    const health = await call(east, 'GET', 'sys/health');
    expect([health.status, health.at('replication_dr_mode')]).toEqual([429, 'unknown']);
    const leader = await call(east, 'GET', 'sys/leader');
    expect([leader.status, leader.at('leader_address')]).toEqual([200, '']);
    const status = await call(east, 'GET', `${DR}/status`);
    expect([status.status, status.textAt('errors', 0)]).toEqual([
      500,
      'local node not active but active cluster node not found',
    ]);
  });

  it('seal on joining and are opened by the primary key shares; until then there is no quorum', async () => {
    await service.stop();
    service = await startSimulatedService({
      clusters: [
        { name: 'a', nodes: 1 },
        { name: 'b', nodes: 3, seal: { shares: 3, threshold: 2 } },
      ],
    });
    const [a, b] = [service.cluster('a'), service.cluster('b')];
    const oldShares = b.keyShares;
    await join('dr', a, b);
    expect(b.snapshotState().nodes.map(({ sealed }) => sealed)).toEqual([false, true, true]);
    expect((await call(b, 'GET', 'sys/health', { node: 1 })).status).toBe(503);
    expect((await call(b, 'GET', `${DR}/status`, { node: 1 })).textAt('errors', 0)).toBe('Vault is sealed');
    const status = await call(b, 'GET', 'sys/seal-status', { node: 1 });
    expect(status.at()).toMatchObject({ sealed: true, t: 3, n: 5 });

    const unseal = (key: string | undefined) => call(b, 'POST', 'sys/unseal', { node: 1, body: { key } });
    for (const key of oldShares.slice(0, 2)) {
      expect((await unseal(key)).at('sealed')).toBe(true);
    }
    expect((await unseal(oldShares[2])).status).toBe(400);
    let last = await unseal(a.keyShares[0]);
    for (const key of a.keyShares.slice(1, 3)) {
      last = await unseal(key);
    }
    expect(last.at('sealed')).toBe(false);
    await eventually(() => b.snapshotState().dr.state === 'stream-wals');
  });
});

describe('a seed', () => {
  it('makes everything that is chosen at random the same again', async () => {
    const describeRun = async (seed: number): Promise<unknown> => {
      const run = await startSimulatedService(deployment({ seed }));
      try {
        return [...run.clusters.values()].map(({ clusterId, rootToken, keyShares }) => ({
          clusterId,
          rootToken,
          keyShares,
        }));
      } finally {
        await run.stop();
      }
    };
    const first = await describeRun(3);
    expect(await describeRun(3)).toEqual(first);
    expect(await describeRun(4)).not.toEqual(first);
  });
});

describe('what a client may send', () => {
  const health = () => call(service.cluster('east'), 'GET', 'sys/health');

  it('beyond 32 MiB of body is answered with 413: nothing else happens, and the service lives', async () => {
    const { rootToken: token } = service.cluster('east');
    const body = `{"force":false,"padding":"${'x'.repeat(33 * 1024 * 1024)}"}`;
    const answer = await call(service.cluster('east'), 'POST', `${DR}/primary/demote`, { token, body });
    expect([answer.status, modeOfEast()]).toEqual([413, 'primary']);
    expect((await health()).status).toBe(200);
    expect((await demote()).status).toBe(200);
  });

  it.each([
    ['//', '307'],
    ['http://[', '400'],
  ])('may be no address at all, such as %s: the service lives', async (address, status) => {
    const { port } = new URL(service.cluster('east').addresses[0] ?? '');
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(`GET ${address} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n`);
    expect(await text(socket)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect((await health()).status).toBe(200);
  });

  it('may end in the middle: the service lives', async () => {
    const { port } = new URL(service.cluster('east').addresses[0] ?? '');
    const socket = connect(Number(port), '127.0.0.1');
    socket.end(`POST /v1/${DR}/primary/demote HTTP/1.1\r\nhost: node\r\ncontent-length: 100\r\n\r\n{"`);
    await text(socket);
    expect([(await health()).status, modeOfEast()]).toEqual([200, 'primary']);
  });
});
