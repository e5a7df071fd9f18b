/** JSON values for the wire; WAL indexes are bigint and become plain JSON integers. */
export type JsonValue =
  string | number | boolean | null | bigint | JsonValue[] | { [key: string]: JsonValue | undefined };
export type JsonObject = { [key: string]: JsonValue | undefined };

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * An answer of the service with an error status. The HTTP layer sends `status` with the body `{"errors": [...]}`.
 *
 * `message` does not contain the error texts: some of them leak (the answer to a wrong nonce contains the right one),
 * and messages are logged.
 */
export class ServiceFault extends Error {
  override readonly name = 'ServiceFault';

  constructor(
    /** HTTP status, 400 or above. */
    readonly status: number,
    /** Texts for the body, as the service sends them; may be empty. */
    readonly errors: readonly string[],
    /** Sent instead of errors, in the envelope of an answer without data. */
    readonly warnings?: readonly string[],
  ) {
    super(`the simulated service answers ${status}`);
  }
}

/**
 * Breaks the connection without an answer: by a reset, or by closing it, as if the handler of the request had crashed.
 * Any earlier effects of the call remain.
 */
export class BrokenConnection extends Error {
  constructor(
    readonly by: 'reset' | 'close',
    cause?: unknown,
  ) {
    super('connection broken', { cause });
  }
}

/** A request as routes receive it. */
export interface ServiceRequest {
  /** `PUT` becomes `POST`, as in the service. */
  readonly method: string;
  /** Path below `/v1/`. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: JsonObject;
  readonly token: string | undefined;
  /** SHA-256 fingerprint of the client certificate, if one was presented. */
  readonly certificate: string | undefined;
}

export interface ServiceAnswer {
  readonly status: number;
  readonly body?: JsonValue;
  /** Sent instead of a JSON document, unchanged and without a content length. */
  readonly bytes?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

export const NO_CONTENT: ServiceAnswer = { status: 204 };

export function badRequest(text: string): ServiceFault {
  return new ServiceFault(400, [text]);
}

export function permissionDenied(): ServiceFault {
  return new ServiceFault(403, ['permission denied']);
}

/** Returns the value, or throws a 404 without a text. */
export function found<T>(value: T | undefined): T {
  if (value === undefined) throw new ServiceFault(404, []);
  return value;
}

/** A string field; the empty string if it is absent. */
export function textField(body: JsonObject, name: string): string {
  const value = body[name];
  if (value === undefined || value === null) return '';
  if (typeof value !== 'object') return String(value);
  throw badRequest(`error converting input for field "${name}": expected type 'string', got unconvertible type`);
}

/** The body of a request that has none. */
export const NO_BODY: JsonObject = Object.freeze({});

/** Parses the body of a request. As in the service, malformed JSON is an internal error, and other JSON types a bad request. */
export function parseBody(text: string): JsonObject {
  if (text.trim() === '') return NO_BODY;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new ServiceFault(500, ['malformed JSON, unclosed containers']);
  }
  const repeated = repeatedKey(text);
  if (repeated !== undefined) throw new ServiceFault(500, [`duplicate key '${repeated}' in object`]);
  if (parsed === null) return {};
  if (!isJsonObject(parsed)) {
    const kind = Array.isArray(parsed) ? 'array' : parsed === true || parsed === false ? 'bool' : typeof parsed;
    throw badRequest(
      `error parsing JSON: failed to parse JSON input: json: cannot unmarshal ${kind} into Go value of type map[string]interface {}`,
    );
  }
  return parsed;
}

/** A key that stands twice in one object of a valid JSON text. `JSON.parse` takes the last one and says nothing. */
function repeatedKey(text: string): string | undefined {
  const open: Set<string>[] = [];
  for (const [token, quoted, isKey] of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|[{}]/g)) {
    if (token === '{') open.push(new Set());
    else if (token === '}') open.pop();
    else if (quoted !== undefined && isKey !== undefined) {
      const key = String(JSON.parse(quoted));
      if (open.at(-1)?.has(key)) return key;
      open.at(-1)?.add(key);
    }
  }
  return undefined;
}

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Converts a Go duration ("30m", "1h30m") or a number of seconds ("1800", 1800) to milliseconds; otherwise undefined. */
export function parseDuration(value: string | number): number | undefined {
  if (typeof value === 'number' || /^\d+$/.test(value)) {
    const seconds = Number(value);
    return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : undefined;
  }
  const parts = [...value.matchAll(/(?<![\d.])(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)];
  if (parts.length === 0 || parts.map(([whole]) => whole).join('') !== value) return undefined;
  return parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (UNITS[unit ?? ''] ?? 0), 0);
}

/** Compares versions number by number, ignoring the edition. */
export function atLeastVersion(version: string, since: string): boolean {
  const [own = '', other = ''] = [version, since].map((each) => each.split('+', 1)[0]);
  return own.localeCompare(other, 'en', { numeric: true }) >= 0;
}

/**
 * Decodes standard base64 with padding, like the service: skips line breaks, and refuses anything else that is not
 * canonical in alphabet, length, or padding. Node's own decoder would drop it silently.
 */
export function decodeStandardBase64(text: string): Buffer | undefined {
  const compact = text.replace(/[\r\n]/g, '');
  if (compact.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(compact)) return undefined;
  return Buffer.from(compact, 'base64');
}

/** Decodes hexadecimal in upper or lower case; otherwise undefined. */
export function decodeHex(text: string): Buffer | undefined {
  return text.length % 2 === 0 && /^[0-9a-fA-F]*$/.test(text) ? Buffer.from(text, 'hex') : undefined;
}
