/** Generated tokens are deleted and proven dead; what cannot be deleted now is kept, sealed, and deleted later. */
import { randomUUID } from 'node:crypto';
import type { LedgerEntry } from '../../activities/tokens/token-ledger';
import type { Sealed } from '../../src/contracts/ceremony';
import { tooSlow } from '../support/by-hand';
import { DEPLOYMENT, drDemotion, drPromotion, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const DELETE = 'POST /v1/sys/replication/dr/secondary/operation-token/delete';
const USES = ['dr.promote', 'dr.operation-token.delete'] as const;

let bench: ActivityBench;
let before: number;
openBench((opened) => (bench = opened), { topology: { readings: { leaderChangeChance: 0 } } });
beforeEach(async () => {
  bench.service.faults.clear();
  await bench.forgetTokens();
  before = bench.cluster('west').snapshotState().operationTokens;
});

const dispose = (tokens: Parameters<typeof bench.activities.deleteOperationTokens>[0]['tokens']) =>
  bench.call('deleteOperationTokens', { deployment: DEPLOYMENT, tokens });
/** That this test made, and that are not deleted. */
const living = () => bench.cluster('west').snapshotState().operationTokens - before;

async function note(sealed: Sealed<'operation-token'>, more: Partial<LedgerEntry> = {}): Promise<void> {
  const { clusterId } = bench.cluster('west');
  const token = { id: randomUUID(), deployment: DEPLOYMENT, cluster: 'west', clusterId, sealed };
  const at = new Date().toISOString();
  await bench.ledger.write({ version: 1, state: 'alive', ...token, ...bench.run, at, ...more });
}

it('a token of a DR secondary is deleted, and the proof is that it is refused afterwards', async () => {
  const token = await bench.operationToken('west', USES);
  await note(token.value);
  expect(await dispose([token])).toEqual({
    disposals: [{ cluster: 'west', state: 'deleted', text: 'the service refuses it now' }],
    findings: [],
  });
  expect(living()).toBe(0);
  expect(bench.tokensKept()).toEqual([]);
});

it.each([
  ['of the attempt that made it goes with it', true, []],
  ['of another attempt stays', false, ['under-way']],
] as const)(
  'a token that could not be noted after its creation: the note of a last share %s',
  async (_what, own, left) => {
    const token = await bench.operationToken('west', USES);
    const entry = randomUUID();
    await note(token.value, { id: own ? entry : randomUUID(), state: 'under-way', sealed: undefined });
    const { disposals, findings } = await dispose([{ ...token, entry }]);
    expect([disposals[0]?.state, findings]).toEqual(['deleted', []]);
    expect(bench.tokensKept().map(({ state }) => state)).toEqual(left);
  },
);

it('one that could not be noted, and is not proven invalid, is sealed in the record from then on', async () => {
  const token = await bench.operationToken('west', USES);
  const entry = randomUUID();
  await note(token.value, { id: entry, state: 'under-way', sealed: undefined });
  bench.service.faults.add({ endpoint: DELETE, action: { status: 500 }, times: Infinity });
  expect((await dispose([{ ...token, entry }])).disposals[0]?.state).toBe('unproven');
  expect(bench.tokensKept()).toMatchObject([{ id: entry, state: 'alive', sealed: token.value }]);
});

it('a token that is refused although it was not deleted is not proven invalid, and stays sealed', async () => {
  const token = await bench.operationToken('west', USES);
  await note(token.value);
  bench.service.faults.add({ endpoint: DELETE, action: { status: 403 }, times: Infinity });
  const { disposals, findings } = await dispose([token]);
  expect(disposals).toEqual([
    { cluster: 'west', state: 'unproven', text: 'refused (PERMISSION_DENIED), but no earlier deletion explains it' },
  ]);
  expect(findings).toEqual([expect.objectContaining({ code: 'token-not-proven-dead' })]);
  expect(bench.tokensKept()[0]).toMatchObject({ state: 'alive', sealed: token.value });
  expect(living()).toBe(1);
});

it('an orphan that is forgotten is reported, also if the attempt that removed it from the record ended before its report', async () => {
  const id = randomUUID();
  await note('' as Sealed<'operation-token'>, { id, state: 'orphan', sealed: undefined, wid: 'ceremony:west' });
  bench.openRuns = new Map([[bench.run.wid, { type: 'drSwitchover', runId: bench.run.rid }]]);
  const plan = bench.planOf([
    { endpoint: 'record/forget-token', gate: 'ceremony', on: bench.named('west'), detail: id },
  ]);
  const authority = await bench.approved({ plan, preconditions: [] }, 'ceremony');
  const forget = () =>
    bench.call('forgetLedgerToken', { deployment: DEPLOYMENT, cluster: 'west', entry: id, authority });
  const told = { state: 'forgotten', findings: [{ severity: 'warning', code: 'orphan-forgotten' }] };
  expect(await forget()).toMatchObject(told);
  expect(bench.tokensKept()).toEqual([]);
  expect(await forget()).toMatchObject(told);
  bench.openRuns = undefined;
});

it('a refusal that passes, as of a node that restarts, is outlasted', async () => {
  const token = await bench.operationToken('west', USES);
  bench.service.faults.add({ endpoint: DELETE, action: { status: 400 } });
  expect((await dispose([token])).disposals[0]).toMatchObject({
    state: 'deleted',
    text: 'the service refuses it now',
  });
  expect(living()).toBe(0);
});

it('a token whose deletion lost its answer is deleted again until the refusal proves it', async () => {
  const token = await bench.operationToken('west', USES);
  bench.service.faults.add({ endpoint: DELETE, action: 'lose-answer' });
  expect((await dispose([token])).disposals[0]?.state).toBe('deleted');
  expect(living()).toBe(0);
});

it('tokens that an earlier run of the same Workflow ID left are deleted too, and those of another are left alone', async () => {
  const earlier = { ...bench.run, rid: randomUUID() };
  const left = await bench.operationToken('west', USES, earlier);
  const other = { ...bench.run, wid: 'ceremony:west' };
  const theirs = await bench.operationToken('west', USES, other);
  await note(left.value, { ...earlier, state: 'kept' });
  await note(theirs.value, other);
  const { disposals, findings } = await dispose([]);
  expect(disposals).toEqual([expect.objectContaining({ cluster: 'west', state: 'deleted' })]);
  expect(findings).toEqual([]);
  expect(living()).toBe(1);
  expect(bench.tokensKept().map(({ state }) => state)).toEqual(['alive']);
});

it('a token without a clear answer is not proven invalid: a critical finding, which says if no record has it', async () => {
  const token = await bench.operationToken('west', USES);
  // Each answer asks for a second: three are waited, not seven.
  const action = { status: 503, headers: { 'retry-after': '1' } };
  bench.service.faults.add({ endpoint: DELETE, action, times: Infinity });
  const text = expect.stringContaining('no later run finds it') as string;
  const tried = async () => {
    const { disposals, findings } = await dispose([token]);
    expect(disposals).toEqual([{ cluster: 'west', state: 'unproven', text: 'no clear answer' }]);
    expect(findings).toMatchObject([{ code: 'token-not-proven-dead', severity: 'critical', text }]);
  };
  expect(await tooSlow(6_000, tried)).toEqual([]);
});

it('a batch token is never deleted', async () => {
  const changes = bench.changes();
  expect(await dispose([{ source: 'batch', cluster: 'west' }])).toEqual({ disposals: [], findings: [] });
  expect(bench.changes()).toEqual(changes);
});

it('a token that cannot be opened, or whose cluster is away, does not stop the others', async () => {
  const good = await bench.operationToken('west', USES);
  const wrongUse = await bench.operationToken('west', ['dr.promote']);
  bench.service.faults.add({ cluster: 'east', endpoint: /./, action: 'reset', times: Infinity });
  const away = { source: 'sealed', cluster: 'east', value: good.value } as const;
  const { disposals } = await dispose([wrongUse, away, good]);
  expect(disposals.map(({ state }) => state)).toEqual(['unproven', 'unproven', 'deleted']);
  expect(disposals[0]?.text).toContain('SEALED_VALUE_INVALID');
});

it('a token of a cluster that is now primary is kept sealed in the ledger, with a finding', async () => {
  const token = await bench.operationToken('west', USES);
  // It lost its answer: once the cluster is a secondary again a refusal is the proof.
  const deletionSentAt = new Date().toISOString();
  await note(token.value, { deletionSentAt });
  const authority = await bench.authority();
  const calls = bench.service.calls.filter(({ path }) => path.endsWith('operation-token/delete'));
  await bench.call('demotePrimary', drDemotion(authority));
  await bench.call('promoteSecondary', drPromotion(token, authority));
  bench.service.advanceClock(1_000);
  const { disposals, findings } = await dispose([token]);
  expect(disposals[0]).toMatchObject({ cluster: 'west', state: 'kept' });
  expect(findings).toEqual([expect.objectContaining({ code: 'token-kept', severity: 'info' })]);
  expect(bench.tokensKept()[0]).toMatchObject({ state: 'kept', sealed: token.value, deletionSentAt });
  const [{ id: entry = '' } = {}] = bench.tokensKept();
  bench.openRuns = new Map();
  const disposed = await bench.call('disposeLedgerToken', { deployment: DEPLOYMENT, cluster: 'west', entry });
  expect(disposed).toMatchObject({ state: 'kept', findings: [{ code: 'token-kept' }] });
  expect(disposed.next).toContain('When west is a DR secondary again');
  expect(bench.service.calls.filter(({ path }) => path.endsWith('operation-token/delete'))).toEqual(calls);
});
