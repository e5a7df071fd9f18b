/** Every endpoint of the interface document is in the client, with its method, path, body and answer. */
import type { ServiceClient } from '../../src/vault';
import { Secret } from '../../src/secret';
import { ScriptedCluster } from './support/scripted-cluster';
import type { ScriptedReply, ScriptedServer } from './support/scripted-server';

/** Sections 4.1 and 4.2 of the interface document, as they are written there. */
const INTERFACE = `
GET /sys/replication/dr/status
POST /sys/replication/dr/primary/enable
POST /sys/replication/dr/primary/demote
POST /sys/replication/dr/primary/disable
POST /sys/replication/dr/primary/secondary-token
POST /sys/replication/dr/primary/revoke-secondary
POST /sys/replication/dr/secondary/generate-public-key
POST /sys/replication/dr/secondary/enable
POST /sys/replication/dr/secondary/promote
POST /sys/replication/dr/secondary/disable
POST /sys/replication/dr/secondary/update-primary
GET /sys/replication/dr/secondary/generate-operation-token/attempt
POST /sys/replication/dr/secondary/generate-operation-token/attempt
DELETE /sys/replication/dr/secondary/generate-operation-token/attempt
POST /sys/replication/dr/secondary/generate-operation-token/update
POST /sys/replication/dr/secondary/operation-token/delete
POST /sys/replication/dr/secondary/reindex
POST /sys/replication/dr/secondary/merkle-check
GET /sys/replication/performance/status
POST /sys/replication/performance/primary/enable
POST /sys/replication/performance/primary/demote
POST /sys/replication/performance/primary/disable
POST /sys/replication/performance/primary/secondary-token
POST /sys/replication/performance/primary/revoke-secondary
POST /sys/replication/performance/primary/paths-filter/:id
GET /sys/replication/performance/primary/paths-filter/:id
DELETE /sys/replication/performance/primary/paths-filter/:id
GET /sys/replication/performance/primary/dynamic-filter/:id
GET /sys/replication/performance/secondary/dynamic-filter/:id
POST /sys/replication/performance/secondary/generate-public-key
POST /sys/replication/performance/secondary/enable
POST /sys/replication/performance/secondary/promote
POST /sys/replication/performance/secondary/disable
POST /sys/replication/performance/secondary/update-primary
`
  .trim()
  .split('\n');

interface Row {
  readonly endpoint: string;
  readonly call: (client: ServiceClient) => Promise<unknown>;
  /** Exact request body; absent for GET and DELETE. */
  readonly body?: unknown;
  readonly reply: ScriptedReply;
  /** Members that the result must have. */
  readonly result: unknown;
}

const ID = 'west/1 ü';
const drOperationToken = new Secret('operation-token', 'dr-token');
const token = new Secret('activation-token', 'activation');
const clientKeyPem = new Secret('private-key', 'pem');
const key = new Secret('key-share', 'share');
const accepted = { status: 200, json: { data: null, wrap_info: null, warnings: ['It takes a while.'] } };
const noContent = { status: 204 };
const withWarning = { warnings: ['It takes a while.'] };
const attempt = { nonce: 'n-1', started: true, progress: 1, required: 3, complete: false, encoded_token: '', otp: '' };
const filter = { mode: 'deny', paths: ['kv/'] };
const dynamic = { dynamic_filtered_mounts: ['ns1/kv/'], dynamic_filtered_namespaces: null };
const join = { primaryApiAddr: 'https://a:8200', caFile: '/ca.pem', caPath: '/ca' };
const joinBody = { primary_api_addr: 'https://a:8200', ca_file: '/ca.pem', ca_path: '/ca' };
const wrapped = {
  data: null,
  wrap_info: {
    token: `x.${Buffer.from('{"addr":"https://a:8200","exp":2,"iat":1}').toString('base64url')}.y`,
    ttl: 1800,
  },
};

