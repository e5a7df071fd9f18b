/** Every endpoint of the interface document is in the client, with its method, path, body and answer. */
import type { ServiceClient } from '../../src/vault';
import { Secret } from '../../src/secret';
import { INTERFACE_ROWS } from '../support/endpoint-page';
import { openNode } from './support/scripted-cluster';
import type { ScriptedReply, ScriptedServer } from './support/scripted-server';

type Call = (client: ServiceClient, options: { readonly token: Secret }) => Promise<unknown>;
type Row = [endpoint: string, call: Call, sent?: unknown, result?: object, reply?: ScriptedReply];

/** Where nothing else is given the service takes it, says so, and has no data to return. */
const ACCEPTED: ScriptedReply = { json: { data: null, wrap_info: null, warnings: ['It takes a while.'] } };

const ID = 'west/1 ü';
const drOperationToken = new Secret('operation-token', 'dr-token');
const asDr = { dr_operation_token: 'dr-token' };
const token = new Secret('activation-token', 'activation');
const key = new Secret('key-share', 'share');
const disabled = { json: { data: { mode: 'disabled' } } };
const publicKey = [{ publicKey: 'PUBLIC' }, { json: { data: { secondary_public_key: 'PUBLIC' } } }] as const;
/** The service has nothing to say. */
const silent = [undefined, undefined, { status: 204 }] as const;
const attempt = { nonce: 'n-1', started: true, progress: 1, required: 3, complete: false, encoded_token: '' };
const filter = { mode: 'deny', paths: ['kv/'] } as const;
const dynamic = { dynamic_filtered_mounts: ['ns1/kv/'], dynamic_filtered_namespaces: null };
const visible = { mounts: ['ns1/kv/'], namespaces: [] };
const join = { primaryApiAddr: 'https://a:8200', caFile: '/ca.pem', caPath: '/ca' };
const joinBody = { primary_api_addr: 'https://a:8200', ca_file: '/ca.pem', ca_path: '/ca' };
const wrapped = { data: null, wrap_info: { token: 'x.y.z', ttl: 1800 } };
const primaryClusterAddr = 'https://lb:8201';
const atLb = { primary_cluster_addr: primaryClusterAddr };

/** Sections 4.1 and 4.2 of the interface document, as they are written there. */
const DR = '/sys/replication/dr';
const DR_ATTEMPT = `${DR}/secondary/generate-operation-token`;
const ON_DR: readonly Row[] = [
  [`GET ${DR}/status`, ({ dr }, o) => dr.status(o), undefined, { mode: 'disabled' }, disabled],
  [`POST ${DR}/primary/enable`, ({ dr }, o) => dr.primary.enable({ primaryClusterAddr }, o), atLb],
  [`POST ${DR}/primary/demote`, ({ dr }, o) => dr.primary.demote(o), {}],
  [`POST ${DR}/primary/disable`, ({ dr }, o) => dr.primary.disable(o), {}],
  [
    `POST ${DR}/primary/secondary-token`,
    ({ dr }, o) => dr.primary.secondaryToken({ id: ID, ttl: '10m', secondaryPublicKey: 'PUBLIC' }, o),
    { id: ID, ttl: '10m', secondary_public_key: 'PUBLIC' },
    { form: 'encrypted' },
    { json: { data: { token: 'ENCRYPTED' }, wrap_info: null } },
  ],
  [`POST ${DR}/primary/revoke-secondary`, ({ dr }, o) => dr.primary.revokeSecondary({ id: ID }, o), { id: ID }],
  [`POST ${DR}/secondary/generate-public-key`, ({ dr }, o) => dr.secondary.generatePublicKey(o), {}, ...publicKey],
  [
    `POST ${DR}/secondary/enable`,
    ({ dr }, o) => dr.secondary.enable({ token, ...join }, o),
    { token: 'activation', ...joinBody },
  ],
  [
    `POST ${DR}/secondary/promote`,
    ({ dr }, o) => dr.secondary.promote({ drOperationToken, primaryClusterAddr, force: false }, o),
    { ...asDr, ...atLb, force: false },
  ],
  [`POST ${DR}/secondary/disable`, ({ dr }, o) => dr.secondary.disable({ drOperationToken }, o), asDr],
  [
    `POST ${DR}/secondary/update-primary`,
    ({ dr }, o) => dr.secondary.updatePrimary({ drOperationToken, token, ...join }, o),
    { ...asDr, token: 'activation', ...joinBody },
  ],
  [
    `GET ${DR_ATTEMPT}/attempt`,
    ({ dr }, o) => dr.secondary.generateOperationToken.readAttempt(o),
    undefined,
    { nonce: 'n-1', started: true, progress: 1, required: 3, complete: false, pgpFingerprint: 'ab12' },
    { json: { ...attempt, pgp_fingerprint: 'AB12' } },
  ],
  [
    `POST ${DR_ATTEMPT}/attempt`,
    ({ dr }, o) => dr.secondary.generateOperationToken.startAttempt({ pgpKey: 'PGP' }, o),
    { pgp_key: 'PGP' },
    { nonce: 'n-1', progress: 0 },
    { json: { data: { ...attempt, progress: 0 } } },
  ],
  [`DELETE ${DR_ATTEMPT}/attempt`, ({ dr }, o) => dr.secondary.generateOperationToken.cancelAttempt(o), ...silent],
  [
    `POST ${DR_ATTEMPT}/update`,
    ({ dr }, o) => dr.secondary.generateOperationToken.update({ key, nonce: 'n-1' }, o),
    { key: 'share', nonce: 'n-1' },
    { complete: true },
    { json: { ...attempt, progress: 3, complete: true, encoded_token: 'ENCODED' } },
  ],
  [
    `POST ${DR}/secondary/operation-token/delete`,
    ({ dr }, o) => dr.secondary.deleteOperationToken({ drOperationToken }, o),
    asDr,
  ],
  [
    `POST ${DR}/secondary/reindex`,
    ({ dr }, o) => dr.secondary.reindex({ drOperationToken, diff: true, force: false, skipFlush: true }, o),
    { ...asDr, diff: true, force: false, skip_flush: true },
    undefined,
    { ...ACCEPTED, status: 202 },
  ],
  [
    `POST ${DR}/secondary/merkle-check`,
    ({ dr }, o) => dr.secondary.merkleCheck({ drOperationToken }, o),
    asDr,
    { healthy: true, subtrees: [] },
    { json: { data: { merkle_corruption_report: { corrupted_root: false, corrupted_tree_map: null } } } },
  ],
];

