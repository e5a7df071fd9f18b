/** Step 0 of a switchover, on a simulated deployment: each state that is refused or told, with what was observed and needed. */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { planDigest } from '../../activities/approvals/planning';
import { freeSlot } from '../../activities/ceremony/token-source';
import type { Check } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { JsonObject, JsonValue } from '../../src/simulator/messages';
import { DEPLOYMENT, failing, holding, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { workersToken } from '../support/least-privilege';

const DR_SECONDARY = 'sys/replication/dr/secondary';
const ATTEMPT = `${DR_SECONDARY}/generate-operation-token/attempt`;
const BATCH = 'TEST_SWITCHOVER_PLAN_BATCH';
const VERSION = '1.21.4+ent';

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  topology: {
    readings: { leaderChangeChance: 0 },
    clusters: ['east', 'west', 'north'].map((name) => ({
      ...{ name, nodes: name === 'north' ? 1 : 3, version: VERSION, seal: { shares: 5, threshold: 3 } },
    })),
    dr: [{ primary: 'east', secondaries: ['west', 'north'] }],
  },
  limits: { lagWalEntries: 10 },
  cluster: (name) => (name === 'west' ? { batchToken: { env: BATCH } } : {}),
});
beforeAll(() => {
  const rules = mayDo(['promote', 'update-primary']);
  bench.cluster('east').writePolicy('dr-operations', rules);
  bench.cluster('east').writePolicy('with-slot', [...rules, { path: ATTEMPT, capabilities: ['read'] }]);
});
afterAll(() => {
  delete process.env[BATCH];
});
afterEach(async () => {
  bench.service.faults.clear();
  for (const cluster of bench.service.clusters.values()) {
    cluster.version = VERSION;
    await cluster.restart();
    for (const { index } of cluster.nodes) cluster.unsealNode(index);
  }
  await writeFile(join(bench.directory, 'token'), workersToken(bench.cluster('east'), bench.inventory, DEPLOYMENT));
  // Each has an active node again.
  bench.service.advanceClock(2_000);
});

const mayDo = (calls: readonly string[]) =>
  calls.map((call) => ({ path: `${DR_SECONDARY}/${call}`, capabilities: ['update'] }));

const HEALTH = { initialized: true, sealed: false, standby: true, version: VERSION, server_time_utc: 1_700_000_000 };

type Arrange = () => void | Promise<void>;
type Input = Readonly<Record<string, unknown>>;

/** A cluster tells another status than it has: members of its answer about DR replication. */
const tells =
  (cluster: string, change: JsonObject, kind: ReplicationKind = 'dr'): Arrange =>
  async () => {
    const { nodes, leadership } = bench.cluster(cluster);
    const { address } = leadership.active ?? nodes[0] ?? {};
    const { data } = (await (await fetch(`${address}/v1/sys/replication/status`)).json()) as {
      data: Record<ReplicationKind, JsonObject>;
    };
    const changed = { ...data, [kind]: { ...data[kind], ...change } };
    answers(cluster, 'GET /v1/sys/replication/status', { data: changed });
  };

function answers(cluster: string, endpoint: string, body: JsonValue, status = 200): void {
  bench.always(endpoint, { status, body }, cluster);
}

/** West lacks so many WAL entries of east. */
async function lagging(entries: number): Promise<void> {
  await tells('east', { last_dr_wal: 1_000 })();
  await tells('west', { last_remote_wal: 1_000 - entries, merkle_root: 'x' })();
}

/** The next answer about the health of a node of west, which is one of three. */
function oneNodeTells(change: JsonObject): void {
  const action = { status: 200, body: { ...HEALTH, ...change } };
  bench.service.faults.add({ cluster: 'west', endpoint: 'GET /v1/sys/health', action });
}

