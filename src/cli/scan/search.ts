import type { Canary } from './canary';
import { SECRET_SHAPES } from './secret-looking';

/** Something found. It says where and what, never the value. */
export interface ScanFinding {
  readonly where: string;
  /** `canary` proves that a secret is there; `suspicion` is a shape that a secret has. */
  readonly kind: 'canary' | 'suspicion';
  readonly what: string;
}

/** How deep encodings inside of encodings are opened. */
const MAX_DEPTH = 8;
const BASE64_RUN = /[A-Za-z0-9+/_-]{16,}={0,2}/g;
const MAX_RUNS = 2_000;

/** Searches values for canaries and for what looks like a secret, opening every encoding that it recognises. */
export class SecretSearch {
  readonly #canaries: readonly Canary[];
  readonly #found = new Map<string, ScanFinding>();

  constructor(canaries: readonly Canary[]) {
    this.#canaries = canaries;
  }

  /** What was found so far, each place and kind once. */
  get findings(): readonly ScanFinding[] {
    return [...this.#found.values()];
  }

  /** Searches a value of any shape: members, elements, byte arrays, and texts that encode others. */
  value(where: string, value: unknown, depth = 0): void {
    if (depth > MAX_DEPTH || value === null || value === undefined) return;
    if (typeof value === 'string') this.#text(where, value, depth);
    else if (value instanceof Uint8Array) this.#bytes(where, Buffer.from(value), depth);
    else if (Array.isArray(value))
      value.forEach((element: unknown, index) => this.value(`${where}[${index}]`, element, depth));
    else if (typeof value === 'object') {
      for (const [name, member] of Object.entries(value)) {
        this.#match(`${where}.(a member's name)`, name);
        this.value(`${where}.${safeName(name)}`, member, depth);
      }
    }
  }

  #text(where: string, text: string, depth: number): void {
    this.#match(where, text);
    const json = parseJson(text);
    if (json !== undefined) this.value(where, json, depth + 1);
    if (/%[0-9a-f]{2}/i.test(text)) this.#match(`${where} (URL-decoded)`, decodeLoosely(text));
    this.#encoded(where, text, depth);
  }

  #bytes(where: string, bytes: Buffer, depth: number): void {
    if (bytes.length === 0) return;
    this.#match(where, bytes.toString('latin1'));
    const text = bytes.toString('utf8');
    const json = parseJson(text);
    if (json !== undefined) this.value(where, json, depth + 1);
    this.#encoded(where, text, depth);
  }

  /** Opens each run of base64 or hexadecimal; signed and sealed documents are such runs, joined by dots. */
  #encoded(where: string, text: string, depth: number): void {
    if (depth >= MAX_DEPTH) return;
    let runs = 0;
    for (const [run] of text.matchAll(BASE64_RUN)) {
      runs += 1;
      if (runs > MAX_RUNS) return;
      const bytes = /^([0-9a-f]{2})+$/i.test(run) ? Buffer.from(run, 'hex') : Buffer.from(run, 'base64');
      // Only what is text inside can hold a further encoding; canaries in bytes are found by their own forms.
      if (isText(bytes)) this.value(`${where} (decoded)`, bytes.toString('utf8'), depth + 1);
    }
  }

  #match(where: string, text: string): void {
    const lower = text.toLowerCase();
    for (const { label, forms } of this.#canaries) {
      for (const { encoding, needle, anyCase } of forms) {
        const found = anyCase ? lower.includes(needle.toLowerCase()) : text.includes(needle);
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

function parseJson(text: string): unknown {
  const trimmed = text.trimStart();
  if (!/^["[{]/.test(trimmed)) return undefined;
  try {
    return JSON.parse(trimmed);
  } catch {
    return undefined;
  }
}

function decodeLoosely(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString('latin1'));
}

function isText(bytes: Buffer): boolean {
  const text = bytes.toString('utf8');
  // Control characters are what tells bytes from text.
  // eslint-disable-next-line no-control-regex -- they are what is looked for
  return text.length > 0 && !/[\u0000-\u0008\u000e-\u001f\ufffd]/.test(text);
}
