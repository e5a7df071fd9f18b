import { createHash } from 'node:crypto';
import type { temporal as proto } from '@temporalio/proto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import type { Client } from '@temporalio/client';
import { payloadConverter } from '../src/contracts/payload-converter';
import {
  MOST_RECORD,
  RECORD_QUERY,
  RECORD_UPDATE,
  RECORD_WORKFLOW,
  follows,
  isRecordHead,
  isRecordState,
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
/** Runs of the record whose histories are searched for its last state that a worker authenticated. */
const RUNS_LOOKED_AT = 3;
/** Alarms that a worker remembers to have raised. */
const MOST_RAISED = 1_000;
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
  /** As the record holds it; empty if what it holds is no state. */
  readonly state: RecordState;
  /** What it holds is no state at all. */
  readonly malformed?: boolean;
  /** The record's run that answered. No write goes to another run: somebody may have put it in its place. */
  readonly runId?: string;
}

interface Reading extends Found {
  readonly known: KnownRecord;
  /** The last state that a worker authenticated. A write builds on this one, and takes the others' place. */
  readonly authentic: RecordState;
}

export interface RecordsOptions {
  readonly temporal: Client;
  readonly namespace: string;
  /** The task queue of these workers. A record on another task queue is not ours. */
  readonly taskQueue: string;
  readonly keyring: SealKeyring;
  /** Notifies people at once, regardless of what happens to the run that found the problem. */
  readonly alarm: (deployment: string, finding: Finding, id: string) => void;
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
  /** Alarms that this worker has raised, by their IDs. */
  readonly #raised = new Set<string>();
  /** This worker's last write, for its next one. */
  readonly #written = new Map<string, Reading & { readonly until: number }>();

  constructor(options: RecordsOptions) {
    this.#options = options;
  }

  get namespace(): string {
    return this.#options.namespace;
  }

  /** The task queue of these workers. */
  get taskQueue(): string {
    return this.#options.taskQueue;
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
      const reading = own ?? (await this.#read(deployment, []));
      const { known, state, runId } = reading;
      // Refused because the record already has it: the answer to its first copy was lost.
      if (write !== undefined && state.head?.mark === write.head.mark) return true;
      const changes = how(known.values);
      if (changes === undefined && own === undefined) return false;
      own = undefined;
      if (changes === undefined) continue;
      write = this.#writeOf(deployment, reading, changes);
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
    this.#written.set(deployment, { known, state, authentic: state, runId, until: performance.now() + OWN_MS });
  }

  /**
   * The entries that a worker authenticated with the changes, under a head with the next revision. Everything else that
   * the record holds is dropped, except entries that were marked with a missing seal key, in case the key comes back.
   */
  #writeOf(deployment: string, { state, authentic }: Reading, { put = {}, removed = [] }: RecordChanges): RecordWrite {
    const { keyring, namespace: ns } = this.#options;
    const at = Date.now();
    const marked = Object.entries(put).map(([key, value]): readonly [string, RecordEntry] => [
      key,
      { value, at, mark: attest(keyring, { deployment, kind: 'record-entry', time: at }, { ns, key, value }) },
    ]);
    const kept = [...this.#ofMissingKeys(state), ...Object.entries(authentic.entries)].filter(
      ([key]) => !removed.includes(key),
    );
    const next = Object.fromEntries([...kept, ...marked]);
    const changed = Object.entries(next).filter(([key, { mark }]) => state.entries[key]?.mark !== mark);
    const gone = Object.keys(state.entries).filter((key) => !Object.hasOwn(next, key));
    const { head } = state;
    const since = authentic.head?.since ?? head?.since ?? at;
    const counts = { since, counter: (head?.counter ?? 0) + 1, digest: digestOf(next) };
    const mark = attest(keyring, { deployment, kind: 'record', time: at }, { ns, ...counts });
    return { head: { ...counts, at, mark }, put: Object.fromEntries(changed), removed: gone };
  }

