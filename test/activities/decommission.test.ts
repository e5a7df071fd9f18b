/** Cutting a secondary off, ending replication, reindexing: each looks at authority and role itself, right before it acts. */
import { randomUUID } from 'node:crypto';
import type { ReplicationKind, TokenUse } from '../../src/contracts/runbook-inputs';
import { DEPLOYMENT, holding, openBench, replicating } from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';

let bench: ActivityBench;
/** East is DR primary of west and north, and performance primary of europe, which is DR primary of europe-dr. */
openBench((opened) => (bench = opened), {
  ...replicating(
    { main: ['east', 'west', 'north'], eu: ['europe', 'europe-dr'] },
    {},
    { readings: { leaderChangeChance: 0 } },
  ),
});
beforeEach(() => {
  bench.service.calls.length = 0;
});
// Whatever is tried here is refused.
afterEach(() => expect(bench.changes().filter((call) => !call.includes('public-key'))).toEqual([]));

const idOf = (name: string) => bench.cluster(name).clusterId;
const decommissioning = (gate: string, more: object = {}) =>
  bench.authorityOf('secondaryDecommission', { kind: 'dr', primary: 'east', secondary: 'west', ...more }, gate);
const teardown = (kind: ReplicationKind, cluster: string, ...gates: string[]) =>
  bench.authorityOf('replicationTeardown', { kind, cluster }, ...gates);
const on = (cluster: string, kind: ReplicationKind = 'dr') => ({ kind, deployment: DEPLOYMENT, cluster });
const revoking = (authority: SignedPlan, id = idOf('west')) =>
  ({ ...on('east'), id, secondary: 'west', authority }) as const;
const west = async (use: TokenUse, authority: SignedPlan) =>
  ({ ...on('west'), token: await bench.operationToken('west', [use]), authority }) as const;
/** The secondaries that a primary knows. */
function knows(primary: string, change: (known: readonly object[]) => readonly object[]): () => void {
  const cluster = bench.cluster(primary);
  const role = cluster.effectiveRole('dr');
  if (role.mode !== 'primary') throw new Error(`${primary} is no DR primary`);
  const knownSecondaries = change(role.knownSecondaries) as typeof role.knownSecondaries;
  cluster.setRole('dr', { ...role, knownSecondaries }, bench.service.now());
  return () => cluster.setRole('dr', role, bench.service.now());
}

describe('approved as it is, and refused all the same', () => {
  it('only the id of the secondary in the plan is revoked', async () => {
    const other = revoking(await decommissioning('revoke'), idOf('north'));
    await bench.refused('revokeSecondary', other, 'PRECONDITION_FAILED');
  });

  it('a secondary forgets a primary that is no longer connected', async () => {
    const input = await west('dr.update-primary', await decommissioning('revoke'));
    const told = { retryable: false, message: holding('is connected to its primary') };
    await bench.refused('forgetPrimary', input, 'PRECONDITION_FAILED', told);
  });

  it('a DR secondary is disabled with an operation token for that', async () => {
    const input = await west('dr.promote', await teardown('dr', 'west', 'disable'));
    await bench.refusedUnsent('disableSecondary', input, 'SEALED_VALUE_INVALID');
  });
});

