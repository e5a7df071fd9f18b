import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TokenLedger } from '../../activities/tokens/token-ledger';
import type { LedgerEntry } from '../../activities/tokens/token-ledger';
import type { RecordedCall } from '../../src/simulator';
import { attemptMark } from '../../src/contracts/ceremony';
import type { RunStatus } from '../../src/contracts/run-status';
import type { Sealed } from '../../src/contracts/ceremony';
import { isRunbookError } from '../../src/errors';
import { openValue, SealKeyring } from '../../src/keys';
import { findCanaries, historyText } from '../support/secret-search';
import type { Scenario } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';
import type { Played } from './lane';
import { THRESHOLD } from './orders';

/** What one order came to, for the figures. */
export interface Verdict {
  readonly end: 'token' | 'named action';
  readonly orphans: number;
  readonly alarms: number;
  /** Alarms without an orphan: the service forgot the attempt for another reason, which nobody outside can tell. */
  readonly unknowable: number;
  readonly attempts: number;
}

/** Judges one order against what the simulated service did. Every mistake that it finds is one line. */
export async function judge(
  scenario: Scenario,
  cluster: string,
  played: Played,
): Promise<Verdict & { readonly mistakes: string[] }> {
  const { order, report, asked, run, secrets } = played;
  const mistakes: string[] = [];
  const west = scenario.service.cluster(cluster);
  const [before, last] = played.calls;
  const calls = scenario.service.calls.filter(
    (call) => call.cluster === cluster && call.seq > before && call.seq <= last,
  );
  const issued = west.issuedSecrets.slice(...played.tokens);

  // 1. It ends in a token, or in a named action for a named person.
  const entries = await takeEntries(scenario, report.runId);
  const held = await tokensHeld(scenario, cluster, entries);
  const end = report.outcome === 'completed' ? 'token' : 'named action';
  if (end === 'token' && !held.some((token) => issued.includes(token)))
    mistakes.push('completed without a token of the service');
  if (held.length > (end === 'token' ? 1 : 0)) mistakes.push(`ended in a ${end} and left ${held.length} tokens`);
  if (
    end === 'named action' &&
    !(asked.length > 0 && asked.every(({ action, persons }) => action !== '' && persons.length > 0))
  )
    mistakes.push(`ended as ${report.outcome} and asked nobody for anything`);
  if (report.outcome !== 'completed' && report.outcome !== 'aborted') mistakes.push(`outcome ${report.outcome}`);

  // 2. No share is given to an attempt again once that attempt has taken it.
  const gives = givesOf(calls);
  mistakes.push(...givenTwice(gives));
  // A new attempt needs a reason: a mishap, a share that was rejected, or an attempt of somebody else.
  const attempts = new Set(gives.map(({ body }) => textOf(body, 'nonce'))).size;
  const quiet =
    // Who died after the token was sealed left it to the next: no share is given for another one.
    order.mishaps.every(({ call }) => call === 'sealed') &&
    !order.foreignBefore &&
    order.acts.every((each) => each.act !== 'share' || each.share === 'right');
  if (quiet && end === 'token' && (attempts !== 1 || gives.length !== THRESHOLD))
    mistakes.push(`nothing happened, and it took ${attempts} attempts and ${gives.length} shares`);

  // 3. The orphan alarm, of exactly the attempts of which a token may exist that the run does not hold.
  const orphans = issued.filter((token) => !held.includes(token));
  const told = report.findings.filter(({ code }) => code === 'orphan-token').map(({ text }) => text);
  const alarms = told.length;
  const marks = told.map((text) => /: attempt ([0-9a-f]{8}): /.exec(text)?.[1] ?? text).sort();
  const certain = mayExist(calls, played.unheard).map(attemptMark);
  const perhaps = order.mishaps.length > 0 ? lackedTheLast(calls).map(attemptMark) : [];
  const doubted = [...certain, ...perhaps.filter((mark) => marks.includes(mark))].sort();
  if (marks.join() !== doubted.join())
    mistakes.push(`alarms about ${marks.join() || 'nothing'}; a token may exist of ${doubted.join() || 'no attempt'}`);
  // What the service itself knows: the attempt of each token that nobody holds is among them.
  const made = orphans.map((token) => attemptMark(west.attemptsOfTokens.get(token) ?? 'no attempt'));
  const untold = made.filter((mark, index) => made.indexOf(mark) !== index || !marks.includes(mark));
  if (untold.length > 0)
    mistakes.push(`nobody holds what ${untold.join()} made; alarms about ${marks.join() || 'nothing'}`);
  for (const { message } of report.parkings)
    if (message.includes('may exist that nobody holds') && !told.some((text) => message.includes(text)))
      mistakes.push(`a parking alarms, and no finding does: ${message}`);
  if (alarms > 0 && report.findings[0]?.code !== 'orphan-token') mistakes.push('the alarm is not the first finding');
  if (entries.some(({ state }) => state === 'under-way'))
    mistakes.push('how an attempt ended is known, and the record says that it is under way');
  const inLedger = entries.filter(({ state }) => state === 'orphan').length;
  if (inLedger !== alarms) mistakes.push(`${alarms} alarms in the report, ${inLedger} orphans in the record`);

  // 4. Everybody who sent something is told what became of it.
  const history = await run.handle.fetchHistory();
  const arrived = (history.events ?? []).filter(
    ({ workflowExecutionSignaledEventAttributes: signaled }) => signaled?.signalName === 'share',
  ).length;
  const receipts = report.receipts.filter(({ signal }) => signal === 'share').length;
  // What came while the report was being written is not in it, but in the status of the closed run.
  const answered = receipts === arrived ? receipts : receiptsOf(await run.status(), 'share');
  if (answered !== arrived) mistakes.push(`${arrived} signals share, ${answered} receipts`);

  // 5. Nothing of a secret is readable in the history or the report.
  const texts = [historyText(history), JSON.stringify(report), JSON.stringify(entries)];
  const canaries = new Map([...secrets, ...issued.map((token, index) => [`token ${index}`, token] as const)]);
  for (const text of texts) mistakes.push(...findCanaries(text, canaries).map((name) => `${name} is readable`));

  return {
    end,
    orphans: orphans.length,
    alarms,
    unknowable: alarms - orphans.length,
    attempts,
    mistakes,
  };
}

