import { isInteger, parse } from 'lossless-json';
import { RunbookError } from '../errors';
import type { RequestDescription, ServiceAnswer } from './types';

/** Where a value stands in an answer, for messages about it. */
export interface Place {
  /** Method and path of the call. */
  readonly what: string;
  readonly cluster: string;
  /** The address that answered. */
  readonly node: string;
  readonly status: number;
  /** Whether an answer that cannot be read leaves the effect of the call known. */
  readonly outcomeKnown: boolean;
  /** Names of the members that lead to the value. */
  readonly path: readonly string[];
  warn(warning: string): void;
}

/**
 * Reads one value of an answer. An optional value that is absent, null or of a wrong type is `undefined` (the last with
 * a warning: one odd member must not stop a failover); a needed one that is not there is RESPONSE_INVALID.
 */
export type Reader<T> = (value: unknown, place: Place) => T;

/** Seconds since 1970, or `never` where the service gives its zero time. */
export type EpochSeconds = number | 'never';

type JsonObject = Readonly<Record<string, unknown>>;

/** Go's zero time in unix seconds: the service's way to say "never". */
const GO_ZERO_TIME_SECONDS = -62135596800;

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

/** A text that is not empty. */
export const text = optional('a string', (value) => (typeof value === 'string' ? value : undefined));

export const flag = optional('a boolean', (value) => (typeof value === 'boolean' ? value : undefined));

/** A number, also where the service writes it as a string. */
export const number = optional('a number', toNumber);

/** An uint64 without loss. */
export const index = optional('an unsigned integer', (value) => {
  if (typeof value === 'bigint') return value >= 0n ? value : undefined;
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined;
  return typeof value === 'string' && /^\d+$/.test(value) ? BigInt(value) : undefined;
});

/** Unix seconds, as a number or a text. */
export const epoch = optional<EpochSeconds>('a time', (value) => {
  const seconds = toNumber(value);
  return seconds === 0 || (seconds !== undefined && seconds <= GO_ZERO_TIME_SECONDS) ? 'never' : seconds;
});

export const anyObject = optional('an object', (value) => (isObject(value) ? value : undefined));

function listOf<T>(expected: string, isItem: (item: unknown) => item is T): Reader<readonly T[] | undefined> {
  const read = optional(expected, (value) => (Array.isArray(value) && value.every(isItem) ? value : undefined));
  // Go's empty list.
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

/** @throws RunbookError RESPONSE_INVALID where the value is absent or of a wrong type. */
export function needed<T>(read: Reader<T | undefined>): Reader<T> {
  return (value, place) => {
    const found = read(value, place);
    if (found !== undefined) return found;
    throw new RunbookError(
      'RESPONSE_INVALID',
      `${place.what}: the answer has no usable member "${place.path.join('.')}"`,
      {
        outcomeKnown: place.outcomeKnown,
        cluster: place.cluster,
      },
    );
  };
}

export function withDefault<T>(read: Reader<T | undefined>, absent: T): Reader<T> {
  return (value, place) => read(value, place) ?? absent;
}

/** A value made of what another reader gives. */
export function as<T, R>(read: Reader<T | undefined>, make: (value: T) => R): Reader<R | undefined> {
  return (value, place) => {
    const found = read(value, place);
    return found === undefined ? undefined : make(found);
  };
}

/** Members of an object by their names here. The service's name is the same in snake case, or is given beside. */
type Shape = Readonly<Record<string, Reader<unknown> | readonly [name: string, read: Reader<unknown>]>>;
type ValueOf<M> = M extends Reader<infer T> ? T : M extends readonly [string, Reader<infer T>] ? T : never;
type OptionalNames<S extends Shape> = { [N in keyof S]: undefined extends ValueOf<S[N]> ? N : never }[keyof S];
type ObjectOf<S extends Shape> = { readonly [N in Exclude<keyof S, OptionalNames<S>>]: ValueOf<S[N]> } & {
  readonly [N in OptionalNames<S>]?: ValueOf<S[N]>;
};

/** What a reader gives. */
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
    // Made by the readers of the shape, member by member.
    return Object.fromEntries(read) as ObjectOf<S>;
  };
}

/** One member of an object. */
export function at<T>(name: string, read: Reader<T>): Reader<T> {
  return (value, place) => read(isObject(value) ? memberOf(value, name) : undefined, within(place, name));
}

/** The object under `data`, or the body itself where the answer is bare. */
export function data<T>(read: Reader<T>): Reader<T> {
  return (body, place) => {
    const inner = isObject(body) ? memberOf(body, 'data') : undefined;
    return isObject(inner) ? read(inner, within(place, 'data')) : read(body, place);
  };
}

/** An object that must be there. */
export function neededObject<S extends Shape>(shape: S): Reader<ObjectOf<S>> {
  return needed(object(shape));
}

/** The members of the object under `data`, which must be there. */
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

/** Reads the whole body of an answer. @throws RunbookError RESPONSE_INVALID */
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
    throw new RunbookError('RESPONSE_INVALID', `${what}: the answer ${status} holds no JSON object`, {
      ...{ outcomeKnown, httpStatus: status, cluster },
    });
  }
  const warn = (warning: string) => caller.warn(warning);
  return read(body, { what, cluster, node, status, outcomeKnown, path: [], warn });
}

/** The first JSON document of a body, and what stood behind it. */
interface FirstDocument {
  readonly value: unknown;
  /** Trimmed text behind the first document; empty as a rule. */
  readonly rest: string;
}

/**
 * Reads the first JSON document of `text`. The service can glue a second one to it (an audit sink that dies after the
 * work was done), so what follows is reported and not fatal. Integers beyond 2^53 become bigint without loss.
 *
 * @throws SyntaxError where the text does not begin with a JSON document.
 */
export function parseFirstDocument(text: string): FirstDocument {
  const end = endOfFirstDocument(text);
  return { value: parse(text.slice(0, end), undefined, toNumberOrBigInt), rest: text.slice(end).trim() };
}

function toNumberOrBigInt(digits: string): number | bigint {
  const value = Number(digits);
  return isInteger(digits) && !Number.isSafeInteger(value) ? BigInt(digits) : value;
}

/** Position behind the bracket that closes the first object or array; the whole length for other values. */
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