const MOUNT = 'GET /v1/sys/internal/ui/mounts/kv/runbooks-marker';
const mounted = (told: JsonObject): Arrange => {
  return () => answers('east', MOUNT, { data: { path: 'kv/', type: 'kv', options: { version: '2' }, ...told } });
};
const slot = (attempt: JsonObject): Arrange => {
  return () =>
    answers('west', `GET /v1/${ATTEMPT}`, { started: false, progress: 0, required: 3, complete: false, ...attempt });
};
const versions = (east: string, west: string, north = VERSION): Arrange => {
  return () => {
    for (const [name, version] of Object.entries({ east, west, north })) bench.cluster(name).version = version;
  };
};
/** The workers' credential is another token of the primary. */
const credential =
  (grants: { path: string; capabilities: string[] }[], ttlMs?: number): Arrange =>
  async () => {
    const east = bench.cluster('east');
    const policy = `policy-${randomUUID()}`;
    east.writePolicy(policy, grants);
    const token = east.createToken({ policies: [policy], ...(ttlMs === undefined ? {} : { ttlMs }) });
    bench.canary(policy, token);
    await writeFile(join(bench.directory, 'token'), token);
  };
const batch =
  (token: { readonly policies?: string[]; readonly type?: 'batch' | 'service'; readonly ttlMs?: number }): Arrange =>
  () => {
    const made = { policies: ['dr-operations'], type: 'batch' as const, ttlMs: 7_200_000, ...token };
    process.env[BATCH] = bench.cluster('east').createToken(made);
    bench.canary(`batch ${randomUUID()}`, process.env[BATCH]);
  };
const both =
  (...arranged: readonly Arrange[]): Arrange =>
  async () => {
    for (const each of arranged) await each();
  };

const assess = (input: Input = {}, ownFingerprint?: string) =>
  bench.call('assessDrSwitchover', { input: bench.input(input), ownFingerprint });
const BY_BATCH = { tokenSource: 'batch' };
const ALL = [{ path: '*', capabilities: ['create', 'read', 'update', 'delete', 'list', 'sudo'] }];

const twoSealed: Arrange = () => [1, 2].forEach((node) => bench.cluster('west').sealNode(node));
const nobodyLeads: Arrange = () => {
  answers('west', 'GET /v1/sys/leader', {}, 503);
  answers('west', 'GET /v1/sys/health', { ...HEALTH, standby: true }, 472);
};
const full = () =>
  answers('east', 'POST /v1/kv/data/runbooks-marker-after', { errors: ['no space left on device'] }, 500);
const slotUnread: Arrange = () => answers('west', `GET /v1/${ATTEMPT}`, {}, 500);
const slotRefuses: Arrange = () => answers('west', `GET /v1/${ATTEMPT}`, {}, 403);
const newVersions = versions('2.0.3+ent', '2.0.3+ent');
const disconnected = tells('west', { primaries: [{ connection_status: 'disconnected' }] });
const theirs = { started: true, pgp_fingerprint: 'theirs', progress: 1 };
const readsMarkers = credential([{ path: 'kv/data/*', capabilities: ['read'] }]);
const updatesPrimary = credential([{ path: 'sys/replication/dr/primary/*', capabilities: ['update'] }]);
const unknownBatch: Arrange = () => void (process.env[BATCH] = `hvb.${randomUUID()}`);
const MAY = 'credential may call';
const CAN_FOLLOW = 'other secondaries can follow';
const NEWER = '1.21.5+ent';
const ACKNOWLEDGED = { acknowledgeNewerSecondary: true };
const TAKEN = 'batch token accepted by the secondary';
const SILENT = 'UNREACHABLE|CONNECTION_LOST|NO_ACTIVE';

