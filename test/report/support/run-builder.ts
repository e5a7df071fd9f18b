import type { Attested, RunFact, RunOutcome } from '../../../src/contracts/run-facts';
import { ERROR_CODES } from '../../../src/errors';
import type { ActivityRecord, RunClose, RunEnding, RunRecord, ShownFailure } from '../../../src/report/run-record';
import { fieldsOf, shownError } from '../../../src/report/run-record';

/** All times of these tests are milliseconds after this one. */
const START = Date.parse('2026-11-21T01:00:00.000Z');

/** Epoch milliseconds, as facts and results carry them; and as text, as reports do. */
export const when = (at: number): number => START + at;
export const iso = (at: number): string => new Date(when(at)).toISOString();

export const IDENTITY = { namespace: 'default', workflowId: 'deployment:payments', runId: '0c1d-run' } as const;

export const INPUT = {
  ...{ deployment: 'payments', to: 'west' },
  reason: 'Planned maintenance in the eastern data centre',
  requestedBy: 'olga',
} as const;

/** One activity as a test describes it; without `endedAt` it still runs. */
export interface ActivitySpecification {
  readonly type: string;
  readonly step?: { readonly name: string; readonly number: number; readonly attempt?: number };
  readonly input?: object;
  readonly scheduledAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  readonly tries?: number;
  readonly workerLost?: boolean;
  readonly result?: unknown;
  readonly failure?: Omit<ShownFailure, 'outcomeKnown'> & { readonly outcomeKnown?: boolean };
}

/** A step that parked, and a decision on it; `at` in milliseconds after the start. */
export const parked = (
  at: number,
  step: string,
  code = 'UNREACHABLE',
  message = 'no connection',
  parkingNo = 1,
): RunFact => ({ kind: 'parked', at: when(at), step, parkingNo, code, message });
export const decided = (at: number, step: string, reason: string, by: Attested, parkingNo = 1): RunFact => ({
  ...{ kind: 'decided', at: when(at), step, parkingNo, action: 'retry', by, reason },
});

/** Builds what a run knows of itself from what happened when. */
export class RunBuilder {
  readonly #changes: { readonly at: number; readonly change: object }[] = [];
  readonly #facts: RunFact[];
  readonly #left: string[] = [];

  /** A switchover that did this, and learned that beside it. */
  constructor(
    private readonly activities: readonly ActivitySpecification[] = [],
    facts: readonly RunFact[] = [],
    private readonly runbook = 'drSwitchover',
    private readonly input: object = INPUT,
  ) {
    this.#facts = [...facts];
  }

  fact(fact: RunFact): this {
    this.#facts.push(fact);
    return this;
  }

  /** What the run said is left to do. */
  left(...texts: readonly string[]): this {
    this.#left.push(...texts);
    return this;
  }

  /** What else the run knows from then on. */
  change(at: number, change: { readonly [K in keyof RunRecord]?: RunRecord[K] | undefined }): this {
    this.#changes.push({ at, change });
    return this;
  }

  /** The run itself says how it ended. */
  ended(at: number, outcome: RunOutcome, rest: Partial<Pick<RunEnding, 'leftToDo' | 'result'>> = {}): this {
    return this.change(at, { ending: { outcome, leftToDo: [], ...rest, at: when(at) } });
  }

  failed(at: number, code: string, message: string): this {
    return this.change(at, { close: { how: 'failed', at: when(at), failure: { code, message, outcomeKnown: true } } });
  }

  /** What the run knew at `at`, terminated right after. */
  terminatedAt(at: number, reason = 'x', principal?: string): RunRecord {
    const by = principal === undefined ? {} : { by: { name: principal, how: 'principal' } as const };
    const close: RunClose = { how: 'terminated', at: when(at + 1), reason, ...by };
    return { ...this.build(at), asOf: when(at + 1), close };
  }

  /** What the run knows; with `until`, what it knew then: what closed later still runs. */
  build(until = Infinity): RunRecord {
    const within = (at: number | undefined): at is number => at !== undefined && at <= until;
    const times = this.times().filter(within);
    const { requestedBy } = fieldsOf(this.input);
    const record: RunRecord = {
      ...{ ...IDENTITY, runbook: this.runbook, deployment: 'payments', input: { ...this.input }, phase: 'checking' },
      ...(typeof requestedBy === 'string' && { requestedBy: { name: requestedBy, how: 'claimed' } }),
      ...{ startedAt: START, asOf: when(Math.max(0, ...times)), events: times.length, left: this.#left },
      activities: this.activities
        .filter(({ scheduledAt }) => within(scheduledAt))
        .toSorted((one, other) => one.scheduledAt - other.scheduledAt)
        .map((each) => recordOf(each, within(each.endedAt))),
      facts: this.#facts.filter(({ at }) => within(at - START)).toSorted((one, other) => one.at - other.at),
    };
    const known = this.#changes.filter(({ at }) => within(at));
    return known.reduce<RunRecord>((before, { change }) => ({ ...before, ...change }), record);
  }

  /** The times at which something happened, in order. */
  times(): readonly number[] {
    const all = [
      ...this.activities.flatMap(({ scheduledAt, endedAt }) => [scheduledAt, endedAt ?? scheduledAt]),
      ...this.#changes.map(({ at }) => at),
    ];
    return [...new Set(all)].toSorted((one, other) => one - other);
  }
}

const knownOf = (code: string) => code in ERROR_CODES && ERROR_CODES[code as keyof typeof ERROR_CODES].outcomeKnown;

function recordOf(specification: ActivitySpecification, closed: boolean): ActivityRecord {
  const { type, step, input = {}, scheduledAt, startedAt = scheduledAt + 5, endedAt = 0, failure } = specification;
  const { tries = 1, workerLost = false, result } = specification;
  const ordered = {
    type,
    input: { ...input },
    scheduledAt: when(scheduledAt),
    ...(step && { step: { attempt: 1, ...step } }),
  };
  if (!closed) return { ...ordered, state: 'running', tries: 1, workerLost: false, result: {} };
  const { code = '', message = '', outcomeKnown = knownOf(code) } = failure ?? {};
  return {
    ...{ ...ordered, startedAt: when(startedAt), closedAt: when(endedAt), tries, workerLost },
    ...{ state: failure ? 'failed' : 'completed', result: failure ? {} : fieldsOf(result) },
    ...(failure && { failure: { outcomeKnown, ...shownError(code, message) } }),
  };
}
