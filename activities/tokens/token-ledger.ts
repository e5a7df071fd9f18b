import { z } from 'zod';
import { randomUUID } from 'node:crypto';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { Sealed } from '../../src/contracts/ceremony';
import { tokenUse } from '../../src/contracts/input-members';
import { RunbookError } from '../../src/errors';
import { recordWorkflowId } from '../../src/contracts/record';
import { orphanFinding } from '../../src/contracts/run-status';
import type { Finding } from '../../src/contracts/run-facts';
import type { RunContext } from '../../src/keys';
import type { Records } from '../record';
import { RecordTable } from '../record-table';
import { currentExecution } from '../execution';
import type { ActivityDependencies } from '../dependencies';
import { notifyTargets } from '../notifications/notifications';

const entrySchema = z.strictObject({
  version: z.literal(1),
  id: z.uuid(),
  /** Defaults to `operation-token`. */
  kind: z.enum(['operation-token', 'root-token']).optional(),
  deployment: z.string(),
  cluster: z.string(),
  clusterId: z.string(),
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  /** The ceremony whose shares make the token. */
  cid: z.string().optional(),
  /**
   * `under-way`: its last share is being given; if its run has ended, the entry becomes an `orphan`. `handed-over`: a
   * token was generated that only its recipient can read.
   */
  state: z.enum(['under-way', 'alive', 'kept', 'orphan', 'handed-over']),
  /** The beginning of its attempt's nonce, by which people find it in the audit log. */
  mark: z.string().optional(),
  /** For an `orphan`: what happened, as text for the alarm. */
  how: z.string().optional(),
  /** For a token that people provided: the digest of its envelope. */
  provided: z.string().optional(),
  /** The sealed token; absent if nobody holds it. */
  sealed: z.custom<Sealed<'operation-token'>>((value) => typeof value === 'string').optional(),
  /** Kept for a later run, which can take it once. `wid` and `rid` here are those of the run that generated it. */
  kept: z
    .object({
      until: z.iso.datetime(),
      uses: z.array(tokenUse),
      /** Holders whose key shares generated it. */
      holders: z.array(z.string()),
      ...{ wid: z.string(), rid: z.string(), at: z.string() },
    })
    .optional(),
  /** A token for a recipient, encrypted to them only; kept until the run has ended. */
  encoded: z.string().optional(),
  /** When a worker raised the alarm about it. */
  toldAt: z.string().optional(),
  /** When its deletion was sent: a refusal since then proves that it is dead. */
  deletionSentAt: z.string().optional(),
  at: z.string(),
});
export type LedgerEntry = z.infer<typeof entrySchema>;
const tokens = new RecordTable('token', entrySchema);

/**
 * The generated tokens in a deployment's record: cluster, run and state, never a readable token. It outlives runs, so
 * that a later run can delete what an earlier one could not. Writes are durable when a call returns.
 */
export class TokenLedger {
  readonly #records: Records;
  readonly #alarm: ((entry: LedgerEntry) => void) | undefined;

  /** @param alarm called for each orphan when it is written, even if writing fails */
  constructor(records: Records, alarm?: (entry: LedgerEntry) => void) {
    this.#records = records;
    this.#alarm = alarm;
  }

