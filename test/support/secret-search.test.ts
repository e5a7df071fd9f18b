/** Tests rely on this search to prove that nothing contains a secret: it finds a planted secret in any encoding. */
import { createHash } from 'node:crypto';
import { deflateSync, gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { SecretSearch } from './secret-search';

function finds(secret: string, value: unknown): boolean {
  const search = new SecretSearch(new Map([['planted', secret]]));
  search.value('here', value);
  return search.found.length > 0;
}

/** Random-looking bytes, the same for the same seed. */
const noise = (seed: number, outputLength: number): Buffer =>
  createHash('shake256', { outputLength }).update(String(seed)).digest();
const lines = (text: string, width: number, end: string): string =>
  (text.match(new RegExp(`.{1,${width}}`, 'gs')) ?? []).join(end);

/** Ways to encode bytes as text. */
const WRITERS: readonly ((bytes: Buffer) => string)[] = [
  (bytes) => bytes.toString('base64'),
  (bytes) => bytes.toString('base64url'),
  (bytes) => lines(bytes.toString('base64'), 64, '\n'),
  (bytes) => JSON.stringify(lines(bytes.toString('base64'), 64, '\r\n')),
  (bytes) => bytes.toString('hex'),
  (bytes) => gzipSync(bytes).toString('base64'),
  (bytes) => deflateSync(bytes).toString('hex'),
  (bytes) => lines(bytes.toString('hex'), 2, ':'),
];
/** Ways to encode text as text. */
const TEXTS: readonly ((text: string) => string)[] = [
  ...WRITERS.map((write) => (text: string) => write(Buffer.from(text))),
  (text) => encodeURIComponent(encodeURIComponent(text)),
  (text) => JSON.stringify(JSON.stringify(text)),
  (text) => [...text].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
];

const tokens = fc.stringMatching(/^hv[srb]\.[A-Za-z0-9_-]{24,40}$/);
const shares = fc.uint8Array({ minLength: 17, maxLength: 33 }).map((bytes) => Buffer.from(bytes).toString('hex'));
const passphrases = fc.stringMatching(/^[a-z]{4,7}( [a-z"/%\\]{4,7}){2,4}$/);
const secrets = fc.oneof(tokens, shares, passphrases);
const length = fc.nat({ max: 70 });
const runs = { seed: 20261121, numRuns: 300 };

it('finds a secret in any two encodings inside of each other, and among other words', () => {
  const text = fc.constantFrom(...TEXTS);
  fc.assert(
    fc.property(secrets, text, text, (secret, inner, outer) =>
      finds(secret, { member: [`a ${outer(`some words ${inner(secret)} and more`)} b`] }),
    ),
    runs,
  );
});

it('finds the bytes of a key share at every offset among other bytes', () => {
  fc.assert(
    fc.property(shares, fc.nat(), length, length, fc.constantFrom(...WRITERS), (share, seed, before, after, write) => {
      const bytes = Buffer.concat([noise(seed, before + 1), Buffer.from(share, 'hex'), noise(seed + 1, after + 1)]);
      return finds(share, write(bytes)) && finds(Buffer.from(share, 'hex').toString('base64'), bytes);
    }),
    runs,
  );
});

it('finds it in hidden members of errors, names, maps, sets and UTF-16, and has no false finding', () => {
  const secret = 'hvs.TheSecretOfTheError';
  const hidden = Object.defineProperty(new Error('x'), 'response', { value: { headers: { token: secret } } });
  const ring: Record<string, unknown> = { deep: new Map([['k', new Set([{ [Symbol('s')]: secret }])]]) };
  ring['ring'] = ring;
  for (const value of [hidden, new Error('x', { cause: new Error(secret) }), { [secret]: 1 }, ring])
    expect(finds(secret, value)).toBe(true);
  expect(finds(secret, Buffer.from(secret, 'utf16le'))).toBe(true);
  expect(finds(secret, { a: 'hvs.TheSecret', b: [noise(0, 200), secret.slice(12)], c: 7, d: null })).toBe(false);
});
