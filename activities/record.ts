import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import type { Client } from '@temporalio/client';
import {
  RECORD_QUERY,
  RECORD_UPDATE,
  RECORD_WORKFLOW,
  recordWorkflowId,
  stateOf,
  written,
} from '../src/contracts/record';
import type { RecordEntry, RecordHead, RecordState, RecordWrite } from '../src/contracts/record';
import type { Finding } from '../src/contracts/run-facts';
import { escapeUntrusted } from '../src/contracts/words';
import { RunbookError } from '../src/errors';
import { attest, isAttested, kidOfMark } from '../src/keys';
import type { SealKeyring } from '../src/keys';

const READ_MS = 12_000;
/** Maximum pause before a busy server is asked again. */
const ASK_AGAIN_MS = 500;
const WRITE_MS = 5_000;
/** How long the next write builds on this worker's own last write without reading, unless the write is refused. */
const OWN_MS = 5_000;
/** How often one write is sent if no answer comes. The update ID stays the same, so it takes effect once. */
const SENT_AT_MOST = 3;
/** How many writes of other workers may come first, one after the other. */
const CONFLICTS = 20;

/** Entries that change at once; each key names its kind, such as `token:<id>`. */
export interface RecordChanges {
  readonly put?: Readonly<Record<string, unknown>>;
  readonly removed?: readonly string[];
}

/** The contents of the record that workers wrote. */
export interface KnownRecord {
  readonly values: ReadonlyMap<string, unknown>;
  /** Absent if there is no record yet, or if the head is not believed. */
  readonly head: RecordHead | undefined;
  /** Problems that this read found. They have already been logged and notified. */
  readonly alarms: readonly Finding[];
}

interface Found {
  readonly state: RecordState;
  /** The record's run that answered. No write goes to another run: somebody may have put it in its place. */
  readonly runId?: string;
}

interface Reading extends Found {
  readonly known: KnownRecord;
}

export interface RecordsOptions {
  readonly temporal: Client;
  readonly namespace: string;
  /** The task queue of these workers. A record on another task queue is not ours. */
  readonly taskQueue: string;
  readonly keyring: SealKeyring;
  /** Notifies people at once, regardless of what happens to the run that found the problem. */
  readonly alarm: (deployment: string, finding: Finding) => void;
  /** How long a server or a worker that does not answer is asked, ms. */
  readonly readMs?: number;
}

/**
 * The records of all deployments, for the activities of one worker. Workers share only Temporal and the seal keys. If
 * two of them write at once, one is refused, reads again, and writes after the other.
 */
export class Records {
  readonly #options: RecordsOptions;
  /** The latest head that this worker saw of each deployment. */
  readonly #seen = new Map<string, RecordHead>();
  readonly #writing = new Map<string, Promise<unknown>>();
  /** This worker's last write, for its next one. */
  readonly #written = new Map<string, Reading & { readonly until: number }>();

  constructor(options: RecordsOptions) {
    this.#options = options;
  }

  get namespace(): string {
    return this.#options.namespace;
  }

  /** The last head of the record that was seen, for results and the marker. */
  seen(deployment: string): RecordHead | undefined {
    return this.#seen.get(deployment);
  }

