import { isInteger, parse } from 'lossless-json';
import { RunbookError } from '../errors';
import type { RequestDescription, ServiceAnswer } from './types';

/** Location of a value in an answer, for messages about it. */
export interface Place {
  /** Method and path of the call. */
  readonly what: string;
  readonly cluster: string;
  /** Address of the node that answered. */
  readonly node: string;
  readonly status: number;
  /** Whether the outcome of the call is known even if its answer cannot be read. */
  readonly outcomeKnown: boolean;
  /** Path of member names to the value. */
  readonly path: readonly string[];
  warn(warning: string): void;
}

/**
 * Reads one value in an answer. An optional value is `undefined` if it is absent, null, or of the wrong type. A wrong
 * type causes only a warning: one odd member must not stop a failover. For a missing required value, throws
 * RESPONSE_INVALID.
 */
export type Reader<T> = (value: unknown, place: Place) => T;

/** Seconds since 1970, or `never` if the service returns its zero time. */
type EpochSeconds = number | 'never';

type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function optional<T>(expected: string, convert: (value: unknown) => T | undefined): Reader<T | undefined> {
  return (value, place) => {
    // The service writes "" for "none".
    if (value === undefined || value === null || value === '') return undefined;
    const converted = convert(value);
    if (converted === undefined) {
      place.warn(`${place.what}: member "${place.path.join('.')}" of the answer is not ${expected}; ignored`);
    }
    return converted;
  };
}

/** A non-empty string. */
export const text = optional('a string', (value) => (typeof value === 'string' ? value : undefined));

/**
 * Whether a time means "never": the service writes Go's zero time, in any form, for what did not happen (facts 13.6).
 * Nothing here happened in 1970 or before.
 */
export function isNever(time: unknown): boolean {
  if (time === '' || time === null || time === undefined) return true;
  if (typeof time === 'number') return time <= 0;
  if (typeof time !== 'string') return false;
  return /^-?\d+$/.test(time) ? Number(time) <= 0 : Date.parse(time) <= 0;
}

/** An RFC3339 time; absent if it means "never". */
export const time: Reader<string | undefined> = (value, place) => (isNever(value) ? undefined : text(value, place));

export const flag = optional('a boolean', (value) => (typeof value === 'boolean' ? value : undefined));

/** A number, or a string with a number. */
export const number = optional('a number', toNumber);

/** A uint64 without loss of precision. */
export const index = optional('an unsigned integer', (value) => {
  if (typeof value === 'bigint') return value >= 0n ? value : undefined;
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined;
  return typeof value === 'string' && /^\d+$/.test(value) ? BigInt(value) : undefined;
});

/** Unix seconds, as a number or a string. */
export const epoch = optional<EpochSeconds>('a time', (value) => {
  const seconds = toNumber(value);
  return seconds !== undefined && isNever(seconds) ? 'never' : seconds;
});

export const anyObject = optional('an object', (value) => (isObject(value) ? value : undefined));

function listOf<T>(expected: string, isItem: (item: unknown) => item is T): Reader<readonly T[] | undefined> {
  const read = optional(expected, (value) => (Array.isArray(value) && value.every(isItem) ? value : undefined));
  // Go encodes an empty list as null.
  return (value, place) => (value === null ? [] : read(value, place));
}

export const texts = listOf('a list of strings', (item) => typeof item === 'string');

export const numbers = listOf('a list of numbers', (item) => typeof item === 'number');

const anyObjects = listOf('a list of objects', isObject);

export function objects<T>(item: Reader<T | undefined>): Reader<readonly T[] | undefined> {
  return (value, place) =>
    anyObjects(value, place)?.flatMap((each, position) => item(each, within(place, String(position))) ?? []);
}

/** The members of an object that are objects themselves, with their names. */
export function entries<T>(member: Reader<T | undefined>): Reader<ReadonlyArray<readonly [name: string, value: T]>> {
  return (value, place) =>
    Object.entries(anyObject(value, place) ?? {}).flatMap(([name, each]) => {
      const read = isObject(each) ? member(each, within(place, name)) : undefined;
      return read === undefined ? [] : [[name, read] as const];
    });
}

/** @throws RunbookError RESPONSE_INVALID if the value is absent or of the wrong type. */
export function needed<T>(read: Reader<T | undefined>): Reader<T> {
  return (value, place) => {
    const found = read(value, place);
    if (found !== undefined) return found;
    const text = `${place.what}: the answer has no valid member "${place.path.join('.')}"`;
    throw new RunbookError('RESPONSE_INVALID', text, {
      outcomeKnown: place.outcomeKnown,
      cluster: place.cluster,
    });
  };
}

export function withDefault<T>(read: Reader<T | undefined>, absent: T): Reader<T> {
  return (value, place) => read(value, place) ?? absent;
}

/** Converts the value of another reader. */
export function as<T, R>(read: Reader<T | undefined>, make: (value: T) => R): Reader<R | undefined> {
  return (value, place) => {
    const found = read(value, place);
    return found === undefined ? undefined : make(found);
  };
}

