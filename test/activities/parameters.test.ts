/** What an operator writes into the inventory or the input stands in the request; docs/endpoints.md records the names. */
import { createHash } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { runbookPlan } from '../../src/contracts/payloads';
import { DEPLOYMENT, failing, openBench } from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';

const KINDS = ['dr', 'performance'] as const;
const DENY = { mode: 'deny' as const, paths: ['us-customers/'] };

let bench: ActivityBench;
/** East is primary of west (DR) and europe (performance); the others replicate with nobody. */
openBench((opened) => (bench = opened), {
  topology: {
    mounts: ['kv/', 'us-customers/'],
    readings: { leaderChangeChance: 0 },
    clusters: ['east', 'west', 'europe', 'north', 'north2', 'asia', 'asia2', 'south'].map((name) => ({
      name,
      nodes: 1,
    })),
    performance: { primary: 'east', secondaries: [{ name: 'europe' }] },
    dr: [{ primary: 'east', secondaries: ['west'] }],
  },
  drSets: { main: ['east', 'west', 'north', 'north2'], eu: ['europe'], ap: ['asia'], ap2: ['asia2'], latin: ['south'] },
  deployment: { pathsFilters: { asia: 'none', asia2: 'none' } },
});

/** The bodies of the requests to the end of a path, as they left. */
const bodies: { readonly path: string; readonly body: Readonly<Record<string, unknown>> }[] = [];
const note = (message: unknown) => {
  const { path, body } = (message as { request: { path: string; body: unknown } }).request;
  if (Buffer.isBuffer(body)) bodies.push({ path, body: JSON.parse(body.toString()) as Record<string, unknown> });
};
beforeAll(() => subscribe('undici:request:create', note));
afterAll(() => unsubscribe('undici:request:create', note));
const lastBody = (end: string) => bodies.findLast(({ path }) => path.endsWith(end))?.body;

/** Members of a cluster of the inventory, or of its limits, from now on. */
function inventory(cluster: string, members: object): void {
  Object.assign(bench.inventory.deployments.get(DEPLOYMENT)?.clusters.get(cluster) ?? {}, members);
}

const asked = { deployment: DEPLOYMENT, reason: 'a test', requestedBy: 'olga' };
type Assessed = Parameters<ActivityBench['approved']>[0];
/** The secondary of each kind lost its primary, and follows nobody. */
function detach(kind: ReplicationKind): void {
  const secondary = bench.cluster(secondaryOf(kind));
  const role = secondary.effectiveRole(kind);
  if (role.mode !== 'secondary') throw new Error(`${secondary.name} is no secondary`);
  const gone = { ...role, primaryClusterAddress: 'https://10.9.9.9:8201', knownPrimaryAddresses: [] };
  secondary.setRole(kind, gone, bench.service.now());
  secondary.streams[kind].connected = false;
}

const secondaryOf = (kind: ReplicationKind) => (kind === 'dr' ? 'west' : 'europe');
const assessRepointing = (kind: ReplicationKind, more: object) => {
  const sides = { kind, primary: 'east', secondary: secondaryOf(kind) };
  return bench.assess('secondaryRepointing', { ...sides, tokenSource: 'ceremony', ...more });
};

/** The secondary lost its primary, and people approved that it is re-pointed. */
async function repointing(kind: ReplicationKind, more: object) {
  detach(kind);
  const assessed = await assessRepointing(kind, more);
  const token = kind === 'dr' ? await bench.operationToken('west') : undefined;
  const expected = kind === 'dr' ? undefined : { filter: 'none' as const };
  const target = { deployment: DEPLOYMENT, kind, primary: 'east', secondary: secondaryOf(kind), token, expected };
  return { assessed, input: { ...target, authority: await bench.approved(assessed, 'repoint') } };
}

const sentTo = (end: string) => bodies.filter(({ path }) => path.endsWith(end)).length;

