import { decompressed, readings, runsOf } from './encodings';
import type { Canary } from './encodings';

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
    let runs = 0;
    for (const bytes of runsOf(text)) {
      runs += 1;
      if (runs > MAX_RUNS || depth >= MAX_DEPTH) {
        this.#incomplete = true;
        return;
      }
      this.value(`${where} (decoded)`, bytes, depth + 1);
    }
  }

  #match(where: string, text: string): void {
    const lower = text.toLowerCase();
    for (const { label, forms } of this.#canaries) {
      for (const { encoding, needle, anyCase } of forms) {
        const found = anyCase ? lower.includes(needle) : text.includes(needle);
        if (found) this.#add({ where, kind: 'canary', what: `${label}, ${encoding}` });
      }
    }
    for (const [what, shape] of SECRET_SHAPES) if (shape.test(text)) this.#add({ where, kind: 'suspicion', what });
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