  /**
   * @param seen - heads that were seen before, from results and the marker. A head that no worker marked is ignored
   * @throws RunbookError RECORD_UNAVAILABLE if no worker answers, PRECONDITION_FAILED if somebody else's workflow is in
   *   its place. An unreadable record never reads as "no open tokens"
   */
  async read(deployment: string, seen: readonly unknown[] = []): Promise<KnownRecord> {
    return (await this.#read(deployment, seen)).known;
  }

  /**
   * Changes the record, after all writes of others.
   *
   * @param how - derives the changes from the current contents; called again if another write came first. Undefined:
   *   nothing is written
   * @returns whether something was written
   * @throws RunbookError as {@link read}; if the outcome is not known, the write may take effect later
   */
  async change(
    deployment: string,
    how: (values: ReadonlyMap<string, unknown>) => RecordChanges | undefined,
  ): Promise<boolean> {
    // Writes of this worker are serialized here, so that they do not conflict with each other.
    const before = this.#writing.get(deployment) ?? Promise.resolve();
    const writing = before.then(() => this.#change(deployment, how));
    this.#writing.set(
      deployment,
      writing.catch(() => undefined),
    );
    return writing;
  }

  async #change(
    deployment: string,
    how: (values: ReadonlyMap<string, unknown>) => RecordChanges | undefined,
  ): Promise<boolean> {
    let write: RecordWrite | undefined;
    // This worker's own last write is not read back: if another worker wrote since, the next write is refused.
    let own = this.#written.get(deployment);
    if (own && own.until < performance.now()) own = undefined;
    for (let tries = 1; ; tries += 1) {
      const { known, state, runId } = own ?? (await this.#read(deployment, []));
      // Refused because the record already has it: the answer to its first copy was lost.
      if (write !== undefined && state.head?.mark === write.head.mark) return true;
      const changes = how(known.values);
      if (changes === undefined && own === undefined) return false;
      own = undefined;
      if (changes === undefined) continue;
      write = this.#writeOf(deployment, state, known, changes);
      if (state.head === undefined) await this.#start(deployment, state);
      try {
        await this.#send(deployment, write, runId);
        this.#seen.set(deployment, write.head);
        if (runId !== undefined) this.#remember(deployment, written(state, write), runId);
        return true;
      } catch (error) {
        // Another write came first, or the run of the record ended: the contents are read again.
        const again = error instanceof WorkflowUpdateFailedError || error instanceof WorkflowNotFoundError;
        if (!again || tries === CONFLICTS) throw unreachable(deployment, 'written', error);
        // The record may be between two runs, or others may write just as fast.
        await delay(Math.random() * Math.min(1_000, 50 * tries));
      }
    }
  }

  #remember(deployment: string, state: RecordState, runId: string): void {
    const values = new Map(Object.entries(state.entries).map(([key, { value }]) => [key, value]));
    const known = { values, head: state.head, alarms: [] };
    this.#written.set(deployment, { known, state, runId, until: performance.now() + OWN_MS });
  }

