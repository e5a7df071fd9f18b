import { gunzipSync, inflateSync } from 'node:zlib';

/** Shapes that a secret has and hardly anything else; what is found is a suspicion, to be looked at by a person. */
const SECRET_SHAPES: readonly (readonly [string, RegExp])[] = [
  // A part of a sealed value may end in "-s", before its dot.
  ['a token of the service', /(?:(?<![A-Za-z0-9])hv[srb]|(?<![A-Za-z0-9_-])[srb])\.[A-Za-z0-9_-]{22,}/],
  ['an age identity', /AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{20,}/],
  ['a private key block', /-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----/],
  ['an Ed25519 private JWK', /"d"\s*:\s*"[A-Za-z0-9_-]{43}"/],
  ['a key share in hexadecimal', /(?<![0-9A-Za-z])(?=[0-9a-f]*[a-f])[0-9a-f]{66}(?![0-9A-Za-z])/i],
  [
    'a key share in base64',
    /(?<![A-Za-z0-9+/_=-])(?=[A-Za-z0-9+/]{44}(?![A-Za-z0-9+/_=-]))(?=\D{0,43}[0-9])(?=[^A-Z]{0,43}[A-Z])(?=[^a-z]{0,43}[a-z])[A-Za-z0-9+/]{44}/,
  ],
];

/** Something found. It says where and what, never the value. */
export interface ScanFinding {
  readonly where: string;
  /** `canary` proves that a secret is there; `suspicion` is a shape that a secret has. */
  readonly kind: 'canary' | 'suspicion';
  readonly what: string;
}

/** How deep encodings inside of encodings are opened. */
const MAX_DEPTH = 8;
/** How many encoded runs of one text are opened: beyond that the search says that it is incomplete. */
const MAX_RUNS = 20_000;

/** Searches values for canaries and for what looks like a secret, opening every encoding that it recognises. */
export class SecretSearch {
  readonly #canaries: readonly Canary[];
  readonly #found = new Map<string, ScanFinding>();
  readonly #seen = new WeakSet<object>();
  /** Texts in which there is nothing: environments and histories repeat themselves. */
  readonly #clean = new Set<string>();
  #incomplete = false;

  constructor(canaries: readonly Canary[]) {
    this.#canaries = canaries;
  }

  /** What was found so far, each place and kind once. */
  get findings(): readonly ScanFinding[] {
    return [...this.#found.values()];
  }

  /** Whether a bound was reached, so that something nested deeper, or beyond it, was not looked at. */
  get incomplete(): boolean {
    return this.#incomplete;
  }

  /**
   * Searches a value of any shape: members (also hidden ones, as errors have them), elements, maps, sets, bytes, and
   * texts that encode others.
   */
  value(where: string, value: unknown, depth = 0): void {
    if (value === null || value === undefined) return;
    if (depth > MAX_DEPTH) {
      this.#incomplete = true;
      return;
    }
    const text = typeof value === 'symbol' ? (value.description ?? '') : value;
    if (typeof text === 'string') this.#once(text, () => this.#text(where, text, depth));
    else if (value instanceof Uint8Array) {
      const bytes = Buffer.from(value);
      this.#once(`bytes ${bytes.toString('latin1')}`, () => this.#bytes(where, bytes, depth));
    } else if (typeof value === 'object' || typeof value === 'function') this.#object(where, value, depth);
  }

  #object(where: string, value: object, depth: number): void {
    if (this.#seen.has(value)) return;
    this.#seen.add(value);
    if (Array.isArray(value)) {
      value.forEach((element: unknown, index) => this.value(`${where}[${index}]`, element, depth));
      return;
    }
    if (value instanceof Map || value instanceof Set) {
      for (const [index, entry] of [...value.entries()].entries()) this.value(`${where}(${index})`, entry, depth);
    }
    for (const key of Reflect.ownKeys(value)) {
      const name = typeof key === 'string' ? key : (key.description ?? '');
      this.#match(`${where}.(a member's name)`, name);
      this.value(`${where}.${safeName(name)}`, memberOf(value, key), depth);
    }
  }

  /** Looks at a text once: where nothing was found the first time, nothing would be the next. */
  #once(text: string, look: () => void): void {
    if (this.#clean.has(text)) return;
    const before = this.#found.size;
    look();
    if (this.#found.size === before && !this.#incomplete) this.#clean.add(text);
  }

  #text(where: string, text: string, depth: number): void {
    this.#match(where, text);
    const json = parseJson(text);
    if (json !== undefined) this.value(where, json, depth + 1);
    // Each of these readings may itself hold encoded runs.
    for (const { how, reading } of readings(text)) {
      this.#match(`${where} (${how})`, reading);
      if (how !== 'without line breaks') this.#encoded(`${where} (${how})`, reading, depth);
    }
    this.#encoded(where, text, depth);
  }

  #bytes(where: string, bytes: Buffer, depth: number): void {
    this.#match(where, bytes.toString('latin1'));
    // UTF-16 of plain text: every second byte is none.
    if (bytes.includes(0)) this.#match(`${where} (without zero bytes)`, bytes.toString('latin1').replaceAll('\0', ''));
    const inside = decompressed(bytes);
    if (inside !== undefined) this.value(`${where} (decompressed)`, inside, depth + 1);
    const text = bytes.toString('utf8');
    const json = parseJson(text);
    if (json !== undefined) this.value(where, json, depth + 1);
    for (const { how, reading } of readings(text)) this.#match(`${where} (${how})`, reading);
    this.#encoded(where, text, depth);
  }

