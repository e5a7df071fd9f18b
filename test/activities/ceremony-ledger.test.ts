/** The ledger knows of a token before it exists: no worker, disk or key that fails in the burst loses one silently. */
import { randomUUID } from 'node:crypto';
import type { LedgerEntry } from '../../activities/tokens/token-ledger';
import { TokenLedger } from '../../activities/tokens/token-ledger';
import type { OwnAttempt, Sealed } from '../../src/contracts/ceremony';
import { DEPLOYMENT, failedOf, openBench } from '../support/activity-environment';
import type { ActivityBench, Burst } from '../support/activity-environment';

const BASE = '/v1/sys/replication/dr/secondary/generate-operation-token';
const GIVE = `POST ${BASE}/update`;
const READ = `GET ${BASE}/attempt`;
const CANCEL = `DELETE ${BASE}/attempt`;
const ORPHAN = expect.objectContaining({ code: 'orphan-token', severity: 'critical' }) as unknown;

let bench: ActivityBench;
let burst: Burst;
openBench((opened) => (bench = opened), {
  topology: { readings: { leaderChangeChance: 0 } },
  timing: { noteMs: 200 },
});
beforeAll(async () => void (burst = await bench.burst()));
beforeEach(async () => {
  bench.service.faults.clear();
  mend();
  await bench.forgetTokens();
});
afterEach(() => jest.restoreAllMocks());

const generate = () => bench.generate(burst);
const living = () => bench.cluster('west').snapshotState().operationTokens;
const entries = (): LedgerEntry[] => bench.tokensKept();
/** Nobody answers for the record. */
const breakRecord = () => void (bench.recordServer.failure = new Error('silent'));
const mend = () => void (bench.recordServer.failure = undefined);
const states = () => entries().map(({ state }) => state);
const inSlot = async () =>
  ((await (await fetch(`${bench.cluster('west').apiAddress}${BASE}/attempt`)).json()) as { started: boolean }).started;

it('holds the sealed token before the run gets it', async () => {
  const { token } = await generate();
  expect(entries()).toEqual([expect.objectContaining({ state: 'alive', sealed: token, cid: burst.ceremony.cid })]);
});

it('that cannot be written after the burst loses no token: the token is held, and the finding says so', async () => {
  bench.service.faults.add({ endpoint: GIVE, skip: 2, action: breakRecord });
  const { token, findings } = await generate();
  expect(token).toBeTruthy();
  expect(findings).toEqual([expect.objectContaining({ code: 'token-not-in-record', severity: 'critical' })]);
});

it('that fails once after the burst still gets the token', async () => {
  bench.service.faults.add({
    endpoint: GIVE,
    skip: 2,
    action: () => {
      bench.recordServer.onWrite = () => {
        bench.recordServer.onWrite = () => undefined;
        throw new Error('silent');
      };
    },
  });
  const { token, findings } = await generate();
  expect([findings, entries()]).toEqual([[], [expect.objectContaining({ state: 'alive', sealed: token })]]);
});

