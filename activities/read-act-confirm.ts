import { setTimeout as delay } from 'node:timers/promises';
import type { ChangeResult } from '../src/contracts/activities';
import { RunbookError, isRunbookError } from '../src/errors';
import type { ClusterAccess } from './clusters';
import type { Execution } from './execution';
import { CHANGE_TIMEOUT_MS } from './timing';
/** Timeout of a role change, ms: another attempt begins later (decision 21). Its effect is read in any case. */
export const ROLE_TIMEOUT_MS = 4_000;

/** How long a parked step looks whether its state arrives anyway: less than one attempt of a waiting activity, ms. */
export const LATE_MS = 5.5 * 3_600_000;
/** It looks this many times less often. */
export const LATE_POLLS = 15;

/** Consecutive reads that must say "not there" before a call with a lost answer counts as without effect. */
const STABLE_READS = 4;
const MAX_CALLS = 3;
/** Default number of polls that must have said "not there" or failed before a deadline ends. */
const MIN_POLLS = 4;

/**
 * Time to wait for a state, on the monotonic clock. The clock alone never ends it: several polls must have failed, and
 * the last of them must have begun after the time was over. A worker that was stalled therefore polls once more.
 */
export class Deadline {
  #ends: number;
  #polls = 0;
  #polledAfter = false;

  /** @param spentMs - the part that earlier attempts of the activity used up */
  constructor(
    readonly ms: number,
    readonly minPolls = MIN_POLLS,
    spentMs = 0,
  ) {
    this.#ends = performance.now() + Math.max(0, ms - spentMs);
  }

  /** What is awaited is under way: the whole time begins again. */
  restart(): void {
    this.#ends = performance.now() + this.ms;
    this.#polls = 0;
  }

  /** One read of the state. */
  async poll<T>(read: () => Promise<T>): Promise<T> {
    const after = this.leftMs === 0;
    try {
      return await read();
    } finally {
      this.#polls += 1;
      this.#polledAfter = after;
    }
  }

