import { generateKey } from 'openpgp';
import {
  startSimulatedService,
  type SimulatedCluster,
  type SimulatedService,
  type Topology,
} from '../../src/simulator';
import { converse, decoded, recordedTurns } from '../real/conversation';
import { converseOnLeadership } from '../real/leadership';
import { call, deployment, eventually, persistently } from './client';
import { SimulatedNodes } from './nodes';

let service: SimulatedService;
afterEach(() => service.stop());

const DR = 'sys/replication/dr';
const BASE = `${DR}/secondary/generate-operation-token`;

async function start(overrides: Partial<Topology> = {}): Promise<SimulatedCluster> {
  service = await startSimulatedService(deployment(overrides));
  return service.cluster('west');
}

/** The whole ceremony in its one-time password form. */
async function operationToken(cluster: SimulatedCluster, header?: string): Promise<string> {
  const token = header === undefined ? {} : { token: header };
  const started = await call(cluster, 'POST', `${BASE}/attempt`, token);
  const nonce = started.textAt('nonce');
  const otp = started.textAt('otp');
  let encoded = '';
  for (const key of cluster.keyShares.slice(0, 3)) {
    const answer = await call(cluster, 'POST', `${BASE}/update`, { ...token, body: { key, nonce } });
    encoded = answer.textAt('encoded_token');
  }
  return decoded(encoded, otp);
}

describe('the generation of an operation token', () => {
  it('gives a token from the primary key shares that works on its own cluster only', async () => {
    const west = await start();
    const token = await operationToken(west);
    expect(token).toMatch(/^hvs\.[A-Za-z0-9]{24}$/);
    expect(west.snapshotState().operationTokens).toBe(1);
    const elsewhere = await call(service.cluster('south'), 'POST', `${DR}/secondary/operation-token/delete`, {
      body: { dr_operation_token: token },
    });
    expect(elsewhere.status).toBe(403);
    const deleted = await call(west, 'POST', `${DR}/secondary/operation-token/delete`, {
      body: { dr_operation_token: token },
    });
    expect(deleted.status).toBe(204);
    const again = await call(west, 'POST', `${DR}/secondary/operation-token/delete`, {
      body: { dr_operation_token: token },
    });
    expect(again.status).toBe(403);
    expect(west.snapshotState().operationTokens).toBe(0);
  });

  it('with a PGP key that cannot encrypt dies without an answer and leaves a token that nobody knows', async () => {
    const west = await start();
    const { publicKey } = await generateKey({ userIDs: [{ name: 'sign only' }], subkeys: [], format: 'object' });
    const body = { pgp_key: Buffer.from(publicKey.write()).toString('base64') };
    const nonce = (await call(west, 'POST', `${BASE}/attempt`, { body })).textAt('nonce');
    const update = (key: string) => call(west, 'POST', `${BASE}/update`, { body: { key, nonce } });
    const [first = '', second = '', third = ''] = west.keyShares;
    await update(first);
    await update(second);
    await expect(update(third)).rejects.toThrow(/socket hang up/);
    expect((await call(west, 'GET', `${BASE}/attempt`)).at()).toMatchObject({ started: true, progress: 0 });
    expect(west.snapshotState().operationTokens).toBe(1);
  });

  it('serves calls at once one after the other: one token, no lost share', async () => {
    const west = await start();
    const nonce = (await call(west, 'POST', `${BASE}/attempt`)).textAt('nonce');
    const keys = west.keyShares.slice(0, 4);
    const given = await Promise.all(keys.map((key) => call(west, 'POST', `${BASE}/update`, { body: { key, nonce } })));
    expect(given.map(({ status }) => status).sort()).toEqual([200, 200, 200, 400]);
    expect(west.snapshotState().operationTokens).toBe(1);
  });

  it('with threshold 1 takes the key itself, and names the size of one that is none', async () => {
    service = await startSimulatedService({
      clusters: [{ name: 'east', nodes: 1, seal: { shares: 1, threshold: 1 } }],
    });
    const east = service.cluster('east');
    const started = await call(east, 'POST', 'sys/generate-root/attempt');
    const give = (key: string | undefined) =>
      call(east, 'POST', 'sys/generate-root/update', { body: { key, nonce: started.textAt('nonce') } });
    expect((await give('07'.repeat(33))).textAt('errors', 0)).toContain('crypto/aes: invalid key size 33');
    const last = await give(east.keyShares[0]);
    expect(last.at()).toMatchObject({ progress: 1, required: 1, complete: true });
    expect(last.textAt('encoded_root_token')).toBe(last.textAt('encoded_token'));
    expect(east.issuedSecrets).toContain(decoded(last.textAt('encoded_token'), started.textAt('otp')));
  });

  it('shares its slot with the generation of a root token', async () => {
    const west = await start();
    const started = await call(west, 'POST', 'sys/generate-root/attempt');
    expect((await call(west, 'GET', `${BASE}/attempt`)).at('nonce')).toBe(started.at('nonce'));
    expect((await call(west, 'POST', `${BASE}/attempt`)).status).toBe(400);
    const body = { key: west.keyShares[0], nonce: started.textAt('nonce') };
    const mixed = await call(west, 'POST', `${BASE}/update`, { body });
    expect([mixed.status, mixed.textAt('errors', 0)]).toEqual([
      400,
      expect.stringContaining('incorrect strategy supplied'),
    ]);
  });

  it('answers as the real server did, right calls and wrong ones', async () => {
    await start();
    const east = service.cluster('east');
    const { publicKey } = await generateKey({ userIDs: [{ name: 'ceremony' }], format: 'object' });
    const pgpKey = Buffer.from(publicKey.write()).toString('base64');
    const { turns, token } = await converse({ address: east.apiAddress, keyShares: east.keyShares, pgpKey });
    expect(turns).toEqual(recordedTurns());
    expect(east.issuedSecrets).toContain(token);
  });

  it('answers as the nodes of a real cluster did, with changes of the leader, sealed nodes, and none that leads', async () => {
    await start();
    const east = service.cluster('east');
    const { turns, token } = await converseOnLeadership({
      nodes: new SimulatedNodes(east),
      keyShares: east.keyShares,
    });
    expect(turns).toEqual(recordedTurns('leadership-1.21.4.json'));
    expect(east.issuedSecrets).toContain(token);
  });

  it('needs a token from 2.0 on, of a kind that a DR secondary accepts', async () => {
    const versions = deployment().clusters.map((cluster) => ({ ...cluster, version: '2.0.0+ent' }));
    const west = await start({ clusters: versions });
    const east = service.cluster('east');
    expect((await call(west, 'GET', `${BASE}/attempt`)).status).toBe(403);
    const ordinary = east.createToken({ policies: ['root-like'] });
    east.writePolicy('ceremony', [{ path: `${BASE}/*`, capabilities: ['read', 'update', 'delete'] }]);
    const batch = east.createToken({ policies: ['ceremony'], type: 'batch' });
    await eventually(() => west.snapshotState().dr.merkleRoot === east.snapshotState().dr.merkleRoot);
    expect((await call(west, 'GET', `${BASE}/attempt`, { token: ordinary })).status).toBe(403);
    expect((await call(west, 'GET', `${BASE}/attempt`, { token: batch })).status).toBe(200);
    expect((await call(west, 'GET', `${BASE}/attempt`, { token: east.rootToken })).status).toBe(200);
    expect(await operationToken(west, batch)).toMatch(/^hvs\./);
    west.configureUnauthenticatedAccess(['generate-operation-token']);
    expect((await call(west, 'GET', `${BASE}/attempt`)).status).toBe(200);
  });
});

