/** A planted secret is found however it was written down, and what the search cannot do is said and shown. */
import { createCipheriv, createHash } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { canary } from '../../src/cli/scan/encodings';
import { SecretSearch } from '../../src/cli/scan/search';

const SEED = 20261121;

function finds(secret: string, value: unknown): boolean {
  const made = canary('planted', secret);
  if (made === undefined) throw new Error('too short');
  const search = new SecretSearch([made]);
  search.value('here', value);
  expect(JSON.stringify(search.findings)).not.toContain(secret);
  return search.findings.some(({ kind }) => kind === 'canary');
}

/** Bytes that look like nothing, the same for the same seed. */
function noise(seed: number, length: number): Buffer {
  return createHash('shake256', { outputLength: Math.max(length, 1) })
    .update(String(seed))
    .digest()
    .subarray(0, length);
}

const wrap = (text: string, width: number, end: string): string =>
  (text.match(new RegExp(`.{1,${width}}`, 'gs')) ?? []).join(end);

/** Ways to write bytes as a text. */
const WRITERS: Readonly<Record<string, (bytes: Buffer) => string>> = {
  base64: (bytes) => bytes.toString('base64'),
  'base64 without padding': (bytes) => bytes.toString('base64').replace(/=+$/, ''),
  'base64 for URLs': (bytes) => bytes.toString('base64url'),
  'base64 for URLs with padding': (bytes) => bytes.toString('base64').replaceAll('+', '-').replaceAll('/', '_'),
  'base64 in lines of 76': (bytes) => wrap(bytes.toString('base64'), 76, '\r\n'),
  'base64 in lines of 64': (bytes) => wrap(bytes.toString('base64'), 64, '\n'),
  'base64 in lines, escaped': (bytes) => JSON.stringify(wrap(bytes.toString('base64'), 64, '\n')),
  'hexadecimal, lower case': (bytes) => bytes.toString('hex'),
  'hexadecimal, upper case': (bytes) => bytes.toString('hex').toUpperCase(),
};
/** Ways to write a text as a text. */
const TEXTS: Readonly<Record<string, (text: string) => string>> = {
  'as it is': (text) => text,
  'URL encoding': encodeURIComponent,
  'URL encoding, twice': (text) => encodeURIComponent(encodeURIComponent(text)),
  'every byte with a percent sign': (text) =>
    [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  'JSON string': (text) => JSON.stringify(text),
  'JSON string in a JSON string': (text) => JSON.stringify(JSON.stringify(text)),
  'every character as \\uXXXX': (text) =>
    [...text].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
  'as \\uXXXX, upper case': (text) =>
    [...text].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`).join(''),
};
const PACKERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: (bytes) => gzipSync(bytes),
  zlib: (bytes) => deflateSync(bytes),
};

const tokens = fc
  .tuple(fc.constantFrom('hvs.', 'hvr.', 'hvb.', ''), fc.stringMatching(/^[A-Za-z0-9_-]{24,40}$/))
  .map(([prefix, rest]) => prefix + rest);
const shares = fc.uint8Array({ minLength: 17, maxLength: 33 }).map((bytes) => Buffer.from(bytes).toString('hex'));
const passphrases = fc.stringMatching(/^[a-z]{4,7}( [a-z"/%\\]{4,7}){2,4}$/);
const secrets = fc.oneof(tokens, shares, passphrases);
const around = fc.tuple(fc.nat(), fc.nat({ max: 70 }), fc.nat({ max: 70 }));
const runs = (count: number) => ({ seed: SEED, numRuns: count });

describe('a planted secret is found', () => {
  it.each(Object.entries(WRITERS))('inside of bytes at every offset, written as %s', (_, write) => {
    fc.assert(
      fc.property(secrets, around, (secret, [seed, before, after]) => {
        const bytes = Buffer.concat([noise(seed, before), Buffer.from(secret), noise(seed + 1, after)]);
        return finds(secret, `x=${write(bytes)};`);
      }),
      runs(60),
    );
  });

  it.each(Object.entries(WRITERS))('of a key share: the bytes that its text stands for, written as %s', (_, write) => {
    fc.assert(
      fc.property(shares, around, (share, [seed, before, after]) => {
        const bytes = Buffer.concat([noise(seed, before), Buffer.from(share, 'hex'), noise(seed + 1, after)]);
        return finds(share, write(bytes)) && finds(Buffer.from(share, 'hex').toString('base64'), write(bytes));
      }),
      runs(60),
    );
  });

  it.each(Object.entries(TEXTS))('in a text: %s', (_, write) => {
    fc.assert(
      fc.property(secrets, (secret) => finds(secret, `level=info msg=${write(secret)} end`)),
      runs(80),
    );
  });

  it('in any two of these inside of each other', () => {
    const inner = fc.constantFrom(
      ...Object.values(TEXTS),
      ...Object.values(WRITERS).map((write) => (text: string) => write(Buffer.from(text))),
    );
    const outer = fc.constantFrom(...Object.values(WRITERS));
    fc.assert(
      fc.property(secrets, inner, outer, (secret, first, second) =>
        finds(secret, { member: [`a ${second(Buffer.from(`some words ${first(secret)} and more`))} b`] }),
      ),
      runs(300),
    );
  });

  it.each(Object.entries(PACKERS))('inside of %s, as bytes and written as text', (_, pack) => {
    fc.assert(
      fc.property(secrets, fc.constantFrom(...Object.values(WRITERS)), (secret, write) => {
        const packed = pack(
          Buffer.from(`{"log":"${'some words '.repeat(8)}${Buffer.from(secret).toString('base64')}"}`),
        );
        return finds(secret, packed) && finds(secret, write(packed));
      }),
      runs(60),
    );
  });

  it('in hexadecimal with separators, and in UTF-16', () => {
    fc.assert(
      fc.property(secrets, fc.constantFrom(':', ' ', '-'), (secret, separator) => {
        const separated = wrap(Buffer.from(secret).toString('hex'), 2, separator);
        return finds(secret, separated) && finds(secret, Buffer.from(secret, 'utf16le'));
      }),
      runs(40),
    );
  });

  it('where a run of base64 begins with letters that are not part of it', () => {
    fc.assert(
      fc.property(secrets, fc.stringMatching(/^[A-Za-z]{0,5}$/), (secret, prefix) =>
        finds(secret, `${prefix}${Buffer.from(`{"a":"${JSON.stringify(secret)}"}`).toString('base64')}`),
      ),
      runs(60),
    );
  });

  it('in an error: message, stack, cause, details and hidden members; in maps, sets and rings', () => {
    const secret = 'hvs.TheSecretOfTheError';
    const hidden = Object.defineProperty(new Error('x'), 'response', { value: { headers: { token: secret } } });
    const ring: Record<string, unknown> = { a: 1 };
    ring['ring'] = ring;
    ring['deep'] = new Map([['k', new Set([{ [Symbol('s')]: secret }])]]);
    for (const value of [new Error(secret), new Error('x', { cause: new Error(`y ${secret}`) }), hidden, ring])
      expect(finds(secret, value)).toBe(true);
    expect(finds(secret, new AggregateError([new Error('x'), { details: [secret] }]))).toBe(true);
  });
});

describe('what the search cannot find', () => {
  const SECRET = 'hvs.Correct-Horse-Battery-Staple';
  const key = createHash('sha256').update('key').digest();
  const encrypted = createCipheriv('aes-256-gcm', key, Buffer.alloc(12)).update(SECRET);
  it.each([
    ['what is encrypted', encrypted.toString('base64')],
    ['what is a digest', createHash('sha256').update(SECRET).digest('hex')],
    ['what is split over two values', [SECRET.slice(0, 12), SECRET.slice(12)]],
    ['what stands backwards', [...SECRET].reverse().join('')],
    ['a compression that it does not know', brotliCompressSync(Buffer.from(SECRET.repeat(3))).toString('base64')],
    ['what compression cut off', gzipSync(Buffer.from(`${'x'.repeat(500)}${SECRET}`)).subarray(0, 20)],
  ])('%s', (_, value) => {
    expect(finds(SECRET, value)).toBe(false);
  });

  it('says where it gave up because something is nested too deep', () => {
    let text = SECRET;
    for (let depth = 0; depth < 12; depth += 1) text = Buffer.from(`padding ${text}`).toString('base64');
    const search = new SecretSearch([]);
    search.value('here', text);
    expect(search.incomplete).toBe(true);
  });
});