const PERFORMANCE = '/sys/replication/performance';
const FILTER = `${PERFORMANCE}/primary/paths-filter/:id`;
const ON_PERFORMANCE: readonly Row[] = [
  [`GET ${PERFORMANCE}/status`, (it, o) => it.performance.status(o), undefined, { mode: 'disabled' }, disabled],
  [`POST ${PERFORMANCE}/primary/enable`, (it, o) => it.performance.primary.enable({}, o), {}],
  [`POST ${PERFORMANCE}/primary/demote`, (it, o) => it.performance.primary.demote(o), {}],
  [`POST ${PERFORMANCE}/primary/disable`, (it, o) => it.performance.primary.disable(o), {}],
  [
    `POST ${PERFORMANCE}/primary/secondary-token`,
    (it, o) => it.performance.primary.secondaryToken({ id: ID }, o),
    { id: ID },
    { form: 'wrapped' },
    { json: wrapped },
  ],
  [
    `POST ${PERFORMANCE}/primary/revoke-secondary`,
    (it, o) => it.performance.primary.revokeSecondary({ id: ID }, o),
    { id: ID },
  ],
  [`POST ${FILTER}`, (it, o) => it.performance.primary.pathsFilter.write({ id: ID, ...filter }, o), filter],
  [`GET ${FILTER}`, (it, o) => it.performance.primary.pathsFilter.read(ID, o), undefined, filter, { json: filter }],
  [`DELETE ${FILTER}`, (it, o) => it.performance.primary.pathsFilter.delete(ID, o), ...silent],
  [
    `GET ${PERFORMANCE}/primary/dynamic-filter/:id`,
    (it, o) => it.performance.primary.dynamicFilter(ID, o),
    undefined,
    visible,
    { json: { data: dynamic } },
  ],
  [
    `GET ${PERFORMANCE}/secondary/dynamic-filter/:id`,
    (it, o) => it.performance.secondary.dynamicFilter(ID, o),
    undefined,
    visible,
    { json: dynamic },
  ],
  [
    `POST ${PERFORMANCE}/secondary/generate-public-key`,
    (it, o) => it.performance.secondary.generatePublicKey(o),
    {},
    ...publicKey,
  ],
  [
    `POST ${PERFORMANCE}/secondary/enable`,
    (it, o) => it.performance.secondary.enable({ token, caFile: '/ca.pem' }, o),
    { token: 'activation', ca_file: '/ca.pem' },
  ],
  [
    `POST ${PERFORMANCE}/secondary/promote`,
    (it, o) => it.performance.secondary.promote({ primaryClusterAddr, force: true }, o),
    { ...atLb, force: true },
  ],
  [`POST ${PERFORMANCE}/secondary/disable`, (it, o) => it.performance.secondary.disable({}, o), {}],
  [
    `POST ${PERFORMANCE}/secondary/update-primary`,
    (it, o) => it.performance.secondary.updatePrimary({ updatePrimaryAddrs: ['https://b:8201'] }, o),
    { update_primary_addrs: ['https://b:8201'] },
  ],
];
const ROWS = [...ON_DR, ...ON_PERFORMANCE];

describe('the 34 endpoints', () => {
  let node: ScriptedServer;
  let client: ServiceClient;
  const cluster = openNode((...opened) => ([node, client] = opened));

  it('are all in the table below, each once', () => {
    const listed = ROWS.map(([endpoint]) => endpoint);
    expect(listed.sort()).toEqual(INTERFACE_ROWS.map(({ endpoint }) => endpoint).sort());
    expect([ON_DR.length, ON_PERFORMANCE.length, new Set(listed).size]).toEqual([18, 16, 34]);
  });

  it.each(ROWS)(
    '%s: method, path, body and answer, with the token in its header and nowhere else',
    async (endpoint, call, body, result = undefined, reply = ACCEPTED) => {
      const path = endpoint.replace(' /', ' ').replace(':id', encodeURIComponent(ID));
      node.on(path, reply);
      const header = new Secret('service-token', 'hvs.CANARYcanaryCANARYcanary');

      const read = await call(client, { token: header });
      if (result === undefined) expect(read).toBeUndefined();
      else expect(read).toMatchObject(result);
      // What the service warns of with an answer that has no data goes to the log.
      expect(cluster.warnings.join()).toMatch(reply.json === ACCEPTED.json ? /: It takes a while\.$/ : /^$/);

      expect(node.calls).toEqual([path]);
      const sent = node.requests.at(-1);
      expect(sent?.body === '' ? undefined : JSON.parse(sent?.body ?? '')).toEqual(body);
      expect(sent?.headers).toMatchObject({ 'x-vault-request': 'true', 'x-vault-token': header.reveal() });
      expect(sent?.headers).not.toHaveProperty('x-vault-namespace');
      expect(`${sent?.path}${sent?.body}`).not.toContain('CANARY');
    },
  );
});
