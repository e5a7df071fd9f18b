import { startSimulatedService, type ReplicationKind, type SimulatedService, type Topology } from '../../src/simulator';
import { call, eventually, persistently } from './client';

let service: SimulatedService;
afterEach(() => service.stop());

const NO_LEADER_CHANGE = { leaderChangeChance: 0 };

async function start(topology: Partial<Topology> = {}): Promise<void> {
  service = await startSimulatedService({
    clusters: [
      { name: 'a', nodes: 1 },
      { name: 'b', nodes: 1 },
      { name: 'c', nodes: 1 },
    ],
    ...topology,
    readings: { ...NO_LEADER_CHANGE, ...topology.readings },
  });
}

function post(name: string, kind: ReplicationKind, path: string, body: object = {}, token?: string) {
  const cluster = service.cluster(name);
  return call(cluster, 'POST', `sys/replication/${kind}/${path}`, { token: token ?? cluster.rootToken, body });
}

function settled(name: string): Promise<unknown> {
  return persistently(() => call(service.cluster(name), 'GET', 'sys/replication/status'));
}

const mode = (name: string, kind: ReplicationKind) => service.cluster(name).snapshotState()[kind].mode;

/** Issues an activation token on one cluster for another; the wrapped form. */
async function activationToken(from: string, kind: ReplicationKind, id: string): Promise<string> {
  const answer = await persistently(() => post(from, kind, 'primary/secondary-token', { id }));
  return answer.textAt('wrap_info', 'token');
}

describe.each<ReplicationKind>(['dr', 'performance'])('%s roles', (kind) => {
  it('go through enable, join, demote, promote and disable as the state table says', async () => {
    await start();
    expect((await post('a', kind, 'primary/enable')).textAt('warnings', 0)).toContain('enabled as a primary');
    await settled('a');
    expect(mode('a', kind)).toBe('primary');
    expect((await post('a', kind, 'primary/enable')).status).toBe(400);
    expect((await post('b', kind, 'primary/demote')).status).toBe(400);

    const token = await activationToken('a', kind, 'b-id');
    const idBefore = service.cluster('b').clusterId;
    const joined = await post('b', kind, 'secondary/enable', { token });
    expect(service.cluster('b').clusterId).not.toBe(idBefore);
    expect(joined.textAt('warnings', 0)).toContain('successfully found secondary information');
    await eventually(() => service.cluster('b').snapshotState()[kind].state === 'stream-wals');
    expect(service.cluster('a').snapshotState()[kind].knownSecondaries).toEqual(['b-id']);
    expect(service.cluster('b').snapshotState()[kind]).toMatchObject({
      mode: 'secondary',
      secondaryId: 'b-id',
      connectedTo: 'a',
      setId: service.cluster('a').snapshotState()[kind].setId,
    });

    const setId = service.cluster('a').snapshotState()[kind].setId;
    await post('a', kind, 'primary/demote');
    await settled('a');
    expect(service.cluster('a').snapshotState()[kind]).toMatchObject({ mode: 'secondary', state: 'idle', setId });
  });

  it('take no token of the other kind, keep a revoked secondary, and begin a new set once disabled', async () => {
    await start();
    await post('a', kind, 'primary/enable');
    const other = kind === 'dr' ? 'performance' : 'dr';
    const wrong = { token: await activationToken('a', kind, 'c-id') };
    expect((await post('c', other, 'secondary/enable', wrong)).status).toBe(400);
    expect(mode('c', other)).toBe('disabled');
    await post('b', kind, 'secondary/enable', { token: await activationToken('a', kind, 'b-id') });
    await eventually(() => service.cluster('b').snapshotState()[kind].connectedTo);
    expect((await post('a', kind, 'primary/revoke-secondary', { id: 'b-id' })).status).toBe(200);
    expect(service.cluster('b').snapshotState()[kind]).toMatchObject({ mode: 'secondary', connectedTo: undefined });

    const before = service.cluster('a').snapshotState()[kind].setId;
    for (const change of ['disable', 'enable']) {
      await post('a', kind, `primary/${change}`);
      await settled('a');
    }
    expect(service.cluster('a').snapshotState()[kind]).toMatchObject({ mode: 'primary' });
    expect(service.cluster('a').snapshotState()[kind].setId).not.toBe(before);
  });
});

