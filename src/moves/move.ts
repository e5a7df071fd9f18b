import type { Operation } from '../contracts/operations';

/** A cluster as it was read, or as it is otherwise known. */
export interface Named {
  readonly cluster: string;
  readonly clusterId?: string | undefined;
}

/** An operation that a plan allows. */
export interface PlannedOperation extends Operation {
  readonly on: Named;
  /** The other cluster, if there is one: the primary to follow, or the cluster that must not be primary. */
  readonly with?: Named | undefined;
  /** The id, filter or option that it is about, in terms of the interface. */
  readonly detail?: string | undefined;
}

/** Items that do not apply to this plan are `false` or `undefined`, and are left out. */
export type Listed<T> = readonly (T | false | undefined)[];

export function applicable<T>(items: Listed<T>): T[] {
  return items.flatMap((each) => (each === false || each === undefined ? [] : [each]));
}

/**
 * One change to the service, or one act of a run, told once. Plan, timeline and README name it by `step`; what people allow,
 * the rights that are checked, and the warnings before the approval come from the same entry.
 */
export interface Move {
  /** Absent: no step of its own. It is allowed because another step may need it. */
  readonly step?: string | undefined;
  /** What people should know about the step when they read the plan. */
  readonly note?: string | undefined;
  /** The run takes the step only if this holds: a clause that follows "if". */
  readonly when?: string | undefined;
  readonly operations?: Listed<PlannedOperation>;
  readonly warnings?: Listed<string>;
}

/** What is left to do if the run ends while a change is under way, and once it is done. */
export interface Change extends Move {
  readonly step: string;
  readonly ifUnknown: string;
  readonly done?: string | undefined;
}
