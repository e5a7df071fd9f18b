/** A token that the record keeps for a later run: given once, to a run whose approved plan names it. */
import { randomUUID } from 'node:crypto';
import type { LedgerEntry } from '../../activities/tokens/token-ledger';
import { judgeRecordedTokens } from '../../activities/readiness/site';
import { DEPLOYMENT, failedOf, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { newRecipient } from '../support/recipient';

const USES = ['dr.promote', 'dr.update-primary', 'dr.operation-token.delete'] as const;
const HOUR = 3_600_000;

let bench: ActivityBench;
openBench((opened) => (bench = opened), { topology: { readings: { leaderChangeChance: 0 } } });
beforeEach(() => bench.forgetTokens());

const at = (ms: number) => new Date(Date.now() + ms).toISOString();

/** What an `operationTokenCeremony` that has ended leaves. */
async function keep(more: Partial<NonNullable<LedgerEntry['kept']>> = {}): Promise<LedgerEntry> {
  const maker = { ns: bench.run.ns, wid: 'ceremony:west', rid: randomUUID() };
  const { value } = await bench.operationToken('west', USES, maker);
  const { wid, rid } = maker;
  const kept = { until: at(HOUR), uses: [...USES], holders: ['ada', 'bert', 'cleo'], wid, rid, at: at(0), ...more };
  const entry: LedgerEntry = {
    ...({ version: 1, state: 'alive', deployment: DEPLOYMENT, cluster: 'west' } as const),
    ...{ id: randomUUID(), clusterId: bench.cluster('west').clusterId, ...maker, sealed: value, kept, at: at(0) },
  };
  await bench.ledger.write(entry);
  bench.openRuns = new Map();
  return entry;
}

async function approved(gates: readonly string[] = ['plan'], run = bench.run) {
  const { plan, route } = await bench.call('assessDrSwitchover', { input: bench.input() }, { run });
  if (!plan) throw new Error('no plan');
  const approvals = await Promise.all(gates.map((gate) => bench.approval(gate, plan.digest, 'grace', run)));
  return { route, plan, approvals };
}

const taking = (entry: LedgerEntry, { plan, approvals }: Awaited<ReturnType<typeof approved>>) => ({
  ...{ deployment: DEPLOYMENT, cluster: 'west', entry: entry.id },
  authority: { plan, approvals },
});
const inRecord = async ({ id }: LedgerEntry) => (await bench.ledger.all(DEPLOYMENT)).find((each) => each.id === id);

it('the plan names it and its holders, and it is sealed again for the run that claims it, which may try again', async () => {
  const entry = await keep();
  const plan = await approved();
  expect(plan.route?.kept).toMatchObject({ cluster: 'west', entry: entry.id });
  expect(plan.plan.text).toContain(`by ceremony:west (run ${entry.rid}) from key shares of ada, bert, cleo, until`);
  const { token } = await bench.call('takeKeptToken', taking(entry, plan));
  expect(token).not.toBe(entry.sealed);
  expect(await inRecord(entry)).toMatchObject({ ...bench.run, sealed: token, state: 'alive', kept: entry.kept });
  expect((await bench.call('takeKeptToken', taking(entry, plan))).token).toBe(token);
  // What was taken is in the plan as before: nobody has to approve it again.
  expect((await approved()).plan.digest).toBe(plan.plan.digest);
});

it('only the approvals of its plan take it: none, another gate, or a plan that does not name it are refused', async () => {
  const without = await approved();
  const entry = await keep();
  const plan = await approved();
  const refused = [{ ...plan, approvals: [] }, { ...plan, ...(await approved(['go'])) }, without];
  for (const each of refused)
    expect((await bench.failure('takeKeptToken', taking(entry, each))).code).toBe('NOT_APPROVED');
  const another = await keep();
  expect((await bench.failure('takeKeptToken', taking(another, plan))).code).toBe('NOT_APPROVED');
  expect(await inRecord(entry)).toEqual(entry);
});

it('two runs cannot both take it, whichever is first', async () => {
  const entry = await keep();
  const other = { ...bench.run, rid: randomUUID() };
  const [mine, theirs] = [await approved(), await approved(['plan'], other)];
  const both = await Promise.allSettled([
    bench.call('takeKeptToken', taking(entry, mine)),
    bench.call('takeKeptToken', taking(entry, theirs), { run: other }),
  ]);
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  const { rid } = (await inRecord(entry)) ?? {};
  const late = rid === other.rid ? bench.run : other;
  const failure = await bench.failure('takeKeptToken', taking(entry, late === other ? theirs : mine), { run: late });
  expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED' });
  expect(failure.details['observed']).toContain(rid);
  // Nor does another plan offer it.
  expect((await approved(['plan'], late)).route?.kept).toBeUndefined();
});

it('one that has expired, is for other uses, or belongs to an open run is not offered; an expired one is not given', async () => {
  const plan = await approved();
  const over = await keep({ until: at(20 * 60_000) });
  expect((await approved()).route?.kept).toBeUndefined();
  await bench.ledger.remove(over);
  const other = await keep({ uses: ['dr.promote'] });
  expect((await approved()).route?.kept).toBeUndefined();
  await bench.ledger.remove(other);
  const entry = await keep();
  bench.openRuns = new Map([['ceremony:west', { type: 'operationTokenCeremony', runId: entry.rid }]]);
  expect((await approved()).route?.kept).toBeUndefined();
  bench.openRuns = new Map();
  const named = await approved();
  expect(named.plan.digest).not.toBe(plan.plan.digest);
  const ended = { ...entry, kept: entry.kept && { ...entry.kept, until: at(-1_000) } };
  await bench.ledger.write(ended);
  expect((await bench.failure('takeKeptToken', taking(entry, named))).code).toBe('PRECONDITION_FAILED');
  // The run that was terminated between taking it and using it leaves it to the disposal.
  await bench.ledger.write(entry);
  await bench.call('takeKeptToken', taking(entry, named));
  const { route } = await bench.assess('operationTokenDisposal');
  expect(route?.tokens).toMatchObject([{ id: entry.id, state: 'deletable', runId: bench.run.rid }]);
  expect(judgeRecordedTokens(await bench.ledger.all(DEPLOYMENT), undefined).verdict).toBe('warn');
});

it('disposal leaves it alone until it expires, unless its cluster is named; readiness reports it', async () => {
  const entry = await keep();
  const assess = async (more = {}) => {
    const { plan, route } = await bench.assess('operationTokenDisposal', more);
    return { tokens: route?.tokens.map(({ state }) => state), plan: plan?.text };
  };
  expect(await assess()).toMatchObject({
    tokens: [],
    plan: expect.stringContaining('kept for the next run') as string,
  });
  expect((await assess({ cluster: 'west' })).tokens).toEqual(['reserved']);
  // Nor does another run of the same Workflow ID delete it at its end.
  const again = { ...bench.run, wid: 'ceremony:west' };
  const none = { deployment: DEPLOYMENT, tokens: [] };
  expect(await bench.call('deleteOperationTokens', none, { run: again })).toMatchObject({ disposals: [] });
  const told = judgeRecordedTokens([entry], undefined);
  expect([told.verdict, told.observed]).toEqual([
    'ok',
    expect.stringContaining('west: reserved for the next run until'),
  ]);
  const named = { deployment: DEPLOYMENT, cluster: 'west', entry: entry.id };
  expect(await bench.call('disposeLedgerToken', named)).toMatchObject({ state: 'deleted' });
  await keep({ until: at(-1_000) });
  expect((await assess()).tokens).toEqual(['deletable']);
});

it('the run that made it deletes it when it is stopped, also if it has no note of it; then it is not kept', async () => {
  const entry = await keep();
  const run = { ...bench.run, wid: entry.wid, rid: entry.rid };
  const asked = { deployment: DEPLOYMENT, tokens: [] };
  expect(await bench.call('deleteOperationTokens', asked, { run })).toMatchObject({
    disposals: [{ state: 'deleted' }],
  });
  expect(await inRecord(entry)).toBeUndefined();
  // Nor is one offered or given whose deletion was sent, whatever became of that.
  const sent = await keep();
  const named = await approved();
  expect(named.route?.kept).toMatchObject({ entry: sent.id });
  await bench.ledger.write({ ...sent, deletionSentAt: at(0) });
  expect((await approved()).route?.kept).toBeUndefined();
  expect((await bench.failure('takeKeptToken', taking(sent, named))).code).toBe('PRECONDITION_FAILED');
});

it('two copies of one attempt give the same token', async () => {
  const entry = await keep();
  const plan = await approved();
  const both = await Promise.all([1, 2].map(() => bench.call('takeKeptToken', taking(entry, plan))));
  expect(new Set(both.map(({ token }) => token))).toEqual(new Set([(await inRecord(entry))?.sealed]));
});

it('the holders read how long it is kept, and no token is kept for longer than seven days', async () => {
  const asked = (keepFor: string) => bench.ceremony([{ cluster: 'west', uses: USES }], { keepFor });
  const { invitation } = await asked('2d');
  const [, payload = ''] = invitation.split('.');
  expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toMatchObject({ keepFor: 2 * 86_400 });
  for (const keepFor of ['8d', '169h', '1y', '0h'])
    expect(await asked(keepFor).catch(failedOf)).toMatchObject({ code: 'INVALID_INPUT' });
});

it('a token for a person needs gate ceremony, and goes to the key of the invitation and the plan alone', async () => {
  const [key, other] = [(await newRecipient()).publicKey, (await newRecipient()).publicKey];
  const uses = ['dr.promote', 'dr.operation-token.delete'] as const;
  const asked = await bench.burst(uses, { recipientPgpKey: key });
  const authorityFor = (recipient: string, ...gates: readonly string[]) =>
    bench.authorityOf('operationTokenCeremony', { cluster: 'west', uses: ['dr.promote'], recipient }, ...gates);
  const good = await authorityFor(key, 'ceremony');
  for (const authority of [
    await authorityFor(key),
    await authorityFor(key, 'plan'),
    await authorityFor(other, 'ceremony'),
  ])
    expect((await bench.generationFailure({ ...asked, recipientPgpKey: key, authority })).code).toBe('NOT_APPROVED');
  // To another key than the holders saw, or to the run itself.
  const diverted = { ...asked, recipientPgpKey: other, authority: await authorityFor(other, 'ceremony') };
  expect((await bench.generationFailure(diverted)).code).toBe('DOCUMENT_INVALID');
  expect((await bench.generationFailure(asked)).code).toBe('DOCUMENT_INVALID');
  expect(bench.calls('west', 'generate-operation-token/attempt')).toBe(0);
  expect(await bench.generate({ ...asked, recipientPgpKey: key, authority: good })).toMatchObject({ findings: [] });
});
