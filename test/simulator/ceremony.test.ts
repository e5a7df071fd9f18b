import { generateKey } from 'openpgp';
import { startSimulatedService, type SimulatedCluster, type SimulatedService } from '../../src/simulator';
import { converse, decoded, recordedTurns } from '../real/conversation';
import { converseOnLeadership } from '../real/leadership';
import { call, deployment, eventually, persistently } from './client';
import type { Nodes } from '../real/real-nodes';
import { activeNode } from '../real/real-service';

const DR = 'sys/replication/dr/secondary';
const BASE = `${DR}/generate-operation-token`;

let service: SimulatedService;
let east: SimulatedCluster;
let west: SimulatedCluster;
async function start(version?: string): Promise<void> {
  const topology = deployment();
  service = await startSimulatedService({
    ...topology,
    clusters: topology.clusters.map((cluster) => ({ ...cluster, ...(version && { version }) })),
  });
  [east, west] = [service.cluster('east'), service.cluster('west')];
}
afterEach(() => service.stop());

const pgpKeyOf = ({ publicKey }: { readonly publicKey: { write(): Uint8Array } }) =>
  Buffer.from(publicKey.write()).toString('base64');

/** What is done to the nodes of a real cluster, done to those of a simulated one. */
function nodesOf(cluster: SimulatedCluster): Nodes {
  const { addresses } = cluster;
  const indexOf = (node: string) => addresses.indexOf(node);
  const active = () => activeNode(cluster);
  const lead = async (node: string) => {
    if ((await active()) === node) return;
    cluster.leaderChange(indexOf(node));
    expect(await active()).toBe(node);
  };
  const seal = async () => {
    const node = await active();
    cluster.sealNode(indexOf(node));
    return node;
  };
  const restart = async (node: string) => {
    await cluster.killNode(indexOf(node));
    await cluster.startNode(indexOf(node), { sealed: true });
  };
  return { addresses, active, lead, seal, restart, unseal: async (node) => cluster.unsealNode(indexOf(node)) };
}

/** The whole ceremony in its one-time password form. */
async function operationToken(header?: string): Promise<string> {
  const token = header === undefined ? {} : { token: header };
  const started = await call(west, 'POST', `${BASE}/attempt`, token);
  let encoded = '';
  for (const key of west.keyShares.slice(0, 3)) {
    const body = { key, nonce: started.textAt('nonce') };
    encoded = (await call(west, 'POST', `${BASE}/update`, { ...token, body })).textAt('encoded_token');
  }
  return decoded(encoded, started.textAt('otp'));
}

describe('compared with the answers of a real server', () => {
  beforeEach(() => start());

  it('answers right calls and wrong ones', async () => {
    const pgpKey = pgpKeyOf(await generateKey({ userIDs: [{ name: 'ceremony' }], format: 'object' }));
    const { turns, token } = await converse({ address: east.apiAddress, keyShares: east.keyShares, pgpKey });
    expect(turns).toEqual(recordedTurns());
    expect(east.issuedSecrets).toContain(token);
  });

  it('answers as nodes do with changes of the leader, sealed nodes, and none that leads', async () => {
    const partner = { nodes: nodesOf(east), keyShares: east.keyShares };
    const { turns, token } = await converseOnLeadership(partner);
    expect(turns).toEqual(recordedTurns('leadership-1.21.4.json'));
    expect(east.issuedSecrets).toContain(token);
  });
});

it('an operation token works on its own cluster while that is a DR secondary, and is valid again after a demotion', async () => {
  await start();
  const token = await operationToken();
  expect(token).toMatch(/^hvs\.[A-Za-z0-9]{24}$/);
  const body = { dr_operation_token: token };
  const statusOf = async (cluster: SimulatedCluster, path: string, more = {}) =>
    (await persistently(() => call(cluster, 'POST', path, { body, ...more }))).status;
  const remove = (cluster = west) => statusOf(cluster, `${DR}/operation-token/delete`);
  expect(await remove(service.cluster('south'))).toBe(403);
  // The harsh reading: a Merkle check wants it in the header too.
  expect([await statusOf(west, `${DR}/merkle-check`), await statusOf(west, `${DR}/merkle-check`, { token })]).toEqual([
    403, 200,
  ]);
  expect(await statusOf(west, `${DR}/promote`)).toBe(200);
  expect(await remove()).toBe(400);
  expect(await statusOf(west, 'sys/replication/dr/primary/demote', { token: west.rootToken })).toBe(200);
  expect([await remove(), await remove()]).toEqual([204, 403]);
});

it('shares that are given at once are processed one after the other, in the one slot that root tokens have too', async () => {
  await start();
  const nonce = (await call(west, 'POST', `${BASE}/attempt`)).textAt('nonce');
  expect((await call(west, 'GET', 'sys/generate-root/attempt')).at('nonce')).toBe(nonce);
  const keys = west.keyShares.slice(0, 4);
  const mixed = await call(west, 'POST', 'sys/generate-root/update', { body: { key: keys[0], nonce } });
  expect(mixed.textAt('errors', 0)).toContain('incorrect strategy supplied');
  const given = await Promise.all(keys.map((key) => call(west, 'POST', `${BASE}/update`, { body: { key, nonce } })));
  expect(given.map(({ status }) => status).sort()).toEqual([200, 200, 200, 400]);
  expect(west.snapshotState().operationTokens).toBe(1);
});

it('from 2.0 on a ceremony needs a token of a kind that a DR secondary accepts, or a configuration that opens it', async () => {
  await start('2.0.0+ent');
  const ordinary = east.createToken({ policies: ['root-like'] });
  east.writePolicy('ceremony', [{ path: `${BASE}/*`, capabilities: ['read', 'update', 'delete'] }]);
  const batch = east.createToken({ policies: ['ceremony'], type: 'batch' });
  await eventually(() => west.snapshotState().dr.merkleRoot === east.snapshotState().dr.merkleRoot);
  const look = async (token?: string) =>
    (await call(west, 'GET', `${BASE}/attempt`, token === undefined ? {} : { token })).status;
  expect([await look(), await look(ordinary), await look(batch), await look(east.rootToken)]).toEqual([
    403, 403, 200, 200,
  ]);
  expect(await operationToken(batch)).toMatch(/^hvs\./);
  west.unauthenticatedAccess = ['generate-operation-token'];
  expect(await look()).toBe(200);
});