  /**
   * The believed entries with the changes, under a head with the next revision. Entries that no worker marked are
   * dropped. Entries that were marked with a missing seal key stay, in case the key comes back.
   */
  #writeOf(
    deployment: string,
    { head, entries }: RecordState,
    { values }: KnownRecord,
    { put = {}, removed = [] }: RecordChanges,
  ): RecordWrite {
    const { keyring, namespace: ns } = this.#options;
    const at = Date.now();
    const marked = Object.entries(put).map(([key, value]): readonly [string, RecordEntry] => [
      key,
      { value, at, mark: attest(keyring, { deployment, kind: 'record-entry', time: at }, { ns, key, value }) },
    ]);
    const forged = Object.entries(entries).filter(
      ([key, { mark }]) => !values.has(key) && !(key in put) && keyring.attestingKey(kidOfMark(mark)) !== undefined,
    );
    const gone = [...removed, ...forged.map(([key]) => key)];
    const next = Object.fromEntries([...Object.entries(entries), ...marked].filter(([key]) => !gone.includes(key)));
    const counts = { since: head?.since ?? at, counter: (head?.counter ?? 0) + 1, digest: digestOf(next) };
    const mark = attest(keyring, { deployment, kind: 'record', time: at }, { ns, ...counts });
    return { head: { ...counts, at, mark }, put: Object.fromEntries(marked), removed: gone };
  }

  async #send(deployment: string, write: RecordWrite, runId: string | undefined): Promise<void> {
    const { temporal } = this.#options;
    const handle = temporal.workflow.getHandle(recordWorkflowId(deployment), runId);
    for (let sent = 1; ; sent += 1) {
      try {
        // The mark is unique to the write: sending the same write again returns the answer of the first.
        const options = { updateId: write.head.mark, args: [write] as [RecordWrite] };
        await temporal.withDeadline(Date.now() + WRITE_MS, () => handle.executeUpdate(RECORD_UPDATE, options));
        return;
      } catch (error) {
        if (!(error instanceof WorkflowUpdateRPCTimeoutOrCancelledError) || sent === SENT_AT_MOST) throw error;
      }
    }
  }

  async #read(deployment: string, others: readonly unknown[]): Promise<Reading> {
    // The heads from before this read: a concurrent read may see a later one.
    const before = [this.#seen.get(deployment), ...others].filter((each) => this.#isHead(deployment, each));
    const alarms: Finding[] = [];
    const { state, runId } = await this.#find(deployment, alarms);
    const { head, entries } = state;
    const believed = Object.entries(entries).filter(([key, entry]) => this.#isEntry(deployment, key, entry));
    const forged = Object.keys(entries).length - believed.length;
    const isWhole =
      head === undefined ? believed.length === 0 : this.#isHead(deployment, head) && head.digest === digestOf(entries);
    if (forged > 0 || !isWhole) alarms.push(notOurs(deployment, forged));
    const lost = before.find((seen) => head === undefined || head.since > seen.since || head.counter < seen.counter);
    if (lost) alarms.push(wentBack(deployment, head, lost));
    this.#see(deployment, isWhole ? head : undefined, lost !== undefined);
    for (const each of alarms) this.#options.alarm(deployment, each);
    const values = new Map(believed.map(([key, { value }]) => [key, value]));
    const known = { values, head: isWhole ? head : undefined, alarms };
    return { known, state, ...(runId !== undefined && { runId }) };
  }

  /** After the record went back and this was reported, it is compared with its present state. */
  #see(deployment: string, head: RecordHead | undefined, wentBack: boolean): void {
    const seen = this.#seen.get(deployment);
    if (wentBack) this.#seen.delete(deployment);
    if (head && (wentBack || seen === undefined || seen.counter < head.counter)) this.#seen.set(deployment, head);
  }

  /** Like {@link #findOnce}; a busy server is asked again until the time is over. */
  async #find(deployment: string, alarms: Finding[]): Promise<Found> {
    const until = Date.now() + (this.#options.readMs ?? READ_MS);
    for (;;) {
      try {
        return await this.#findOnce(deployment, alarms, until);
      } catch (error) {
        if (error instanceof RunbookError) throw error;
        if (error instanceof WorkflowNotFoundError) return { state: { entries: {} } };
        if (Date.now() + ASK_AGAIN_MS > until) throw unreachable(deployment, 'read', error);
        await delay(Math.random() * ASK_AGAIN_MS);
      }
    }
  }

  /** The running record. If somebody ended it, it is started again from its last state. */
  #findOnce(deployment: string, alarms: Finding[], until: number): Promise<Found> {
    const { temporal, taskQueue } = this.#options;
    const handle = temporal.workflow.getHandle(recordWorkflowId(deployment));
    return temporal.withDeadline(until, async () => {
      const asked = handle.query<unknown>(RECORD_QUERY);
      // If another workflow is in the record's place, the query may go unanswered.
      asked.catch(() => undefined);
      const { type, taskQueue: queue, status, runId } = await handle.describe();
      const isOurs = type === RECORD_WORKFLOW && queue === taskQueue;
      if (status.name !== 'RUNNING')
        return { state: await this.#restored(deployment, isOurs ? runId : undefined, alarms) };
      if (!isOurs) throw anothers(deployment, type, queue);
      return { state: stateOf(await asked), runId };
    });
  }

  /** @param ended - the record's last run; searched for if something else has been in its place since */
  async #restored(deployment: string, ended: string | undefined, alarms: Finding[]): Promise<RecordState> {
    const { temporal, taskQueue } = this.#options;
    const workflowId = recordWorkflowId(deployment);
    let runId = ended;
    const query = `WorkflowId = "${workflowId.replaceAll('"', '')}" AND WorkflowType = "${RECORD_WORKFLOW}"`;
    // The newest come first.
    if (runId === undefined)
      for await (const run of temporal.workflow.list({ query })) if (run.taskQueue === taskQueue) runId ??= run.runId;
    if (runId === undefined) return { entries: {} };
    // It ended: nothing can write to it any more.
    const last = stateOf(await temporal.workflow.getHandle(workflowId, runId).query(RECORD_QUERY));
    await this.#start(deployment, last);
    alarms.push(wasEnded(deployment, runId));
    return last;
  }

  async #start(deployment: string, state: RecordState): Promise<void> {
    const { temporal, taskQueue } = this.#options;
    const workflowId = recordWorkflowId(deployment);
    const staticSummary = `State of ${deployment} that outlives its runs`;
    await temporal.workflow
      .start(RECORD_WORKFLOW, { workflowId, taskQueue, args: [state], memo: { deployment }, staticSummary })
      .catch((error: unknown) => {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      });
  }

  #isEntry(deployment: string, key: string, { value, at, mark }: RecordEntry): boolean {
    const { keyring, namespace: ns } = this.#options;
    return isAttested(keyring, { deployment, kind: 'record-entry', time: at }, { ns, key, value }, mark);
  }

  #isHead(deployment: string, head: unknown): head is RecordHead {
    const { keyring, namespace: ns } = this.#options;
    const { since, counter, at, digest, mark } = { ...(head as RecordHead | undefined) };
    const facts = { deployment, kind: 'record', time: at ?? 0 } as const;
    return isAttested(keyring, facts, { ns, since, counter, digest }, mark);
  }
}