  /** Remaining time, ms. */
  get leftMs(): number {
    return Math.max(0, this.#ends - performance.now());
  }

  get isOver(): boolean {
    return this.#polledAfter && this.#polls >= this.minPolls;
  }

  /** For errors: `60 s`. */
  get durationText(): string {
    return `${Math.round(this.ms) / 1000} s`;
  }
}

/** Options of a changing call, with the credential of its cluster read again. */
export async function withCredential(access: ClusterAccess, { signal }: Pick<Execution, 'signal'>) {
  return { token: await access.credential(), signal, timeoutMs: CHANGE_TIMEOUT_MS };
}

interface Polling<S> {
  readonly read: () => Promise<S>;
  readonly until: (state: S) => boolean;
  /** Whether the state is under way, however long it takes: the budget counts from the last time that it is not. */
  readonly underWay?: (state: S) => boolean;
  /** Never less than a few polls: see {@link Deadline}. */
  readonly budgetMs: number;
  readonly describe: (state: S) => string;
  /** What is awaited, for the error. */
  readonly needed: string;
  readonly cluster?: string;
  readonly pollMs?: number;
}

/**
 * Reads until the state is there. Retryable errors are waited out; others are thrown.
 *
 * @throws RunbookError CONFIRMATION_TIMEOUT with the last observed state; AUDIT_DEVICE_BLOCKED if that was the last
 *   error
 */
export function awaitState<S>(execution: Execution, polling: Polling<S>): Promise<S> {
  return awaitWithin(execution, polling, deadlineOf(execution, polling.budgetMs));
}

/** Like {@link awaitState}, but any answer is enough. */
export function awaitAnswer<S>(
  execution: Execution,
  asked: Pick<Polling<S>, 'read' | 'budgetMs' | 'needed' | 'cluster'>,
): Promise<S> {
  return awaitState(execution, { ...asked, until: () => true, describe: () => '' });
}

/** Like {@link awaitState}; if the state is not there in time, the last observation. Other errors are thrown. */
export async function seenInTime<S>(execution: Execution, polling: Polling<S>): Promise<S | { readonly late: string }> {
  try {
    return await awaitState(execution, polling);
  } catch (error) {
    if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
    return { late: error.observed ?? 'not readable' };
  }
}

/** A budget counts from the activity's first attempt. Time to settle an unknown outcome of an earlier one remains. */
function deadlineOf({ doubt, spentMs, timing }: Execution, budgetMs: number): Deadline {
  const settlingMs = doubt.mayHaveSent ? timing.underWayMs + STABLE_READS * 1_000 : 0;
  return new Deadline(budgetMs, undefined, Math.min(spentMs, Math.max(0, budgetMs - settlingMs)));
}

async function awaitWithin<S>(execution: Execution, polling: Polling<S>, deadline: Deadline): Promise<S> {
  for (;;) {
    execution.throwIfCancelled();
    let last: string;
    let named: RunbookError | undefined;
    let advice: string | undefined;
    try {
      const state = await deadline.poll(polling.read);
      if (polling.until(state)) return state;
      if (polling.underWay?.(state) === true) deadline.restart();
      last = polling.describe(state);
    } catch (error) {
      if (!isRunbookError(error) || !error.retryable) throw error;
      last = `${error.code}: ${error.message}`;
      advice = error.next;
      if (error.code === 'AUDIT_DEVICE_BLOCKED') named = error;
    }
    execution.progress(`waiting for ${polling.needed}; observed ${last}`);
    if (deadline.isOver) {
      if (named) throw lastError(named, { outcomeKnown: named.outcomeKnown });
      throw new RunbookError(
        'CONFIRMATION_TIMEOUT',
        `Not observed within ${deadline.durationText}: ${polling.needed}.`,
        {
          retryable: false,
          observed: last,
          needed: polling.needed,
          cluster: polling.cluster,
          next: `${advice === undefined ? '' : `${advice} `}Check the cluster, then retry: the state is read again first.`,
        },
      );
    }
    await delay(polling.pollMs ?? execution.timing.pollMs, undefined, { signal: execution.signal });
  }
}

export interface Change<S> extends Polling<S> {
  /** Refuses to act on what was read: throws. Called before every request. */
  readonly allow?: (state: S) => void;
  /**
   * The last checks, and whatever the request needs. If they fail, even without an answer, nothing was sent and the
   * outcome is known. Returns the function that sends the changing request once.
   */
  readonly prepare: (state: S) => Promise<() => Promise<unknown>>;
  /** Whether a refusal means "not yet" and justifies another call within the budget. */
  readonly notYet?: (error: RunbookError) => boolean;
  /**
   * A role change, or a request with an activation token. After a lost answer, only reads that began when the request
   * can no longer be in flight prove that it had no effect.
   */
  readonly servesOnce?: boolean;
}

export interface Changed<S> {
  readonly outcome: 'done' | 'already';
  readonly state: S;
  readonly calls: number;
  readonly calledAt?: number;
}

/** The result of a change, as its activity returns it. */
export function resultOf(
  { outcome, calledAt, calls }: Pick<ChangeResult, 'outcome' | 'calledAt' | 'calls'>,
  observed: string,
): ChangeResult {
  return { outcome, observed, calledAt, confirmedAt: Date.now(), calls };
}

/**
 * Read, act, confirm. The request is sent again only if reads prove that the previous one had no effect. The answer of
 * the service never counts as completion.
 *
 * A request whose answer was lost, here or in an earlier Temporal attempt, leaves an unknown outcome in
 * `execution.doubt`. The interceptor adds it to every error that leaves the activity. It ends only with reads that
 * agree on "not there" after that request can no longer be in flight. `read` must throw if it does not know the state:
 * it asks the active node.
 */
export async function readActConfirm<S>(execution: Execution, asked: Change<S>): Promise<Changed<S>> {
  const { doubt } = execution;
  const deadline = deadlineOf(execution, asked.budgetMs);
  const change: Change<S> = { ...asked, read: settlingDoubt(execution, asked) };
  const readOnce = (): Promise<S> => awaitWithin<S>(execution, { ...change, until: () => true }, deadline);
  let state: S = await readOnce();
  if (change.until(state)) return { outcome: 'already', state, calls: 0 };
  let calledAt: number | undefined;
  for (let calls = 1, refusals = 0; ;) {
    const seen = state;
    change.allow?.(seen);
    const error = await attempt(async () => {
      const send = await beforeSending(() => change.prepare(seen));
      await execution.assertCurrentAttempt();
      calledAt ??= Date.now();
      await send();
    });
    if (error !== undefined && error.outcomeKnown) {
      // Refused for certain. The state may be there anyway, through somebody else or through an earlier request of
      // ours.
      state = await readOnce();
      if (change.until(state)) return { outcome: 'done', state, calls: calls + refusals, calledAt };
      // Nothing was sent: Temporal retries the activity once it answers.
      if (error.code === 'TEMPORAL_UNAVAILABLE' && error.retryable && change.notYet === undefined) throw error;
      const again = change.notYet?.(error) ?? (error.retryable && refusals < MAX_CALLS * 4);
      if (!again || deadline.isOver) throw lastError(error, { outcomeKnown: !doubt.mayHaveSent });
      refusals += 1;
      execution.progress(`${error.code}; retrying until the budget ends`);
      const pause = error.retryAfterMs ?? execution.timing.pollMs * 2;
      // Once the budget is over by the clock, the last calls do not wait long.
      await delay(Math.min(pause, Math.max(change.pollMs ?? execution.timing.pollMs, deadline.leftMs)), undefined, {
        signal: execution.signal,
      });
      continue;
    }
    // Accepted, or without an answer: it may take effect late, and no refusal of another request settles that.
    doubt.mayHaveSent = true;
    doubt.since = performance.now();
    state = await confirm(execution, change, deadline, error !== undefined);
    if (change.until(state)) return { outcome: 'done', state, calls: calls + refusals, calledAt };
    if (calls === MAX_CALLS) {
      throw new RunbookError('OUTCOME_UNKNOWN', `The answer was lost ${MAX_CALLS} times, and no effect was observed.`, {
        retryable: false,
        cluster: change.cluster,
        observed: change.describe(state),
        needed: change.needed,
        next: 'Check the cluster and its logs, then retry: the state is read again first.',
      });
    }
    calls += 1;
  }
}

/**
 * The outcome is known again once enough consecutive reads say "not there", all of them after a lost request can be in
 * flight. Seeing the state settles what was sent here, but not what an earlier attempt may have sent.
 */
function settlingDoubt<S>({ doubt, timing }: Execution, change: Pick<Polling<S>, 'read' | 'until'>): () => Promise<S> {
  let settled = 0;
  const earlier = doubt.mayHaveSent;
  return async () => {
    try {
      const began = performance.now();
      const state = await change.read();
      const there = change.until(state);
      settled = !there && began > doubt.since + timing.underWayMs ? settled + 1 : 0;
      if (there) doubt.mayHaveSent &&= earlier;
      else if (settled >= STABLE_READS) doubt.mayHaveSent = false;
      return state;
    } catch (error) {
      settled = 0;
      throw error;
    }
  };
}

/**
 * The state before a request that serves once. If an earlier Temporal attempt may have sent the request, reads until
 * its effect is there, or until it is certain that it had none.
 */
export async function awaitSettled<S>(execution: Execution, polling: Polling<S>): Promise<S> {
  const { doubt, timing } = execution;
  return awaitState(execution, {
    ...polling,
    budgetMs: polling.budgetMs + (doubt.mayHaveSent ? timing.underWayMs : 0),
    read: settlingDoubt(execution, polling),
    until: (state) => polling.until(state) || !doubt.mayHaveSent,
  });
}

/** The error that ends the activity: Temporal must not retry with another budget. */
function lastError(error: RunbookError, { outcomeKnown }: { readonly outcomeKnown: boolean }): RunbookError {
  return error.with({ retryable: false, outcomeKnown });
}

/** A last check before a request. If it fails, even without an answer, nothing was sent: the outcome is known. */
export async function beforeSending<T>(look: () => Promise<T>): Promise<T> {
  try {
    return await look();
  } catch (error) {
    if (!isRunbookError(error) || error.outcomeKnown || error.code === 'REQUEST_CANCELLED') throw error;
    throw error.with({ outcomeKnown: true });
  }
}

async function attempt(act: () => Promise<unknown>): Promise<RunbookError | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (isRunbookError(error) && error.code !== 'REQUEST_CANCELLED') return error;
    throw error;
  }
}