  /** Entries of a record that other workers wrote last, with a seal key that is missing here. Nothing proves them: they get little room. */
  #ofMissingKeys({ head, entries }: RecordState): readonly (readonly [string, RecordEntry])[] {
    if (head === undefined || this.#knowsKeyOf(head.mark)) return [];
    const found = Object.entries(entries).filter(([, { mark }]) => !this.#knowsKeyOf(mark));
    return JSON.stringify(found).length > MOST_RECORD / 4 ? [] : found;
  }

  #knowsKeyOf(mark: string): boolean {
    return this.#options.keyring.attestingKey(kidOfMark(mark)) !== undefined;
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
    const { state, malformed = false, runId } = await this.#find(deployment, alarms);
    const isWhole = !malformed && this.#isWhole(deployment, state);
    // An entry counts only under a head that a worker made: an old one of a worker may have been put back.
    const authentic = isWhole ? state : await this.#lastWhole(deployment, runId);
    const { head, entries } = authentic;
    if (!isWhole) alarms.push(notOurs(deployment, this.#forgedIn(deployment, state)));
    const lost = before.find((seen) => head === undefined || head.since > seen.since || head.counter < seen.counter);
    if (lost) alarms.push(wentBack(deployment, head, lost));
    this.#see(deployment, head, lost !== undefined);
    for (const each of alarms) this.#raise(deployment, each, state.head?.mark ?? '');
    const believed = Object.entries(entries).filter(([key, entry]) => this.#isEntry(deployment, key, entry));
    const values = new Map(believed.map(([key, { value }]) => [key, value]));
    const known = { values, head: isWhole ? head : undefined, alarms };
    return { known, state, authentic, ...(runId !== undefined && { runId }) };
  }

  /** Raises an alarm once by deployment, kind and state of the record, however often that is read, by however many workers. */
  #raise(deployment: string, finding: Finding, headMark: string): void {
    const about = JSON.stringify([this.namespace, deployment, finding.code, headMark]);
    const id = createHash('sha256').update(about).digest('base64url').slice(0, 32);
    if (this.#raised.has(id)) return;
    if (this.#raised.size >= MOST_RAISED) this.#raised.clear();
    this.#raised.add(id);
    this.#options.alarm(deployment, finding, id);
  }

  /** Whether a worker's head covers these entries, and each of them is as a worker marked it. */
  #isWhole(deployment: string, { head, entries }: RecordState): boolean {
    if (head === undefined) return Object.keys(entries).length === 0;
    const isCovered = this.#isHead(deployment, head) && head.digest === digestOf(entries);
    return isCovered && this.#forgedIn(deployment, { entries }) === 0;
  }

  /** Entries that no worker marked. Whether one of a missing seal key is forged cannot be known. */
  #forgedIn(deployment: string, { entries }: Pick<RecordState, 'entries'>): number {
    const isForged = ([key, entry]: readonly [string, RecordEntry]) =>
      this.#knowsKeyOf(entry.mark) && !this.#isEntry(deployment, key, entry);
    return Object.entries(entries).filter(isForged).length;
  }

  /**
   * The last state of the record that a worker authenticated, from the histories of its last runs. Nobody can add to a
   * history what a worker did not write under the next revision. Empty if there is none, or if it cannot be read: the
   * alarm says that the list of tokens is incomplete.
   */
  async #lastWhole(deployment: string, newest: string | undefined): Promise<RecordState> {
    const { temporal, readMs = READ_MS } = this.#options;
    const until = Date.now() + readMs;
    let runId = newest;
    try {
      for (let runs = 0; runs < RUNS_LOOKED_AT && runId; runs += 1) {
        const handle = temporal.workflow.getHandle(recordWorkflowId(deployment), runId);
        const { events } = await temporal.withDeadline(until, () => handle.fetchHistory());
        const found = statesIn(events ?? []).findLast((state) => state.head && this.#isWhole(deployment, state));
        if (found) return found;
        runId = events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? undefined;
      }
    } catch {
      // The state of the record itself was read: what it says is known to be wrong, whatever its history would say.
    }
    return { entries: {} };
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
      const held = await asked;
      return { state: stateOf(held), malformed: !isRecordState(held), runId };
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
    const held = stateOf(await temporal.workflow.getHandle(workflowId, runId).query(RECORD_QUERY));
    // What was wrong with it must not go on.
    const last = this.#isWhole(deployment, held) ? held : await this.#lastWhole(deployment, runId);
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
    if (!isRecordHead(head)) return false;
    const { keyring, namespace: ns } = this.#options;
    const { since, counter, at, digest, mark } = head;
    return isAttested(keyring, { deployment, kind: 'record', time: at }, { ns, since, counter, digest }, mark);
  }
}

/** The states that a run of the record had, by its history: the one it began with, and one after each write that followed. */
function statesIn(events: readonly proto.api.history.v1.IHistoryEvent[]): RecordState[] {
  const [started] = events;
  const argument = (payloads: proto.api.common.v1.IPayloads | null | undefined): unknown => {
    const [payload] = payloads?.payloads ?? [];
    return payload && payloadConverter.fromPayload(payload);
  };
  const states = [stateOf(argument(started?.workflowExecutionStartedEventAttributes?.input))];
  for (const { workflowExecutionUpdateAcceptedEventAttributes: accepted } of events) {
    const state = states.at(-1);
    const write = argument(accepted?.acceptedRequest?.input?.args);
    if (accepted && state && follows(state, write)) states.push(written(state, write));
  }
  return states;
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
    next: 'Find out who ended it. It is not a runbook run, and must keep running.',
  };
}

function wentBack(deployment: string, now: RecordHead | undefined, seen: RecordHead): Finding {
  const is = now ? `at revision ${now.counter}, started ${new Date(now.since).toISOString()}` : 'missing';
  return {
    severity: 'critical',
    code: 'record-went-back',
    text: `The record of ${deployment} is ${is}; an earlier read showed revision ${seen.counter}, started ${new Date(seen.since).toISOString()}. Its list of open tokens is incomplete.`,
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
