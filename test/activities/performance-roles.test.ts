/** Performance roles are changed, and secondaries re-pointed, only as an approved plan allows and while it is safe. */
import type { Input, SignedPlan } from '../support/activity-environment';
import { demotePrimary, promoteSecondary, revokeSecondary } from '../../src/simulator/roles';
import { ActivityBench, DEPLOYMENT, holding, replicating } from '../support/activity-environment';
import { until } from '../support/by-hand';

const PROMOTE = 'POST /v1/sys/replication/performance/secondary/promote';

let bench: ActivityBench;
beforeEach(async () => {
  bench = await ActivityBench.start({
    ...replicating(
      { main: ['east', 'west'], eu: ['europe'], asia: ['asia'] },
      {},
      { readings: { leaderChangeChance: 0 } },
    ),
    limits: { primaryGone: '1s' },
  });
});
afterEach(() => bench.stop());

const assess = (more: object = {}) => bench.assess('performancePromotion', { to: 'europe', ...more });
const approved = (more: object = {}) => bench.authorityOf('performancePromotion', { to: 'europe', ...more }, 'promote');
const repointing = (more: object) => bench.assess('secondaryRepointing', more);
const demotion = (authority: SignedPlan) =>
  ({ kind: 'performance', deployment: DEPLOYMENT, cluster: 'east', otherCluster: 'europe', authority }) as const;
const promotion = (
  authority: SignedPlan,
  more: { readonly cluster?: string; readonly mode?: 'unplanned' | 'forced' } = {},
) => {
  const sides = { kind: 'performance', cluster: 'europe', otherCluster: 'east' } as const;
  return { deployment: DEPLOYMENT, ...sides, mode: 'planned', authority, ...more } as const;
};
/** A plan that gives addresses, as no assessment would give it for these. */
async function byAddresses(...pairs: (readonly [on: string, to: string, filter?: string])[]): Promise<SignedPlan> {
  const operations = pairs.map(([on, to, detail = 'no paths filter']) => ({
    ...({ kind: 'performance', endpoint: 'secondary/update-primary', gate: 'repoint' } as const),
    detail: `by its known addresses; ${detail}`,
    ...{ on: bench.named(on), with: bench.named(to) },
  }));
  return bench.approved({ plan: bench.planOf(operations), preconditions: [] }, 'repoint');
}

/** Somebody writes a filter by hand. */
async function putFilter(cluster: string, id: string, filter?: object): Promise<void> {
  const { addresses, rootToken } = bench.cluster(cluster);
  const answer = await fetch(`${addresses[0]}/v1/sys/replication/performance/primary/paths-filter/${id}`, {
    method: filter ? 'POST' : 'DELETE',
    headers: { 'X-Vault-Token': rootToken },
    ...(filter && { body: JSON.stringify(filter) }),
  });
  expect(answer.ok).toBe(true);
}

const mode = (name: string) => bench.cluster(name).snapshotState().performance.mode;

it('a plan for one cluster promotes no other, does not mention force, and lets no one skip the proof', async () => {
  const authority = await approved();
  for (const more of [{ cluster: 'asia' }, { mode: 'forced' }, { mode: 'unplanned' }] as const)
    await bench.refusedUnsent('promoteSecondary', promotion(authority, more), 'NOT_APPROVED');
});

it('no cluster is promoted while the primary reports primary, and none is demoted whose successor is not ready', async () => {
  const authority = await approved();
  await bench.refusedUnsent('promoteSecondary', promotion(authority), 'STATE_DIVERGED');

  bench.cluster('europe').holdStream('performance', true);
  bench.cluster('east').write('secret/late', { value: 'late' });
  const wal = bench.cluster('east').snapshotState().performance.lastWal.toString();
  bench.limit({ catchUpMs: 500 });
  await bench.refusedUnsent('demotePrimary', { ...demotion(authority), reached: wal }, 'PRECONDITION_FAILED');
  expect([mode('east'), mode('europe')]).toEqual(['primary', 'secondary']);
});

it('a primary that does not respond and that this run did not demote may still be primary: no cluster is promoted in its place', async () => {
  const authority = await approved({ acceptLoss: 'bounded' });
  await bench.cluster('east').kill();
  await bench.refusedUnsent('promoteSecondary', promotion(authority), 'PRECONDITION_FAILED', {
    details: { observed: holding('east: active node not responding') },
  });
});

it('an unplanned promotion checks again right before the call: a primary or a DR secondary that is back refuses it', async () => {
  const unplanned = { mode: 'unplanned', from: 'east' };
  const pair = [bench.cluster('east'), bench.cluster('west')] as const;
  for (const each of pair) await each.kill();
  bench.service.advanceClock(3_000);
  // Without the inventory nobody knows what is kept away from asia.
  const unknown = await assess(unplanned);
  expect(unknown.preconditions).toContainEqual(
    expect.objectContaining({ name: 'paths filter known', cluster: 'asia', verdict: 'fail' }),
  );
  expect(unknown.preconditions).toContainEqual(
    expect.objectContaining({ name: 'the new primary has all data', verdict: 'not-checkable' }),
  );
  const authority = await bench.approved(unknown, 'promote');
  const refuses = (code: string, details: object = {}) =>
    bench.refusedUnsent('promoteSecondary', promotion(authority, { mode: 'unplanned' }), code, { details });
  const couldBePromoted = { observed: holding('west could be promoted') };

  await pair[1].restart();
  await refuses('PRECONDITION_FAILED', couldBePromoted);
  await pair[1].kill();
  await pair[0].restart();
  await refuses('STATE_DIVERGED');
  await pair[0].kill();
  bench.service.advanceClock(3_000);

  // It is back as a secondary, which proves that it is no primary; its DR secondary still could be one.
  for (const each of pair) await each.restart();
  demotePrimary(pair[0], 'performance');
  await until('east is secondary', () => mode('east') === 'secondary');
  bench.service.advanceClock(3_000);
  await refuses('PRECONDITION_FAILED', couldBePromoted);
  for (const each of pair) await each.kill();

  // Two people for force, even where the promotion was approved.
  const one = await bench.approved(unknown, 'promote', 'force');
  await bench.refusedUnsent('promoteSecondary', promotion(one, { mode: 'forced' }), 'NOT_APPROVED');
  bench.service.faults.add({ cluster: 'europe', endpoint: PROMOTE, action: { status: 400 } });
  const promoted = await bench.call('promoteSecondary', promotion(authority, { mode: 'unplanned' }));
  expect(promoted).toMatchObject({ outcome: 'done', calls: 2 });
  expect(mode('europe')).toBe('primary');
});

