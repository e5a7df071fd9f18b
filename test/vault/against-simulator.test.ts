/** The client and the simulated service, written apart from each other, understand one another. */
import { ServiceClient } from '../../src/vault';
import { Secret } from '../../src/secret';
import { startSimulatedService } from '../../src/simulator';
import type { SimulatedCluster, SimulatedService } from '../../src/simulator';
import { call, deployment, eventually } from '../simulator/client';
import { failureOf } from './support/scripted-cluster';

let service: SimulatedService;
let east: SimulatedCluster;
const clients: ServiceClient[] = [];
const warnings: string[] = [];
beforeEach(async () => {
  service = await startSimulatedService(deployment({ readings: { optionalFieldMissingChance: 0 } }));
  east = service.cluster('east');
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
  await service.stop();
  expect(warnings.splice(0)).toEqual([]);
});

function clientOf(name: string): ServiceClient {
  const { addresses } = service.cluster(name);
  const client = new ServiceClient({ name, addresses }, { onWarning: (warning) => warnings.push(warning) });
  clients.push(client);
  return client;
}

it('reads the state of every cluster', async () => {
  const [client, west, north] = [clientOf('east'), clientOf('west'), clientOf('north')];
  expect(await client.dr.status()).toMatchObject({
    ...{ mode: 'primary', state: 'running', lastReplicatedWal: east.snapshotState().dr.lastWal },
    knownSecondaries: [service.cluster('west').clusterId],
  });
  expect(await west.dr.status()).toMatchObject({ mode: 'secondary', state: 'stream-wals' });
  expect(await north.performance.status()).toMatchObject({ mode: 'secondary' });
  expect((await client.sys.replicationStatus()).performance).toMatchObject({ mode: 'primary' });
  expect(await west.sys.health()).toMatchObject({ status: 472, sealed: false, replicationDrMode: 'secondary' });
  expect(await client.sys.sealStatus()).toMatchObject({ sealed: false, threshold: 3, shares: 5 });
  const active = await client.activeNode();
  expect(await client.sys.leader({ node: active })).toMatchObject({ isSelf: true, haEnabled: true });
});

it('reads audit devices', async () => {
  const { sys } = clientOf('east');
  const token = new Secret('service-token', east.rootToken);
  expect((await sys.auditDevices({ token })).map(({ path }) => path)).toEqual(['file/', 'socket/']);
  const reader = { token: new Secret('service-token', east.createToken({ policies: ['default'] })) };
  expect(await failureOf(sys.auditDevices(reader))).toMatchObject({ code: 'PERMISSION_DENIED' });
});

/** As a real server was seen to have them (facts 12). */
describe('rate-limit quotas', () => {
  const STOP = { name: 'stop', rate: 0.0001, interval: '1m' } as const;
  const NEEDED = ['sys/quotas', 'sys/health', 'sys/leader', 'sys/replication'];
  let sys: ServiceClient['sys'];
  let token: { readonly token: Secret };
  beforeEach(() => {
    ({ sys } = clientOf('east'));
    token = { token: new Secret('service-token', east.rootToken) };
  });

  const asks = async (node: number, path = 'kv/a', cluster = east) =>
    (await call(cluster, 'GET', path, { token: cluster.rootToken, node })).status;
  const refused = { code: 'RATE_LIMITED' };

  /** One request of each bucket is let through, and no more. */
  async function stopped(nodes: readonly number[], path = 'kv/a') {
    const statuses = [];
    for (const node of nodes) statuses.push([(await asks(node, path)) === 429, await asks(node, path)]);
    return statuses;
  }

  it('without a path let one request of an interval through at each node, and are in force after a promotion only', async () => {
    expect(await sys.rateLimitQuotas(token)).toBeUndefined();
    const config = await sys.quotaConfig(token);
    expect(config.rateLimitExemptPaths).toContain('sys/seal-status');
    await sys.writeQuotaConfig({ ...config, rateLimitExemptPaths: [...config.rateLimitExemptPaths, ...NEEDED] }, token);
    await sys.createRateLimitQuota({ ...STOP, groupBy: 'none' }, token);
    expect(await sys.rateLimitQuotas(token)).toEqual(['stop']);
    expect(await sys.rateLimitQuota('stop', token)).toEqual({ rate: 0.0001, interval: 60, groupBy: 'none' });
    const nodes = east.nodes.map(({ index }) => index);
    expect(await stopped(nodes)).toEqual(nodes.map(() => [false, 429]));
    expect((await call(east, 'POST', 'auth/token/lookup-self')).at('errors', 0)).toBe(
      'request path "auth/token/lookup-self": rate limit quota exceeded',
    );
    expect([await asks(0, 'sys/health'), await asks(0, 'sys/replication/dr/status')]).toEqual([200, 200]);
    const west = service.cluster('west');
    service.advanceClock(60_000);
    await eventually(() => west.storage.get('quota/stop'));
    expect([await asks(0, 'kv/a', west), await asks(0, 'kv/a', west)]).toEqual([400, 400]);
    expect(await stopped(nodes)).toEqual(nodes.map(() => [false, 429]));
    await sys.deleteRateLimitQuota('stop', token);
    await sys.writeQuotaConfig(config, token);
    expect([await asks(0), await asks(0)]).toEqual([404, 404]);
    expect(await sys.quotaConfig(token)).toEqual(config);
  });

  it('with a more specific path win; without Enterprise there is no bucket for all', async () => {
    const { version } = east;
    east.version = '1.21.4';
    const forAll = sys.createRateLimitQuota({ ...STOP, groupBy: 'none' }, token);
    expect(await failureOf(forAll)).toMatchObject({ code: 'BAD_REQUEST' });
    east.version = version;
    await sys.createRateLimitQuota({ ...STOP, interval: '1h' }, token);
    const theirs = (body: object) =>
      call(east, 'POST', 'sys/quotas/rate-limit/theirs', { token: east.rootToken, body });
    await theirs({ rate: 9, path: 'kv/' });
    // Locked out: nothing exempts sys/quotas.
    expect(await failureOf(sys.deleteRateLimitQuota('stop', token))).toMatchObject(refused);
    service.advanceClock(3_600_000);
    expect((await theirs({})).status).toBe(400);
    expect(await stopped([0], 'secret/a')).toEqual([[true, 429]]);
    expect(await stopped([0])).toEqual([[false, 404]]);
  });
});