/** Check, its cluster, the state in which it is not ok, verdict, a part of what was observed, and the input. */
type Row = readonly [string, string | undefined, Arrange, Check['verdict'], string, Input?];
const NOT_OK: readonly Row[] = [
  ['every node answers', 'east', () => bench.cluster('east').killNode(2), 'warn', 'UNREACHABLE|CONNECTION_LOST'],
  ['every node is unsealed', 'west', () => bench.cluster('west').sealNode(2), 'warn', 'sealed'],
  ['quorum', 'west', twoSealed, 'fail', '1 of 3'],
  ['every node is unsealed', 'west', twoSealed, 'fail', 'sealed'],
  ['one active node', 'west', nobodyLeads, 'fail', 'NO_ACTIVE_NODE'],
  ['DR primary', 'north', () => undefined, 'fail', 'secondary', { from: 'north' }],
  ['DR primary', 'east', tells('east', { state: 'idle' }), 'fail', 'idle'],
  ['DR secondary, streaming', 'west', tells('west', { state: 'merkle-diff' }), 'fail', 'merkle-diff'],
  ['same DR set', 'west', tells('west', { cluster_id: 'another' }), 'fail', 'another'],
  ['same DR set', 'north', tells('north', { cluster_id: 'another' }), 'warn', 'another'],
  ['one DR primary', undefined, tells('north', { mode: 'primary' }), 'fail', 'east, north'],
  ['connection alive by heartbeat', 'west', disconnected, 'fail', 'disconnected'],
  ['replication lag', 'west', tells('west', { last_remote_wal: 0, merkle_root: 'x' }), 'fail', 'last remote WAL 0'],
  ['replication lag', 'west', () => lagging(11), 'fail', '11 WAL entries'],
  ['versions in order', 'west', versions('1.21.5+ent', VERSION), 'fail', 'west 1.21.4'],
  ['versions in order', 'west', versions(VERSION, '1.21.5+ent'), 'fail', 'west 1.21.5'],
  ['versions in order', 'west', () => oneNodeTells({ version: '1.21.3+ent' }), 'fail', 'west .*1.21.3'],
  ['every node is unsealed', 'west', () => oneNodeTells({ initialized: false }), 'warn', 'unsealed'],
  [CAN_FOLLOW, 'north', versions(VERSION, NEWER), 'fail', 'north 1.21.4', ACKNOWLEDGED],
  [CAN_FOLLOW, 'north', versions(VERSION, VERSION, '1.21.3+ent'), 'warn', 'north 1.21.3'],
  ['no reindex under way', 'west', tells('west', { reindex_in_progress: true }), 'fail', 'in progress'],
  ['Merkle tree not corrupted', 'east', tells('east', { corrupted_merkle_tree: true }), 'fail', 'corrupted'],
  ['generation slot free', 'west', slot(theirs), 'fail', "somebody else's attempt with key theirs, progress 1 of 3"],
  ['generation slot free', 'west', slot({ started: true }), 'fail', "somebody else's attempt with a one-time password"],
  ['generation slot free', 'west', slotUnread, 'not-checkable', 'not'],
  ['enough key holders', 'west', slot({ required: 6 }), 'fail', '5 holders'],
  ['enough key holders', 'west', slotUnread, 'not-checkable', 'threshold'],
  [
    'credential works',
    'east',
    () => writeFile(join(bench.directory, 'token'), 'x'),
    'fail',
    'an expired token, or one that',
  ],
  ['credential lives long enough', 'east', credential(ALL, 600_000), 'fail', 's left'],
  [`${MAY} sys/replication/dr/primary/demote`, 'east', credential([]), 'fail', 'deny'],
  [`${MAY} sys/replication/dr/primary/revoke-secondary`, 'east', credential([]), 'fail', 'deny'],
  [`${MAY} sys/replication/dr/primary/secondary-token`, 'east', updatesPrimary, 'fail', 'update'],
  [`${MAY} kv/data/runbooks-marker`, 'east', readsMarkers, 'fail', 'read'],
  ['marker written and read back', 'east', readsMarkers, 'fail', 'kv/data/runbooks-marker-after: PERMISSION_DENIED'],
  ['marker written and read back', 'east', credential([]), 'fail', 'no such mount, or no right'],
  ['marker written and read back', 'east', () => answers('east', MOUNT, {}, 403), 'fail', 'no such mount, or no right'],
  ['marker written and read back', 'east', full, 'fail', 'answered "no space left on device", while reads'],
  ['marker written and read back', 'east', mounted({ type: 'ssh' }), 'fail', 'an engine of type ssh at kv/'],
  ['marker written and read back', 'east', mounted({ local: true }), 'fail', 'a local mount at kv/'],
  ['marker written and read back', 'east', mounted({ options: null }), 'fail', 'NOT_FOUND'],
  ['batch token', 'west', batch({ type: 'service' }), 'fail', 'service', BY_BATCH],
  ['batch token', 'west', unknownBatch, 'fail', 'not usable|DENIED', BY_BATCH],
  ['batch token lives long enough', 'west', batch({ ttlMs: 900_000 }), 'fail', 's left', BY_BATCH],
  ['batch token may promote and update-primary', 'west', batch({ policies: ['default'] }), 'fail', 'deny', BY_BATCH],
  [TAKEN, 'west', batch({}), 'not-checkable', 'before version 2.0', BY_BATCH],
  [TAKEN, 'west', both(batch({}), newVersions), 'not-checkable', 'its policy does not let it', BY_BATCH],
  [TAKEN, 'west', both(batch({ policies: ['with-slot'] }), newVersions, slotRefuses), 'fail', 'refused', BY_BATCH],
  [TAKEN, 'west', both(batch({}), newVersions, slotUnread), 'not-checkable', 'west could not be asked', BY_BATCH],
  ['other clusters can be read', 'north', () => bench.cluster('north').kill(), 'warn', SILENT],
];

