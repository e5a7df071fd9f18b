/** The ledger knows of a token before it exists: no worker, disk or key that fails in the burst loses one silently. */
import { randomUUID } from 'node:crypto';
import type { LedgerEntry } from '../../activities/ceremony/token-ledger';
import { TokenLedger } from '../../activities/ceremony/token-ledger';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import { ActivityBench, DEPLOYMENT, failedOf } from '../support/activity-environment';

const BASE = '/v1/sys/replication/dr/secondary/generate-operation-token';
const GIVE = `POST ${BASE}/update`;
const READ = `GET ${BASE}/attempt`;
const USES = ['dr.promote', 'dr.operation-token.delete'] as const;
const ORPHAN = expect.objectContaining({ code: 'orphan-token', severity: 'critical' }) as unknown;

let bench: ActivityBench;
let ceremony: CeremonyHandle;
let envelopes: readonly string[];
beforeAll(async () => {
  bench = await ActivityBench.start({ topology: { readings: { leaderChangeChance: 0 } } });
  ceremony = await bench.ceremony([{ cluster: 'west', uses: USES }]);
  envelopes = await bench.envelopes(ceremony.invitation, ['ada', 'bert', 'cleo']);
});
afterAll(async () => {
  expect(bench.leaks()).toEqual([]);
  await bench.stop();
});
beforeEach(async () => {
  bench.service.faults.clear();
  mend();
  await bench.forgetTokens();
});
afterEach(() => jest.restoreAllMocks());

const input = (more: object = {}) => ({
  deployment: DEPLOYMENT,
  cluster: 'west',
  ceremony,
  uses: USES,
  envelopes,
  ...more,
});
const generate = (more: object = {}) => bench.call('generateOperationToken', input(more));
const toldBy = (findings: readonly Finding[]) => findings.map(({ text }) => text);
const living = () => bench.cluster('west').snapshotState().operationTokens;
const entries = (): LedgerEntry[] => bench.tokensKept();
const raise = (): never => {
  throw new Error('nothing there');
};
/** Nobody answers for the record. */
const breakRecord = () => void (bench.recordServer.failure = new Error('silent'));
const mend = () => void (bench.recordServer.failure = undefined);
const states = () => entries().map(({ state }) => state);

it('is written before the last share reaches the service, and holds the sealed token afterwards', async () => {
  let during: string[] = [];
  bench.service.faults.add({ endpoint: GIVE, skip: 2, action: () => void (during = states()) });
  const { token } = await generate();
  expect(during).toEqual(['pending']);
  expect(entries()).toEqual([expect.objectContaining({ state: 'alive', sealed: token, cid: ceremony.cid })]);
});

it('that cannot be written stops the burst before anything reaches the service', async () => {
  breakRecord();
  const [tokens, before] = [living(), bench.changes()];
  const failure = await bench.failure('generateOperationToken', input());
  expect(failure).toMatchObject({ code: 'RECORD_UNAVAILABLE', retryable: true });
  expect([living(), bench.changes()]).toEqual([tokens, before]);
});

it('that cannot be written after the burst costs no token: it is held, and the finding says so', async () => {
  bench.service.faults.add({ endpoint: GIVE, skip: 2, action: breakRecord });
  const { token, findings } = await generate();
  expect(token).toBeTruthy();
  expect(findings).toEqual([expect.objectContaining({ code: 'token-not-in-ledger', severity: 'critical' })]);
});

