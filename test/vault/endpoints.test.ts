/** Every endpoint of the interface document is in the client, with its method, path, body and answer. */
import type { ServiceClient } from '../../src/vault';
import { Secret } from '../../src/secret';
import { INTERFACE_ROWS } from '../support/endpoint-page';
import { ScriptedCluster } from './support/scripted-cluster';
import type { ScriptedReply, ScriptedServer } from './support/scripted-server';

interface Row {
  readonly endpoint: string;
  readonly call: (client: ServiceClient) => Promise<unknown>;
  /** Exact request body; absent for GET and DELETE. */
  readonly body: unknown;
  /** Members that the result must have. */
  readonly result: object;
  readonly reply: ScriptedReply;
}

const accepted = { status: 200, json: { data: null, wrap_info: null, warnings: ['It takes a while.'] } };
const withWarning = { warnings: ['It takes a while.'] };

/** Where nothing else is given it changes something, and the service says that it took it. */
function row(
  endpoint: string,
  call: Row['call'],
  body?: unknown,
  result: object = withWarning,
  reply: ScriptedReply = accepted,
): Row {
  return { endpoint, call, body, result, reply };
}

/** The service has nothing to say. */
function silent(endpoint: string, call: Row['call'], body?: unknown): Row {
  return row(endpoint, call, body, { warnings: [] }, { status: 204 });
}

const ID = 'west/1 ü';
const drOperationToken = new Secret('operation-token', 'dr-token');
const asDr = { dr_operation_token: 'dr-token' };
const token = new Secret('activation-token', 'activation');
const clientKeyPem = new Secret('private-key', 'pem');
const key = new Secret('key-share', 'share');
const disabled = { json: { data: { mode: 'disabled' } } };
const publicKey = { json: { data: { secondary_public_key: 'PUBLIC' } } };
const attempt = { nonce: 'n-1', started: true, progress: 1, required: 3, complete: false, encoded_token: '', otp: '' };
const filter = { mode: 'deny', paths: ['kv/'] } as const;
const dynamic = { dynamic_filtered_mounts: ['ns1/kv/'], dynamic_filtered_namespaces: null };
const visible = { mounts: ['ns1/kv/'], namespaces: [] };
const join = { primaryApiAddr: 'https://a:8200', caFile: '/ca.pem', caPath: '/ca' };
const joinBody = { primary_api_addr: 'https://a:8200', ca_file: '/ca.pem', ca_path: '/ca' };
const claims = { addr: 'https://a:8200', exp: 2, iat: 1 };
const wrapped = {
  data: null,
  wrap_info: { token: `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.y`, ttl: 1800 },
};
const undamaged = { merkle_corruption_report: { corrupted_root: false, corrupted_tree_map: null } };
const primaryClusterAddr = 'https://lb:8201';
const atLb = { primary_cluster_addr: primaryClusterAddr };

/** Sections 4.1 and 4.2 of the interface document, as they are written there. */
const DR = '/sys/replication/dr';
const ON_DR: readonly Row[] = [
  row(`GET ${DR}/status`, ({ dr }) => dr.status(), undefined, { mode: 'disabled' }, disabled),
  row(`POST ${DR}/primary/enable`, ({ dr }) => dr.primary.enable({ primaryClusterAddr }), atLb),
  row(`POST ${DR}/primary/demote`, ({ dr }) => dr.primary.demote(), {}),
  row(`POST ${DR}/primary/disable`, ({ dr }) => dr.primary.disable(), {}),
  row(
    `POST ${DR}/primary/secondary-token`,
    ({ dr }) => dr.primary.secondaryToken({ id: ID, ttl: '10m', secondaryPublicKey: 'PUBLIC' }),
    { id: ID, ttl: '10m', secondary_public_key: 'PUBLIC' },
    { form: 'encrypted' },
    { json: { data: { token: 'ENCRYPTED' }, wrap_info: null } },
  ),
  silent(`POST ${DR}/primary/revoke-secondary`, ({ dr }) => dr.primary.revokeSecondary({ id: ID }), { id: ID }),
  row(
    `POST ${DR}/secondary/generate-public-key`,
    ({ dr }) => dr.secondary.generatePublicKey(),
    {},
    { publicKey: 'PUBLIC' },
    publicKey,
  ),
  row(
    `POST ${DR}/secondary/enable`,
    ({ dr }) => dr.secondary.enable({ token, ...join, clientCertPem: 'cert', clientKeyPem }),
    { token: 'activation', ...joinBody, client_cert_pem: 'cert', client_key_pem: 'pem' },
  ),
  row(
    `POST ${DR}/secondary/promote`,
    ({ dr }) => dr.secondary.promote({ drOperationToken, primaryClusterAddr, force: false }),
    { ...asDr, ...atLb, force: false },
  ),
  row(`POST ${DR}/secondary/disable`, ({ dr }) => dr.secondary.disable({ drOperationToken }), asDr),
  row(
    `POST ${DR}/secondary/update-primary`,
    ({ dr }) => dr.secondary.updatePrimary({ drOperationToken, token, ...join }),
    { ...asDr, token: 'activation', ...joinBody },
  ),
  row(
    `GET ${DR}/secondary/generate-operation-token/attempt`,
    ({ dr }) => dr.secondary.generateOperationToken.readAttempt(),
    undefined,
    { nonce: 'n-1', started: true, progress: 1, required: 3, complete: false, pgpFingerprint: 'ab12' },
    { json: { ...attempt, pgp_fingerprint: 'AB12' } },
  ),
  row(
    `POST ${DR}/secondary/generate-operation-token/attempt`,
    ({ dr }) => dr.secondary.generateOperationToken.startAttempt({ pgpKey: 'PGP' }),
    { pgp_key: 'PGP' },
    { nonce: 'n-1', progress: 0 },
    { json: { data: { ...attempt, progress: 0 } } },
  ),
  silent(`DELETE ${DR}/secondary/generate-operation-token/attempt`, ({ dr }) =>
    dr.secondary.generateOperationToken.cancelAttempt(),
  ),
  row(
    `POST ${DR}/secondary/generate-operation-token/update`,
    ({ dr }) => dr.secondary.generateOperationToken.update({ key, nonce: 'n-1' }),
    { key: 'share', nonce: 'n-1' },
    { complete: true },
    { json: { ...attempt, progress: 3, complete: true, encoded_token: 'ENCODED' } },
  ),
  silent(
    `POST ${DR}/secondary/operation-token/delete`,
    ({ dr }) => dr.secondary.deleteOperationToken({ drOperationToken }),
    asDr,
  ),
  row(
    `POST ${DR}/secondary/reindex`,
    ({ dr }) => dr.secondary.reindex({ drOperationToken, diff: true, force: false, skipFlush: true }),
    { ...asDr, diff: true, force: false, skip_flush: true },
    withWarning,
    { ...accepted, status: 202 },
  ),
  row(
    `POST ${DR}/secondary/merkle-check`,
    ({ dr }) => dr.secondary.merkleCheck({ drOperationToken }),
    asDr,
    { healthy: true, subtrees: [] },
    { json: { data: undamaged } },
  ),
];

