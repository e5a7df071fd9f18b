/** Answers are read without loss, in every shape that versions of the service give them. */
import fc from 'fast-check';
import type { ServiceClient } from '../../src/vault';
import { parseFirstDocument } from '../../src/vault/shape';
import { Secret } from '../../src/secret';
import { failureOf, openNode } from './support/scripted-cluster';
import type { ScriptedServer } from './support/scripted-server';

const UINT64_MAX = '18446744073709551615';

describe('answers', () => {
  let node: ScriptedServer;
  let client: ServiceClient;
  const cluster = openNode((...opened) => ([node, client] = opened));

  it('status of a DR primary: WALs without loss, numbers that come as strings, never', async () => {
    node.on('GET sys/replication/dr/status', {
      text: `{"data":{"mode":"primary","state":"running","cluster_id":"set-1","primary_cluster_addr":"",
        "known_secondaries":["west"],"last_wal":7,"last_dr_wal":${UINT64_MAX},"merkle_root":"9f1d",
        "last_reindex_epoch":"-62135596800","corrupted_merkle_tree":false,
        "secondaries":[{"node_id":"west","api_address":"https://w:8200",
        "cluster_address":"https://w:8201","connection_status":"connected","last_heartbeat":"2026-01-10T08:00:01Z",
        "clock_skew_ms":"-1","replication_primary_canary_age_ms":"454"}]}}`,
    });
    expect(await client.dr.status()).toEqual({
      mode: 'primary',
      state: 'running',
      clusterId: 'set-1',
      knownSecondaries: ['west'],
      lastReplicatedWal: BigInt(UINT64_MAX),
      merkleRoot: '9f1d',
      lastReindexEpoch: 'never',
      corruptedMerkleTree: false,
      secondaries: [
        {
          nodeId: 'west',
          clusterAddress: 'https://w:8201',
          connectionStatus: 'connected',
          lastHeartbeat: '2026-01-10T08:00:01Z',
          replicationPrimaryCanaryAgeMs: 454,
        },
      ],
    });
  });

  it.each(['0001-01-01T00:00:00Z', '1970-01-01T00:00:00Z', '-62135596800', '', 0, null])(
    'the time %j means never, in every field',
    async (never) => {
      const peer = { node_id: 'west', connection_status: 'disconnected', last_heartbeat: never };
      const dr = { mode: 'primary', last_reindex_epoch: never, secondaries: [peer] };
      const license = { state: 'autoloaded', expiry_time: never };
      node.on('GET sys/replication/dr/status', { json: { data: dr } });
      node.on('GET sys/health', {
        json: { initialized: true, sealed: false, standby: false, server_time_utc: never, license },
      });
      node.on('GET auth/token/lookup-self', { json: { data: { ttl: 0, expire_time: never, type: 'service' } } });
      const status = await client.dr.status();
      expect('secondaries' in status && status.secondaries?.[0]).not.toHaveProperty('lastHeartbeat', expect.anything());
      const health = await client.sys.health();
      expect([health.serverTimeUtc, health.license?.expiryTime]).toEqual([undefined, undefined]);
      const token = new Secret('service-token', 'hvs.EXAMPLE');
      expect((await client.sys.lookupSelf({ token })).expireTime).toBeUndefined();
    },
  );

  it('status of a secondary: also bare, with null lists and a small WAL', async () => {
    node.on('GET sys/replication/performance/status', {
      json: {
        mode: 'secondary',
        state: 'merkle-sync',
        connection_state: 'ready',
        secondary_id: 'west',
        known_primary_cluster_addrs: null,
        last_remote_wal: 0,
        last_reindex_epoch: '1768030000',
        reindex_in_progress: true,
        reindex_stage: 'building',
        primaries: [{ connection_status: 'disconnected' }],
      },
    });
    expect(await client.performance.status()).toEqual({
      mode: 'secondary',
      state: 'merkle-sync',
      connectionState: 'ready',
      secondaryId: 'west',
      knownPrimaryClusterAddrs: [],
      lastRemoteWal: 0n,
      lastReindexEpoch: 1768030000,
      reindexInProgress: true,
      reindexStage: 'building',
      primaries: [{ connectionStatus: 'disconnected' }],
    });
  });

  it('status with a mode of the future is unknown, without a mode is refused, with an odd member is read', async () => {
    node.on('GET sys/replication/dr/status', { json: { data: { mode: 'sleeping' } } });
    expect(await client.dr.status()).toEqual({ mode: 'unknown' });
    node.on('GET sys/replication/dr/status', { json: { data: { mode: 'primary', last_dr_wal: -4, secondaries: 7 } } });
    expect(await client.dr.status()).toEqual({ mode: 'primary' });
    expect(cluster.warnings.join()).toMatch(/last_dr_wal.*secondaries|secondaries.*last_dr_wal/s);
    node.on('GET sys/replication/dr/status', { json: { data: {} } });
    expect(await failureOf(client.dr.status())).toMatchObject({ code: 'RESPONSE_INVALID', outcomeKnown: true });
  });

  it('both kinds of status at once: a bare mode is that of both', async () => {
    node.on('GET sys/replication/status', { json: { data: { mode: 'unsupported' } } });
    const unsupported = { mode: 'unsupported' };
    expect(await client.sys.replicationStatus()).toEqual({ dr: unsupported, performance: unsupported });
  });

  it('health is data with each status of a node, and an error if a quota or an override answers', async () => {
    const json = { initialized: true, sealed: false, standby: true };
    for (const status of [200, 429, 472, 473, 474, 501, 503, 530]) {
      node.on('GET sys/health', { status, json });
      expect(await client.sys.health()).toMatchObject({ status, node: node.address, standby: true });
    }
    node.on('GET sys/health', { status: 429, json: { errors: ['rate limit quota exceeded'] } });
    expect(await failureOf(client.sys.health())).toMatchObject({ code: 'RATE_LIMITED' });
    node.on('GET sys/health', { status: 400, json: { errors: [] } });
    expect(await failureOf(client.sys.health())).toMatchObject({ code: 'BAD_REQUEST' });
  });

  it.each([
    [1, 'runbooks/marker', (data: object) => data],
    [2, 'runbooks/data/marker', (data: object) => ({ data })],
  ] as const)('key-value entries, absent ones, and writing in version %i', async (version, path, wrapped) => {
    const place = { mount: 'runbooks', path: 'marker', version };
    node.on(`GET ${path}`, { json: { data: wrapped({ at: '12', by: 'run' }) } }).on(`POST ${path}`, { status: 204 });
    expect(await client.keyValue.read(place)).toEqual({ at: '12', by: 'run' });
    expect(await client.keyValue.read({ ...place, path: 'none' })).toBeUndefined();
    await client.keyValue.write({ ...place, data: { at: '13' } });
    expect(JSON.parse(node.requests.at(-1)?.body ?? '')).toEqual(wrapped({ at: '13' }));
  });

  it('the engine of a path: version 2 by its options, version 1 by none', async () => {
    const answer = (more: object) => ({ json: { data: { type: 'kv', path: 'team/kv/', ...more } } });
    const path = 'team/kv/marker';
    node.on(`GET sys/internal/ui/mounts/${path}`, answer({ options: { version: '2' }, local: true }));
    const found = { type: 'kv', path: 'team/kv/' };
    expect(await client.sys.mountOf(path)).toEqual({ ...found, options: { version: '2' }, local: true });
    for (const options of [null, {}, undefined]) {
      node.on(`GET sys/internal/ui/mounts/${path}`, answer({ options }));
      expect(await client.sys.mountOf(path)).toMatchObject({ ...found, options: {} });
    }
  });

  const drOperationToken = new Secret('operation-token', 'dr-token');
  const MERKLE = 'POST sys/replication/dr/secondary/merkle-check';

  it('a Merkle report with damage', async () => {
    const pages = { '5': { corrupted: false, subpages: [28] } };
    const damage = {
      '1': { tree_type: 'replicated', corrupted_subtree_root: false, corrupted_index_tuples_map: pages },
      '2': { tree_type: 'local', corrupted_subtree_root: false, corrupted_index_tuples_map: null },
    };
    const report = { corrupted_root: false, corrupted_tree_map: damage };
    node.on(MERKLE, { json: { data: { merkle_corruption_report: report } } });
    expect(await client.dr.secondary.merkleCheck({ drOperationToken })).toMatchObject({
      healthy: false,
      subtrees: [{ id: '1', corruptedPages: [{ page: 5, corrupted: false, subpages: [28] }] }, { corruptedPages: [] }],
    });
  });

  it('a Merkle check that wants its token in the header too', async () => {
    const report = { corrupted_root: true, corrupted_tree_map: {} };
    node.on(MERKLE, ({ headers }) =>
      headers['x-vault-token'] === 'dr-token'
        ? { json: { data: { merkle_corruption_report: report } } }
        : { status: 403, json: { errors: ['permission denied'] } },
    );
    expect(await client.dr.secondary.merkleCheck({ drOperationToken })).toMatchObject({ healthy: false });
    const other = { token: new Secret('service-token', 'x') };
    const withOther = client.dr.secondary.merkleCheck({ drOperationToken }, other);
    expect(await failureOf(withOther)).toMatchObject({ code: 'PERMISSION_DENIED' });
  });

  it('an attempt gives its encoded token as a secret', async () => {
    const fields = { started: true, nonce: 'n', progress: 3, required: 3, complete: true };
    node.on('POST sys/generate-root/update', { json: { ...fields, encoded_root_token: 'CANARYenc' } });
    const share = { key: new Secret('key-share', 'share'), nonce: 'n' };
    const attempt = await client.sys.generateRoot.update(share);
    expect(attempt.encodedToken?.reveal()).toBe('CANARYenc');
    expect(JSON.stringify(attempt)).not.toContain('CANARY');
  });
});

describe('parseFirstDocument', () => {
  const asNumber = (_: string, value: unknown) => (typeof value === 'bigint' ? Number(value) : value);

  it('finds the end of any first document, and keeps every integer', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), (document, more) => {
        const text = JSON.stringify(document);
        const { value, rest } = parseFirstDocument(`${text}${more}`);
        expect(JSON.stringify(value, asNumber)).toBe(JSON.stringify(JSON.parse(text)));
        expect(rest).toBe(more.trim());
      }),
      { seed: 1, numRuns: 200 },
    );
    const { value } = parseFirstDocument(`{"w":${UINT64_MAX},"f":1.5,"n":-3}`);
    expect(value).toEqual({ w: BigInt(UINT64_MAX), f: 1.5, n: -3 });
  });

  it.each(['', 'ok', '{"a":', ']', '{"a":1'])('refuses a text that begins no document: %s', (text) => {
    expect(() => parseFirstDocument(text)).toThrow();
  });
});
