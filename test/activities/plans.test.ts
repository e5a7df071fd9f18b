/** What the plans of several runbooks have in common: the rights of their operations, and standbys that are down or sealed. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Check } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { failing, holding, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { tokenFile } from '../support/site';

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  topology: {
    readings: { leaderChangeChance: 0 },
    clusters: [
      ...['east', 'europe'].map((name) => ({ name, nodes: 3 })),
      ...['west', 'north', 'asia', 'south'].map((name) => ({ name, nodes: 1 })),
    ],
    performance: { primary: 'east', secondaries: [{ name: 'europe' }, { name: 'asia' }] },
    dr: [{ primary: 'east', secondaries: ['west'] }],
  },
  drSets: { main: ['east', 'west', 'north'], eu: ['europe'], asia: ['asia'], south: ['south'] },
});

const promotion = (more: object = {}) => bench.assess('performancePromotion', { to: 'europe', ...more });

/** The calls of replication that the credentials of clusters may not make. */
function lacking(checks: readonly Check[]): readonly string[] {
  const lacks = checks.flatMap(({ name, cluster }) => {
    const [, call] = /^credential may call sys\/replication\/\w+\/(\w+\/[\w-]+)/.exec(name) ?? [];
    return call === undefined ? [] : [`${cluster}: ${call}`];
  });
  return [...new Set(lacks)].sort();
}

describe('the rights in a plan are those of its operations', () => {
  const before = new Map<string, Buffer>();
  beforeAll(async () => {
    for (const name of ['east', 'europe', 'asia', 'north', 'south']) {
      const file = join(bench.directory, tokenFile(bench.service, name));
      before.set(file, await readFile(file));
      const token = bench.cluster(name).createToken({ policies: ['default'] });
      bench.canary(`powerless ${name}`, token);
      await writeFile(file, token);
    }
  });
  afterAll(async () => {
    for (const [file, token] of before) await writeFile(file, token);
  });

  type Assess = () => Promise<{ readonly preconditions: readonly Check[] }>;
  /** A secondary, as it was before it was replaced as primary. */
  const asPrimary = (kind: ReplicationKind, name: string) => async (assess: Assess) => {
    const former = bench.cluster(name);
    const role = former.role(kind);
    const { setId = '' } = former.snapshotState()[kind];
    const primary = { mode: 'primary', setId, advertisedAddress: '', knownSecondaries: [] } as const;
    former.setRole(kind, primary, bench.service.now());
    return assess().finally(() => former.setRole(kind, role, bench.service.now()));
  };
  const cutOff = async (assess: Assess) => {
    bench.service.partition('east', 'asia');
    bench.service.advanceClock(60_000);
    return assess().finally(() => bench.service.heal());
  };

  const ONBOARDING = { primary: 'east', secondary: 'south', filter: 'none' };
  const WEST = { kind: 'dr', primary: 'east', secondary: 'west' };
  const BY_KEY = { kind: 'performance', primary: 'east', secondary: 'asia', form: 'public-key' };
  const ISSUES = 'primary/revoke-secondary primary/secondary-token';
  const FILTERED = `primary/paths-filter ${ISSUES}`;
  const FOLLOWS = 'secondary/promote secondary/update-primary';
  const JOINS = 'secondary/enable secondary/generate-public-key';
  const UPDATE = 'secondary/update-primary';
  const PROMOTION = {
    asia: UPDATE,
    east: `primary/demote ${FILTERED} ${FOLLOWS}`,
    europe: `${FILTERED} ${FOLLOWS}`,
  };
  type Runbook = Exclude<Parameters<ActivityBench['assess']>[0], 'readiness'>;
  it.each<[Runbook, object, Readonly<Record<string, string>>, ((assess: Assess) => ReturnType<Assess>)?]>([
    ['drSwitchover', { to: 'west' }, { east: `primary/demote ${ISSUES}` }],
    ['performancePromotion', { to: 'europe' }, PROMOTION],
    ['primaryEnablement', { kind: 'dr', cluster: 'south' }, { south: 'primary/enable' }],
    ['drSecondaryOnboarding', { primary: 'east', secondary: 'north' }, { east: ISSUES, north: JOINS }],
    ['performanceSecondaryOnboarding', ONBOARDING, { east: FILTERED, south: JOINS }],
    ['replicationTeardown', { kind: 'performance', cluster: 'asia' }, { asia: 'secondary/disable' }],
    ['secondaryDecommission', WEST, { east: 'primary/revoke-secondary' }],
    ['drRejoin', { cluster: 'west' }, { east: ISSUES, west: 'primary/demote' }, asPrimary('dr', 'west')],
    [
      'performanceRejoin',
      { cluster: 'asia' },
      { asia: `primary/demote ${UPDATE}`, east: FILTERED },
      asPrimary('performance', 'asia'),
    ],
    ['secondaryRepointing', BY_KEY, { asia: `secondary/generate-public-key ${UPDATE}`, east: FILTERED }, cutOff],
  ])('%s', async (runbook, input, expected, during = (assess) => assess()) => {
    const calls = Object.entries(expected).flatMap(([cluster, ofCluster]) =>
      ofCluster.split(' ').map((path) => `${cluster}: ${path}`),
    );
    expect(lacking(failing(await during(() => bench.assess(runbook, input))))).toEqual(calls.sort());
  });

  it('a performance secondary that could not be re-pointed after a switchover is reported before it, without a refusal', async () => {
    const { preconditions, route } = await bench.assess('drSwitchover', { to: 'west' });
    const warned = lacking(preconditions.filter(({ verdict }) => verdict === 'warn'));
    const ofFollowers = [`asia: ${UPDATE}`, ...FILTERED.split(' ').map((path) => `east: ${path}`), `europe: ${UPDATE}`];
    expect(warned).toEqual(ofFollowers);
    const next = holding(`\`path "sys/replication/performance/${UPDATE}" { capabilities = ["update"] }\``);
    const text = holding(`europe, "credential may call sys/replication/performance/${UPDATE}": `);
    expect(route?.findings).toContainEqual({ severity: 'warning', code: 'may-not-follow', text, next });
  });

  it('a filter that may not be read is reported: no cluster is wiped beside one, and a decommission leaves it', async () => {
    const onboarding = async () =>
      failing(await bench.assess('performanceSecondaryOnboarding', ONBOARDING)).find(
        ({ name }) => name === 'no wider than the existing filter',
      );
    expect(await onboarding()).toMatchObject({
      observed: 'it could not be read: PERMISSION_DENIED',
      next: expect.stringMatching(/^Add to the policy .*paths-filter/) as string,
    });
    const sealed = bench.always(/paths-filter/, { status: 503 }, 'east');
    expect(await onboarding()).toMatchObject({
      observed: 'it could not be read: SERVICE_UNAVAILABLE',
      next: 'Find out why the paths filters of east cannot be read, then start again.',
    });
    sealed.remove();
    expect(failing(await bench.assess('filterReconciliation', { filters: { asia: 'none' } }))).toEqual([
      expect.objectContaining({
        name: 'paths filters readable',
        observed: 'they could not be read: PERMISSION_DENIED',
        next: expect.stringContaining("Let the workers' credential read") as string,
      }),
    ]);
    const ending = { kind: 'performance', primary: 'east', secondary: 'asia' };
    const { plan } = await bench.assess('secondaryDecommission', ending);
    expect(plan?.text).toContain('stays on east: not readable (PERMISSION_DENIED), if there is one.');
  });

  it('the rights of the credential of a new primary on the marker are known before the outage', async () => {
    const refused = async () =>
      failing(await promotion()).flatMap(({ cluster, name }) =>
        cluster === 'europe' && name.includes('marker') ? name : [],
      );
    expect(await refused()).toEqual(['marker on the new primary']);
    bench.cluster('east').writePolicy('reader', [{ path: 'kv/*', capabilities: ['read'] }]);
    bench.service.advanceClock(1_000);
    const token = bench.cluster('europe').createToken({ policies: ['default', 'reader'] });
    bench.canary('reader of europe', token);
    await writeFile(join(bench.directory, tokenFile(bench.service, 'europe')), token);
    expect(await refused()).toEqual([
      'credential may call kv/data/runbooks-marker',
      'credential may call kv/data/runbooks-marker-after',
    ]);
  });
});