describe.each(KINDS)('update-primary of kind %s', (kind) => {
  it('by a wrapped token with the API address, the CA and the TTL of the inventory', async () => {
    const apiAddressForPeers = bench.cluster('east').apiAddress;
    bench.limit({ activationTokenMs: 120_000 });
    const keys = sentTo('generate-public-key');
    for (const [member, other, sent] of [
      ['caFileOnPeers', 'caPathOnPeers', 'ca_file'],
      ['caPathOnPeers', 'caFileOnPeers', 'ca_path'],
    ] as const) {
      inventory('east', { apiAddressForPeers, [member]: '/etc/vault/ca', [other]: undefined });
      const { assessed, input } = await repointing(kind, { form: 'wrapped' });
      expect(assessed.route).toMatchObject({ form: 'token', activation: 'wrapped' });
      expect(await bench.call('updatePrimary', { ...input, by: 'token', form: 'wrapped' })).toMatchObject({ calls: 1 });
      const { ca_file, ca_path, primary_api_addr } = lastBody('update-primary') ?? {};
      expect(primary_api_addr).toBe(apiAddressForPeers);
      expect(sent === 'ca_file' ? [ca_file, ca_path] : [ca_path, ca_file]).toEqual(['/etc/vault/ca', undefined]);
    }
    expect(sentTo('generate-public-key')).toBe(keys);
    expect(lastBody(`${kind}/primary/secondary-token`)).toMatchObject({ ttl: '120s' });
  });

  it('by a public key alone, if that is requested: without one it is not sent', async () => {
    const endpoint = `POST /v1/sys/replication/${kind}/secondary/generate-public-key`;
    const fault = bench.always(endpoint, { status: 403 });
    const { input } = await repointing(kind, { form: 'public-key' });
    const ordered = { ...input, by: 'token', form: 'public-key' } as const;
    const sent = sentTo('update-primary');
    await bench.refused('updatePrimary', ordered, 'PERMISSION_DENIED');
    expect(sentTo('update-primary')).toBe(sent);
    fault.remove();
    await bench.call('updatePrimary', ordered);
    expect(lastBody('update-primary')).not.toHaveProperty('primary_api_addr');
  });

  it('by addresses that people gave and others approved; no others, not by old approvals, and not after a demotion', async () => {
    const { clusterAddress } = bench.cluster('east');
    const addresses = ['10.9.9.9:8201', clusterAddress];
    const { assessed, input } = await repointing(kind, { form: 'addresses', addresses });
    expect(assessed.plan?.text).toContain(`by the addresses ${addresses.join(', ')}`);
    const ordered = { ...input, by: 'addresses', addresses } as const;
    for (const others of [[clusterAddress], undefined])
      await bench.refusedUnsent('updatePrimary', { ...ordered, addresses: others }, 'NOT_APPROVED');
    bench.signaled('approve', input.authority.approvals, undefined, Date.now() - 24 * 3_600_000);
    const late = { about: 'approvals too old' };
    await bench.refusedUnsent('updatePrimary', ordered, 'NOT_APPROVED', { details: late });
    bench.history = { events: [] };
    expect(await bench.call('updatePrimary', ordered)).toMatchObject({ outcome: 'done', calls: 1 });
    expect(lastBody('update-primary')).toMatchObject({ update_primary_addrs: addresses });

    const secondary = bench.cluster(secondaryOf(kind));
    const role = secondary.effectiveRole(kind);
    if (role.mode !== 'secondary') throw new Error('no secondary');
    const demoted = { ...role, secondaryId: '', certificate: null, demoted: true, primaryClusterAddress: '' };
    secondary.setRole(kind, { ...demoted, knownPrimaryAddresses: [] }, bench.service.now());
    const failed = failing(await assessRepointing(kind, { form: 'addresses' })).map(({ name }) => name);
    expect(failed).toContain('attached before, and not demoted since');
    await bench.refusedUnsent('updatePrimary', ordered, 'PRECONDITION_FAILED');
    secondary.setRole(kind, role, bench.service.now());
  });
});

it('addresses are refused if the form is another one', () => {
  const input = { ...asked, kind: 'dr', primary: 'east', secondary: 'west', addresses: ['10.1.0.4:8201'] };
  const parses = (more: object) => RUNBOOK_INPUTS.secondaryRepointing.safeParse({ ...input, ...more }).success;
  expect([parses({}), parses({ form: 'addresses' })]).toEqual([false, true]);
  for (const bad of ['https://east.example/path', 'east', 'http://east:8201', 'east:8201/x'])
    expect(parses({ form: 'addresses', addresses: [bad] })).toBe(false);
});