it('update-primary by token serves the secondary and the primary of the approved plan, and no other', async () => {
  const promoting = await approved();
  await bench.call('demotePrimary', demotion(promoting));
  await bench.call('promoteSecondary', promotion(promoting));
  bench.service.advanceClock(1_000);
  const asia = { kind: 'performance', primary: 'europe', secondary: 'asia' };

  // The new primary does not know asia, and a demoted cluster takes no addresses.
  for (const [secondary, name] of [
    ['asia', 'the primary lists the secondary'],
    ['east', 'attached before, and not demoted since'],
  ]) {
    const { preconditions } = await repointing({ ...asia, secondary, form: 'addresses' });
    expect(preconditions).toContainEqual(expect.objectContaining({ name, verdict: 'fail' }));
  }
  const none = { filter: 'none' } as const;
  const pair = { kind: 'performance', by: 'token', deployment: DEPLOYMENT, primary: 'europe', expected: none } as const;
  const east = { ...pair, by: 'addresses', secondary: 'east' } as const;
  await bench.refusedUnsent('updatePrimary', { ...east, authority: promoting }, 'PRECONDITION_FAILED');

  const input = { ...pair, secondary: 'asia' } as const;
  const refuses = (authority: SignedPlan, more: object = {}) =>
    bench.refusedUnsent('updatePrimary', { ...input, authority, ...more }, 'NOT_APPROVED');
  const right = await bench.approved(await repointing(asia), 'repoint');
  await refuses(await bench.approved(await repointing({ ...asia, secondary: 'east' }), 'repoint'));
  // The plan says that asia has no filter, and so it must be: with any other one it would be another plan.
  const filter = { mode: 'deny', paths: ['secret/'] } as const;
  await refuses(right, { expected: { filter } });
  const { clusterId: id } = bench.cluster('asia');
  const unasked = { deployment: DEPLOYMENT, cluster: 'europe', id, filter, secondary: 'asia', authority: right };
  await bench.refusedUnsent('writePathsFilter', unasked, 'NOT_APPROVED');
  await putFilter('europe', id, filter);
  await bench.refused('updatePrimary', { ...input, authority: right }, 'PRECONDITION_FAILED');
  expect(bench.calls('asia', 'secondary/update-primary')).toBe(0);
  await putFilter('europe', id);
  expect(await bench.call('updatePrimary', { ...input, authority: right })).toMatchObject({ outcome: 'done' });
  const sides = { deployment: DEPLOYMENT, primary: 'europe', secondary: 'asia' };
  const roots = { ...sides, kind: 'performance' } as const;
  expect(await bench.call('compareMerkleRoots', roots)).toMatchObject({ verdict: 'equal' });
});

it('addresses are given only while their primary is primary, lists the secondary and keeps its filter', async () => {
  const addresses = {
    ...({ kind: 'performance', by: 'addresses' } as const),
    deployment: DEPLOYMENT,
    primary: 'west',
    secondary: 'asia',
    expected: { filter: 'none' },
    authority: await byAddresses(['asia', 'west'], ['asia', 'east'], ['europe', 'east', 'deny secret/']),
  } as const;
  const refuses = (input: Input<'updatePrimary'>, observed: string) =>
    bench.refusedUnsent('updatePrimary', input, 'PRECONDITION_FAILED', { details: { observed: holding(observed) } });
  // West is a DR secondary, whatever it was when the plan was judged.
  await refuses(addresses, 'disabled');
  // East knows asia no longer.
  const east = bench.cluster('east');
  for (const each of ['asia', 'europe']) bench.service.partition('east', each);
  bench.service.advanceClock(3_000);
  revokeSecondary(east, 'performance', bench.cluster('asia').clusterId);
  const unknown = { ...addresses, primary: 'east' };
  const { clusterId } = bench.cluster('europe');
  await refuses(unknown, `known: ${clusterId}`);
  // It keeps no filter for europe under the id that europe has.
  const filter = { mode: 'deny' as const, paths: ['secret/'] };
  const filtered = { ...unknown, secondary: 'europe', expected: { filter } };
  await refuses(filtered, `no paths filter under ${clusterId}`);
});

it('a parked step that keeps checking waits for the role that it is for, and only reads', async () => {
  const reads = () => bench.service.calls.filter(({ path }) => path.endsWith('performance/status')).length;
  const before = reads();
  let seen: { readonly observed: string } | undefined;
  const looking = bench
    .call('awaitRole', { kind: 'performance', deployment: DEPLOYMENT, cluster: 'europe', role: 'primary' })
    .then((result) => (seen = result));
  await until('it looked twice', () => reads() >= before + 2);
  expect(seen).toBeUndefined();
  promoteSecondary(bench.cluster('europe'), 'performance', '', true);
  expect((await looking).observed).toContain('europe: primary');
  expect(bench.changes()).toEqual([]);
});
