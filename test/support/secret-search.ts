import { gunzipSync, inflateSync } from 'node:zlib';
import type { temporal } from '@temporalio/proto';

/** How deep encodings inside of encodings are opened. */
const DEEPEST = 8;
/** How many encoded runs of one text are opened. */
const MOST_RUNS = 20_000;
/** As long as the shortest secret in base64. */
const RUN = /[A-Za-z0-9+/_-]{11,}={0,2}/g;
/** Lines of base64, as they are or with their ends escaped. */
const LINES = /(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{32,}(?:\\r|\\n|[\r\n\t ])+)+[A-Za-z0-9+/_-]+={0,2}/g;
/** Longer than what is found among random bytes. */
const WORDS = /[\t\n\r\x20-\x7e]{12,}/g;

/**
 * Searches values for given secrets, inside of every encoding that it recognises. What it finds proves that a secret is
 * there; that it finds nothing proves little.
 */
export class SecretSearch {
  /** Name and place of each secret that was found, never the secret. */
  readonly found: string[] = [];
  readonly #needles: readonly (readonly [name: string, needles: readonly string[]])[];
  readonly #objects = new WeakSet<object>();
  /** Texts at the depth at which they were opened: environments and histories repeat themselves. */
  readonly #opened = new Map<string, number>();

  constructor(secrets: ReadonlyMap<string, string>) {
    // One of less than 8 characters would be found anywhere.
    const long = [...secrets].filter(([, secret]) => secret.length >= 8);
    this.#needles = long.map(([name, secret]) => [name, needlesOf(secret)]);
  }

  /** Searches members, also hidden ones as errors have them, elements, maps, sets, bytes, and texts that encode others. */
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
    // Text in UTF-16.
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

/** The secret's own text and, where it is itself hexadecimal or base64, the bytes that it stands for. */
function needlesOf(secret: string): string[] {
  const digits = /^([0-9a-f]{2}){8,}$/i.test(secret) ? [Buffer.from(secret, 'hex')] : [];
  const encoded = /^[A-Za-z0-9+/_-]{16,}={0,2}$/.test(secret) ? [Buffer.from(secret, 'base64')] : [];
  const bytes = [Buffer.from(secret, 'utf8'), ...digits, ...encoded];
  return [secret, ...bytes.map((each) => each.toString('latin1'))];
}

/** What a text says where it is JSON, URL-encoded, escaped, broken into lines, or hexadecimal with separators. */
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

/** What each run of base64 or hexadecimal may stand for. One may begin with letters that do not belong to it. */
function* decodings(text: string): Generator<Buffer> {
  for (const [run] of text.matchAll(RUN)) {
    for (const [digits] of run.matchAll(/[0-9a-f]{16,}/gi))
      for (const skip of [0, 1]) yield Buffer.from(digits.slice(skip), 'hex');
    for (const skip of [0, 1, 2, 3]) yield Buffer.from(run.slice(skip), 'base64');
  }
}

/** What of decoded bytes may hold a further encoding: a whole text, what is compressed, words among other bytes. */
function openable(bytes: Buffer): Buffer[] {
  // eslint-disable-next-line no-control-regex -- control characters are what tells bytes from text
  const isText = bytes.length > 0 && !/[\u0000-\u0008\u000e-\u001f\ufffd]/.test(bytes.toString('utf8'));
  if (isText || decompressed(bytes) !== undefined) return [bytes];
  return [...bytes.toString('latin1').matchAll(WORDS)].map(([words]) => Buffer.from(words, 'latin1'));
}

/** What gzip or zlib compressed; undefined where the bytes are not that, or are not whole. */
function decompressed(bytes: Buffer): Buffer | undefined {
  try {
    if (bytes[0] === 0x1f && bytes[1] === 0x8b) return gunzipSync(bytes);
    return bytes[0] === 0x78 && bytes.length > 8 ? inflateSync(bytes) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Looks quickly for secrets in anything that can be turned into text: as they are, and inside base64 at each of its three
 * alignments, as payloads and sealed documents carry them.
 *
 * @returns the names of those that were found
 */
export function findCanaries(text: string, canaries: ReadonlyMap<string, string>): string[] {
  return [...canaries]
    .filter(([, secret]) => spellings(secret).some((spelling) => text.includes(spelling)))
    .map(([name]) => name);
}

/** A history as text: every payload decoded beside the raw bytes' base64. */
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
    // The first characters mix in what stands before, the last ones what stands after.
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
