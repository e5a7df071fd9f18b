import { startSimulatedService, type SimulatedService } from '../../src/simulator';
import { call, deployment, eventually } from './client';

const PR = 'sys/replication/performance';
let service: SimulatedService;

beforeEach(async () => {
  service = await startSimulatedService(deployment());
});
afterEach(() => service.stop());

describe('the key-value engine', () => {
  it('writes, reads, lists and deletes', async () => {
    const east = service.cluster('east');
    const token = east.rootToken;
    expect((await call(east, 'PUT', 'kv/app/one', { token, body: { n: 1 } })).status).toBe(204);
    expect((await call(east, 'POST', 'kv/app/two/deep', { token, body: { n: 2 } })).status).toBe(204);
    expect((await call(east, 'GET', 'kv/app/one', { token })).at('data')).toEqual({ n: 1 });
    expect((await call(east, 'GET', 'kv/app?list=true', { token })).at('data', 'keys')).toEqual(['one', 'two/']);
    expect((await call(east, 'DELETE', 'kv/app/one', { token })).status).toBe(204);
    const missing = await call(east, 'GET', 'kv/app/one', { token });
    expect([missing.status, missing.at('errors')]).toEqual([404, []]);
    expect((await call(east, 'GET', 'nowhere/x', { token })).status).toBe(404);
    expect((await call(east, 'GET', 'kv/app/one')).status).toBe(403);
  });

  it('forwards writes of a performance secondary to its primary, except on a local mount', async () => {
    const [east, north] = [service.cluster('east'), service.cluster('north')];
    const token = north.rootToken;
    expect((await call(north, 'POST', 'kv/x', { token, body: { n: 1 } })).status).toBe(204);
    expect(east.read('kv/x')).toEqual({ n: 1 });
    await eventually(() => north.read('kv/x'));
    expect((await call(north, 'POST', 'sys/mounts/here', { token, body: { type: 'kv', local: true } })).status).toBe(
      204,
    );
    expect((await call(north, 'POST', 'here/x', { token, body: { n: 2 } })).status).toBe(204);
    expect([north.read('here/x'), east.read('here/x')]).toEqual([{ n: 2 }, undefined]);
    expect((await call(north, 'GET', 'sys/mounts', { token })).at('data', 'here/', 'local')).toBe(true);
    await eventually(() => {
      const roots = [east, north].map((cluster) => cluster.snapshotState().performance.merkleRoot);
      return roots[0] === roots[1];
    });
    service.partition('east', 'north');
    expect((await call(north, 'POST', 'kv/x', { token, body: { n: 3 } })).status).toBe(500);
  });
});

describe('paths filters', () => {
  const filter = (id: string) => `${PR}/primary/paths-filter/${id}`;

  it('remove what is newly left out and bring what is newly let in', async () => {
    const [east, west, north] = [service.cluster('east'), service.cluster('west'), service.cluster('north')];
    const token = east.rootToken;
    await call(east, 'POST', 'kv/x', { token, body: { n: 1 } });
    await eventually(() => north.read('kv/x'));
    await call(east, 'POST', filter(north.clusterId), { token, body: { mode: 'deny', paths: ['kv/'] } });
    await eventually(() => north.read('kv/x') === undefined);
    // The DR secondary of the primary has it after its promotion.
    await eventually(() => west.snapshotState().filters.includes(north.clusterId));
    expect((await call(north, 'GET', 'kv/x', { token: north.rootToken })).status).toBe(404);
    await call(east, 'POST', 'kv/y', { token, body: { n: 2 } });
    await call(east, 'POST', filter(north.clusterId), { token, body: { mode: 'allow', paths: ['kv/'] } });
    await eventually(() => north.read('kv/y'));
  });

  it('show on both sides as a dynamic filter that grows with its namespaces', async () => {
    const [east, north] = [service.cluster('east'), service.cluster('north')];
    const token = east.rootToken;
    await call(east, 'POST', 'sys/namespaces/ns1', { token });
    await call(east, 'POST', filter(north.clusterId), { token, body: { mode: 'deny', paths: ['ns1/'] } });
    const headers = { 'x-vault-namespace': 'ns1' };
    await call(east, 'POST', 'sys/mounts/kv', { token, headers, body: { type: 'kv' } });
    await call(east, 'POST', 'kv/hidden', { token, headers, body: { n: 1 } });
    expect(east.read('ns1/kv/hidden')).toEqual({ n: 1 });
    const expected = { dynamic_filtered_mounts: ['ns1/kv/'], dynamic_filtered_namespaces: ['ns1/'] };
    const dynamic = (side: string) => `${PR}/${side}/dynamic-filter/${north.clusterId}`;
    expect((await call(east, 'GET', dynamic('primary'), { token })).at('data')).toEqual(expected);
    expect((await call(north, 'GET', dynamic('secondary'), { token: north.rootToken })).at('data')).toEqual(expected);
    expect(north.read('ns1/kv/hidden')).toBeUndefined();
    expect((await call(north, 'GET', `${PR}/secondary/dynamic-filter/other`, { token: north.rootToken })).status).toBe(
      404,
    );
  });

  it('are dropped by update-primary with a token, also where they were written for the new id before', async () => {
    const [east, north] = [service.cluster('east'), service.cluster('north')];
    const token = east.rootToken;
    const deny = { token, body: { mode: 'deny', paths: ['kv/'] } };
    await call(east, 'POST', filter('north-again'), deny);
    const issued = await call(east, 'POST', `${PR}/primary/secondary-token`, { token, body: { id: 'north-again' } });
    const updated = await call(north, 'POST', `${PR}/secondary/update-primary`, {
      token: north.rootToken,
      body: { token: issued.textAt('wrap_info', 'token') },
    });
    expect(updated.status).toBe(200);
    expect((await call(east, 'GET', filter('north-again'), { token })).status).toBe(404);
    expect((await call(east, 'POST', filter('north-again'), deny)).status).toBe(204);
    await eventually(() => north.snapshotState().performance.state === 'stream-wals');
  });
});

describe('tokens', () => {
  it('end with their life or their revocation', async () => {
    const east = service.cluster('east');
    const [short, revoked] = [
      east.createToken({ policies: ['root'], ttlMs: 5_000 }),
      east.createToken({ policies: ['root'] }),
    ];
    const status = async (token: string) => (await call(east, 'GET', 'auth/token/lookup-self', { token })).status;
    expect([await status(short), await status(revoked)]).toEqual([200, 200]);
    expect((await call(east, 'POST', 'auth/token/revoke-self', { token: revoked })).status).toBe(204);
    service.advanceClock(6_000);
    expect([await status(short), await status(revoked)]).toEqual([403, 403]);
  });
});
