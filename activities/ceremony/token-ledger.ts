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
import type { ActivityDependencies } from '../execution';
import { tellNow } from '../notifications/notifications';

const entrySchema = z.strictObject({
  version: z.literal(1),
  id: z.uuid(),
  /** An operation token where it is not said. */
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
   * `under-way`: its last share is being given; one whose run has ended becomes an `orphan`. `handed-over`: a root token was
   * made, and its recipient alone can read it.
   */
  state: z.enum(['under-way', 'alive', 'kept', 'orphan', 'handed-over']),
  /** What the nonce of its attempt begins with, by which people find it in the audit log. */
  mark: z.string().optional(),
  /** Of an `orphan`: what happened, in the words of the alarm. */
  how: z.string().optional(),
  /** Of a token that people provided: the digest of its envelope. */
  provided: z.string().optional(),
  /** Sealed; absent where nobody holds the token. */
  sealed: z.custom<Sealed<'operation-token'>>((value) => typeof value === 'string').optional(),
  /** Made for a later run, which takes it once: `wid` and `rid` here are of the run that made it. */
  kept: z
    .object({
      until: z.iso.datetime(),
      uses: z.array(tokenUse),
      /** Whose key shares made it. */
      holders: z.array(z.string()),
      ...{ wid: z.string(), rid: z.string(), at: z.string() },
    })
    .optional(),
  /** A token of a recipient, encrypted to them alone, until the run has ended. */
  encoded: z.string().optional(),
  /** When a worker told people of it: of an alarm. */
  toldAt: z.string().optional(),
  /** Its deletion was sent then: a refusal since is the proof that it is dead. */
  deletionSentAt: z.string().optional(),
  at: z.string(),
});
export type LedgerEntry = z.infer<typeof entrySchema>;
const tokens = new RecordTable('token', entrySchema);

/**
 * The generated tokens that a deployment's record knows of: cluster, run and state, never a readable token. It outlives
 * runs, so that what one run could not delete a later one can. What was written is durable when a call returns.
 */
export class TokenLedger {
  readonly #records: Records;
  readonly #alarm: ((entry: LedgerEntry) => void) | undefined;

  /** @param alarm told of each orphan when it is noted, also where it cannot be */
  constructor(records: Records, alarm?: (entry: LedgerEntry) => void) {
    this.#records = records;
    this.#alarm = alarm;
  }

