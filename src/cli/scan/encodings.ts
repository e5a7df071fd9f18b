import { gunzipSync, inflateSync } from 'node:zlib';

/* The forms in which a secret may have been written down, and the ways to read a text that may hold one. */

/** A secret that must not be found, in every form in which it may have been written down. */
export interface Canary {
  /** Names the secret in findings; the secret itself is never shown. */
  readonly label: string;
  readonly forms: readonly CanaryForm[];
}

interface CanaryForm {
  readonly encoding: string;
  /** What to look for, in bytes of latin-1. */
  readonly needle: string;
  /** Whether letters of both cases count; the needle is in lower case then. */
  readonly anyCase: boolean;
}

const SHORTEST_CANARY = 8;
/** Shorter remains of a base64 form would be found by chance. */
const SHORTEST_NEEDLE = 8;

/**
 * A secret in all forms that are searched for: as it is, hexadecimal, URL-encoded, escaped as in JSON, and base64 at all
 * three alignments, of the text and, where the secret is itself hexadecimal or base64, of the bytes that it stands for.
 * Undefined where it is too short to mean anything.
 */
export function canary(label: string, secret: string): Canary | undefined {
  if (secret.length < SHORTEST_CANARY) return undefined;
  const text = Buffer.from(secret, 'utf8');
  const bytes = [text, ...encodedBytes(secret)];
  const forms: CanaryForm[] = bytes.flatMap((form, index) => [
    { encoding: index === 0 ? 'plain text' : 'raw bytes', needle: form.toString('latin1'), anyCase: false },
    { encoding: 'hexadecimal', needle: form.toString('hex'), anyCase: true },
    ...base64Forms(form),
  ]);
  // Letters beyond ASCII are one character in a text and several in bytes.
  if (text.length !== secret.length) forms.push({ encoding: 'plain text', needle: secret, anyCase: false });
  const url = encodeURIComponent(secret);
  if (url !== secret) forms.push({ encoding: 'URL encoding', needle: url, anyCase: true });
  forms.push({ encoding: 'URL encoding', needle: percentEncoded(text), anyCase: true });
  const json = JSON.stringify(secret).slice(1, -1);
  if (json !== secret) forms.push({ encoding: 'JSON', needle: json, anyCase: false });
  const looked = forms.map((form) => (form.anyCase ? { ...form, needle: form.needle.toLowerCase() } : form));
  return { label, forms: looked.filter(({ needle }) => needle.length >= SHORTEST_NEEDLE) };
}

/** The bytes that hexadecimal or base64 text stands for. */
function encodedBytes(secret: string): Buffer[] {
  if (/^([0-9a-f]{2}){8,}$/i.test(secret)) return [Buffer.from(secret, 'hex')];
  const bytes = Buffer.from(secret, 'base64');
  return /^[A-Za-z0-9+/_-]{16,}={0,2}$/.test(secret) && bytes.length >= 12 ? [bytes] : [];
}

/** Base64 of `bytes` as it looks inside of a longer text: where it begins at a byte 0, 1 or 2 of a group of three. */
function base64Forms(bytes: Buffer): CanaryForm[] {
  return [0, 1, 2].flatMap((shift) => {
    const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64');
    // The first and the last group also hold bits of the neighbours, which are not known.
    const start = shift === 0 ? 0 : shift + 1;
    const spare = (shift + bytes.length) % 3;
    const end = spare === 0 ? encoded.length : encoded.length - 4 + spare;
    const core = encoded.slice(start, end);
    const url = core.replaceAll('+', '-').replaceAll('/', '_');
    const encoding = `base64, alignment ${shift}`;
    return [core, ...(url === core ? [] : [url])].map((needle) => ({ encoding, needle, anyCase: false }));
  });
}

function percentEncoded(bytes: Buffer): string {
  return [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
}

/** Another way to read a text. */
export interface Reading {
  readonly how: string;
  readonly reading: string;
}

/** How often percent signs and escapes are decoded: what was encoded twice looks like `%2525`. */
const ROUNDS = 3;
const LONGEST_DECOMPRESSED = 64 * 1024 * 1024;
const RUN = /[A-Za-z0-9+/_-]{16,}={0,2}/g;
/** Longer than what is found among random bytes. */
const WORDS = /[\t\n\r\x20-\x7e]{12,}/g;
/** Lines of base64, as they are or with their ends escaped. */
const LINES = /(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{32,}(?:\\r|\\n|[\r\n\t ])+)+[A-Za-z0-9+/_-]+={0,2}/g;

/** What a text says where it is URL-encoded, escaped as in JSON, broken into lines, or hexadecimal with separators. */
export function readings(text: string): Reading[] {
  const found: Reading[] = [];
  const rounds = (how: string, isCoded: RegExp, decode: (text: string) => string) => {
    let decoded = text;
    for (let round = 1; round <= ROUNDS && isCoded.test(decoded); round += 1) {
      decoded = decode(decoded);
      found.push({ how: round === 1 ? how : `${how} ${round} times`, reading: decoded });
    }
  };
  rounds('URL-decoded', /%[0-9a-f]{2}/i, decodeLoosely);
  rounds('unescaped', /\\/, unescapeLoosely);
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