it.each([
  ['dr', 'north', 'caFileOnPeers', 'ca_file'],
  ['dr', 'north2', 'caPathOnPeers', 'ca_path'],
  ['performance', 'asia', 'caPathOnPeers', 'ca_path'],
  ['performance', 'asia2', 'caFileOnPeers', 'ca_file'],
] as const)(
  'a wipe of kind %s by a wrapped token has the API address and the CA',
  async (kind, secondary, member, sent) => {
    const apiAddressForPeers = bench.cluster('east').apiAddress;
    inventory('east', { caFileOnPeers: undefined, caPathOnPeers: undefined, apiAddressForPeers, [member]: '/etc/ca' });
    const runbook = kind === 'dr' ? 'drSecondaryOnboarding' : 'performanceSecondaryOnboarding';
    const authority = await bench.authorityOf(runbook, { primary: 'east', secondary, form: 'wrapped' }, 'wipe');
    const joining = { deployment: DEPLOYMENT, kind, primary: 'east', secondary, authority, form: 'wrapped' } as const;
    const expected = kind === 'dr' ? undefined : { filter: 'none' as const };
    expect(await bench.call('enableSecondary', { ...joining, expected })).toMatchObject({ outcome: 'done' });
    expect(lastBody(`${kind}/secondary/enable`)).toMatchObject({
      primary_api_addr: apiAddressForPeers,
      [sent]: '/etc/ca',
    });
  },
);

it.each(KINDS)('a primary of kind %s advertises the address of the inventory', async (kind) => {
  inventory('south', { advertisedClusterAddress: 'https://lb.south.example:8201' });
  // Of the performance set east is the primary already.
  const east = bench.cluster('east').effectiveRole('performance');
  bench.cluster('east').setRole('performance', { mode: 'disabled' }, bench.service.now());
  const authority = await bench.authorityOf('primaryEnablement', { kind, cluster: 'south' }, 'plan');
  await bench.call('enablePrimary', { deployment: DEPLOYMENT, kind, cluster: 'south', authority });
  expect(lastBody(`${kind}/primary/enable`)).toEqual({ primary_cluster_addr: 'https://lb.south.example:8201' });
  bench.cluster('south').setRole('performance', { mode: 'disabled' }, bench.service.now());
  bench.cluster('east').setRole('performance', east, bench.service.now());
});

describe('a paths filter', () => {
  const reconcile = (more: object) => bench.assess('filterReconciliation', more);
  const approved = (assessed: Assessed) => bench.approved(assessed, 'filter');
  const write = { deployment: DEPLOYMENT, cluster: 'east' } as const;

  it('has mode allow if none is given, and may have an empty list', async () => {
    const parsed = (europe: object) =>
      RUNBOOK_INPUTS.filterReconciliation.safeParse({ ...asked, filters: { europe } }).data?.filters;
    expect(parsed({ paths: ['kv/'] })).toEqual({ europe: { mode: 'allow', paths: ['kv/'] } });
    expect(parsed({})).toBeUndefined();
    const assessed = await reconcile({ filters: { europe: { paths: [] } } });
    expect(JSON.parse(assessed.plan?.text ?? '{}')).toMatchObject({
      warnings: [expect.stringContaining('no paths filter becomes allow nothing')],
    });
    const [change] = assessed.route?.changes ?? [];
    if (!change || change.wanted === 'none') throw new Error('no change');
    const authority = await approved(assessed);
    const { id } = change;
    await bench.call('writePathsFilter', { ...write, id, secondary: 'europe', filter: change.wanted, authority });
    expect(bench.cluster('east').filterOf(id)).toEqual({ mode: 'allow', paths: [] });
    const back = await approved(await reconcile({ filters: { europe: 'none' } }));
    await bench.call('writePathsFilter', { ...write, id, secondary: 'europe', filter: 'none', authority: back });
  });

  it('under an id of no cluster of the inventory is written as approved for exactly that id', async () => {
    const assessed = await reconcile({ ids: { 'another-team': DENY } });
    expect(assessed.route?.changes).toEqual([
      { secondary: 'another-team', outside: true, id: 'another-team', before: 'none', wanted: DENY },
    ]);
    const authority = await approved(assessed);
    const input = { ...write, id: 'another-team', filter: DENY, authority };
    const other = { ...DENY, paths: ['kv/'] };
    for (const more of [{ id: 'a-third-team' }, { filter: other }])
      await bench.refusedUnsent('writePathsFilter', { ...input, ...more }, 'NOT_APPROVED');
    const { outcome, observed } = await bench.call('writePathsFilter', input);
    expect([outcome, observed]).toEqual(['done', expect.stringContaining('before: no paths filter')]);
    expect(bench.cluster('east').filterOf('another-team')).toEqual(DENY);
    // What the inventory knows is named by its cluster.
    const own = await reconcile({ ids: { [bench.cluster('europe').clusterId]: DENY } });
    expect(failing(own)[0]?.next).toBe('Name the cluster europe instead of its id.');
  });
});

