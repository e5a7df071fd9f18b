import { gunzipSync, inflateSync } from 'node:zlib';
import type { temporal } from '@temporalio/proto';

/** Maximum depth of nested encodings. */
const DEEPEST = 8;
/** Maximum number of encoded runs decoded in one text. */
const MOST_RUNS = 20_000;
/** A run at least as long as the shortest secret in base64. */
const RUN = /[A-Za-z0-9+/_-]{11,}={0,2}/g;
/** Lines of base64, with plain or escaped line ends. */
const LINES = /(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{32,}(?:\\r|\\n|[\r\n\t ])+)+[A-Za-z0-9+/_-]+={0,2}/g;
/** Longer than text that occurs by chance in random bytes. */
const WORDS = /[\t\n\r\x20-\x7e]{12,}/g;

/**
 * Searches values for given secrets, in every encoding that it recognizes. A match proves that a secret is present; no
 * match proves little.
 */
export class SecretSearch {
  /** Name and location of each secret that was found, never the secret. */
  readonly found: string[] = [];
  readonly #needles: readonly (readonly [name: string, needles: readonly string[]])[];
  readonly #objects = new WeakSet<object>();
  /** Texts with the depth at which they were searched, because environments and histories contain repetitions. */
  readonly #opened = new Map<string, number>();

  constructor(secrets: ReadonlyMap<string, string>) {
    // A secret of less than 8 characters would match by chance.
    const long = [...secrets].filter(([, secret]) => secret.length >= 8);
    this.#needles = long.map(([name, secret]) => [name, needlesOf(secret)]);
  }

  /** Searches members (even hidden ones, as in errors), elements, maps, sets, bytes, and nested encodings. */
  value(where: string, value: unknown, depth = 0): void {
    if (depth > DEEPEST) return;
    if (typeof value === 'string') this.#text(where, value, depth);
    else if (value instanceof Uint8Array) this.#bytes(where, Buffer.from(value), depth);
    else if (typeof value === 'object' && value !== null && !this.#objects.has(value)) {
      this.#objects.add(value);
      if (value instanceof Map || value instanceof Set) this.value(where, [...value.entries()], depth);
      for (const key of Reflect.ownKeys(value)) {
        this.#match(where, String(key));
        this.value(`${where}.${String(key).slice(0, 20)}`, Reflect.get(value, key), depth);
      }
    }
  }

  #bytes(where: string, bytes: Buffer, depth: number): void {
    const inside = decompressed(bytes);
    if (inside !== undefined) this.value(where, inside, depth + 1);
    const text = bytes.toString('latin1');
    this.#match(where, text);
    // Text may be UTF-16.
    if (text.includes('\0')) this.#match(where, text.replaceAll('\0', ''));
    this.#text(where, bytes.toString('utf8'), depth);
  }

  #text(where: string, text: string, depth: number): void {
    if ((this.#opened.get(text) ?? Infinity) <= depth) return;
    this.#opened.set(text, depth);
    this.#match(where, text);
    for (const reading of readings(text)) this.value(where, reading, depth + 1);
    let runs = 0;
    for (const bytes of decodings(text)) {
      this.#match(where, bytes.toString('latin1'));
      for (const inside of openable(bytes)) {
        runs += 1;
        if (runs > MOST_RUNS) return;
        this.value(where, inside, depth + 1);
      }
    }
  }

  #match(where: string, text: string): void {
    for (const [name, needles] of this.#needles)
      if (needles.some((needle) => text.includes(needle))) this.found.push(`${name} in ${where}`);
  }
}

/** The text of the secret and, if it is hexadecimal or base64, its decoded bytes. */
function needlesOf(secret: string): string[] {
  const digits = /^([0-9a-f]{2}){8,}$/i.test(secret) ? [Buffer.from(secret, 'hex')] : [];
  const encoded = /^[A-Za-z0-9+/_-]{16,}={0,2}$/.test(secret) ? [Buffer.from(secret, 'base64')] : [];
  const bytes = [Buffer.from(secret, 'utf8'), ...digits, ...encoded];
  return [secret, ...bytes.map((each) => each.toString('latin1'))];
}

