import type { Attested, RunFact, RunObjectives, RunOutcome } from '../contracts/run-facts';
import type { RunbookFindings } from '../contracts/report';

/*
 * What a run knows of itself, kept by its workflow: the one source of the report. Nothing here needs more than the
 * language, because workflows read it. Times are epoch milliseconds.
 */

/** The members of an object; none where the value is no object. */
export type Fields = Readonly<Record<string, unknown>>;

/** Why an activity or a run failed, as far as it may be shown. */
export interface ShownFailure {
  /** A code of the error family, or the name of what happened. */
  readonly code: string;
  readonly message: string;
  /** Whether it is certain that the call had no effect, or that its effect is known. */
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
  /** When the last attempt began; absent as long as that is not known. */
  readonly startedAt?: number;
  readonly closedAt?: number;
  /** `not-ordered`: the run ended before Temporal took the order, so nothing of it was done. */
  readonly state: 'running' | 'completed' | 'failed' | 'cancelled' | 'not-ordered';
  /** Attempts that Temporal made. */
  readonly tries: number;
  /** Whether the attempt before the last one ended because its worker was lost, not because the service failed. */
  readonly workerLost: boolean;
  readonly result: Fields;
  readonly failure?: ShownFailure;
}

/** What a worker measured of the attempt that ended an activity; it travels beside the result. */
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

/** The end of a closed run as its history has it. */
export interface RunTail {
  readonly close: RunClose;
  /** How many activities of each type Temporal was ordered to run. What the run ordered beyond was never taken. */
  readonly ordered: Readonly<Record<string, number>>;
  readonly events: number;
}

/** How the run itself says that it ended. */
export interface RunEnding {
  readonly outcome: RunOutcome;
  readonly leftToDo: readonly string[];
  readonly result?: RunbookFindings;
  readonly at: number;
}

/** All that a run knows of itself. */
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
  /** The last time that the run knows. */
  readonly asOf: number;
  /** Events of its history so far. */
  readonly events: number;
  readonly activities: readonly ActivityRecord[];
  readonly facts: readonly RunFact[];
  /** What people have to do where the run ends now, beside what follows from the rest. */
  readonly left: readonly string[];
  readonly phase: string;
  readonly waitingFor?: string;
  readonly carryingOut?: string;
  readonly outageSince?: number;
  readonly ending?: RunEnding;
  readonly close?: RunClose;
}

/** A record with how the run was closed, and what of its last orders Temporal never took. */
export function withTail(record: RunRecord, { close, ordered, events }: RunTail): RunRecord {
  const left = new Map(Object.entries(ordered));
  const activities = record.activities.map((activity): ActivityRecord => {
    const more = left.get(activity.type) ?? 0;
    left.set(activity.type, more - 1);
    return more > 0 ? activity : { ...activity, state: 'not-ordered' };
  });
  return { ...record, activities, events, asOf: Math.max(record.asOf, close.at), close };
}

const WITHHELD = 'not one of this program’s errors; its message stays in the history';

/**
 * What may be shown of an error. Only messages of our own codes, which are upper case, are known to be redacted: a
 * parser's message, for one, quotes what it parsed. Of any other error the name alone is shown.
 */
export function shownError(code: string, message: string): { readonly code: string; readonly message: string } {
  if (/^[A-Z][A-Z0-9_]{2,59}$/.test(code)) return { code, message };
  return { code: /^[A-Za-z][A-Za-z0-9_]{0,59}$/.test(code) ? code : 'Error', message: WITHHELD };
}

/** The members of an object that may be anything. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

/** A text that is not empty. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The items of a list; none where the value is no list. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

/** ISO text with milliseconds. */
export function isoTime(at: number): string {
  return new Date(at).toISOString();
}

/** The activities of these types, in the order in which they were ordered. */
export function ofType({ activities }: RunRecord, ...types: readonly string[]): readonly ActivityRecord[] {
  return activities.filter(({ type }) => types.includes(type));
}

/** Those of them that ended well. */
export function completed(run: RunRecord, ...types: readonly string[]): readonly ActivityRecord[] {
  return ofType(run, ...types).filter(({ state }) => state === 'completed');
}

/** The cluster that an activity acts on. */
export function clusterOf({ input }: Pick<ActivityRecord, 'input'>): string | undefined {
  return textOf(input['cluster']) ?? textOf(input['secondary']) ?? textOf(input['newPrimary']);
}

/** When an activity began, as far as it is known. */
export function beganAt({ tries, scheduledAt, startedAt }: ActivityRecord): number {
  return tries > 1 ? scheduledAt : (startedAt ?? scheduledAt);
}

/** Facts of one kind, in order of time. */
export function factsOf<K extends RunFact['kind']>({ facts }: Pick<RunRecord, 'facts'>, kind: K) {
  return facts.filter((fact): fact is Fact<K> => fact.kind === kind);
}

type Fact<K extends RunFact['kind']> = Extract<RunFact, { kind: K }>;

interface ParkingRecord {
  readonly parked: Fact<'parked'>;
  readonly decided: Fact<'decided'> | undefined;
  /** Without a decision. */
  readonly ended: Fact<'unparked'> | undefined;
}

/** Steps that parked, each with how that ended. */
export function parkingsIn(run: RunRecord): readonly ParkingRecord[] {
  const [decisions, ends] = [factsOf(run, 'decided'), factsOf(run, 'unparked')];
  return factsOf(run, 'parked').map((parked) => ({
    parked,
    decided: decisions.find(({ parkingNo }) => parkingNo === parked.parkingNo),
    ended: ends.find(({ parkingNo }) => parkingNo === parked.parkingNo),
  }));
}

/** Gates, each with how it closed; one that was not needed closed as it opened. */
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