it('a demoted cluster takes no addresses', async () => {
  await start({ dr: [{ primary: 'a', secondaries: ['b'] }] });
  const token = service.cluster('a').createToken({ policies: ['root'], type: 'batch' });
  const addresses = { dr_operation_token: token, update_primary_addrs: [service.cluster('a').clusterAddress] };
  expect((await post('b', 'dr', 'secondary/update-primary', addresses)).status).toBe(200);
  await post('a', 'dr', 'primary/demote');
  await settled('a');
  const { clusterAddress } = service.cluster('b');
  const refused = { ...addresses, update_primary_addrs: [clusterAddress] };
  expect((await post('a', 'dr', 'secondary/update-primary', refused)).status).toBe(400);
});

it('a paths filter removes what it newly leaves out, and brings what it newly lets in', async () => {
  await start({
    mounts: [{ path: 'kv/', version: 1 }],
    performance: { primary: 'a', secondaries: [{ name: 'b' }] },
    dr: [{ primary: 'a', secondaries: ['c'] }],
  });
  const [a, b, c] = [service.cluster('a'), service.cluster('b'), service.cluster('c')];
  const filter = (body: object) => post('a', 'performance', `primary/paths-filter/${b.clusterId}`, body);
  a.write('kv/x', { n: 1 });
  await eventually(() => b.read('kv/x'));
  await filter({ mode: 'deny', paths: ['kv/'] });
  await eventually(() => b.read('kv/x') === undefined);
  expect((await call(b, 'GET', 'kv/x', { token: b.rootToken })).status).toBe(404);
  // The DR secondary of the primary has it after its promotion.
  await eventually(() => c.snapshotState().filters.includes(b.clusterId));
  a.write('kv/y', { n: 2 });
  expect(b.read('kv/y')).toBeUndefined();
  await filter({ mode: 'allow', paths: ['kv/'] });
  await eventually(() => b.read('kv/y'));
});

describe('activation tokens', () => {
  beforeEach(async () => {
    await start();
    await post('a', 'dr', 'primary/enable');
    await settled('a');
  });

  it('work once only', async () => {
    const token = await activationToken('a', 'dr', 'b-id');
    expect((await post('b', 'dr', 'secondary/enable', { token })).status).toBe(200);
    const again = await post('c', 'dr', 'secondary/enable', { token });
    expect(again.status).toBe(500);
    expect(again.textAt('errors', 0)).toContain('status code is 400');
    expect(mode('c', 'dr')).toBe('disabled');
  });

  it('expire, in both forms', async () => {
    const wrapped = await post('a', 'dr', 'primary/secondary-token', { id: 'b-id', ttl: '10s' });
    expect(wrapped.at('wrap_info', 'ttl')).toBe(10);
    const key = await post('c', 'dr', 'secondary/generate-public-key');
    const encrypted = await post('a', 'dr', 'primary/secondary-token', {
      id: 'c-id',
      ttl: 10,
      secondary_public_key: key.textAt('data', 'secondary_public_key'),
    });
    service.advanceClock(11_000);
    expect((await post('b', 'dr', 'secondary/enable', { token: wrapped.textAt('wrap_info', 'token') })).status).toBe(
      500,
    );
    expect((await post('c', 'dr', 'secondary/enable', { token: encrypted.textAt('data', 'token') })).status).toBe(500);
  });

  it('in the encrypted form are readable only by the process that made the public key', async () => {
    const key = await post('b', 'dr', 'secondary/generate-public-key');
    const issued = await post('a', 'dr', 'primary/secondary-token', {
      id: 'b-id',
      secondary_public_key: key.textAt('data', 'secondary_public_key'),
    });
    expect(issued.at('wrap_info')).toBeNull();
    const token = issued.textAt('data', 'token');
    expect((await post('c', 'dr', 'secondary/enable', { token })).status).toBe(500);
    await service.cluster('b').killNode(0);
    await service.cluster('b').startNode(0);
    const after = await persistently(() => post('b', 'dr', 'secondary/enable', { token }), 300).catch(() => undefined);
    expect(after).toBeUndefined();
    expect(mode('b', 'dr')).toBe('disabled');
  });
});