  /** Opens each run of base64 or hexadecimal; signed and sealed documents are such runs, joined by dots. */
  #encoded(where: string, text: string, depth: number): void {
    let opened = 0;
    for (const bytes of decodings(text)) {
      this.#canary(`${where} (decoded)`, bytes.toString('latin1'));
      for (const inside of openable(bytes)) {
        opened += 1;
        if (opened > MAX_RUNS || depth >= MAX_DEPTH) {
          this.#incomplete = true;
          return;
        }
        this.value(`${where} (decoded)`, inside, depth + 1);
      }
    }
  }

  #match(where: string, text: string): void {
    this.#canary(where, text);
    for (const [what, shape] of SECRET_SHAPES) if (shape.test(text)) this.#add({ where, kind: 'suspicion', what });
  }

  #canary(where: string, text: string): void {
    for (const { label, needles } of this.#canaries)
      if (needles.some((needle) => text.includes(needle))) this.#add({ where, kind: 'canary', what: label });
  }

  #add(finding: ScanFinding): void {
    const key = `${finding.where}\0${finding.what}`;
    if (!this.#found.has(key)) this.#found.set(key, finding);
  }
}

/** A member's name could itself be the secret: only short plain ones are shown. */
function safeName(name: string): string {
  return /^[A-Za-z][A-Za-z-]{0,40}$/.test(name) ? name : '(member)';
}

/** A getter may throw; what it would give is then not there to be found. */
function memberOf(value: object, key: string | symbol): unknown {
  try {
    return Reflect.get(value, key);
  } catch {
    return undefined;
  }
}

function parseJson(text: string): unknown {
  const trimmed = text.trimStart();
  if (!/^["[{]/.test(trimmed)) return undefined;
  try {
    return JSON.parse(trimmed);
  } catch {
    return undefined;
  }
}

/* The forms in which a secret may have been written down, and the ways to read a text that may hold one. */

/** A secret that must not be found. */
export interface Canary {
  /** Names the secret in findings; the secret itself is never shown. */
  readonly label: string;
  /** What to look for: the text, and bytes as latin-1. */
  readonly needles: readonly string[];
}

const SHORTEST_CANARY = 8;

/**
 * A secret as it is looked for in every reading of a text: its own text and, where it is itself hexadecimal or base64, the
 * bytes that it stands for. Undefined where it is too short to mean anything.
 */
export function canary(label: string, secret: string): Canary | undefined {
  if (secret.length < SHORTEST_CANARY) return undefined;
  const bytes = [Buffer.from(secret, 'utf8'), ...encodedBytes(secret)].map((each) => each.toString('latin1'));
  // Letters beyond ASCII are one character in a text and several in bytes.
  return { label, needles: [...new Set([secret, ...bytes])] };
}

/** The bytes that hexadecimal or base64 text stands for. */
function encodedBytes(secret: string): Buffer[] {
  if (/^([0-9a-f]{2}){8,}$/i.test(secret)) return [Buffer.from(secret, 'hex')];
  const bytes = Buffer.from(secret, 'base64');
  return /^[A-Za-z0-9+/_-]{16,}={0,2}$/.test(secret) && bytes.length >= 12 ? [bytes] : [];
}

/** Another way to read a text. */
export interface Reading {
  readonly how: string;
  readonly reading: string;
}

/** How often percent signs and escapes are decoded: what was encoded twice looks like `%2525`. */
const ROUNDS = 3;
const LONGEST_DECOMPRESSED = 64 * 1024 * 1024;
/** As long as the shortest secret in base64. */
const RUN = /[A-Za-z0-9+/_-]{11,}={0,2}/g;
const DIGITS = /[0-9a-f]{16,}/gi;
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
 * What each run of base64 or hexadecimal may stand for. A run may begin with letters that do not belong to it, so that
 * every alignment is tried.
 */
export function* decodings(text: string): Generator<Buffer> {
  for (const [lines] of text.matchAll(LINES)) yield* decoded(lines.replace(/\\r|\\n|\s/g, ''));
  for (const [run] of text.matchAll(RUN)) yield* decoded(run);
}

function* decoded(run: string): Generator<Buffer> {
  for (const [digits] of run.matchAll(DIGITS)) for (const skip of [0, 1]) yield Buffer.from(digits.slice(skip), 'hex');
  for (const skip of [0, 1, 2, 3]) yield Buffer.from(run.slice(skip), 'base64');
}

/** What of decoded bytes may hold a further encoding: a whole text, what is compressed, words among other bytes. */
export function openable(bytes: Buffer): Buffer[] {
  if (isText(bytes) || isCompressed(bytes)) return [bytes];
  return [...bytes.toString('latin1').matchAll(WORDS)].map(([words]) => Buffer.from(words, 'latin1'));
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
