/** The ledger knows of a token before it exists: no worker, disk or key that fails in the burst loses one silently. */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LedgerEntry } from '../../activities/support/token-ledger';
import { TokenLedger } from '../../activities/support/token-ledger';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';

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
  await rm(bench.ledgerDirectory, { recursive: true, force: true });
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
const generate = () => bench.call('generateOperationToken', input());
const living = () => bench.cluster('west').snapshotState().operationTokens;
const entries = (): LedgerEntry[] =>
  readdirSync(bench.ledgerDirectory).map(
    (name) => JSON.parse(readFileSync(join(bench.ledgerDirectory, name), 'utf8')) as LedgerEntry,
  );
const states = () => entries().map(({ state }) => state);

it('is written before the last share reaches the service, and holds the sealed token afterwards', async () => {
  let during: string[] = [];
  bench.service.faults.add({ endpoint: GIVE, skip: 2, action: () => void (during = states()) });
  const { token } = await generate();
  expect(during).toEqual(['pending']);
  expect(entries()).toEqual([expect.objectContaining({ state: 'alive', sealed: token, cid: ceremony.cid })]);
});

it('that cannot be written stops the burst before anything reaches the service', async () => {
  await writeFile(bench.ledgerDirectory, '');
  const [tokens, before] = [living(), bench.changes()];
  const failure = await bench.failure('generateOperationToken', input());
  expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED', retryable: false });
  expect([living(), bench.changes()]).toEqual([tokens, before]);
});

it('that cannot be written after the burst costs no token: it is held, and the finding says so', async () => {
  bench.service.faults.add({
    endpoint: GIVE,
    skip: 2,
    action: async () => {
      await rm(bench.ledgerDirectory, { recursive: true });
      await writeFile(bench.ledgerDirectory, '');
    },
  });
  const { token, findings } = await generate();
  expect(token).toBeTruthy();
  expect(findings).toEqual([expect.objectContaining({ code: 'token-not-in-ledger', severity: 'critical' })]);
});

it('tells the next attempt of a worker that ended in the middle of the burst, once', async () => {
  const ledger = new TokenLedger(bench.ledgerDirectory);
  let crashed: LedgerEntry[] = [];
  bench.service.faults.add({ endpoint: GIVE, skip: 2, action: () => void (crashed = entries()) });
  await generate();
  await rm(bench.ledgerDirectory, { recursive: true });
  // The disk as the killed worker left it, and what other runs, ceremonies and clusters left there.
  for (const entry of crashed) {
    await ledger.write(entry);
    const others: Partial<LedgerEntry>[] = [{ rid: 'x' }, { wid: 'x' }, { ns: 'x' }, { cid: 'x' }, { cluster: 'x' }];
    for (const other of others) await ledger.write({ ...entry, ...other, id: randomUUID() });
  }
  expect((await generate()).findings).toEqual([ORPHAN]);
  expect((await generate()).findings).toEqual([]);
  expect(states().sort()).toEqual(['alive', 'alive', 'orphan', ...Array<string>(5).fill('pending')]);
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
  expect((await generate()).findings).toEqual([]);
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