const dr = '/sys/replication/dr';
const performance = '/sys/replication/performance';
const ROWS: readonly Row[] = [
  {
    endpoint: `GET ${dr}/status`,
    call: (client) => client.dr.status(),
    reply: { json: { data: { mode: 'disabled' } } },
    result: { mode: 'disabled' },
  },
  {
    endpoint: `POST ${dr}/primary/enable`,
    call: (client) => client.dr.primary.enable({ primaryClusterAddr: 'https://lb:8201' }),
    body: { primary_cluster_addr: 'https://lb:8201' },
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${dr}/primary/demote`,
    call: (client) => client.dr.primary.demote(),
    body: {},
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${dr}/primary/disable`,
    call: (client) => client.dr.primary.disable(),
    body: {},
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${dr}/primary/secondary-token`,
    call: (client) => client.dr.primary.secondaryToken({ id: ID, ttl: '10m', secondaryPublicKey: 'PUBLIC' }),
    body: { id: ID, ttl: '10m', secondary_public_key: 'PUBLIC' },
    reply: { json: { data: { token: 'ENCRYPTED' }, wrap_info: null } },
    result: { form: 'encrypted' },
  },
  {
    endpoint: `POST ${dr}/primary/revoke-secondary`,
    call: (client) => client.dr.primary.revokeSecondary({ id: ID }),
    body: { id: ID },
    reply: noContent,
    result: { warnings: [] },
  },
  {
    endpoint: `POST ${dr}/secondary/generate-public-key`,
    call: (client) => client.dr.secondary.generatePublicKey(),
    body: {},
    reply: { json: { data: { secondary_public_key: 'PUBLIC' } } },
    result: { publicKey: 'PUBLIC' },
  },
  {
    endpoint: `POST ${dr}/secondary/enable`,
    call: (client) => client.dr.secondary.enable({ token, ...join, clientCertPem: 'cert', clientKeyPem }),
    body: { token: 'activation', ...joinBody, client_cert_pem: 'cert', client_key_pem: 'pem' },
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${dr}/secondary/promote`,
    call: (client) =>
      client.dr.secondary.promote({ drOperationToken, primaryClusterAddr: 'https://lb:8201', force: false }),
    body: { dr_operation_token: 'dr-token', primary_cluster_addr: 'https://lb:8201', force: false },
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${dr}/secondary/disable`,
    call: (client) => client.dr.secondary.disable({ drOperationToken }),
    body: { dr_operation_token: 'dr-token' },
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${dr}/secondary/update-primary`,
    call: (client) => client.dr.secondary.updatePrimary({ drOperationToken, token, ...join }),
    body: { dr_operation_token: 'dr-token', token: 'activation', ...joinBody },
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `GET ${dr}/secondary/generate-operation-token/attempt`,
    call: (client) => client.dr.secondary.generateOperationToken.readAttempt(),
    reply: { json: { ...attempt, pgp_fingerprint: 'AB12' } },
    result: { nonce: 'n-1', started: true, progress: 1, required: 3, complete: false, pgpFingerprint: 'ab12' },
  },
  {
    endpoint: `POST ${dr}/secondary/generate-operation-token/attempt`,
    call: (client) => client.dr.secondary.generateOperationToken.startAttempt({ pgpKey: 'PGP' }),
    body: { pgp_key: 'PGP' },
    reply: { json: { data: { ...attempt, progress: 0 } } },
    result: { nonce: 'n-1', progress: 0 },
  },
  {
    endpoint: `DELETE ${dr}/secondary/generate-operation-token/attempt`,
    call: (client) => client.dr.secondary.generateOperationToken.cancelAttempt(),
    reply: noContent,
    result: { warnings: [] },
  },
  {
    endpoint: `POST ${dr}/secondary/generate-operation-token/update`,
    call: (client) => client.dr.secondary.generateOperationToken.update({ key, nonce: 'n-1' }),
    body: { key: 'share', nonce: 'n-1' },
    reply: { json: { ...attempt, progress: 3, complete: true, encoded_token: 'ENCODED' } },
    result: { complete: true },
  },
  {
    endpoint: `POST ${dr}/secondary/operation-token/delete`,
    call: (client) => client.dr.secondary.deleteOperationToken({ drOperationToken }),
    body: { dr_operation_token: 'dr-token' },
    reply: noContent,
    result: { warnings: [] },
  },
  {
    endpoint: `POST ${dr}/secondary/reindex`,
    call: (client) => client.dr.secondary.reindex({ drOperationToken, diff: true, force: false, skipFlush: true }),
    body: { dr_operation_token: 'dr-token', diff: true, force: false, skip_flush: true },
    reply: { status: 202, json: { warnings: ['It takes a while.'] } },
    result: withWarning,
  },
  {
    endpoint: `POST ${dr}/secondary/merkle-check`,
    call: (client) => client.dr.secondary.merkleCheck({ drOperationToken }),
    body: { dr_operation_token: 'dr-token' },
    reply: { json: { data: { merkle_corruption_report: { corrupted_root: false, corrupted_tree_map: null } } } },
    result: { healthy: true, subtrees: [] },
  },
  {
    endpoint: `GET ${performance}/status`,
    call: (client) => client.performance.status(),
    reply: { json: { data: { mode: 'disabled' } } },
    result: { mode: 'disabled' },
  },
  {
    endpoint: `POST ${performance}/primary/enable`,
    call: (client) => client.performance.primary.enable({}),
    body: {},
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${performance}/primary/demote`,
    call: (client) => client.performance.primary.demote(),
    body: {},
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${performance}/primary/disable`,
    call: (client) => client.performance.primary.disable(),
    body: {},
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${performance}/primary/secondary-token`,
    call: (client) => client.performance.primary.secondaryToken({ id: ID }),
    body: { id: ID },
    reply: { json: wrapped },
    result: { form: 'wrapped', ttlSeconds: 1800, claims: { addr: 'https://a:8200', exp: 2, iat: 1 } },
  },
  {
    endpoint: `POST ${performance}/primary/revoke-secondary`,
    call: (client) => client.performance.primary.revokeSecondary({ id: ID }),
    body: { id: ID },
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${performance}/primary/paths-filter/:id`,
    call: (client) => client.performance.primary.pathsFilter.write({ id: ID, mode: 'deny', paths: ['kv/'] }),
    body: filter,
    reply: noContent,
    result: { warnings: [] },
  },
  {
    endpoint: `GET ${performance}/primary/paths-filter/:id`,
    call: (client) => client.performance.primary.pathsFilter.read(ID),
    reply: { json: filter },
    result: filter,
  },
  {
    endpoint: `DELETE ${performance}/primary/paths-filter/:id`,
    call: (client) => client.performance.primary.pathsFilter.delete(ID),
    reply: noContent,
    result: { warnings: [] },
  },
  {
    endpoint: `GET ${performance}/primary/dynamic-filter/:id`,
    call: (client) => client.performance.primary.dynamicFilter(ID),
    reply: { json: { data: dynamic } },
    result: { mounts: ['ns1/kv/'], namespaces: [] },
  },
  {
    endpoint: `GET ${performance}/secondary/dynamic-filter/:id`,
    call: (client) => client.performance.secondary.dynamicFilter(ID),
    reply: { json: dynamic },
    result: { mounts: ['ns1/kv/'], namespaces: [] },
  },
  {
    endpoint: `POST ${performance}/secondary/generate-public-key`,
    call: (client) => client.performance.secondary.generatePublicKey(),
    body: {},
    reply: { json: { data: { secondary_public_key: 'PUBLIC' } } },
    result: { publicKey: 'PUBLIC' },
  },
  {
    endpoint: `POST ${performance}/secondary/enable`,
    call: (client) => client.performance.secondary.enable({ token, caFile: '/ca.pem' }),
    body: { token: 'activation', ca_file: '/ca.pem' },
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${performance}/secondary/promote`,
    call: (client) => client.performance.secondary.promote({ primaryClusterAddr: 'https://lb:8201', force: true }),
    body: { primary_cluster_addr: 'https://lb:8201', force: true },
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${performance}/secondary/disable`,
    call: (client) => client.performance.secondary.disable({}),
    body: {},
    reply: accepted,
    result: withWarning,
  },
  {
    endpoint: `POST ${performance}/secondary/update-primary`,
    call: (client) => client.performance.secondary.updatePrimary({ updatePrimaryAddrs: ['https://b:8201'] }),
    body: { update_primary_addrs: ['https://b:8201'] },
    reply: accepted,
    result: withWarning,
  },
];

