/** What the plans of several runbooks have in common: the rights of their operations, and standbys that are down or sealed. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Check } from '../../src/contracts/plan';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { tokenFile } from '../support/site';

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  topology: {
    readings: { leaderChangeChance: 0 },
    clusters: [
      ...['east', 'europe'].map((name) => ({ name, nodes: 3 })),
      ...['west', 'north', 'asia'].map((name) => ({ name, nodes: 1 })),
    ],
    performance: { primary: 'east', secondaries: [{ name: 'europe' }, { name: 'asia' }] },
    dr: [{ primary: 'east', secondaries: ['west'] }],
  },
  drSets: { main: ['east', 'west', 'north'], eu: ['europe'], asia: ['asia'] },
});

const asked = { deployment: DEPLOYMENT, reason: 'a test' };
const promotion = () =>
  bench.call('assessPerformancePromotion', {
    input: RUNBOOK_INPUTS.performancePromotion.parse({ ...asked, to: 'europe' }),
  });

/** The calls of replication that the credentials of clusters may not make. */
function lacking({ preconditions }: { readonly preconditions: readonly Check[] }): readonly string[] {
  const lacks = preconditions.flatMap(({ name, cluster, verdict }) => {
    const [, call] = /^credential may call sys\/replication\/\w+\/(\w+\/[\w-]+)/.exec(name) ?? [];
    return call !== undefined && verdict === 'fail' ? [`${cluster}: ${call}`] : [];
  });
  return [...new Set(lacks)].sort();
}

describe('the rights that a plan asks for are those of its operations', () => {
  const before = new Map<string, Buffer>();
  beforeAll(async () => {
    for (const name of ['east', 'europe', 'asia', 'north']) {
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

  const ISSUES = ['revoke-secondary', 'secondary-token'];
  it.each<[string, () => Promise<{ readonly preconditions: readonly Check[] }>, readonly string[]]>([
    [
      'performancePromotion',
      promotion,
      [
        ...['asia: secondary/update-primary', 'east: primary/demote'],
        ...['paths-filter', ...ISSUES].map((each) => `east: primary/${each}`),
        ...['promote', 'update-primary'].map((each) => `east: secondary/${each}`),
        ...['paths-filter', ...ISSUES].map((each) => `europe: primary/${each}`),
        ...['promote', 'update-primary'].map((each) => `europe: secondary/${each}`),
      ],
    ],
    [
      'drSecondaryOnboarding',
      () => {
        const input = { ...asked, primary: 'east', secondary: 'north' };
        return bench.call('assessDrSecondaryOnboarding', { input: RUNBOOK_INPUTS.drSecondaryOnboarding.parse(input) });
      },
      [
        ...ISSUES.map((each) => `east: primary/${each}`),
        ...['north: secondary/enable', 'north: secondary/generate-public-key'],
      ],
    ],
    [
      'replicationTeardown',
      () => {
        const input = RUNBOOK_INPUTS.replicationTeardown.parse({ ...asked, kind: 'performance', cluster: 'asia' });
        return bench.call('assessReplicationTeardown', { input });
      },
      ['asia: secondary/disable'],
    ],
    [
      'secondaryDecommission',
      () => {
        const named = { kind: 'dr', primary: 'east', secondary: 'west' };
        const input = RUNBOOK_INPUTS.secondaryDecommission.parse({ ...asked, ...named });
        return bench.call('assessSecondaryDecommission', { input });
      },
      ['east: primary/revoke-secondary'],
    ],
  ])('%s', async (_runbook, assess, expected) => {
    expect(lacking(await assess())).toEqual(expected);
  });

  it('what the credential of a new primary may do with the marker is known before the outage', async () => {
    const refused = async () =>
      (await promotion()).preconditions
        .filter(({ cluster, name, verdict }) => cluster === 'europe' && name.includes('marker') && verdict === 'fail')
        .map(({ name }) => name);
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

it('a promotion and a re-pointing go on with a dead and a sealed standby, and name both to the approvers', async () => {
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
  const named = { kind: 'performance', primary: 'east', secondary: 'europe' };
  const input = RUNBOOK_INPUTS.secondaryRepointing.parse({ ...asked, ...named });
  const repointing = await bench.call('assessSecondaryRepointing', { input });
  for (const cluster of ['east', 'europe'])
    for (const each of [plan, repointing.plan])
      expect(each?.text).toContain(`Nodes of ${cluster} that are down or sealed`);
  expect(repointing.preconditions.filter(({ verdict }) => verdict === 'fail')).toEqual([]);

  // Without a quorum it is refused.
  bench.cluster('europe').sealNode(1);
  const refused = (await promotion()).preconditions.filter(({ verdict }) => verdict === 'fail');
  expect(refused.map(({ name }) => name)).toContain('quorum');
});