/** Reads until the state is there or, if the answer was lost, until reads agree that the request had no effect. */
function confirm<S>(execution: Execution, change: Change<S>, deadline: Deadline, answerLost: boolean): Promise<S> {
  let notThere = 0;
  let began = 0;
  const underWayMs = change.servesOnce === true ? execution.timing.underWayMs : 0;
  const settledAt = execution.doubt.since + underWayMs;
  // A request that was accepted late also gets time to be confirmed, regardless of what earlier attempts used up.
  const leastMs = Math.max((change.pollMs ?? execution.timing.pollMs) * STABLE_READS * 2 + underWayMs, deadline.ms / 2);
  const polling: Polling<S> = {
    ...change,
    read: () => {
      began = performance.now();
      return change.read().catch((error: unknown): never => {
        notThere = 0;
        throw error;
      });
    },
    until: (seen) => {
      if (change.until(seen)) return true;
      if (change.servesOnce !== true || began > settledAt) notThere += 1;
      return answerLost && notThere >= STABLE_READS;
    },
  };
  const within = new Deadline(Math.max(leastMs, deadline.leftMs));
  return awaitWithin(execution, polling, within).catch((error: unknown): never => {
    // The request was accepted, or its answer was lost. The state was not seen, but may still come.
    throw isRunbookError(error, 'CONFIRMATION_TIMEOUT') ? lastError(error, { outcomeKnown: false }) : error;
  });
}