  /**
   * @throws RunbookError RECORD_UNAVAILABLE where the record cannot be written; STATE_DIVERGED where it has the token of
   * another run or cluster under this number
   */
  async write(entry: LedgerEntry): Promise<void> {
    if (!(await this.#put(entry, (now) => now === undefined || isOfSameRun(now, entry)))) throw takenBy(entry);
  }

  /** Notes that a last share is about to be given. Numbers are given once: what stands there already is another's. */
  async begin(entry: LedgerEntry): Promise<void> {
    // Its own entry, where the answer to this very write was lost.
    const isFree = (now: LedgerEntry | undefined) =>
      now === undefined || (isOfSameRun(now, entry) && now.at === entry.at);
    if (!(await this.#put(entry, isFree))) throw takenBy(entry);
  }

  /**
   * Takes away the note of a last share that made no token. It comes after what this worker was to write before: judged is
   * what the record holds then.
   */
  async drop({ id, deployment, cid, ...of }: Omit<LedgerEntry, 'state'>): Promise<void> {
    const isItsNote = (now: LedgerEntry | undefined) =>
      now?.state === 'under-way' && now.cid === cid && isOfSameRun(now, of);
    await tokens.put(this.#records, deployment, id, undefined, isItsNote);
  }

  /** Notes an orphan, unless a worker that was thought to be dead has noted the token itself. @returns whether it was done */
  async writeOrphan(entry: LedgerEntry): Promise<boolean> {
    return this.#put(entry, (now) => now?.sealed === undefined && now?.encoded === undefined);
  }

  /** For an entry whose token never was, or is proven dead. */
  async remove({ id, deployment }: LedgerEntry): Promise<void> {
    await tokens.put(this.#records, deployment, id, undefined);
  }

  /**
   * Writes or removes an entry of a worker that is thought to be dead, unless it was changed since it was read: then it
   * lives, and its entry is its own.
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
   * Every entry of a token that exists, or may, and that somebody here has to do with: also a root token that its run has
   * not delivered to its recipient.
   */
  async open(deployment: string): Promise<LedgerEntry[]> {
    return (await this.all(deployment)).filter(
      ({ state, encoded }) => state !== 'handed-over' || encoded !== undefined,
    );
  }

  async all(deployment: string): Promise<LedgerEntry[]> {
    return [...(await tokens.all(this.#records, deployment)).values()];
  }

  /** @returns whether it counts: `still` judges what the record holds right before it is written */
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

/** Whether two entries are of one token, as far as the run that makes it knows. */
export function isOfSameRun(one: LedgerEntry, other: Pick<LedgerEntry, 'wid' | 'rid' | 'cluster'>): boolean {
  return one.wid === other.wid && one.rid === other.rid && one.cluster === other.cluster;
}

/** Whether the record keeps it for a later run, none has taken it, and nobody has begun to delete it. */
export function isReserved({ kept, wid, rid, deletionSentAt }: LedgerEntry, now = Date.now()): boolean {
  return deletionSentAt === undefined && kept?.wid === wid && kept.rid === rid && Date.parse(kept.until) > now;
}

function takenBy({ cluster, id }: LedgerEntry): RunbookError {
  return new RunbookError(
    'STATE_DIVERGED',
    `The record has another token under the number of this attempt on ${cluster}.`,
    {
      cluster,
      observed: `an entry ${id} already`,
      needed: 'a number that no token has',
      next: 'Decide retry: another attempt gets a number of its own. Find out who writes to the namespace.',
    },
  );
}

const DEADLINE_MS = 5_000;

/** What telling needs. */
type Tellers = Pick<ActivityDependencies, 'inventory' | 'log'>;

type AlarmSubject = RunContext & { readonly id: string; readonly deployment: string; readonly cluster?: string };

/** The tokens of the records. Each orphan that is noted is told at once, whatever the run knows or says. */
export function ledgerOf(dependencies: Tellers & Pick<ActivityDependencies, 'records'>): TokenLedger {
  return new TokenLedger(dependencies.records, (entry) => tellAlarm(dependencies, entry, alarmOf(entry)));
}

/** In the log before it returns, and to the targets of the inventory that want critical findings, which is not waited for. */
export function tellAlarm(
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
  tellNow({ inventory, log }, deployment, notification, { ns, wid, rid, id }).catch((error: unknown) => {
    const why = error instanceof Error ? error.name : 'unknown';
    log.warn({ deployment, workflowId: wid, why }, 'nobody but this log was told of the alarm');
  });
}

/** As {@link tellAlarm}, of the record itself. */
export function tellRecordAlarm(tellers: Tellers, ns: string, deployment: string, finding: Finding): void {
  tellAlarm(tellers, { ns, wid: recordWorkflowId(deployment), rid: '', id: randomUUID(), deployment }, finding);
}

/**
 * Tells what no worker told yet: orphans of a worker that died before it could, last shares whose run was ended while they
 * were given, and root tokens whose run ended without handing them on. Removes those that the recorded result of their run
 * has.
 */
export async function sweepLedger(
  dependencies: Tellers & Pick<ActivityDependencies, 'temporal' | 'records'>,
  deployment: string,
): Promise<void> {
  const ledger = ledgerOf(dependencies);
  for (const entry of await ledger.all(deployment)) {
    const tell = async (finding: Finding): Promise<void> => {
      const told = { ...entry, toldAt: new Date().toISOString() };
      if (entry.toldAt === undefined && (await ledger.settle(entry, told))) tellAlarm(dependencies, entry, finding);
    };
    if (entry.state === 'orphan') await tell(alarmOf(entry));
    if (entry.encoded === undefined && entry.state !== 'under-way') continue;
    const run = await runOf(dependencies, entry).catch(() => 'open');
    if (run === 'handed-on') await ledger.settle(entry, undefined);
    if (run !== 'ended') continue;
    // Nobody is left to find out what the last share did: the ledger tells it.
    const how = `attempt ${entry.mark ?? 'without-nonce'}: its run has ended, and nothing says what its last share did`;
    if (entry.state === 'under-way') await ledger.settle(entry, { ...entry, state: 'orphan', how });
    else await tell(notDelivered(entry));
  }
}

/** The open entries of a deployment, without the root tokens that the recorded result of their run has. */
export async function openEntries(
  dependencies: Pick<ActivityDependencies, 'temporal' | 'records'>,
  deployment: string,
): Promise<LedgerEntry[]> {
  const open: LedgerEntry[] = [];
  for (const entry of await new TokenLedger(dependencies.records).open(deployment)) {
    const run = entry.encoded === undefined ? 'not asked' : await runOf(dependencies, entry).catch(() => 'open');
    if (run !== 'handed-on') open.push(entry);
  }
  return open;
}

/**
 * What became of the run that made a token. `handed-on`: its recorded result has the root token; nothing else is a reason to
 * remove what may be its only copy. A run that the server does not know any more has ended too.
 *
 * @throws where the server does not say
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

/** What is told of a token that may exist and that nobody holds. */
function alarmOf({ kind = 'operation-token', cluster, how = 'its generation did not end' }: LedgerEntry): Finding {
  return orphanFinding(kind, cluster, how);
}

/** Nobody here can read it; the record has it for the one who can. */
export function notDelivered({ id, deployment, cluster, wid, kind }: LedgerEntry): Finding {
  const isRoot = kind === 'root-token';
  const next = isRoot
    ? `, and revoke the token where it is not needed. A root token has no lifetime. Otherwise go through \`auth/token/accessors\` of ${cluster}, and revoke by accessor each token with policy root whose creation time is that of this run.`
    : `; where it is not needed, start operationTokenDisposal with {"provided": "${cluster}"}, and they give it to be deleted.`;
  return {
    severity: 'critical',
    code: isRoot ? 'orphan-root-token' : 'token-not-handed-on',
    text: `${isRoot ? 'A root' : 'An operation'} token of ${cluster} exists, made by ${wid} and encrypted to its recipient, that its run did not hand on (entry token:${id} of the record).`,
    next: `Give the recipient the field \`encoded\` of \`token:${id}\` in the record (query \`read\` of \`record:${deployment}\`). They decrypt it${next}`,
  };
}