it.each(NOT_OK.map((row, index) => ({ index, row })))('$row.0 ($row.1), row $index', async ({ row }) => {
  const [name, cluster, arrange, verdict, observed, input] = row;
  await arrange();
  const { preconditions } = await assess(input);
  const judged = preconditions.filter((each) => each.name === name && each.cluster === cluster);
  expect(judged).toEqual([expect.objectContaining({ verdict, observed: expect.stringMatching(observed) as string })]);
  expect(judged[0]?.needed).toBeTruthy();
  if (verdict !== 'not-checkable') expect(judged[0]?.next).toBeTruthy();
});

it('a DR secondary of another set is left to its own primary, and the plan says so', async () => {
  await tells('north', { cluster_id: 'another' })();
  const { route, plan } = await assess();
  expect(route?.otherDrSecondaries).toEqual([]);
  expect(plan?.text).not.toContain('north');
  const next = 'north is left unchanged: its set may have another primary. Correct drSets in the inventory.';
  expect(route?.findings).toMatchObject([{ code: 'may-not-follow', text: holding('"same DR set": another'), next }]);
});

it.each([
  ['is not usable', 'no-such-token', 'credential works'],
  ['may not let the old primary follow', 'powerless', 'credential may call sys/replication/dr/primary/secondary-token'],
])('a credential of its own for the new primary that %s is reported before the outage', async (_what, file, name) => {
  const west = bench.inventory.deployments.get(DEPLOYMENT)?.clusters.get('west') ?? {};
  const usual = { ...west };
  const powerless = bench.cluster('east').createToken({ policies: ['default'] });
  bench.canary('powerless', powerless);
  await writeFile(join(bench.directory, 'powerless'), powerless);
  Object.assign(west, { credential: { file: join(bench.directory, file) } });
  const { preconditions, route } = await assess().finally(() => Object.assign(west, usual));
  expect(preconditions).toContainEqual(expect.objectContaining({ name, cluster: 'west', verdict: 'warn' }));
  expect(route?.findings).toContainEqual(
    expect.objectContaining({ code: 'may-not-follow', text: holding(`west, "${name}"`) }),
  );
});

it.each(['east', 'west'])('%s is refused if another cluster answers than the inventory pins', async (name) => {
  const entry = bench.inventory.deployments.get(DEPLOYMENT)?.clusters.get(name) ?? {};
  const usual = { ...entry };
  Object.assign(entry, { clusterId: 'pinned' });
  const { preconditions } = await assess().finally(() => Object.assign(entry, { clusterId: undefined, ...usual }));
  expect(preconditions).toContainEqual({
    ...{ name: 'cluster ID', cluster: name, verdict: 'fail', observed: bench.cluster(name).clusterId },
    ...{ needed: holding('cluster ID pinned, as pinned in the inventory'), next: holding('correct clusterId.') },
  });
});