it('a promotion and a re-pointing continue with a stopped and a sealed standby, and name both to the approvers', async () => {
  const { plan: whole } = await promotion();
  await bench.cluster('east').killNode(2);
  bench.cluster('europe').sealNode(2);
  const { plan, preconditions } = await promotion();
  const missing = preconditions.filter(({ name, cluster }) => name.startsWith('every node') && cluster !== 'asia');
  expect(missing.map(({ cluster, name, verdict }) => [cluster, name, verdict])).toEqual([
    ['east', 'every node answers', 'warn'],
    ['east', 'every node is unsealed', 'ok'],
    ['europe', 'every node answers', 'ok'],
    ['europe', 'every node is unsealed', 'warn'],
  ]);
  expect(plan?.digest).not.toBe(whole?.digest);
  bench.service.partition('east', 'europe');
  bench.service.advanceClock(60_000);
  const sides = { kind: 'performance', primary: 'east', secondary: 'europe' };
  const repointing = await bench.assess('secondaryRepointing', sides);
  for (const cluster of ['east', 'europe'])
    for (const each of [plan, repointing.plan])
      expect(each?.text).toContain(`Nodes of ${cluster} that are down or sealed`);
  expect(failing(repointing)).toEqual([]);

  // Without a quorum it is refused.
  bench.cluster('europe').sealNode(1);
  expect(failing(await promotion()).map(({ name }) => name)).toContain('quorum');
  // It may follow the performance role of east, and cannot be asked.
  const unseen: unknown = expect.objectContaining({
    name: 'other clusters can be read',
    cluster: 'europe',
    verdict: 'warn',
  });
  const planned = await bench.assess('drSwitchover', { to: 'west' });
  const failover = await bench.assess('drFailover', { from: 'east', to: 'west' });
  for (const each of [planned, failover]) {
    expect(each.preconditions).toContainEqual(unseen);
    // Not in the plan: who answers changes by itself.
    const next = expect.stringContaining('re-point it') as string;
    expect(each.route).toMatchObject({
      findings: expect.arrayContaining([expect.objectContaining({ next })]) as unknown,
    });
  }
  expect(planned.route).toMatchObject({ silent: ['europe'] });
  expect(planned.plan?.text).toMatch(/"warnings":\[.*"Nodes of east that are down or sealed: http/);
  // A follower that is older than the new primary is told, whichever way the primary changes.
  bench.cluster('asia').version = '1.16.1+ent';
  const told = { name: 'other secondaries can follow', cluster: 'asia', verdict: 'warn' };
  const older: unknown = expect.objectContaining(told);
  for (const { preconditions } of [
    await bench.assess('drSwitchover', { to: 'west' }),
    await bench.assess('drFailover', { from: 'east', to: 'west' }),
  ])
    expect(preconditions).toContainEqual(older);
  // It is the only one that says nothing, and none that was seen to be primary already.
  expect((await promotion({ mode: 'unplanned' })).preconditions).toMatchObject([
    { verdict: 'fail', next: 'Name the cluster that was the performance primary with {"from": ...}.' },
  ]);
});