const PERFORMANCE = '/sys/replication/performance';
const ON_PERFORMANCE: readonly Row[] = [
  row(
    `GET ${PERFORMANCE}/status`,
    ({ performance }) => performance.status(),
    undefined,
    { mode: 'disabled' },
    disabled,
  ),
  row(`POST ${PERFORMANCE}/primary/enable`, ({ performance }) => performance.primary.enable({}), {}),
  row(`POST ${PERFORMANCE}/primary/demote`, ({ performance }) => performance.primary.demote(), {}),
  row(`POST ${PERFORMANCE}/primary/disable`, ({ performance }) => performance.primary.disable(), {}),
  row(
    `POST ${PERFORMANCE}/primary/secondary-token`,
    ({ performance }) => performance.primary.secondaryToken({ id: ID }),
    { id: ID },
    { form: 'wrapped', ttlSeconds: 1800, claims },
    { json: wrapped },
  ),
  row(
    `POST ${PERFORMANCE}/primary/revoke-secondary`,
    ({ performance }) => performance.primary.revokeSecondary({ id: ID }),
    { id: ID },
  ),
  silent(
    `POST ${PERFORMANCE}/primary/paths-filter/:id`,
    ({ performance }) => performance.primary.pathsFilter.write({ id: ID, ...filter }),
    filter,
  ),
  row(
    `GET ${PERFORMANCE}/primary/paths-filter/:id`,
    ({ performance }) => performance.primary.pathsFilter.read(ID),
    undefined,
    filter,
    { json: filter },
  ),
  silent(`DELETE ${PERFORMANCE}/primary/paths-filter/:id`, ({ performance }) =>
    performance.primary.pathsFilter.delete(ID),
  ),
  row(
    `GET ${PERFORMANCE}/primary/dynamic-filter/:id`,
    ({ performance }) => performance.primary.dynamicFilter(ID),
    undefined,
    visible,
    { json: { data: dynamic } },
  ),
  row(
    `GET ${PERFORMANCE}/secondary/dynamic-filter/:id`,
    ({ performance }) => performance.secondary.dynamicFilter(ID),
    undefined,
    visible,
    { json: dynamic },
  ),
  row(
    `POST ${PERFORMANCE}/secondary/generate-public-key`,
    ({ performance }) => performance.secondary.generatePublicKey(),
    {},
    { publicKey: 'PUBLIC' },
    publicKey,
  ),
  row(
    `POST ${PERFORMANCE}/secondary/enable`,
    ({ performance }) => performance.secondary.enable({ token, caFile: '/ca.pem' }),
    { token: 'activation', ca_file: '/ca.pem' },
  ),
  row(
    `POST ${PERFORMANCE}/secondary/promote`,
    ({ performance }) => performance.secondary.promote({ primaryClusterAddr, force: true }),
    { ...atLb, force: true },
  ),
  row(`POST ${PERFORMANCE}/secondary/disable`, ({ performance }) => performance.secondary.disable({}), {}),
  row(
    `POST ${PERFORMANCE}/secondary/update-primary`,
    ({ performance }) => performance.secondary.updatePrimary({ updatePrimaryAddrs: ['https://b:8201'] }),
    { update_primary_addrs: ['https://b:8201'] },
  ),
];
const ROWS = [...ON_DR, ...ON_PERFORMANCE];

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
    const listed = ROWS.map(({ endpoint }) => endpoint);
    expect(listed.sort()).toEqual(INTERFACE_ROWS.map(({ endpoint }) => endpoint).sort());
    expect([ON_DR.length, ON_PERFORMANCE.length, new Set(listed).size]).toEqual([18, 16, 34]);
  });

  it.each(ROWS)('$endpoint: method, path, body and answer', async ({ endpoint, call, body, reply, result }) => {
    const path = endpoint.replace(' /', ' ').replace(':id', encodeURIComponent(ID));
    node.on(path, reply);

    const outcome = await call(client);

    expect(outcome).toMatchObject(result);
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
