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

/** A key, a mark and a digest are short; times are dates; a record that is larger could not be read any more. */
const MOST_KEY = 300;
const MOST_MARK = 200;
const LAST_TIME = 8.64e15;
/** UTF-16 units of the JSON of all entries and the head. */
export const MOST_RECORD = 512 * 1024;

/** Whether a write is valid and follows the last one. Of two writes made at once, one is refused. */
export function follows(state: RecordState, write: unknown): write is RecordWrite {
  if (!isObject(write) || !isRecordHead(write['head']) || !isEntries(write['put']) || !isKeys(write['removed']))
    return false;
  if (write['head'].counter !== (state.head?.counter ?? 0) + 1) return false;
  return JSON.stringify(written(state, write as unknown as RecordWrite)).length <= MOST_RECORD;
}

export function written({ entries }: RecordState, { head, put, removed }: RecordWrite): RecordState {
  const kept = Object.entries({ ...entries, ...put }).filter(([key]) => !removed.includes(key));
  return { head, entries: Object.fromEntries(kept) };
}

/** Whether this is the state of a record. Nothing else of it may be used: it comes from Temporal. */
export function isRecordState(input: unknown): input is RecordState {
  if (!isObject(input) || !isEntries(input['entries'])) return false;
  if (input['head'] !== undefined && !isRecordHead(input['head'])) return false;
  return JSON.stringify(input).length <= MOST_RECORD;
}

/** The state from a start input; an empty one if the input is no state. Every reader then sees what it lacks. */
export function stateOf(input: unknown): RecordState {
  return isRecordState(input) ? input : { entries: {} };
}

export function isRecordHead(value: unknown): value is RecordHead {
  if (!isObject(value)) return false;
  const { since, counter, at, digest, mark } = value;
  return isTime(since) && isTime(at) && isCount(counter) && isShort(digest, MOST_MARK) && isShort(mark, MOST_MARK);
}

function isEntries(value: unknown): boolean {
  return isObject(value) && Object.entries(value).every(([key, entry]) => key.length <= MOST_KEY && isEntry(entry));
}

function isEntry(entry: unknown): entry is RecordEntry {
  return isObject(entry) && 'value' in entry && isTime(entry['at']) && isShort(entry['mark'], MOST_MARK);
}

function isKeys(value: unknown): boolean {
  return Array.isArray(value) && value.every((key) => isShort(key, MOST_KEY));
}

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= LAST_TIME;
}

/** One more can always follow. */
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) > 0 && Number(value) < Number.MAX_SAFE_INTEGER;
}

function isShort(value: unknown, most: number): value is string {
  return typeof value === 'string' && value.length <= most;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
