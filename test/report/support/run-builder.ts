import type { Attested, RunFact, RunOutcome } from '../../../src/contracts/run-facts';
import { ERROR_CODES } from '../../../src/errors';
import type { ActivityRecord, RunClose, RunEnding, RunRecord, ShownFailure } from '../../../src/report/run-record';
import { fieldsOf, listOf, shownError } from '../../../src/report/run-record';

/** All times of these tests are milliseconds after this one. */
export const START = Date.parse('2026-11-21T01:00:00.000Z');

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
  readonly facts?: readonly RunFact[];
  readonly scheduledAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  readonly tries?: number;
  readonly lastFailure?: 'heartbeat' | 'application';
  readonly result?: unknown;
  readonly failure?: Omit<ShownFailure, 'outcomeKnown'> & { readonly outcomeKnown?: boolean };
  readonly timedOut?: true;
  readonly cancelled?: true;
}

/** A step that parked, and a decision on it; `at` in milliseconds after the start. */
export const parked = (
  at: number,
  step: string,
  code = 'UNREACHABLE',
  message = 'no connection',
  parkingNo = 1,
): RunFact => ({
  ...{ kind: 'parked', at: START + at, step, parkingNo, code, message },
});
export const decided = (at: number, step: string, reason: string, by: Attested, parkingNo = 1): RunFact => ({
  ...{ kind: 'decided', at: START + at, step, parkingNo, action: 'retry', by, reason },
});

type Change = (record: Changing) => void;
type Changing = { -readonly [K in keyof RunRecord]: RunRecord[K] };

const knownOf = (code: string) => code in ERROR_CODES && ERROR_CODES[code as keyof typeof ERROR_CODES].outcomeKnown;

/** Builds what a run knows of itself from what happened when. */
export class RunBuilder {
  readonly #activities: ActivitySpecification[];
  readonly #changes: { readonly at: number; readonly change: Change }[] = [];
  readonly #facts: RunFact[];
  readonly #left: string[] = [];

  /** A switchover that did this, and learned that beside it. */
  constructor(
    activities: readonly ActivitySpecification[] = [],
    facts: readonly RunFact[] = [],
    private readonly runbook = 'drSwitchover',
    private readonly input: object = INPUT,
  ) {
    this.#activities = [...activities];
    this.#facts = [...facts];
  }

  activity(specification: ActivitySpecification): this {
    this.#activities.push(specification);
    return this;
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

  memo(at: number, memo: { readonly phase: string; readonly waitingFor?: string | null }): this {
    return this.#change(at, (record) => {
      record.phase = memo.phase;
      if (memo.waitingFor === null) delete record.waitingFor;
      else if (memo.waitingFor !== undefined) record.waitingFor = memo.waitingFor;
    });
  }

  /** The run itself says how it ended. */
  ended(at: number, outcome: RunOutcome, rest: Partial<Pick<RunEnding, 'leftToDo' | 'result'>> = {}): this {
    return this.#change(at, (record) => {
      record.ending = { outcome, leftToDo: [], ...rest, at: START + at };
    });
  }

  failed(at: number, code: string, message: string): this {
    return this.#close(at, { how: 'failed', at: START + at, failure: { code, message, outcomeKnown: true } });
  }

  /** What the run knew at `at`, terminated right after. */
  terminatedAt(at: number, reason = 'x', principal?: string): RunRecord {
    const by = principal === undefined ? {} : { by: { name: principal, how: 'principal' } as const };
    const close: RunClose = { how: 'terminated', at: START + at + 1, reason, ...by };
    return { ...this.build(at), asOf: START + at + 1, close };
  }

  /** What the run knows; with `until`, what it knew then: what closed later still runs. */
  build(until = Infinity): RunRecord {
    const within = (at: number | undefined): at is number => at !== undefined && at <= until;
    const specifications = this.#activities.filter(({ scheduledAt }) => within(scheduledAt));
    const activities = specifications
      .toSorted((one, other) => one.scheduledAt - other.scheduledAt)
      .map((each) => this.#record(each, within(each.endedAt)));
    const facts = [
      ...[...this.#activities.flatMap((each) => each.facts ?? []), ...this.#facts],
      ...activities.flatMap(({ result, closedAt = 0 }) =>
        listOf(result['findings']).map(
          (finding) => ({ ...fieldsOf(finding), kind: 'finding', at: closedAt }) as RunFact,
        ),
      ),
    ].filter(({ at }) => within(at - START));
    const { requestedBy } = fieldsOf(this.input);
    const record: Changing = {
      ...IDENTITY,
      runbook: this.runbook,
      deployment: 'payments',
      input: { ...this.input },
      ...(typeof requestedBy === 'string' && { requestedBy: { name: requestedBy, how: 'claimed' } }),
      startedAt: START,
      asOf: START + Math.max(0, ...this.times().filter(within)),
      events: this.times().filter(within).length,
      activities,
      left: this.#left,
      facts: facts.toSorted((one, other) => one.at - other.at),
      phase: 'checking',
    };
    for (const { at, change } of this.#changes) if (within(at)) change(record);
    return record;
  }

  /** The times at which something happened, in order. */
  times(): readonly number[] {
    const all = [
      ...this.#activities.flatMap(({ scheduledAt, endedAt }) => [scheduledAt, endedAt ?? scheduledAt]),
      ...this.#changes.map(({ at }) => at),
    ];
    return [...new Set(all)].toSorted((one, other) => one - other);
  }

  #change(at: number, change: Change): this {
    this.#changes.push({ at, change });
    return this;
  }

  #close(at: number, close: RunClose): this {
    return this.#change(at, (record) => {
      record.close = close;
    });
  }

  #record(specification: ActivitySpecification, closed: boolean): ActivityRecord {
    const { type, step, input = {}, scheduledAt, startedAt, endedAt = 0, tries = 1, lastFailure } = specification;
    const open: ActivityRecord = {
      ...{ type, input: { ...input }, scheduledAt: START + scheduledAt, state: 'running', tries: 1 },
      ...(step && { step: { attempt: 1, ...step } }),
      ...{ workerLost: false, result: {} },
    };
    if (!closed) return open;
    const { result, failure, timedOut, cancelled } = specification;
    const failed = timedOut ? { code: 'HEARTBEAT_TIMEOUT', message: 'lost', outcomeKnown: false } : failure;
    return {
      ...open,
      ...{ startedAt: START + (startedAt ?? scheduledAt + 5), closedAt: START + endedAt, tries },
      workerLost: lastFailure === 'heartbeat',
      state: failed ? 'failed' : cancelled ? 'cancelled' : 'completed',
      result: fieldsOf(failed || cancelled ? {} : result),
      ...(failed && {
        failure: {
          outcomeKnown: failed.outcomeKnown ?? knownOf(failed.code),
          ...shownError(failed.code, failed.message),
        },
      }),
    };
  }
}
