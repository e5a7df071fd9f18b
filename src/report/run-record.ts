import type { Attested, RunFact, RunObjectives, RunOutcome } from '../contracts/run-facts';
import type { RunbookFindings } from '../contracts/report';

/*
 * What a run knows about itself, kept by its workflow: the only source of the report. This file needs only the language
 * itself, because workflows import it. Times are epoch milliseconds.
 */

/** The members of an object; none if the value is not an object. */
export type Fields = Readonly<Record<string, unknown>>;

/** Why an activity or a run failed, as far as it may be shown. */
export interface ShownFailure {
  /** A code of the error family, or the name of what happened. */
  readonly code: string;
  readonly message: string;
  /** Whether it is certain that the call had no effect, or its effect is known. */
  readonly outcomeKnown: boolean;
}

/** The step that an activity served. */
export interface StepPosition {
  readonly name: string;
  readonly number: number;
  readonly attempt: number;
}

/** One activity. */
export interface ActivityRecord {
  readonly type: string;
  readonly input: Fields;
  readonly step?: StepPosition;
  readonly scheduledAt: number;
  /** When the last attempt began; absent while that is unknown. */
  readonly startedAt?: number;
  readonly closedAt?: number;
  /** `not-ordered`: the run ended before Temporal accepted the command, so the activity never ran. */
  readonly state: 'running' | 'completed' | 'failed' | 'cancelled' | 'not-ordered';
  /** Attempts that Temporal made. */
  readonly tries: number;
  /** Whether the attempt before the last one ended because its worker was lost, not because the service failed. */
  readonly workerLost: boolean;
  readonly result: Fields;
  readonly failure?: ShownFailure;
}

/** What a worker measured about the attempt that ended an activity; sent along with the result. */
export interface Served {
  readonly from: number;
  readonly to: number;
  readonly tries: number;
  readonly workerLost?: true;
}

/** How and when a run was closed from outside, or failed: what the run itself cannot know. */
export interface RunClose {
  readonly how: 'completed' | 'failed' | 'terminated' | 'cancelled' | 'timed-out' | 'continued';
  readonly at: number;
  readonly failure?: ShownFailure;
  /** What the person who terminated the run gave as the reason. */
  readonly reason?: string;
  readonly by?: Attested;
}

/** The end of a closed run, from its history. */
export interface RunTail {
  readonly close: RunClose;
  /** How many activities of each type are in the history. Temporal never accepted any further ones of the run. */
  readonly ordered: Readonly<Record<string, number>>;
  readonly events: number;
}

/** The end of the run, as the run itself reports it. */
export interface RunEnding {
  readonly outcome: RunOutcome;
  readonly leftToDo: readonly string[];
  readonly result?: RunbookFindings;
  readonly at: number;
}

/** Everything that a run knows about itself. */
export interface RunRecord {
  readonly namespace: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly runbook: string;
  readonly deployment?: string;
  /** The input, checked, with defaults. */
  readonly input: Fields;
  readonly requestedBy?: Attested;
  readonly objectives?: RunObjectives;
  readonly startedAt: number;
  /** The latest time that the run knows. */
  readonly asOf: number;
  /** Events of its history so far. */
  readonly events: number;
  readonly activities: readonly ActivityRecord[];
  readonly facts: readonly RunFact[];
  /** What people have to do if the run ends now, in addition to what follows from the rest of the record. */
  readonly left: readonly string[];
  readonly phase: string;
  readonly waitingFor?: string;
  readonly carryingOut?: string;
  readonly outageSince?: number;
  readonly ending?: RunEnding;
  readonly close?: RunClose;
}

/** Adds to a record how the run was closed, and which of its last commands Temporal never accepted. */
export function withTail(record: RunRecord, { close, ordered, events }: RunTail): RunRecord {
  const left = new Map(Object.entries(ordered));
  const activities = record.activities.map((activity): ActivityRecord => {
    const more = left.get(activity.type) ?? 0;
    left.set(activity.type, more - 1);
    return more > 0 ? activity : { ...activity, state: 'not-ordered' };
  });
  return { ...record, activities, events, asOf: Math.max(record.asOf, close.at), close };
}

const WITHHELD = 'not an error of this program; its message is only in the history';

/**
 * What may be shown of an error. Only messages with our own (uppercase) codes are known to be redacted: a parser's message,
 * for example, quotes its input. For any other error only the name is shown.
 */
export function shownError(code: string, message: string): { readonly code: string; readonly message: string } {
  if (/^[A-Z][A-Z0-9_]{2,59}$/.test(code)) return { code, message };
  return { code: /^[A-Za-z][A-Za-z0-9_]{0,59}$/.test(code) ? code : 'Error', message: WITHHELD };
}

/** The members of a value that may be anything; see {@link Fields}. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

/** The value if it is a text that is not empty. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The items of a list; none if the value is not a list. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

/** ISO text with milliseconds. */
export function isoTime(at: number): string {
  return new Date(at).toISOString();
}

/** The activities of these types, in the order in which they were scheduled. */
export function ofType({ activities }: RunRecord, ...types: readonly string[]): readonly ActivityRecord[] {
  return activities.filter(({ type }) => types.includes(type));
}

/** The completed activities of these types. */
export function completed(run: RunRecord, ...types: readonly string[]): readonly ActivityRecord[] {
  return ofType(run, ...types).filter(({ state }) => state === 'completed');
}

/** The cluster that an activity acts on. */
export function clusterOf({ input }: Pick<ActivityRecord, 'input'>): string | undefined {
  return textOf(input['cluster']) ?? textOf(input['secondary']) ?? textOf(input['newPrimary']);
}

/** When an activity began, as far as known. */
export function beganAt({ tries, scheduledAt, startedAt }: ActivityRecord): number {
  return tries > 1 ? scheduledAt : (startedAt ?? scheduledAt);
}

/** Facts of one kind, in order of time. */
export function factsOf<K extends RunFact['kind']>({ facts }: Pick<RunRecord, 'facts'>, kind: K) {
  return facts.filter((fact): fact is Fact<K> => fact.kind === kind);
}

type Fact<K extends RunFact['kind']> = Extract<RunFact, { kind: K }>;

/** Parked steps, each with how its parking ended: `ended` without a decision. */
export function parkingsIn(run: RunRecord) {
  const [decisions, ends] = [factsOf(run, 'decided'), factsOf(run, 'unparked')];
  return factsOf(run, 'parked').map((parked) => ({
    parked,
    decided: decisions.find(({ parkingNo }) => parkingNo === parked.parkingNo),
    ended: ends.find(({ parkingNo }) => parkingNo === parked.parkingNo),
  }));
}

/** Gates, each with how it closed; a gate that was not needed closes as it opens. */
export function gatesIn(run: RunRecord): readonly { readonly opened: Fact<'gate'>; readonly closed?: Fact<'gate'> }[] {
  const gates: { opened: Fact<'gate'>; closed?: Fact<'gate'> }[] = [];
  for (const fact of factsOf(run, 'gate')) {
    const open = gates.findLast(({ opened, closed }) => opened.gate === fact.gate && !closed);
    if (fact.state === 'opened') gates.push({ opened: fact });
    else if (open) open.closed = fact;
    else gates.push({ opened: fact, closed: fact });
  }
  return gates;
}