  /**
   * @throws RunbookError RECORD_UNAVAILABLE if the record cannot be written; STATE_DIVERGED if it has the token of
   * another run or cluster under this ID
   */
  async write(entry: LedgerEntry): Promise<void> {
    if (!(await this.#put(entry, (now) => now === undefined || isOfSameRun(now, entry)))) throw idTaken(entry);
  }

  /** Notes that a last share is about to be given. IDs are unique: an existing entry belongs to somebody else. */
  async begin(entry: LedgerEntry): Promise<void> {
    // Its own entry is accepted: the answer to this write may have been lost.
    const isFree = (now: LedgerEntry | undefined) =>
      now === undefined || (isOfSameRun(now, entry) && now.at === entry.at);
    if (!(await this.#put(entry, isFree))) throw idTaken(entry);
  }

  /**
   * Removes the note of a last share that generated no token. Runs after any pending write of this worker, and decides
   * by what the record contains then.
   */
  async drop({ id, deployment, cid, ...of }: Omit<LedgerEntry, 'state'>): Promise<void> {
    const isItsNote = (now: LedgerEntry | undefined) =>
      now?.state === 'under-way' && now.cid === cid && isOfSameRun(now, of);
    await tokens.put(this.#records, deployment, id, undefined, isItsNote);
  }

  /** Notes an orphan, unless a worker that seemed dead has noted the token itself. @returns whether it was done */
  async writeOrphan(entry: LedgerEntry): Promise<boolean> {
    return this.#put(entry, (now) => now?.sealed === undefined && now?.encoded === undefined);
  }

  /** Removes an entry whose token never existed or is proven dead. */
  async remove({ id, deployment }: LedgerEntry): Promise<void> {
    await tokens.put(this.#records, deployment, id, undefined);
  }

  /**
   * Writes or removes an entry of a worker that seems dead, unless the entry changed since it was read: then the worker
   * lives, and keeps its entry.
   *
   * @returns whether it was done
   */
  async settle(read: LedgerEntry, becomes: LedgerEntry | undefined): Promise<boolean> {
    const still = (now: LedgerEntry | undefined) => now?.state === read.state && now.at === read.at;
    return becomes === undefined
      ? tokens.put(this.#records, read.deployment, read.id, undefined, still)
      : this.#put(becomes, still);
  }

  /**
   * Every entry of a token that exists or may exist and still needs attention, including one that its run has not
   * delivered to its recipient.
   */
  async open(deployment: string): Promise<LedgerEntry[]> {
    return (await this.all(deployment)).filter(
      ({ state, encoded }) => state !== 'handed-over' || encoded !== undefined,
    );
  }

  async all(deployment: string): Promise<LedgerEntry[]> {
    return [...(await tokens.all(this.#records, deployment)).values()];
  }

  /** @returns whether it was written: `still` decides by what the record contains right before the write */
  async #put(entry: LedgerEntry, still: (now: LedgerEntry | undefined) => boolean): Promise<boolean> {
    let counts: boolean | undefined;
    try {
      counts = await tokens.put(this.#records, entry.deployment, entry.id, entry, still);
      return counts;
    } finally {
      const isNews = entry.state === 'orphan' && entry.toldAt === undefined && counts !== false;
      if (isNews && this.#alarm) {
        this.#alarm(entry);
        await this.settle(entry, { ...entry, toldAt: new Date().toISOString() }).catch(() => undefined);
      }
    }
  }
}

/** Whether two entries have the same run and cluster. */
export function isOfSameRun(one: LedgerEntry, other: Pick<LedgerEntry, 'wid' | 'rid' | 'cluster'>): boolean {
  return one.wid === other.wid && one.rid === other.rid && one.cluster === other.cluster;
}

/** Whether the record keeps it for a later run, no run has taken it, and its deletion has not begun. */
export function isReserved({ kept, wid, rid, deletionSentAt }: LedgerEntry, now = Date.now()): boolean {
  return deletionSentAt === undefined && kept?.wid === wid && kept.rid === rid && Date.parse(kept.until) > now;
}

function idTaken({ cluster, id }: LedgerEntry): RunbookError {
  return new RunbookError(
    'STATE_DIVERGED',
    `The record already has another token under the ID of this attempt on ${cluster}.`,
    {
      cluster,
      observed: `an entry ${id}`,
      needed: 'an ID that no token has',
      next: 'Decide retry: the next attempt gets a new ID. Find out who else writes to the namespace.',
    },
  );
}

const DEADLINE_MS = 5_000;

/** What raising an alarm needs. */
type Tellers = Pick<ActivityDependencies, 'inventory' | 'log'>;

type AlarmSubject = RunContext & { readonly id: string; readonly deployment: string; readonly cluster?: string };

/** The ledger of the records. It raises an alarm for each new orphan at once, whatever the run knows or reports. */
export function ledgerOf(dependencies: Tellers & Pick<ActivityDependencies, 'records'>): TokenLedger {
  return new TokenLedger(dependencies.records, (entry) => raiseAlarm(dependencies, entry, alarmOf(entry)));
}

/** Logs the alarm before it returns, and notifies the targets that want critical findings without waiting for them. */
export function raiseAlarm(
  { inventory, log }: Tellers,
  about: AlarmSubject,
  { severity, code, text, next = '' }: Finding,
): void {
  const { id, deployment, cluster, ns, wid, rid } = about;
  log.error({ deployment, cluster, workflowId: wid, runId: rid, code }, `${text} ${next}`);
  const notification = {
    ...({ event: 'critical-finding', severity, runbook: 'operationTokenDisposal' } as const),
    ...{ number: 1, subject: `finding:${code}`, finding: code, words: text, at: Date.now() },
  };
  notifyTargets({ inventory, log }, deployment, notification, { ns, wid, rid, id }).catch((error: unknown) => {
    const why = error instanceof Error ? error.name : 'unknown';
    log.warn({ deployment, workflowId: wid, why }, 'no target was notified of the alarm: only this log has it');
  });
}

/** As {@link raiseAlarm}, about the record itself. @param id - the same for the same alarm, whoever raises it */
export function raiseRecordAlarm(
  tellers: Tellers,
  ns: string,
  deployment: string,
  finding: Finding,
  id: string = randomUUID(),
): void {
  raiseAlarm(tellers, { ns, wid: recordWorkflowId(deployment), rid: '', id, deployment }, finding);
}

/**
 * Raises the alarms that no worker has raised yet: orphans of a worker that died first, last shares whose run was ended
 * while they were given, and tokens for recipients whose run ended without delivering them. Removes the tokens that the
 * recorded result of their run contains.
 */
export async function sweepLedger(
  dependencies: Tellers & Pick<ActivityDependencies, 'temporal' | 'records'>,
  deployment: string,
): Promise<void> {
  const ledger = ledgerOf(dependencies);
  for (const entry of await ledger.all(deployment)) {
    const tell = async (finding: Finding): Promise<void> => {
      const settled = { ...entry, toldAt: new Date().toISOString() };
      if (entry.toldAt === undefined && (await ledger.settle(entry, settled))) raiseAlarm(dependencies, entry, finding);
    };
    if (entry.state === 'orphan') await tell(alarmOf(entry));
    if (entry.encoded === undefined && entry.state !== 'under-way') continue;
    const run = await runOf(dependencies, entry).catch(() => 'open');
    if (run === 'handed-on') await ledger.settle(entry, undefined);
    if (run !== 'ended') continue;
    // Nobody is left to find out what the last share did: the ledger raises the alarm.
    const how = `attempt ${entry.mark ?? 'without-nonce'}: its run has ended, and the effect of its last share is unknown`;
    if (entry.state === 'under-way') await ledger.settle(entry, { ...entry, state: 'orphan', how });
    else await tell(notDelivered(entry));
  }
}

/** The open entries of a deployment, without the tokens that the recorded result of their run contains. */
export async function openEntries(deployment: string): Promise<LedgerEntry[]> {
  const execution = currentExecution();
  const open: LedgerEntry[] = [];
  for (const entry of await new TokenLedger(execution.records).open(deployment)) {
    const run = entry.encoded === undefined ? 'not asked' : await runOf(execution, entry).catch(() => 'open');
    if (run !== 'handed-on') open.push(entry);
  }
  return open;
}

/**
 * The state of the run that generated a token. `handed-on`: its recorded result contains the encrypted token; nothing
 * else justifies removing what may be the only copy. A run that the server no longer knows has ended too.
 *
 * @throws if the server does not report it
 */
export async function runOf(
  { temporal }: Pick<ActivityDependencies, 'temporal'>,
  { wid, rid, encoded }: LedgerEntry,
): Promise<'open' | 'ended' | 'handed-on'> {
  return temporal.withDeadline(Date.now() + DEADLINE_MS, async () => {
    const handle = temporal.workflow.getHandle(wid, rid, { followRuns: false });
    try {
      const { status } = await handle.describe();
      if (status.name === 'RUNNING') return 'open';
      if (status.name !== 'COMPLETED' || encoded === undefined) return 'ended';
      const result: unknown = await handle.result();
      return JSON.stringify(result ?? null).includes(JSON.stringify(encoded)) ? 'handed-on' : 'ended';
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return 'ended';
      throw error;
    }
  });
}

/** The finding about a token that may exist and that nobody holds. */
function alarmOf({ kind = 'operation-token', cluster, how = 'its generation did not finish' }: LedgerEntry): Finding {
  return orphanFinding(kind, cluster, how);
}

/** The finding about a token that only its recipient can read and that the record still has for them. */
export function notDelivered({ id, deployment, cluster, wid, kind }: LedgerEntry): Finding {
  const isRoot = kind === 'root-token';
  const next = isRoot
    ? `, and revoke the token if it is not needed: a root token does not expire. Otherwise list \`auth/token/accessors\` of ${cluster}, and revoke by accessor each token with policy root whose creation time is that of this run.`
    : `. If it is not needed, start operationTokenDisposal with {"provided": "${cluster}"}; they give it to that run, which deletes it.`;
  return {
    severity: 'critical',
    code: isRoot ? 'orphan-root-token' : 'token-not-handed-on',
    text: `${isRoot ? 'A root' : 'An operation'} token of ${cluster} exists, generated by ${wid} and encrypted to its recipient, but its run did not deliver it (entry token:${id} of the record).`,
    next: `Give the recipient the field \`encoded\` of \`token:${id}\` in the record (query \`read\` of \`record:${deployment}\`). They decrypt it${next}`,
  };
}