describe('an operation token', () => {
  it('cannot be deleted while its cluster is primary, and lives again after its demotion', async () => {
    const west = await start();
    const token = await operationToken(west);
    const remove = () =>
      persistently(() =>
        call(west, 'POST', `${DR}/secondary/operation-token/delete`, { body: { dr_operation_token: token } }),
      );
    const promoted = await call(west, 'POST', `${DR}/secondary/promote`, { body: { dr_operation_token: token } });
    expect(promoted.status).toBe(200);
    expect((await remove()).status).toBe(400);
    await persistently(() => call(west, 'POST', `${DR}/primary/demote`, { token: west.rootToken }));
    expect((await remove()).status).toBe(204);
  });

  it('authorises reindex, which shows its progress, and merkle-check, which wants it in the header too', async () => {
    const west = await start({ readings: { optionalFieldMissingChance: 0 }, timing: { reindexMs: 60_000 } });
    const token = await operationToken(west);
    const body = { dr_operation_token: token };
    expect((await call(west, 'POST', `${DR}/secondary/merkle-check`, { body })).status).toBe(403);
    west.corruptedPages = { tree: 'replicated', page: 5, subpages: [28] };
    const report = await call(west, 'POST', `${DR}/secondary/merkle-check`, { body, token });
    expect(report.at('data', 'merkle_corruption_report', 'corrupted_root')).toBe(true);
    expect(
      report.at('data', 'merkle_corruption_report', 'corrupted_tree_map', '1', 'corrupted_index_tuples_map'),
    ).toEqual({
      '5': { corrupted: false, subpages: [28] },
    });
    expect((await call(west, 'POST', `${DR}/secondary/reindex`, { body: { ...body, diff: true } })).status).toBe(200);
    expect((await call(west, 'POST', `${DR}/secondary/reindex`, { body })).status).toBe(400);
    expect((await call(west, 'GET', `${DR}/status`)).at('data', 'reindex_in_progress')).toBe(true);
    service.advanceClock(61_000);
    const done = await call(west, 'GET', `${DR}/status`);
    expect(done.at('data', 'reindex_in_progress')).toBeUndefined();
    expect(Number(done.textAt('data', 'last_reindex_epoch'))).toBeGreaterThan(1_600_000_000);
    expect(done.at('data', 'corrupted_merkle_tree')).toBe(false);
  });
});

describe('a DR secondary', () => {
  it('refuses ordinary tokens and data paths, and takes them all back after its promotion', async () => {
    const west = await start();
    const root = service.cluster('east').rootToken;
    const key = await call(west, 'POST', `${DR}/secondary/generate-public-key`, { token: root });
    expect(key.status).toBe(403);
    const read = await call(west, 'GET', 'secret/x', { token: root });
    expect([read.status, read.at('errors')]).toEqual([400, ['path disabled in replication DR secondary mode']]);
    const login = await call(west, 'POST', 'auth/approle/login', { body: { role_id: 'x' } });
    expect(login.status).toBe(400);
  });
});