function digestOf(entries: RecordState['entries']): string {
  const marks = Object.entries(entries)
    .map(([key, { mark }]) => [key, mark])
    .sort(([one = ''], [other = '']) => (one < other ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(marks)).digest('base64url');
}

const LOOK =
  'Check the reports of earlier runs and the audit log for operation tokens that were left behind, and find out who writes to this namespace.';

function wasEnded(deployment: string, runId: string): Finding {
  return {
    severity: 'critical',
    code: 'record-ended',
    text: `The record of ${deployment} was ended manually (run ${runId}). It continues from its last state.`,
    next: 'Find out who ended it. It is not a runbook run: nobody needs to end it.',
  };
}

function wentBack(deployment: string, now: RecordHead | undefined, seen: RecordHead): Finding {
  const is = now ? `at revision ${now.counter}, started ${new Date(now.since).toISOString()}` : 'missing';
  return {
    severity: 'critical',
    code: 'record-went-back',
    text: `The record of ${deployment} is ${is}; revision ${seen.counter}, started ${new Date(seen.since).toISOString()}, was seen before. Its list of open tokens is incomplete.`,
    next: LOOK,
  };
}

function notOurs(deployment: string, forged: number): Finding {
  return {
    severity: 'critical',
    code: 'record-not-ours',
    text: `The record of ${deployment} was changed by somebody other than these workers. ${forged} entries are ignored, and others may be missing.`,
    next: `${LOOK} If a seal key was removed, add its entry back after the others.`,
  };
}

function anothers(deployment: string, type: string, taskQueue: string): RunbookError {
  return new RunbookError(
    'PRECONDITION_FAILED',
    `${recordWorkflowId(deployment)} is not the record of these workers.`,
    {
      observed: `a workflow ${escapeUntrusted(type)} on task queue ${escapeUntrusted(taskQueue)}`,
      needed: `the record of ${deployment}, served by these workers`,
      next: 'Find out who started it, and terminate it. All workers of a namespace that serve the same deployment use the same task queue.',
    },
  );
}

function unreachable(deployment: string, what: 'read' | 'written', error: unknown): RunbookError {
  return new RunbookError('RECORD_UNAVAILABLE', `The record of ${deployment} cannot be ${what}.`, {
    outcomeKnown: what === 'read',
    observed: error instanceof Error ? error.name : 'no error',
    needed: 'a Temporal server that answers, and a worker that serves the record',
    next: 'Check that workers are running, then retry.',
  });
}
