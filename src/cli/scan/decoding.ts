import { gunzipSync, inflateSync } from 'node:zlib';

/** Another way to read a text. */
export interface Reading {
  readonly how: string;
  readonly reading: string;
}

/** How often percent signs are decoded: what was encoded twice looks like `%2525`. */
const URL_ROUNDS = 3;
const LONGEST_DECOMPRESSED = 64 * 1024 * 1024;
const RUN = /[A-Za-z0-9+/_-]{16,}={0,2}/g;
/** Longer than what is found among random bytes. */
const WORDS = /[\t\n\r\x20-\x7e]{12,}/g;
/** Lines of base64, as they are or with their ends escaped. */
const LINES = /(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{32,}(?:\\r|\\n|[\r\n\t ])+)+[A-Za-z0-9+/_-]+={0,2}/g;

/** What a text says where it is URL-encoded, escaped as in JSON, broken into lines, or hexadecimal with separators. */
export function readings(text: string): Reading[] {
  const found: Reading[] = [];
  let decoded = text;
  for (let round = 1; round <= URL_ROUNDS && /%[0-9a-f]{2}/i.test(decoded); round += 1) {
    decoded = decodeLoosely(decoded);
    found.push({ how: round === 1 ? 'URL-decoded' : `URL-decoded ${round} times`, reading: decoded });
  }
  let unescaped = text;
  for (let round = 1; round <= URL_ROUNDS && unescaped.includes('\\'); round += 1) {
    unescaped = unescapeLoosely(unescaped);
    found.push({ how: round === 1 ? 'unescaped' : `unescaped ${round} times`, reading: unescaped });
  }
  // Base64 comes in lines of 64 or 76 characters, in files and, escaped, in JSON.
  if (/[\r\n]|\\[rn]/.test(text)) found.push({ how: 'without line breaks', reading: text.replace(/\\r|\\n|\s/g, '') });
  if (/[0-9a-f]{2}[:\s-][0-9a-f]{2}[:\s-]/i.test(text))
    found.push({ how: 'without separators', reading: text.replace(/[:\s-]+/g, '') });
  return found;
}

/**
 * The bytes of each run of base64 or hexadecimal that can hold a further encoding: where they are text, or compressed. A
 * run may begin with letters that do not belong to it, so that every alignment is tried. What is neither is found by the
 * canary's own forms or not at all.
 */
export function* runsOf(text: string): Generator<Buffer> {
  for (const [lines] of text.matchAll(LINES)) yield* opened(lines.replace(/\\r|\\n|\s/g, ''));
  for (const [run] of text.matchAll(RUN)) yield* opened(run);
}

function* opened(run: string): Generator<Buffer> {
  const hexadecimal = /^([0-9a-f]{2})+$/i.test(run) ? [Buffer.from(run, 'hex')] : [];
  const base64 = [0, 1, 2, 3].map((skip) => Buffer.from(run.slice(skip), 'base64'));
  for (const bytes of [...hexadecimal, ...base64]) {
    if (isText(bytes) || isCompressed(bytes)) yield bytes;
    // Text among other bytes, as in protocol buffers, or behind letters that are no part of the run.
    else for (const [words] of bytes.toString('latin1').matchAll(WORDS)) yield Buffer.from(words, 'latin1');
  }
}

/** What gzip or zlib compressed; undefined where the bytes are not that, or are not whole. */
export function decompressed(bytes: Buffer): Buffer | undefined {
  if (!isCompressed(bytes)) return undefined;
  try {
    const limit = { maxOutputLength: LONGEST_DECOMPRESSED };
    return bytes[0] === 0x1f ? gunzipSync(bytes, limit) : inflateSync(bytes, limit);
  } catch {
    return undefined;
  }
}

function isCompressed(bytes: Buffer): boolean {
  const [first, second = 0] = bytes;
  return (
    bytes.length > 8 &&
    ((first === 0x1f && second === 0x8b) || (first === 0x78 && [0x01, 0x5e, 0x9c, 0xda].includes(second)))
  );
}

function decodeLoosely(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'));
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' };

function unescapeLoosely(text: string): string {
  return text.replace(
    /\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))/gs,
    (_whole, u?: string, x?: string, one: string = '') => {
      const code = u ?? x;
      return code === undefined ? (ESCAPES[one] ?? one) : String.fromCharCode(Number.parseInt(code, 16));
    },
  );
}

function isText(bytes: Buffer): boolean {
  const text = bytes.toString('utf8');
  // Control characters are what tells bytes from text.
  // eslint-disable-next-line no-control-regex -- they are what is looked for
  return text.length > 0 && !/[\u0000-\u0008\u000e-\u001f\ufffd]/.test(text);
}
