/*
 * The record of a deployment: what outlives its runs. One workflow `record:<deployment>` holds it. Temporal is trusted to keep it,
 * but not to write it: what the workers did not mark does not count.
 */

export const RECORD_WORKFLOW = 'record';
export const RECORD_QUERY = 'read';
export const RECORD_UPDATE = 'write';
/** Type of the failure that refuses a write which does not follow the last one. */
export const RECORD_CONFLICT = 'RECORD_CONFLICT';

export function recordWorkflowId(deployment: string): string {
  return `record:${deployment}`;
}

/** One entry of the record. */
export interface RecordEntry {
  readonly value: unknown;
  /** When it was written, epoch ms. */
  readonly at: number;
  /** The workers' mark on it. */
  readonly mark: string;
}

/** How far the record has come. It proves itself, so that runs and the marker can keep it and compare it later. */
export interface RecordHead {
  /** When the record began, epoch ms. */
  readonly since: number;
  /** Writes so far. */
  readonly counter: number;
  /** When it was written, epoch ms. */
  readonly at: number;
  /** Of all keys and marks. */
  readonly digest: string;
  /** The workers' mark on it. */
  readonly mark: string;
}

export interface RecordState {
  /** Absent until something is written. */
  readonly head?: RecordHead;
  readonly entries: Readonly<Record<string, RecordEntry>>;
}

/** One write: what it changes, and the resulting head of the record. */
export interface RecordWrite {
  readonly head: RecordHead;
  readonly put: Readonly<Record<string, RecordEntry>>;
  readonly removed: readonly string[];
}

/** Whether a write is valid and follows the last one. Of two writes made at once, one is refused. */
export function follows({ head }: RecordState, write: unknown): write is RecordWrite {
  if (!isObject(write) || !isObject(write['head']) || !isObject(write['put']) || !Array.isArray(write['removed']))
    return false;
  const { counter } = write['head'];
  return Number.isSafeInteger(counter) && counter === (head?.counter ?? 0) + 1;
}

export function written({ entries }: RecordState, { head, put, removed }: RecordWrite): RecordState {
  const kept = Object.entries({ ...entries, ...put }).filter(([key]) => !removed.includes(key));
  return { head, entries: Object.fromEntries(kept) };
}

/** The state from a start input; an empty one if the input is no state. Every reader then sees what it lacks. */
export function stateOf(input: unknown): RecordState {
  return isObject(input) && isObject(input['entries']) ? (input as unknown as RecordState) : { entries: {} };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