it('a candidate that is down is reported as down, without the consequences of that', async () => {
  await bench.cluster('west').kill();
  const failed = (await assess()).preconditions.filter(({ verdict }) => verdict === 'fail').map(({ name }) => name);
  expect(failed).toEqual(expect.arrayContaining(['one active node', 'quorum', 'every node answers']));
  for (const name of ['versions in order', 'same DR set', CAN_FOLLOW]) expect(failed).not.toContain(name);
});

it('an active node that the nodes agree on proves a quorum, although standbys sealed themselves after a join', async () => {
  const west = bench.cluster('west');
  for (const index of [1, 2]) west.node(index).sealed = true;
  const { preconditions } = await assess().finally(() => [1, 2].forEach((index) => west.unsealNode(index)));
  const of = (name: string) => preconditions.find((each) => each.name === name && each.cluster === 'west');
  expect(of('quorum')).toMatchObject({ verdict: 'ok', observed: `1 of 3, and ${west.node(0).address} is active` });
  expect(of('every node is unsealed')).toMatchObject({ verdict: 'warn' });
});

it('the requester is not among the people whose approval it waits for', async () => {
  const approvers = async (requestedBy: string) => (await assess({ requestedBy })).gates.plan?.approvers;
  expect(await approvers('olga')).toEqual(['grace', 'henry']);
  expect(await approvers('grace')).toEqual(['henry', 'olga']);
});

it('no change is planned for a cluster that is the primary already, and the plan says so', async () => {
  for (const more of [{}, { from: 'east' }]) {
    const { preconditions, plan } = await assess({ to: 'east', ...more });
    expect(preconditions).toMatchObject([
      { verdict: 'fail', next: holding('east is already the DR primary: there is nothing to do.') },
    ]);
    expect(plan).toBeUndefined();
  }
});

it('an attempt that nobody claims is for people to cancel: the plan says how', async () => {
  await slot(theirs)();
  const { preconditions } = await assess({ tokenSource: 'ceremony' });
  const next = (kind: string) =>
    `Ask its owner to finish or cancel it. If nobody claims it, run \`vault operator generate-root ${kind}-cancel\` on west, then start again.`;
  expect(preconditions.find(({ name }) => name === 'generation slot free')?.next).toBe(next('-dr-token '));
  const attempt = { started: true, progress: 0, required: 3 };
  const west = { cluster: 'west', attempt } as Parameters<typeof freeSlot>[0];
  expect(freeSlot(west, undefined, 'root-token').next).toBe(next(''));
});

const OK: readonly (readonly [string, Arrange, Input?, string?])[] = [
  ['everything in order', () => undefined],
  ['a batch token', batch({}), BY_BATCH],
  ['our own attempt in the slot', slot({ started: true, pgp_fingerprint: 'ours' }), {}, 'ours'],
  ['a lag at its limit', () => lagging(10)],
  [
    'nothing streamed yet, but equal roots',
    // West has the last plan's write beside the marker.
    both(() => bench.service.advanceClock(1_000), tells('west', { last_remote_wal: 0 })),
  ],
  ['a newer secondary, acknowledged', versions(VERSION, NEWER, NEWER), ACKNOWLEDGED],
  ['a credential with the rights and no more', credential(ALL)],
];

it.each(OK.map((row) => ({ row })))('$row.0 is no reason to refuse', async ({ row }) => {
  const [, arrange, input, ownFingerprint] = row;
  await arrange();
  const assessed = await assess(input, ownFingerprint);
  expect(failing(assessed)).toEqual([]);
  expect(assessed.plan).toBeDefined();
});

it('the digest of a plan is SHA-256 of its text, byte for byte', () => {
  expect(planDigest('')).toBe('47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU');
  expect(planDigest('{"a":1}')).not.toBe(planDigest('{"a": 1}'));
  expect(planDigest('ü')).toBe(planDigest('\u00fc'));
});