function receiptsOf({ receipts }: RunStatus, signal: string): number {
  return receipts.filter((each) => each.signal === signal).length;
}

/** What the record has of one run, and has no more: each later order would read it again and again. */
async function takeEntries(scenario: Scenario, runId: string): Promise<LedgerEntry[]> {
  // Ten orders at once share one record on a busy machine: an activity would be tried again too.
  const ledger = new TokenLedger(scenario.recordsOfAWorker([], undefined, 60_000));
  const entries = (await ledger.all(scenario.name)).filter(({ rid }) => rid === runId);
  for (const entry of entries)
    await ledger.remove(entry).catch((error: unknown) => {
      if (!isRunbookError(error, 'RECORD_UNAVAILABLE')) throw error;
      return ledger.remove(entry);
    });
  return entries;
}

async function tokensHeld(scenario: Scenario, cluster: string, entries: readonly LedgerEntry[]): Promise<string[]> {
  const keyring = SealKeyring.parse(readFileSync(join(scenario.directory, 'seal-keys'), 'utf8'));
  const { clusterId } = scenario.service.cluster(cluster);
  const alive = entries.filter(({ state, sealed }) => state === 'alive' && sealed !== undefined);
  return Promise.all(
    alive.map(async ({ wid, rid, sealed }) => {
      const run = { ns: temporalServer().namespace, wid, rid };
      const spec = { kind: 'operation-token', cluster, clusterId, use: 'dr.promote' } as const;
      return (await openValue(keyring, run, sealed as Sealed<'operation-token'>, spec)).reveal();
    }),
  );
}

/*
 * What anybody outside of the service can know of the generation attempts of one order, from the calls that reached the
 * service. A token **may exist** that nobody holds where the last share of an attempt was sent and its answer was not heard:
 * a share that is under way may complete the attempt after any look. A service that
 * forgot the attempt for another reason looks the same from outside: such an alarm is no orphan, and only the simulator
 * knows it.
 */

const GIVE = '/generate-operation-token/update';

/** Calls with a share. A node that is not active and may not pass it on leads on to the one that is, and takes nothing. */
function givesOf(calls: readonly RecordedCall[]): RecordedCall[] {
  return calls.filter(
    ({ method, path, status, mayBePassedOn }) =>
      method === 'POST' && path.endsWith(GIVE) && (status !== 307 || mayBePassedOn),
  );
}

/**
 * An error that leaves open whether the share was taken: of a server, or of a standby that may have passed it on. 503
 * where nothing may be passed on: the service took nothing.
 */
function isOpen({ status, mayBePassedOn }: RecordedCall): boolean {
  return status === 503 || status === 307 ? mayBePassedOn : status >= 500;
}

function textOf(body: RecordedCall['body'], name: 'nonce' | 'key'): string {
  const value = body[name];
  return typeof value === 'string' ? value : '';
}

/**
 * Nonces of the attempts of which a token may exist that nobody holds.
 *
 * @param unheard - numbers of the calls whose caller was dead when the answer came
 */
function mayExist(calls: readonly RecordedCall[], unheard: ReadonlySet<number>): string[] {
  const heard = ({ seq, delivered }: RecordedCall) => delivered && !unheard.has(seq);
  const gives = givesOf(calls);
  const nonces = [...new Set(gives.map(({ body }) => textOf(body, 'nonce')))];
  return nonces.filter((nonce) => {
    const last = lastShares(gives.filter(({ body }) => textOf(body, 'nonce') === nonce));
    if (last.some((call) => heard(call) && call.progress === THRESHOLD)) return false;
    return last.some((call) => !heard(call) || isOpen(call));
  });
}

/**
 * Nonces of the attempts that lacked their last share alone, and got none: a share that left for a node that was going away
 * is in no list of calls, and whoever sent it cannot tell.
 */
function lackedTheLast(calls: readonly RecordedCall[]): string[] {
  const gives = givesOf(calls);
  const complete = gives.filter(({ progress }) => progress === THRESHOLD - 1).map(({ body }) => textOf(body, 'nonce'));
  return complete.filter(
    (nonce) => lastShares(gives.filter(({ body }) => textOf(body, 'nonce') === nonce)).length === 0,
  );
}

/** Of the calls of one attempt those with a share that may complete it. */
function lastShares(gives: readonly RecordedCall[]): RecordedCall[] {
  const given = new Set<string>();
  return gives.filter(({ body }) => {
    const key = textOf(body, 'key');
    const others = new Set(given);
    others.delete(key);
    given.add(key);
    return others.size >= THRESHOLD - 1;
  });
}

/** One attempt takes each share once. */
function givenTwice(gives: readonly RecordedCall[]): string[] {
  const taken = new Set<string>();
  return gives.flatMap(({ body, status }) => {
    const pair = `${textOf(body, 'nonce')} ${textOf(body, 'key')}`;
    const twice = taken.has(pair) ? ['a share was given again to an attempt that had taken it'] : [];
    if (status === 200) taken.add(pair);
    return twice;
  });
}
