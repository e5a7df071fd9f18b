/** A planted secret is found however it was written down, and what the search cannot do is said and shown. */
import { createCipheriv, createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { canary, SecretSearch } from '../../src/cli/secret-search';
import { cli } from './support';

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

const SECRET = 'hvs.Correct/Horse+Battery"Staple';
const SHARE = '8f1c'.repeat(16) + 'a7';
const random = (length: number) => noise(0, length);

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

describe('searching for a given secret', () => {
  it('finds it in the payload of a signed document, as the name of a member, and shows it nowhere', () => {
    const jws = `eyJhbGciOiJFZDI1NTE5In0.${Buffer.from(JSON.stringify({ secret: SECRET })).toString('base64url')}.AAAA`;
    for (const value of [jws, { [SECRET]: 1 }, { list: [Buffer.from(SECRET)] }])
      expect(finds(SECRET, value)).toBe(true);
  });

  it('finds nothing where there is nothing', () => {
    expect(finds(SECRET, { a: 'hvs.Correct', b: [random(200), 'Battery Staple'], c: 7, d: null })).toBe(false);
  });
});

describe('searching for what looks like a secret', () => {
  it.each([
    ['hvs.CAESIJ1234567890abcdefghijklmnop', 'token'],
    [`AGE-SECRET-KEY-1${'QPZRY9X8'.repeat(7)}`, 'age'],
    ['-----BEGIN PGP PRIVATE KEY BLOCK-----', 'private key'],
    [SHARE, 'key share'],
    [random(33).toString('base64').replaceAll('+', 'x').replaceAll('/', 'y'), 'key share'],
  ])('suspects %s', (text, what) => {
    const found = new SecretSearch([]);
    found.value('here', `some text: ${text} and more`);
    expect(found.findings.map((finding) => finding.what).join()).toContain(what);
  });

  it.each(['s', 'r', 'b'])('does not suspect a sealed value one of whose parts ends in "-%s"', (letter) => {
    const found = new SecretSearch([]);
    for (const before of ['-', '_'])
      found.value(
        'here',
        `eyJhbGciOiJkaXIifQ..q1w2e3r4t5y6u7${before}${letter}.${'Zm9v'.repeat(10)}.${'YmFy'.repeat(6)}`,
      );
    expect(found.findings).toEqual([]);
  });

  it('does not suspect digests, fingerprints, identifiers and recipients', () => {
    const found = new SecretSearch([]);
    found.value('here', {
      sha256: random(32).toString('hex'),
      digest: random(32).toString('base64url'),
      fingerprint: random(20).toString('hex'),
      uuid: '01a1fba0-3c5c-71fc-a1a1-b10622813251',
      recipient: `age1pq1${'qpzry9x8gf2tvdw0s3jn54khce6mua7l'.repeat(40)}`,
    });
    expect(found.findings).toEqual([]);
  });
});

describe('runbook scan', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'scan-'));
  });
  afterAll(() => rm(directory, { recursive: true }));

  it('tells file and line of a secret, ends with 1, and does not repeat it', async () => {
    const log = join(directory, 'worker.log');
    const canaries = join(directory, 'canaries');
    await writeFile(log, `first line\ntoken=${Buffer.from(SECRET).toString('base64')}\n`);
    await writeFile(canaries, `${SECRET}\n`);
    const { code, out } = await cli(['scan', '--files', log, '--canary-file', canaries]);
    // A folder stands for all that is in it, the file of canaries too.
    const folder = await cli(['scan', '--files', dirname(log), '--canary-file', canaries]);
    expect(folder.out).toContain(`${log}:`);
    expect(code).toBe(1);
    expect(out).toContain(`${log}:2`);
    expect(out).toContain('never absence');
    expect(out).not.toContain('Horse');
  });

  it('ends with 0 where nothing was found', async () => {
    const log = join(directory, 'clean.log');
    await writeFile(log, 'nothing to see\n');
    expect((await cli(['scan', '--files', log, '--canary-prompt'], { answers: [SECRET] })).code).toBe(0);
  });

  it('refuses a secret that is too short to mean anything, and a search of nothing', async () => {
    expect((await cli(['scan', '--files', '/dev/null', '--canary-prompt'], { answers: ['abc'] })).code).toBe(3);
    expect((await cli(['scan'])).code).toBe(3);
  });
});