describe('the 34 endpoints', () => {
  const cluster = new ScriptedCluster();
  let node: ScriptedServer;
  let client: ServiceClient;

  beforeEach(async () => {
    node = (await cluster.node()).active();
    client = cluster.client([node.address]);
  });
  afterEach(() => cluster.release());

  it('are all in the table below, each once', () => {
    expect(ROWS.map((row) => row.endpoint).sort()).toEqual([...INTERFACE].sort());
    expect(new Set(INTERFACE).size).toBe(34);
  });

  it.each(ROWS)('$endpoint: method, path, body and answer', async ({ endpoint, call, body, reply, result }) => {
    const path = endpoint.replace(' /', ' ').replace(':id', encodeURIComponent(ID));
    node.on(path, reply);

    const outcome = await call(client);

    expect(outcome).toMatchObject(result as object);
    expect(node.calls).toEqual([path]);
    const sent = node.requests.at(-1);
    expect(sent?.body === '' ? undefined : JSON.parse(sent?.body ?? '')).toEqual(body);
    expect(sent?.headers['x-vault-request']).toBe('true');
    expect(sent?.headers).not.toHaveProperty('x-vault-namespace');
    expect(sent?.headers).not.toHaveProperty('x-vault-token');
  });

  it('send the token of the call as X-Vault-Token and nowhere else', async () => {
    const secret = new Secret('service-token', 'hvs.CANARYcanaryCANARYcanary');
    for (const { endpoint, call, reply } of ROWS) {
      node.on(endpoint.replace(' /', ' ').replace(':id', encodeURIComponent(ID)), reply);
      await call(withToken(client, secret));
    }
    const sent = node.requests.filter(({ path }) => path !== '/v1/sys/leader');
    expect(sent).toHaveLength(34);
    expect(sent.every(({ headers }) => headers['x-vault-token'] === secret.reveal())).toBe(true);
    expect(sent.some(({ path, body }) => `${path}${body}`.includes('CANARY'))).toBe(false);
  });
});

/** The same client with the token added to whatever options a call has: the last argument of every endpoint. */
function withToken<T extends object>(target: T, secret: Secret): T {
  return new Proxy(target, {
    get(object, name) {
      const member: unknown = Reflect.get(object, name, object);
      if (typeof member === 'object' && member !== null) return withToken(member, secret);
      if (typeof member !== 'function') return member;
      return (...parameters: unknown[]): unknown => {
        const position = Math.max(member.length - 1, parameters.length);
        const all = [...parameters, ...Array<undefined>(position - parameters.length), { token: secret }];
        return Reflect.apply(member, object, all);
      };
    },
  });
}
