/** Rate-limit quotas as a real server was seen to have them (facts 12), called with the product's own client. */
import { ServiceClient } from '../../src/vault';
import { Secret } from '../../src/secret';
import { startSimulatedService, type SimulatedCluster, type SimulatedService } from '../../src/simulator';
import { call, deployment, eventually } from './client';

const STOP = { name: 'stop', rate: 0.0001, interval: '1m' } as const;
const NEEDED = ['sys/quotas', 'sys/health', 'sys/leader', 'sys/replication'];

let service: SimulatedService;
let east: SimulatedCluster;
const clients: ServiceClient[] = [];
beforeEach(async () => {
  service = await startSimulatedService(deployment());
  east = service.cluster('east');
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
  await service.stop();
});

function quotasOf(cluster: SimulatedCluster) {
  const { name, addresses, rootToken } = cluster;
  const client = new ServiceClient({ name, addresses });
  clients.push(client);
  return { sys: client.sys, token: { token: new Secret('service-token', rootToken) } };
}

const asks = async (node: number, path = 'kv/a', cluster = east) =>
  (await call(cluster, 'GET', path, { token: cluster.rootToken, node })).status;

/** One request of each bucket is let through, and no more. */
async function stopped(nodes: readonly number[], path = 'kv/a') {
  const statuses = [];
  for (const node of nodes) statuses.push([(await asks(node, path)) === 429, await asks(node, path)]);
  return statuses;
}

it('a quota without a path lets one request of an interval through at each node, then 429, logins and reads alike', async () => {
  const { sys, token } = quotasOf(east);
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
  service.advanceClock(60_000);
  expect(await stopped(nodes)).toEqual(nodes.map(() => [false, 429]));
  await sys.deleteRateLimitQuota('stop', token);
  await sys.writeQuotaConfig(config, token);
  expect([await asks(0), await asks(0)]).toEqual([404, 404]);
  expect(await sys.quotaConfig(token)).toEqual(config);
});

it('a quota with a more specific path wins; without Enterprise there is no bucket for all', async () => {
  const { sys, token } = quotasOf(east);
  const { version } = east;
  east.version = '1.21.4';
  const refused = sys.createRateLimitQuota({ ...STOP, groupBy: 'none' }, token);
  await expect(refused).rejects.toMatchObject({ code: 'BAD_REQUEST' });
  east.version = version;
  await sys.createRateLimitQuota({ ...STOP, interval: '1h' }, token);
  await call(east, 'POST', 'sys/quotas/rate-limit/theirs', { token: east.rootToken, body: { rate: 9, path: 'kv/' } });
  // Locked out: nothing exempts sys/quotas.
  await expect(sys.deleteRateLimitQuota('stop', token)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  service.advanceClock(3_600_000);
  expect((await call(east, 'POST', 'sys/quotas/rate-limit/theirs', { token: east.rootToken })).status).toBe(400);
  expect(await stopped([0], 'secret/a')).toEqual([[true, 429]]);
  expect(await stopped([0])).toEqual([[false, 404]]);
});

it('a DR secondary has the quota of its primary, and limits nothing before its promotion', async () => {
  const { sys, token } = quotasOf(east);
  const config = await sys.quotaConfig(token);
  await sys.writeQuotaConfig({ ...config, rateLimitExemptPaths: [...config.rateLimitExemptPaths, ...NEEDED] }, token);
  await sys.createRateLimitQuota({ ...STOP, groupBy: 'none' }, token);
  const west = service.cluster('west');
  await eventually(() => {
    service.advance();
    return west.storage.get('quota/stop');
  });
  expect([await asks(0, 'kv/a', west), await asks(0, 'kv/a', west)]).toEqual([400, 400]);
});