describe('the fate of an attempt is found out by any worker, without the keys', () => {
  const about = () => ({ deployment: DEPLOYMENT, cluster: 'west', ceremony: burst.ceremony });
  const settle = (attempt: OwnAttempt | undefined, mayBeSent: boolean) =>
    bench.call('settleGeneration', { ...about(), attempt, mayBeSent });
  const started = async () => (await bench.begun(burst)).attempt;
  const cancelled = () => fetch(`${bench.cluster('west').apiAddress}${BASE}/attempt`, { method: 'DELETE' });

  it.each([
    ['still waits: what was sent may arrive late, and a token may exist', false, true],
    ['is gone: a token may exist', true, true],
    ['is gone, and its last share was not given: none', true, false],
  ])('one that %s', async (_what, gone, mayBeSent) => {
    const attempt = await started();
    if (gone) await cancelled();
    const { findings } = await settle(attempt, mayBeSent);
    expect(findings).toEqual(mayBeSent ? [ORPHAN] : []);
    expect(states()).toEqual(mayBeSent ? ['orphan'] : []);
    // The next run, perhaps a failover, finds the slot free.
    expect(await inSlot()).toBe(false);
  });

  it('one that was gone before its last share leaves no note, though the record fails once', async () => {
    const { generation, attempt } = await bench.begun(burst);
    await cancelled();
    let writes = 0;
    bench.recordServer.onWrite = () => {
      writes += 1;
      if (writes === 2) throw new Error('silent');
    };
    expect(await bench.call('completeGeneration', { ...generation, attempt })).toEqual({ next: 'again', findings: [] });
    bench.recordServer.onWrite = () => undefined;
    expect([writes, states()]).toEqual([3, []]);
  });

  it('one that the run has no note of is cancelled too: its key identifies it', async () => {
    await started();
    expect([await settle(undefined, false), await inSlot()]).toEqual([{ next: 'again', findings: [] }, false]);
  });

  it.each([
    [1, true],
    [2, false],
  ])(
    'a start that fails before it sends anything, in attempt %i: its outcome is known: %s',
    async (attempt, outcomeKnown) => {
      const wanted = { kind: 'operation-token', uses: burst.uses } as const;
      const none = { ...about(), wanted, shares: [], attempts: [], rejected: [], tried: 0, lost: 0 };
      const failure = await bench.failure('startGeneration', none, { attempt });
      expect(failure).toMatchObject({ code: 'SHARES_MISSING', details: { outcomeKnown } });
    },
  );

  it.each([
    ['read', READ],
    ['cancelled', CANCEL],
  ])('one that cannot be %s: a token may exist, and an attempt may be left', async (_what, endpoint) => {
    const attempt = await started();
    bench.service.faults.add({ endpoint, action: { status: 403 }, times: Infinity });
    const left = { code: 'attempt-not-cancelled', text: expect.stringContaining(attempt.mark) as string };
    expect((await settle(attempt, true)).findings).toMatchObject([ORPHAN, left]);
    expect((await settle({ ...attempt, id: randomUUID() }, false)).findings).toMatchObject([left]);
  });

  it('one that cannot be cancelled after a last share whose answer is lost: both are reported', async () => {
    await cancelled();
    bench.service.faults.add({ endpoint: GIVE, skip: 2, action: 'reset' });
    bench.service.faults.add({ endpoint: CANCEL, action: { status: 500 } });
    const { findings } = await generate();
    expect(findings).toMatchObject([ORPHAN, { code: 'attempt-not-cancelled' }]);
  });

  it('one that a worker reported before it was lost is reported again, and its slot is freed', async () => {
    const attempt = await started();
    bench.service.faults.add({ endpoint: CANCEL, action: { status: 500 } });
    expect((await settle(attempt, true)).findings).toMatchObject([ORPHAN, { code: 'attempt-not-cancelled' }]);
    expect(await inSlot()).toBe(true);
    expect([(await settle(attempt, true)).findings, states(), await inSlot()]).toEqual([[ORPHAN], ['orphan'], false]);
  });

  it.each([
    ['was refused', { status: 403 }, 'PERMISSION_DENIED'],
    ['made no token', { status: 400 }, 'again'],
  ] as const)('one whose last share %s leaves no note although the record was slow', async (_what, action, ended) => {
    const { generation, attempt } = await bench.begun(burst);
    bench.service.faults.add({ endpoint: GIVE, action });
    // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its own receiver below
    const { drop } = TokenLedger.prototype;
    let taken = (): void => undefined;
    const slow = new Promise<void>((resolve) => (taken = resolve));
    bench.recordServer.onWrite = () => slow;
    jest.spyOn(TokenLedger.prototype, 'drop').mockImplementation(function (this: TokenLedger, entry) {
      const dropped = drop.call(this, entry);
      taken();
      return dropped;
    });
    const how = await bench.call('completeGeneration', { ...generation, attempt }).then(
      ({ next }) => next,
      (error: unknown) => failedOf(error).code,
    );
    taken();
    bench.recordServer.onWrite = () => undefined;
    // After whatever was to be written before.
    await bench.records.change(DEPLOYMENT, () => undefined);
    expect([how, states()]).toEqual([ended, []]);
  });

  it('one whose last share is noted may have a token, whatever the run says about it', async () => {
    const attempt = await started();
    const { clusterId } = bench.cluster('west');
    const noted = { version: 1, ...bench.run, deployment: DEPLOYMENT, cluster: 'west', clusterId } as const;
    const of = { id: attempt.id, mark: attempt.mark, cid: burst.ceremony.cid };
    await bench.ledger.write({ ...noted, ...of, state: 'under-way', at: new Date().toISOString() });
    await cancelled();
    const { findings } = await settle(attempt, false);
    expect(findings).toEqual([ORPHAN]);
    expect(states()).toEqual(['orphan']);
  });

  it('one on a cluster that was promoted meanwhile no longer has a token', async () => {
    const attempt = await started();
    const promoted = { status: 400, errors: ['DR operation tokens can only be generated on a DR secondary'] };
    bench.service.faults.add({ endpoint: READ, action: promoted, times: Infinity });
    expect((await settle(attempt, false)).findings).toEqual([]);
  });

  it('attempts of another run are left alone: the invitation identifies their run', async () => {
    const attempt = await started();
    const run = { ...bench.run, rid: 'another' };
    const failure = await bench.failure('settleGeneration', { ...about(), attempt, mayBeSent: true }, { run });
    expect([failure.code, await inSlot()]).toEqual(['DOCUMENT_INVALID', true]);
  });
});

it('leaves open what an owner that seemed lost writes meanwhile', async () => {
  const owner = new TokenLedger(bench.recordsOfAWorker());
  const alive: LedgerEntry = {
    ...({ version: 1, id: randomUUID(), deployment: DEPLOYMENT, cluster: 'west', clusterId: 'id' } as const),
    ...({ ns: 'default', wid: 'run', rid: 'r', state: 'alive', at: '2026-01-02T00:00:00.000Z' } as const),
    sealed: 'x' as Sealed<'operation-token'>,
  };
  const pending: LedgerEntry = { ...alive, state: 'kept', sealed: undefined, at: '2026-01-01T00:00:00.000Z' };
  await bench.ledger.write(pending);
  bench.recordServer.onWrite = () => {
    bench.recordServer.onWrite = () => undefined;
    return owner.write(alive);
  };
  expect(await bench.ledger.settle(pending, { ...pending, state: 'orphan' })).toBe(false);
  expect(entries()).toEqual([alive]);
});

it('keeps no entry of a generation that certainly produced no token, nor its slot', async () => {
  const bad = await bench.envelopes(burst.ceremony.invitation, ['ada'], { ada: '11'.repeat(33) });
  const failure = await bench.generationFailure({ ...burst, envelopes: [...bad, ...burst.envelopes.slice(1)] });
  expect([failure.code, states(), await inSlot()]).toEqual(['SHARES_REJECTED', [], false]);
});

it('keeps the orphan if the effect of the last share could not be read', async () => {
  const before = living();
  bench.service.faults.add({ endpoint: GIVE, skip: 2, action: 'lose-answer' });
  bench.service.faults.add({ endpoint: READ, skip: 2, action: { status: 403 } });
  const { findings } = await generate();
  expect([findings, living() - before, states().sort()]).toEqual([[ORPHAN], 2, ['alive', 'orphan']]);
});