describe('a secondary of another team', () => {
  const ID = 'their-cluster-id';
  const publicKey = Buffer.alloc(32, 7).toString('base64');
  const outside = { id: ID, publicKey, ttl: '30m' };
  const ISSUE = 'POST /v1/sys/replication/dr/primary/secondary-token';
  // The token is meant to be handed over: each test says itself what may be read.
  afterEach(() => void (bench.emitted.length = 0));

  const approved = () =>
    bench.authorityOf('drSecondaryOnboarding', { primary: 'east', outside: { id: ID, publicKey } }, 'wipe');
  const issuing = (authority: SignedPlan, more: object = {}) =>
    ({ deployment: DEPLOYMENT, kind: 'dr', cluster: 'east', outside: { ...outside, ...more }, authority }) as const;

  it('is asked for by id and public key, and never together with a cluster of the inventory', () => {
    const parse = (more: object) =>
      RUNBOOK_INPUTS.drSecondaryOnboarding.safeParse({ ...asked, primary: 'east', ...more }).success;
    expect(parse({ outside: { id: ID, publicKey } })).toBe(true);
    for (const bad of [
      {},
      { secondary: 'north', outside },
      { outside: { id: 'a/b', publicKey } },
      { outside: { ...outside, publicKey: 'hvs.x' } },
      { outside: { ...outside, ttl: '5h' } },
    ])
      expect(parse(bad)).toBe(false);
  });

  it('gets a token that only its public key opens, for exactly the id, key and time that were approved', async () => {
    const authority = await approved();
    const { warnings, operations } = runbookPlan.parse(JSON.parse(authority.plan.text));
    const print = (createHash('sha256').update(publicKey).digest('hex').match(/.{8}/g) ?? []).join(' ');
    expect(warnings.join()).toContain(
      `compare the SHA-256 of the key with the other team through another channel: ${print}`,
    );
    expect(JSON.stringify(operations)).toContain(`${ID} for 30m; public key SHA-256 ${print}`);
    const others = [{ id: 'another' }, { publicKey: Buffer.alloc(32, 8).toString('base64') }, { ttl: '4h' }];
    for (const other of others)
      await bench.refusedUnsent('issueOutsideToken', issuing(authority, other), 'NOT_APPROVED');

    const { encryptedToken } = await bench.call('issueOutsideToken', issuing(authority));
    expect(lastBody('dr/primary/secondary-token')).toEqual({ id: ID, ttl: '30m', secondary_public_key: publicKey });
    expect(encryptedToken).not.toContain('.');
    // It is meant to be handed over, and of no use without the private key.
    expect(bench.leaks()).toHaveLength(1);
  });

  it('gets no token if the service does not encrypt: the wrapped token never leaves, and its id is revoked', async () => {
    const authority = await approved();
    const token = 'hvs.CanaryCanaryCanaryCanary0123';
    bench.canary('wrapped activation token', token);
    const wrap_info = { token, accessor: '', ttl: 1800, creation_time: new Date().toISOString(), creation_path: 'x' };
    const body = { request_id: '', data: null, wrap_info, warnings: null };
    bench.service.faults.add({ endpoint: ISSUE, when: 'after', action: { status: 200, body } });
    await bench.refused('issueOutsideToken', issuing(authority), 'RESPONSE_INVALID', {
      details: { observed: 'a wrapped token, which anybody could use; its id was revoked' },
    });
    expect(bench.cluster('east').snapshotState().dr.knownSecondaries).not.toContain(ID);
    expect(bench.leaks()).toEqual([]);
  });
});

it('a promotion of either kind advertises the address that the inventory has for the new primary', async () => {
  const advertisedClusterAddress = 'https://lb.new.example:8201';
  for (const name of ['west', 'europe']) inventory(name, { advertisedClusterAddress });
  const authority = await bench.authorityOf('performancePromotion', { to: 'europe' }, 'promote');
  const sides = { deployment: DEPLOYMENT, kind: 'performance', authority } as const;
  await bench.call('demotePrimary', { ...sides, cluster: 'east', otherCluster: 'europe' });
  await bench.call('promoteSecondary', { ...sides, mode: 'planned', cluster: 'europe', otherCluster: 'east' });
  expect(lastBody('performance/secondary/promote')).toEqual({ primary_cluster_addr: advertisedClusterAddress });
  await bench.switchOver(await bench.authority());
  expect(lastBody('dr/secondary/promote')).toMatchObject({ primary_cluster_addr: advertisedClusterAddress });
});