describe('changes since the approval count', () => {
  it('a primary that lists another secondary than those that were approved is not disabled', async () => {
    const authority = await teardown('dr', 'europe', 'disable');
    const back = knows('europe', (known) => [...known, { id: 'new', certificate: 'c', activated: false }]);
    await bench.refused('disablePrimary', { ...on('europe'), authority }, 'NOT_APPROVED', {
      message: holding(`cuts off ${[idOf('europe-dr'), 'new'].sort().join(', ')}`),
    });
    back();
  });

  it('the only DR secondary that is still connected is not revoked, although another one was connected at approval', async () => {
    const authority = await decommissioning('revoke');
    await bench.cluster('north').kill();
    bench.service.advanceClock(10_000);
    await bench.refusedUnsent('revokeSecondary', revoking(authority), 'PRECONDITION_FAILED', {
      details: { next: holding('acknowledgeLastSecondary') },
    });
    await bench.cluster('north').restart();
  });

  it('a secondary that was attached again while its token was made is not disabled by the plan of a decommission', async () => {
    const input = await west('dr.disable', await decommissioning('disable', { afterwards: 'disable' }));
    await bench.refusedUnsent('disableSecondary', input, 'PRECONDITION_FAILED', {
      message: 'west is connected to its primary.',
    });
    // Nor by the plan of a teardown that found it alone; that of one in use says that it is.
    const allowed = async () => {
      const { plan } = await teardown('dr', 'west');
      const { operations } = JSON.parse(plan.text) as { operations: readonly { readonly detail?: string }[] };
      return operations.map(({ detail }) => detail);
    };
    expect(await allowed()).toEqual(['disconnected', 'also while connected']);
    const back = knows('east', (known) => known.filter((each) => 'id' in each && each.id !== idOf('west')));
    bench.service.advanceClock(60_000);
    expect(await allowed()).toEqual(['disconnected']);
    back();
  });

  it('the performance role of a DR secondary does not count as disabled', async () => {
    const authority = await teardown('performance', 'europe', 'disable');
    const input = { ...on('europe-dr', 'performance'), authority };
    await bench.refused('disableSecondary', input, 'PRECONDITION_FAILED', {
      message: holding('its performance role is that of its primary'),
    });
  });

  it('a secondary that is still connected does not count as gone', async () => {
    bench.limit({ streamingMs: 300 });
    const gone = { ...on('east'), id: idOf('west'), secondary: 'west' };
    await bench.refused('awaitSecondaryGone', gone, 'CONFIRMATION_TIMEOUT', {
      retryable: false,
      details: { observed: holding(`east lists ${idOf('west')} and is connected to it`) },
    });
    bench.limit();
  });
});

describe('a reindex is refused', () => {
  const OPTIONS = { diff: false, force: true, skipFlush: false };
  const reindex = async (use: TokenUse = 'dr.reindex', options = OPTIONS) => {
    const authority = await bench.authorityOf('drReindex', { cluster: 'west', ...OPTIONS }, 'reindex');
    return { ...(await west(use, authority)), options, epochBefore: 0 };
  };

  it('if other options were approved', async () => {
    const other = await reindex('dr.reindex', { ...OPTIONS, skipFlush: true });
    await bench.refusedUnsent('startDrReindex', other, 'NOT_APPROVED');
  });

  it('at the last check if no primary answers, although it was approved', async () => {
    const input = await reindex();
    await bench.cluster('east').kill();
    await bench.refusedUnsent('startDrReindex', input, 'PRECONDITION_FAILED', { retryable: false });
    await bench.cluster('east').restart();
  });

  it('with a token that was not made for it', async () => {
    await bench.refusedUnsent('startDrReindex', await reindex('dr.merkle-check'), 'SEALED_VALUE_INVALID');
  });
});

it('a token of the ledger is left alone while its run is open, and one of another deployment always', async () => {
  const { value: sealed } = await bench.operationToken('west', ['dr.operation-token.delete']);
  const entry = { ...bench.run, ...bench.named('west'), version: 1, state: 'alive', sealed } as const;
  const at = new Date().toISOString();
  const [ours, theirs] = [randomUUID(), randomUUID()];
  await bench.ledger.write({ ...entry, at, id: ours, deployment: DEPLOYMENT });
  await bench.ledger.write({ ...entry, at, id: theirs, deployment: 'elsewhere' });
  const dispose = (id: string) => bench.call('disposeLedgerToken', { ...on('west'), entry: id });
  expect(await dispose(ours)).toMatchObject({ state: 'kept', text: holding('is open') });
  expect(await dispose(theirs)).toMatchObject({ text: 'it is no longer in the record' });
});