/** Decodes a text that is JSON, URL-encoded, escaped, broken into lines, or hexadecimal with separators. */
function* readings(text: string): Generator {
  if (/^\s*["[{]/.test(text)) yield parsed(text);
  if (/%[0-9a-f]{2}/i.test(text))
    yield text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'));
  if (text.includes('\\'))
    yield text.replace(/\\(?:u([0-9a-f]{4})|(.))/gis, (_, code: string | undefined, one = '') =>
      code === undefined ? String(one) : String.fromCharCode(Number.parseInt(code, 16)),
    );
  for (const [lines] of text.matchAll(LINES)) yield lines.replace(/\\r|\\n|\s/g, '');
  if (/[0-9a-f]{2}[:\s-][0-9a-f]{2}[:\s-]/i.test(text)) yield text.replace(/[:\s-]+/g, '');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Possible decodings of each base64 or hexadecimal run. A run may begin with characters that do not belong to it. */
function* decodings(text: string): Generator<Buffer> {
  for (const [run] of text.matchAll(RUN)) {
    for (const [digits] of run.matchAll(/[0-9a-f]{16,}/gi))
      for (const skip of [0, 1]) yield Buffer.from(digits.slice(skip), 'hex');
    for (const skip of [0, 1, 2, 3]) yield Buffer.from(run.slice(skip), 'base64');
  }
}

/** The parts of decoded bytes that may contain another encoding: complete text, compressed data, words among other bytes. */
function openable(bytes: Buffer): Buffer[] {
  // eslint-disable-next-line no-control-regex -- control characters distinguish bytes from text
  const isText = bytes.length > 0 && !/[\u0000-\u0008\u000e-\u001f\ufffd]/.test(bytes.toString('utf8'));
  if (isText || decompressed(bytes) !== undefined) return [bytes];
  return [...bytes.toString('latin1').matchAll(WORDS)].map(([words]) => Buffer.from(words, 'latin1'));
}

/** Decompresses gzip or zlib data; undefined if the bytes are something else or incomplete. */
function decompressed(bytes: Buffer): Buffer | undefined {
  try {
    if (bytes[0] === 0x1f && bytes[1] === 0x8b) return gunzipSync(bytes);
    return bytes[0] === 0x78 && bytes.length > 8 ? inflateSync(bytes) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Quickly searches a text for secrets: in plain text, and in base64 at each of its three alignments, as in payloads and
 * sealed documents.
 *
 * @returns the names of the secrets that were found
 */
export function findCanaries(text: string, canaries: ReadonlyMap<string, string>): string[] {
  return [...canaries]
    .filter(([, secret]) => spellings(secret).some((spelling) => text.includes(spelling)))
    .map(([name]) => name);
}

/** A history as text: every payload as decoded text and as base64. */
export function historyText(history: temporal.api.history.v1.IHistory): string {
  const parts: string[] = [];
  const visit = (value: unknown): void => {
    if (value instanceof Uint8Array) {
      const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      parts.push(bytes.toString('utf8'), bytes.toString('base64'));
    } else if (typeof value === 'string') parts.push(value);
    else if (Array.isArray(value)) value.forEach(visit);
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(visit);
  };
  visit(history.events);
  return parts.join('\n');
}

function spellings(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8');
  const aligned = [0, 1, 2].map((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    // The first characters also depend on the bytes before, and the last ones on the bytes after.
    return encoded.slice(offset === 0 ? 0 : offset + 1, -2);
  });
  const raw =
    /^[0-9a-f]+$/.test(secret) && secret.length % 2 === 0
      ? [Buffer.from(secret, 'hex').toString('base64').replace(/=+$/, '')]
      : [];
  return [
    secret,
    bytes.toString('hex'),
    ...aligned,
    ...aligned.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
    ...raw,
  ];
}
