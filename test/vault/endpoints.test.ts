/** Every endpoint of the interface document is in the client, with its method, path, body and answer. */
import type { ReplicationKind, ServiceClient } from '../../src/vault';
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
const wrapped = [{ form: 'wrapped' }, { json: { data: null, wrap_info: { token: 'x.y.z', ttl: 1800 } } }] as const;
const encrypted = [{ form: 'encrypted' }, { json: { data: { token: 'ENCRYPTED' }, wrap_info: null } }] as const;
const primaryClusterAddr = 'https://lb:8201';
const atLb = { primary_cluster_addr: primaryClusterAddr };

/** Sections 4.1 and 4.2 of the interface document, as they are written there. */
const inBothKinds = (kind: ReplicationKind): readonly Row[] => {
  const base = `/sys/replication/${kind}`;
  const [auth, asAuth] = kind === 'dr' ? [{ drOperationToken }, asDr] : [{}, {}];
  const updatePrimaryAddrs = ['https://b:8201'];
  return [
    [`GET ${base}/status`, (it, o) => it[kind].status(o), undefined, { mode: 'disabled' }, disabled],
    [`POST ${base}/primary/enable`, (it, o) => it[kind].primary.enable({ primaryClusterAddr }, o), atLb],
    [`POST ${base}/primary/demote`, (it, o) => it[kind].primary.demote(o), {}],
    [`POST ${base}/primary/disable`, (it, o) => it[kind].primary.disable(o), {}],
    [
      `POST ${base}/primary/secondary-token`,
      (it, o) => it[kind].primary.secondaryToken({ id: ID, ttl: '10m', secondaryPublicKey: 'PUBLIC' }, o),
      { id: ID, ttl: '10m', secondary_public_key: 'PUBLIC' },
      ...(kind === 'dr' ? encrypted : wrapped),
    ],
    [`POST ${base}/primary/revoke-secondary`, (it, o) => it[kind].primary.revokeSecondary({ id: ID }, o), { id: ID }],
    [
      `POST ${base}/secondary/generate-public-key`,
      (it, o) => it[kind].secondary.generatePublicKey(o),
      {},
      ...publicKey,
    ],
    [
      `POST ${base}/secondary/enable`,
      (it, o) => it[kind].secondary.enable({ token, ...join }, o),
      { token: 'activation', ...joinBody },
    ],
    [
      `POST ${base}/secondary/promote`,
      (it, o) => it[kind].secondary.promote({ ...auth, primaryClusterAddr, force: false }, o),
      { ...asAuth, ...atLb, force: false },
    ],
    [`POST ${base}/secondary/disable`, (it, o) => it[kind].secondary.disable(auth, o), asAuth],
    [
      `POST ${base}/secondary/update-primary`,
      (it, o) =>
        it[kind].secondary.updatePrimary(
          { ...auth, ...(kind === 'dr' ? { token, ...join } : { updatePrimaryAddrs }) },
          o,
        ),
      {
        ...asAuth,
        ...(kind === 'dr' ? { token: 'activation', ...joinBody } : { update_primary_addrs: updatePrimaryAddrs }),
      },
    ],
  ];
};

const DR = '/sys/replication/dr';
const DR_ATTEMPT = `${DR}/secondary/generate-operation-token`;
const ON_DR: readonly Row[] = [
  ...inBothKinds('dr'),
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
  ...inBothKinds('performance'),
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
