/** An alarm is told by the worker when it arises: no input, and no result that somebody else completes, silences it. */
import { randomUUID } from 'node:crypto';
import pino from 'pino';
import { sweepLedger } from '../../activities';
import type { LedgerEntry } from '../../activities/tokens/token-ledger';
import type { Sealed } from '../../src/contracts/ceremony';
import type { ActivityBench, Burst } from '../support/activity-environment';
import { DEPLOYMENT, holding, openBench } from '../support/activity-environment';
import { until } from '../support/by-hand';
import type { WebhookServer } from '../support/notification-servers';
import { openWebhook, WEBHOOK } from '../support/notification-servers';

let bench: ActivityBench;
let hook: WebhookServer;
let burst: Burst;
openWebhook((opened) => (hook = opened));
openBench((opened) => (bench = opened), {
  topology: { readings: { leaderChangeChance: 0 } },
  deployment: { notifications: [WEBHOOK] },
});
beforeAll(async () => void (burst = await bench.burst()));
beforeEach(async () => {
  await bench.forgetTokens();
  bench.service.faults.clear();
  bench.emitted.length = 0;
  hook.posted.length = 0;
});
afterEach(() => jest.restoreAllMocks());

const entries = () => bench.tokensKept();
const sweep = () => {
  const { inventory, temporal, records } = bench;
  const log = pino({ level: 'debug' }, { write: (line) => void bench.emitted.push(line) });
  return sweepLedger({ inventory, temporal, records, log }, DEPLOYMENT);
};
/** As sweeps find it whose runs have ended; nothing is told twice. */
const sweepTwiceWithoutRuns = async () => {
  bench.openRuns = new Map();
  for (let times = 0; times < 2; times += 1) await sweep();
  bench.openRuns = undefined;
};
const errorLines = () => bench.emitted.filter((line) => /"level":50\b/.test(line));
const postedEvents = async () => {
  await until('a message', () => hook.posted.length > 0);
  return hook.posted.map(({ body }) => JSON.stringify(body));
};

it('a token that cannot be sealed is reported in the log and to the targets, whatever becomes of the result', async () => {
  jest.spyOn(bench.sealKeyring, 'derivedKey').mockReturnValue(undefined);
  // Nothing tries again unasked.
  expect(await bench.generationFailure(burst)).toMatchObject({
    ...{ code: 'TOKEN_ORPHANED', retryable: false, message: holding('may exist that nobody holds') },
  });
  expect(entries()).toMatchObject([{ state: 'orphan' }]);
  expect(errorLines()).toEqual([expect.stringContaining('may exist that nobody holds')]);
  const posted = await postedEvents();
  expect(posted).toHaveLength(1);
  expect(posted[0]).toContain('critical-finding');
  expect(posted[0]).toContain('west');
});

it('tokens that a lost worker left are reported once, by the worker that finds them', async () => {
  const { about, attempt } = await bench.begun(burst);
  // The worker died with the last share given, and the attempt is gone.
  await fetch(`${bench.cluster('west').apiAddress}/v1/sys/replication/dr/secondary/generate-operation-token/attempt`, {
    method: 'DELETE',
  });
  for (let times = 0; times < 2; times += 1) {
    const { findings } = await bench.call('settleGeneration', { ...about, attempt, mayBeSent: true });
    expect(findings).toMatchObject([{ code: 'orphan-token' }]);
  }
  expect(errorLines()).toEqual([expect.stringContaining('may exist that nobody holds')]);
  expect(await postedEvents()).toHaveLength(1);
  expect(entries().map(({ state }) => state)).toEqual(['orphan']);
});

it('a last share is in the record before it is given; if its run is ended, the next worker reports it', async () => {
  const seen: LedgerEntry[] = [];
  bench.service.faults.add({
    endpoint: 'POST /v1/sys/replication/dr/secondary/generate-operation-token/update',
    skip: 2,
    action: () => void seen.push(...entries()),
  });
  await bench.generate(burst);
  const [noted] = seen;
  expect([noted?.state, entries()]).toEqual([
    'under-way',
    [expect.objectContaining({ id: noted?.id, state: 'alive' })],
  ]);
  if (!noted) throw new Error('no entry');
  // As a worker leaves it that dies now.
  await bench.ledger.write(noted);
  await sweep();
  expect(entries().map(({ state }) => state)).toEqual(['under-way']);
  await sweepTwiceWithoutRuns();
  expect(entries()).toEqual([expect.objectContaining({ state: 'orphan', mark: noted.mark })]);
  expect(errorLines()).toEqual([
    expect.stringContaining('its run has ended, and the effect of its last share is unknown'),
  ]);
});

it('a cluster that does not answer before the last share leaves no entry in the record, since none can have been given', async () => {
  const { generation, attempt } = await bench.begun(burst);
  bench.limit({ promoteMs: 200 });
  const health = 'GET /v1/sys/health';
  const silent = bench.service.faults.add({ endpoint: health, action: 'reset', times: Infinity });
  await expect(bench.call('completeGeneration', { ...generation, attempt })).rejects.toThrow('west');
  bench.limit();
  expect([silent.hits > 0, entries()]).toEqual([true, []]);
});

it('no share is given if the record has its number for another token, and that token stays there', async () => {
  const id = randomUUID();
  await bench.ledger.write({
    ...({
      version: 1,
      deployment: DEPLOYMENT,
      cluster: 'west',
      clusterId: 'id',
      state: 'kept',
    } as const),
    sealed: 'sealed' as Sealed<'operation-token'>,
    ...{ ...bench.run, id, rid: randomUUID(), at: new Date().toISOString() },
  });
  const { about, generation, attempt: given } = await bench.begun(burst);
  const attempt = { ...given, id };
  await expect(bench.call('completeGeneration', { ...generation, attempt })).rejects.toMatchObject({
    type: 'STATE_DIVERGED',
  });
  const { findings } = await bench.call('settleGeneration', { ...about, attempt, mayBeSent: false });
  expect(findings).toEqual([]);
  expect(entries()).toEqual([expect.objectContaining({ id, state: 'kept', sealed: 'sealed' })]);
});

it('an alarm that a lost worker could not send is sent by the next one, and so is a root token that no result has', async () => {
  const { ledger } = bench;
  const entry: LedgerEntry = {
    ...({ version: 1, deployment: DEPLOYMENT, cluster: 'west', clusterId: 'id', cid: burst.ceremony.cid } as const),
    ...{ ...bench.run, id: randomUUID(), at: new Date().toISOString(), state: 'orphan', how: 'a worker ended' },
  };
  await ledger.write(entry);
  const rootToken = { id: randomUUID(), kind: 'root-token', state: 'handed-over', encoded: 'ZW5jb2RlZA==' } as const;
  await ledger.write({ ...entry, ...rootToken, how: undefined });
  // Its run is open: it may still hand it on.
  await sweep();
  expect(errorLines()).toEqual([expect.stringContaining('An operation token of west may exist')]);
  await sweepTwiceWithoutRuns();
  expect(errorLines()).toHaveLength(2);
  expect(errorLines()[1]).toContain('but its run did not deliver it');
  expect((await ledger.all(DEPLOYMENT)).map(({ state }) => state).sort()).toEqual(['handed-over', 'orphan']);
  expect(errorLines().join()).not.toContain(rootToken.encoded);
});