it('that cannot be written once after the burst has the token all the same', async () => {
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

it('tells the next attempt of a worker that ended in the middle of the burst, once', async () => {
  const ledger = bench.ledger;
  let crashed: LedgerEntry[] = [];
  bench.service.faults.add({ endpoint: GIVE, skip: 2, action: () => void (crashed = entries()) });
  await generate();
  await bench.forgetTokens();
  // The disk as the killed worker left it, and what other runs, ceremonies and clusters left there.
  for (const entry of crashed) {
    await ledger.write(entry);
    const others: Partial<LedgerEntry>[] = [{ rid: 'x' }, { wid: 'x' }, { ns: 'x' }, { cid: 'x' }, { cluster: 'x' }];
    for (const other of others) await ledger.write({ ...entry, ...other, id: randomUUID() });
  }
  const { findings } = await generate();
  expect(findings).toEqual([ORPHAN]);
  expect(findings[0]?.text).toMatch(/: attempt [0-9a-f]{8}: a worker ended in the middle of giving the last share/);
  expect(states().sort()).toEqual(['alive', 'orphan', ...Array<string>(5).fill('pending')]);
  // Until the run says that it knows: the attempt that found it may die before it tells.
  expect((await generate()).findings).toEqual(findings);
  expect((await generate({ told: toldBy(findings) })).findings).toEqual([]);
});

describe('a token that was sealed by an attempt that died before it could report', () => {
  const gives = () => bench.calls('west', 'generate-operation-token/update');

  it('is found by the next one: no share is given again, and no second token is made', async () => {
    // Three sets with the bad share are rejected before the one without it.
    bench.service.faults.add({ endpoint: GIVE, skip: 11, action: 'lose-answer' });
    const bad = await bench.envelopes(ceremony.invitation, ['dora'], { dora: '11'.repeat(33) });
    const first = await generate({ envelopes: [...bad, ...envelopes] });
    expect(first).toMatchObject({ findings: [{ code: 'orphan-token' }, { code: 'bad-share' }], badShares: ['dora'] });
    const [given, before] = [gives(), living()];
    // It says all that the dead one had to say.
    expect(await bench.call('generateOperationToken', input(), { attempt: 2 })).toEqual(first);
    expect([gives(), living()]).toEqual([given, before]);
    expect(states().sort()).toEqual(['alive', 'orphan']);
  });

  it.each([
    ['another use', () => input({ uses: ['dr.promote'] }), {}, true],
    ['a use that it was not sealed for', () => input({ uses: [...USES, 'dr.update-primary'] }), {}, 'DOCUMENT_INVALID'],
    ['a run of its own', () => input(), { rid: 'x' }, false],
    ['another ceremony', () => input(), { cid: 'x' }, false],
    ['another epoch', () => input(), { key: 'x' }, false],
    ['a cluster that was set up anew', () => input(), { clusterId: 'x' }, false],
    ['a token that somebody handed in', () => input(), { made: undefined }, false],
    ['a token that the cluster kept', () => input(), { state: 'kept' }, false],
    ['a value that does not open', () => input(), { sealed: 'x' }, false],
  ] as const)('%s', async (_what, asked, change, found) => {
    const { token } = await generate();
    const [entry] = entries();
    if (entry) await bench.ledger.write({ ...entry, ...change });
    if (typeof found === 'string')
      return expect((await bench.failure('generateOperationToken', asked())).code).toBe(found);
    const again = await bench.call('generateOperationToken', asked());
    expect(again.token === token).toBe(found);
  });
});

describe('the end of the ceremony', () => {
  const end = (told: readonly string[] = []) =>
    bench.call('destroyCeremonyKeys', { deployment: DEPLOYMENT, ceremony: gone, told });
  let gone: CeremonyHandle;
  let given: readonly string[];
  beforeEach(async () => {
    gone = await bench.ceremony([{ cluster: 'west', uses: USES }]);
    given = await bench.envelopes(gone.invitation, ['ada', 'bert', 'cleo']);
  });
  const asked = () => input({ ceremony: gone, envelopes: given });

  it('tells of the orphan of a burst that was cancelled between its last share and the answer, once', async () => {
    let cancel = (): void => undefined;
    bench.service.faults.add({ endpoint: GIVE, skip: 2, when: 'after', action: () => cancel() });
    bench.service.faults.add({ endpoint: GIVE, skip: 2, action: 'lose-answer' });
    const before = living();
    const failure = await bench.failure('generateOperationToken', asked(), { onStart: (how) => (cancel = how) });
    expect([failure.code, living() - before, states()]).toEqual(['CancelledFailure', 1, ['orphan']]);
    const { findings = [] } = await end();
    expect(findings).toEqual([ORPHAN]);
    expect(await end(toldBy(findings))).not.toHaveProperty('findings');
  });

  it.each([
    ['whose attempt is gone, once', true],
    ['whose attempt still waits: not at all', false],
  ])('tells of a worker that died with nobody in its place, %s', async (_what, orphan) => {
    const ledger = bench.ledger;
    let crashed: LedgerEntry[] = [];
    bench.service.faults.add({ endpoint: GIVE, skip: 2, action: () => void (crashed = entries()) });
    // What is lost is the share, the answer to the cancellation, and so on: the worker is dead.
    if (!orphan) {
      bench.service.faults.add({ endpoint: GIVE, skip: 2, action: 'reset', times: 3 });
      bench.service.faults.add({ endpoint: `DELETE ${BASE}/attempt`, action: 'reset', times: Infinity });
      await bench.failure('generateOperationToken', asked());
    } else await bench.call('generateOperationToken', asked());
    await bench.forgetTokens();
    for (const entry of crashed) await ledger.write(entry);
    bench.service.faults.clear();
    const { findings = [] } = await end();
    expect(findings).toEqual(orphan ? [ORPHAN] : []);
    expect(states()).toEqual(orphan ? ['orphan'] : []);
    expect(await end(toldBy(findings))).not.toHaveProperty('findings');
    // The next run, perhaps a failover, finds the slot free.
    expect(await inSlot()).toBe(false);
  });

  it('makes a last share useless that is under way still, and then nobody is alarmed', async () => {
    const ledger = bench.ledger;
    let crashed: LedgerEntry[] = [];
    bench.service.faults.add({ endpoint: GIVE, skip: 2, action: () => void (crashed = entries()) });
    const held = bench.service.faults.add({ endpoint: GIVE, skip: 2, action: 'arrive-late' });
    bench.service.faults.add({ endpoint: GIVE, skip: 2, action: 'reset', times: Infinity });
    bench.service.faults.add({ endpoint: `DELETE ${BASE}/attempt`, action: 'reset', times: Infinity });
    await bench.failure('generateOperationToken', asked());
    await bench.forgetTokens();
    for (const entry of crashed) await ledger.write(entry);
    // Another burst died with the same key, before its last share: which of the two is judged first is no matter.
    const { attempt: _attempt, mark: _mark, ...begun } = crashed[0] ?? raise();
    await ledger.write({ ...begun, id: '00000000-0000-4000-8000-000000000000', state: 'begun' });
    bench.service.faults.clear();
    const arrived = bench.service.faults.add({ endpoint: `DELETE ${BASE}/attempt`, action: () => held.arrive() });
    const before = living();
    expect(await end()).not.toHaveProperty('findings');
    expect([arrived.hits, living() - before, states(), await inSlot()]).toEqual([1, 0, [], false]);
  });

  const inSlot = async () =>
    ((await (await fetch(`${bench.cluster('west').apiAddress}${BASE}/attempt`)).json()) as { started: boolean })
      .started;

  it.each([[false], [true]])(
    'frees the slot also where no last share was sent; Temporal silent first: %s',
    async (silent) => {
      const ledger = bench.ledger;
      let crashed: LedgerEntry[] = [];
      bench.service.faults.add({ endpoint: GIVE, action: () => void (crashed = entries()) });
      bench.service.faults.add({ endpoint: GIVE, action: { status: 403 } });
      bench.service.faults.add({ endpoint: `DELETE ${BASE}/attempt`, action: 'reset', times: Infinity });
      await bench.failure('generateOperationToken', asked());
      bench.service.faults.clear();
      await bench.forgetTokens();
      for (const entry of crashed) await ledger.write(entry);
      expect([states(), await inSlot()]).toEqual([['begun'], true]);
      if (silent) {
        // After a standstill nobody can say whether this attempt counts: the next one ends it.
        const { now } = Date;
        const still = () => void jest.spyOn(Date, 'now').mockImplementation(() => now() + 6_000);
        bench.service.faults.add({ endpoint: READ, action: still });
        bench.onDescription = () => {
          throw new Error('silent');
        };
        const failure = await end().catch((error: unknown) => error);
        jest.restoreAllMocks();
        bench.onDescription = () => undefined;
        expect(failedOf(failure)).toMatchObject({ code: 'TEMPORAL_UNAVAILABLE', retryable: true });
        expect([states(), await inSlot()]).toEqual([['begun'], true]);
      }
      expect(await end()).not.toHaveProperty('findings');
      expect([states(), await inSlot()]).toEqual([[], false]);
    },
  );

  it('says nothing of an attempt on a cluster that was promoted meanwhile: it has none any more', async () => {
    const ledger = bench.ledger;
    let crashed: LedgerEntry[] = [];
    bench.service.faults.add({ endpoint: GIVE, action: () => void (crashed = entries()) });
    bench.service.faults.add({ endpoint: GIVE, action: { status: 403 } });
    await bench.failure('generateOperationToken', asked());
    bench.service.faults.clear();
    await bench.forgetTokens();
    for (const entry of crashed) await ledger.write(entry);
    const promoted = { status: 400, errors: ['DR operation tokens can only be generated on a DR secondary'] };
    bench.service.faults.add({ endpoint: READ, action: promoted, times: Infinity });
    expect(states()).toEqual(['begun']);
    expect(await end()).not.toHaveProperty('findings');
    expect(states()).toEqual([]);
  });

  it('is settled by a worker that has none of the keys', async () => {
    const ledger = bench.ledger;
    let crashed: LedgerEntry[] = [];
    bench.service.faults.add({ endpoint: GIVE, skip: 2, action: () => void (crashed = entries()) });
    await bench.call('generateOperationToken', asked());
    await bench.forgetTokens();
    for (const entry of crashed) await ledger.write(entry);
    const { cid, threshold } = gone;
    const { findings } = await bench.call('settleCeremony', { deployment: DEPLOYMENT, ceremony: { cid, threshold } });
    expect([findings, states()]).toEqual([[ORPHAN], ['orphan']]);
    expect(
      await bench.call('settleCeremony', {
        deployment: DEPLOYMENT,
        ceremony: { cid, threshold },
        told: toldBy(findings),
      }),
    ).toEqual({
      findings: [],
      bursts: [{ cluster: 'west', epoch: 1 }],
    });
    expect(await bench.keyRecords.ofRun(bench.run)).toContainEqual(expect.objectContaining({ cid }));
  });

  it('says of which bursts it has an entry, also of one that died and that the next epoch settled', async () => {
    const ledger = bench.ledger;
    await bench.call('generateOperationToken', asked());
    const [made] = entries();
    if (!made) throw new Error('no entry');
    await bench.forgetTokens();
    const { sealed: _sealed, made: _made, ...died } = made;
    await ledger.write({ ...died, epoch: 7, key: 'another', state: 'begun' });
    await bench.call('generateOperationToken', asked());
    const { bursts = [] } = await end();
    expect(bursts.map(({ cluster, epoch }) => [cluster, epoch]).sort()).toEqual([
      ['west', 1],
      ['west', 7],
    ]);
  });

  it.each([
    ['no share was given: a warning', false, 'warning'],
    ['shares were given: an alarm', true, 'critical'],
  ] as const)('destroys the keys also where the ledger cannot be read; %s', async (_what, burst, severity) => {
    if (burst) await bench.call('generateOperationToken', asked());
    breakRecord();
    expect(await end()).toMatchObject({ destroyed: true, findings: [{ code: 'ledger-not-settled', severity }] });
    expect((await bench.keyRecords.ofRun(bench.run)).map(({ cid }) => cid)).not.toContain(gone.cid);
  });
});

it('leaves a worker that was thought dead the entry that it goes on with', async () => {
  const first = await generate();
  const [alive] = entries();
  if (!alive) throw new Error('no entry');
  const ledger = bench.ledger;
  const { sealed: _sealed, made: _made, ...unsettled } = alive;
  await ledger.write({ ...unsettled, state: 'pending', at: '2026-01-01T00:00:00.000Z' });
  // Its token comes while the next attempt looks at the slot.
  bench.service.faults.add({ endpoint: READ, action: () => ledger.write(alive) });
  const { findings } = await generate();
  expect(findings).toEqual([]);
  expect(entries()).toContainEqual(expect.objectContaining({ state: 'alive', sealed: first.token }));
});

describe('with an owner that was thought dead', () => {
  const alive: LedgerEntry = {
    ...({ version: 1, id: randomUUID(), deployment: DEPLOYMENT, cluster: 'west', clusterId: 'id' } as const),
    ...({ ns: 'default', wid: 'run', rid: 'r', state: 'alive', sealed: 'x', at: '2026-01-02T00:00:00.000Z' } as const),
  };

  it('settles nothing that its owner writes meanwhile', async () => {
    const owner = new TokenLedger(bench.recordsOfAWorker());
    const pending: LedgerEntry = { ...alive, state: 'pending', sealed: undefined, at: '2026-01-01T00:00:00.000Z' };
    await bench.ledger.write(pending);
    bench.recordServer.onWrite = () => {
      bench.recordServer.onWrite = () => undefined;
      return owner.write(alive);
    };
    expect(await bench.ledger.settle(pending, { ...pending, state: 'orphan' })).toBe(false);
    expect(entries()).toEqual([alive]);
  });
});

it('is read while another run removes an entry of its own', async () => {
  const ledger = bench.ledger;
  await generate();
  const [alive] = entries();
  if (!alive) throw new Error('no entry');
  const others = Array.from({ length: 20 }, () => ({ ...alive, id: randomUUID(), rid: 'x' }));
  for (const other of others) await ledger.write(other);
  const [read] = await Promise.all([ledger.all(DEPLOYMENT), ...others.map((other) => ledger.remove(other))]);
  expect(read).toContainEqual(alive);
});

it('is written by two workers at once, and is whole', async () => {
  const ledger = bench.ledger;
  const other = new TokenLedger(bench.recordsOfAWorker());
  await generate();
  const [alive] = entries();
  if (!alive) throw new Error('no entry');
  await Promise.all(
    Array.from({ length: 20 }, (_each, key) =>
      (key % 2 === 0 ? ledger : other).write({ ...alive, key: 'x'.repeat(key * 500) }),
    ),
  );
  expect(await ledger.all(DEPLOYMENT)).toEqual([expect.objectContaining({ id: alive.id, state: 'alive' })]);
});

it('keeps nothing of a burst that certainly made nothing', async () => {
  const bad = await bench.envelopes(ceremony.invitation, ['ada'], { ada: '11'.repeat(33) });
  const failure = await bench.failure('generateOperationToken', input({ envelopes: [...bad, ...envelopes.slice(1)] }));
  expect(failure.code).toBe('SHARES_REJECTED');
  expect(entries()).toEqual([]);
});

it('keeps the orphan of a burst that could not read what its last share did, and nothing tries again unasked', async () => {
  const before = living();
  bench.service.faults.add({ endpoint: GIVE, skip: 2, action: 'lose-answer' });
  bench.service.faults.add({ endpoint: READ, skip: 1, action: { status: 403 } });
  const failure = await bench.failure('generateOperationToken', input());
  expect(failure.retryable).toBe(false);
  expect(failure.message).toContain('may exist that nobody holds');
  expect(living() - before).toBe(1);
  expect(states()).toEqual(['orphan']);
  const told = toldBy(failure.details['findings'] as readonly Finding[]);
  expect((await generate({ told })).findings).toEqual([]);
});

it('keeps the orphan whose token could not be sealed, and nothing tries again unasked', async () => {
  jest.spyOn(bench.sealKeyring, 'derivedKey').mockReturnValue(undefined);
  const failure = await bench.failure('generateOperationToken', input());
  expect(failure).toMatchObject({ code: 'TOKEN_ORPHANED', retryable: false });
  expect(failure.message).toContain('may exist that nobody holds');
  expect(states()).toEqual(['orphan']);
});

it('a token without a use is not made', async () => {
  const before = living();
  expect((await bench.failure('generateOperationToken', input({ uses: [] }))).code).toBe('DOCUMENT_INVALID');
  expect(living()).toBe(before);
});