/** Members of an object by our names. The service's name is the same in snake case, unless another one is given. */
type Shape = Readonly<Record<string, Reader<unknown> | readonly [name: string, read: Reader<unknown>]>>;
type ValueOf<M> = M extends Reader<infer T> ? T : M extends readonly [string, Reader<infer T>] ? T : never;
type OptionalNames<S extends Shape> = { [N in keyof S]: undefined extends ValueOf<S[N]> ? N : never }[keyof S];
type ObjectOf<S extends Shape> = { readonly [N in Exclude<keyof S, OptionalNames<S>>]: ValueOf<S[N]> } & {
  readonly [N in OptionalNames<S>]?: ValueOf<S[N]>;
};

/** The type that a reader returns. */
export type Read<R> = R extends Reader<infer T> ? NonNullable<T> : never;

export function object<S extends Shape>(shape: S): Reader<ObjectOf<S> | undefined> {
  const members = Object.entries(shape).map(([name, member]) =>
    typeof member === 'function' ? ([name, snakeCase(name), member] as const) : ([name, ...member] as const),
  );
  return (value, place) => {
    const found = anyObject(value, place);
    if (found === undefined) return undefined;
    const read = members.map(([name, theirs, member]) => [
      name,
      member(memberOf(found, theirs), within(place, theirs)),
    ]);
    // Built by the readers of the shape, member by member.
    return Object.fromEntries(read) as ObjectOf<S>;
  };
}

/** One member of an object. */
export function at<T>(name: string, read: Reader<T>): Reader<T> {
  return (value, place) => read(isObject(value) ? memberOf(value, name) : undefined, within(place, name));
}

/** The object under `data`, or the body itself if it has no such object. */
export function data<T>(read: Reader<T>): Reader<T> {
  return (body, place) => {
    const inner = isObject(body) ? memberOf(body, 'data') : undefined;
    return isObject(inner) ? read(inner, within(place, 'data')) : read(body, place);
  };
}

/** A required object. */
export function neededObject<S extends Shape>(shape: S): Reader<ObjectOf<S>> {
  return needed(object(shape));
}

/** The members of the required object under `data`. */
export function dataObject<S extends Shape>(shape: S): Reader<ObjectOf<S>> {
  return data(neededObject(shape));
}

/** Whether an object has a member that is not null. */
export function has(value: unknown, name: string): boolean {
  return isObject(value) && (memberOf(value, name) ?? undefined) !== undefined;
}

function memberOf(found: JsonObject, name: string): unknown {
  return Object.hasOwn(found, name) ? found[name] : undefined;
}

function within(place: Place, name: string): Place {
  return { ...place, path: [...place.path, name] };
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function toNumber(value: unknown): number | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return Number(value);
  return typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : undefined;
}

/** Reads the complete body of an answer. @throws RunbookError RESPONSE_INVALID */
export function readAnswer<T>(
  caller: { readonly cluster: string; warn(warning: string): void },
  { method, path, effect }: RequestDescription,
  answer: ServiceAnswer,
  read: Reader<T>,
): T {
  const what = `${method} ${path}`;
  const { cluster } = caller;
  const { node, status, body } = answer;
  const outcomeKnown = effect === 'reads';
  if (!isObject(body)) {
    throw new RunbookError('RESPONSE_INVALID', `${what}: the answer (${status}) is not a JSON object`, {
      ...{ outcomeKnown, httpStatus: status, cluster },
    });
  }
  const warn = (warning: string) => caller.warn(warning);
  return read(body, { what, cluster, node, status, outcomeKnown, path: [], warn });
}

/**
 * Reads the first JSON document of `text`. The service can append a second one, for example if an audit sink fails
 * after the work was done; so further text is returned and is not an error. Integers beyond 2^53 become bigint without
 * loss.
 *
 * @throws SyntaxError if the text does not begin with a JSON document.
 */
export function parseFirstDocument(text: string) {
  const end = endOfFirstDocument(text);
  return { value: parse(text.slice(0, end), undefined, toNumberOrBigInt), rest: text.slice(end).trim() };
}

function toNumberOrBigInt(digits: string): number | bigint {
  const value = Number(digits);
  return isInteger(digits) && !Number.isSafeInteger(value) ? BigInt(digits) : value;
}

/** Position after the bracket that closes the first object or array; the length of the text for other values. */
function endOfFirstDocument(text: string): number {
  let depth = 0;
  let inString = false;
  for (let position = 0; position < text.length; position++) {
    const character = text[position];
    if (inString) {
      if (character === '\\') position++;
      else if (character === '"') inString = false;
    } else if (character === '"') {
      inString = true;
    } else if (character === '{' || character === '[') {
      depth++;
    } else if (character === '}' || character === ']') {
      depth--;
      if (depth <= 0) return position + 1;
    }
  }
  return text.length;
}

/** Makes text from the service safe within our own: no line breaks, no control characters, no backticks. */
export function onOneLine(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replace(/[\p{Cc}\p{Cf}\p{Cs}]/gu, '')
    .replaceAll('`', "'");
}
