import { RunbookError } from '../errors';
import type { EpochSeconds } from './types';

/** An object of an answer; integers beyond 2^53 are bigint. */
type JsonObject = Readonly<Record<string, unknown>>;

/** Go's zero time in unix seconds: the service's way to say "never". */
const GO_ZERO_TIME_SECONDS = -62135596800;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What a message about an answer says of it. */
interface FieldContext {
  /** Method and path of the call, and the place within its answer. */
  readonly what: string;
  readonly cluster: string;
  /** Whether an answer that cannot be read leaves the effect of the call known. */
  readonly outcomeKnown: boolean;
  warn(warning: string): void;
}

/**
 * Reads members of an answer. Optional members that are absent, null or of a wrong type are `undefined` (the last with a
 * warning: one odd field must not stop a failover), needed ones that are not there are RESPONSE_INVALID.
 */
export class Fields {
  constructor(
    private readonly object: JsonObject,
    private readonly context: FieldContext,
  ) {}

  has(name: string): boolean {
    return this.raw(name) !== undefined;
  }

  text(name: string): string | undefined {
    return this.read(name, 'a string', (value) => (typeof value === 'string' ? value : undefined));
  }

  /** As {@link text}, where the service writes `""` for "none". */
  filledText(name: string): string | undefined {
    const value = this.text(name);
    return value === '' ? undefined : value;
  }

  neededText(name: string): string {
    return this.filledText(name) ?? this.missing(name);
  }

  flag(name: string): boolean | undefined {
    return this.read(name, 'a boolean', (value) => (typeof value === 'boolean' ? value : undefined));
  }

  neededFlag(name: string): boolean {
    return this.flag(name) ?? this.missing(name);
  }

  /** A number, also where the service writes it as a string. */
  number(name: string): number | undefined {
    return this.read(name, 'a number', toNumber);
  }

  neededNumber(name: string): number {
    return this.number(name) ?? this.missing(name);
  }

  /** An uint64 without loss. */
  index(name: string): bigint | undefined {
    return this.read(name, 'an unsigned integer', (value) => {
      if (typeof value === 'bigint') return value >= 0n ? value : undefined;
      if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined;
      return typeof value === 'string' && /^\d+$/.test(value) ? BigInt(value) : undefined;
    });
  }

  /** Unix seconds (number or string) or an RFC3339 time. */
  epoch(name: string): EpochSeconds | undefined {
    return this.read(name, 'a time', (value) => {
      const seconds = toNumber(value) ?? (typeof value === 'string' ? Date.parse(value) / 1000 : Number.NaN);
      if (!Number.isFinite(seconds)) return undefined;
      return seconds === 0 || seconds <= GO_ZERO_TIME_SECONDS ? 'never' : seconds;
    });
  }

  texts(name: string): readonly string[] | undefined {
    return this.read(name, 'a list of strings', (value) =>
      Array.isArray(value) && value.every((item): item is string => typeof item === 'string') ? value : undefined,
    );
  }

  numbers(name: string): readonly number[] | undefined {
    return this.read(name, 'a list of numbers', (value) =>
      Array.isArray(value) && value.every((item): item is number => typeof item === 'number') ? value : undefined,
    );
  }

  /** As {@link texts}; `null`, Go's empty list, is an empty list. */
  textsOrNone(name: string): readonly string[] | undefined {
    return this.object[name] === null ? [] : this.texts(name);
  }

  child(name: string): Fields | undefined {
    const value = this.read(name, 'an object', (candidate) => (isObject(candidate) ? candidate : undefined));
    return value === undefined ? undefined : this.nested(value, name);
  }

  objects(name: string): readonly Fields[] | undefined {
    if (this.object[name] === null) return [];
    const values = this.read(name, 'a list of objects', (value) =>
      Array.isArray(value) && value.every(isObject) ? value : undefined,
    );
    return values?.map((value, position) => this.nested(value, `${name}[${position}]`));
  }

  /** The members that are objects themselves, by name. */
  entries(): ReadonlyArray<readonly [string, Fields]> {
    return Object.entries(this.object)
      .filter((entry): entry is [string, JsonObject] => isObject(entry[1]))
      .map(([name, value]) => [name, this.nested(value, name)] as const);
  }

  names(): readonly string[] {
    return Object.keys(this.object);
  }

  missing(name: string): never {
    throw new RunbookError('RESPONSE_INVALID', `${this.context.what}: the answer has no usable member "${name}"`, {
      outcomeKnown: this.context.outcomeKnown,
      cluster: this.context.cluster,
    });
  }

  private nested(object: JsonObject, name: string): Fields {
    return new Fields(object, { ...this.context, what: `${this.context.what} ${name}` });
  }

  private raw(name: string): unknown {
    const value = Object.hasOwn(this.object, name) ? this.object[name] : undefined;
    return value === null ? undefined : value;
  }

  private read<T>(name: string, expected: string, convert: (value: unknown) => T | undefined): T | undefined {
    const value = this.raw(name);
    if (value === undefined) return undefined;
    const converted = convert(value);
    if (converted === undefined) {
      this.context.warn(`${this.context.what}: member "${name}" of the answer is not ${expected}; ignored`);
    }
    return converted;
  }
}

function toNumber(value: unknown): number | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return Number(value);
  return typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : undefined;
}
