import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { canary } from '../../src/cli/scan/encodings';
import { SecretSearch } from '../../src/cli/scan/search';
import { cli } from './support';

function search(secret: string, value: unknown) {
  const made = canary('the secret', secret);
  if (made === undefined) throw new Error('too short');
  const found = new SecretSearch([made]);
  found.value('here', value);
  return found.findings.filter(({ kind }) => kind === 'canary');
}

const SECRET = 'hvs.Correct/Horse+Battery"Staple';
/** Bytes without meaning, the same at every run. */
function noise(length: number): Buffer {
  return createHash('shake256', { outputLength: length }).update('noise').digest();
}
const SHARE = '8f1c'.repeat(16) + 'a7';

describe('searching for a given secret', () => {
  it.each([
    ['plain', (secret: string) => `before ${secret} after`],
    ['hexadecimal', (secret: string) => Buffer.from(secret).toString('hex').toUpperCase()],
    ['URL-encoded', (secret: string) => `x=${encodeURIComponent(secret)}&y=1`],
    [
      'fully percent-encoded',
      (secret: string) => [...Buffer.from(secret)].map((byte) => `%${byte.toString(16).toUpperCase()}`).join(''),
    ],
    ['in JSON inside of JSON', (secret: string) => JSON.stringify({ a: JSON.stringify({ b: secret }) })],
    [
      'in base64 of base64',
      (secret: string) => Buffer.from(Buffer.from(`padding ${secret} padding`).toString('base64')).toString('base64'),
    ],
    [
      'in the payload of a signed document',
      (secret: string) =>
        `eyJhbGciOiJFZDI1NTE5In0.${Buffer.from(JSON.stringify({ secret })).toString('base64url')}.AAAA`,
    ],
  ])('finds it %s', (_, encode) => {
    expect(search(SECRET, { member: [encode(SECRET)] }).length).toBeGreaterThan(0);
  });

  it.each([0, 1, 2, 3, 4, 5])('finds it in base64 of binary, %d bytes from the beginning', (offset) => {
    // Bytes that are no text: only the forms of the canary itself can find it there.
    const bytes = Buffer.concat([Buffer.alloc(offset, 0xff), Buffer.from(SECRET), Buffer.alloc(3, 0xfe)]);
    expect(search(SECRET, bytes.toString('base64')).length).toBeGreaterThan(0);
    expect(search(SECRET, bytes.toString('base64url')).length).toBeGreaterThan(0);
  });

  it('finds a key share in hexadecimal also as the bytes that it stands for', () => {
    const bytes = Buffer.from(SHARE, 'hex');
    expect(search(SHARE, bytes).length).toBeGreaterThan(0);
    expect(search(SHARE, { ct: bytes.toString('base64') }).length).toBeGreaterThan(0);
    expect(search(SHARE, SHARE.toUpperCase()).length).toBeGreaterThan(0);
  });

  it('finds it as the name of a member', () => {
    expect(search(SECRET, { [SECRET]: 1 }).length).toBeGreaterThan(0);
  });

  it('finds nothing where there is nothing', () => {
    expect(search(SECRET, { a: 'hvs.Correct', b: [noise(200), 'Battery Staple'], c: 7, d: null })).toEqual([]);
  });

  it('never shows the secret, wherever it was', () => {
    const found = search(SECRET, { [SECRET]: SECRET, list: [Buffer.from(SECRET)] });
    expect(JSON.stringify(found)).not.toContain('Horse');
  });
});

describe('searching for what looks like a secret', () => {
  it.each([
    ['hvs.CAESIJ1234567890abcdefghijklmnop', 'token'],
    [`AGE-SECRET-KEY-1${'QPZRY9X8'.repeat(7)}`, 'age'],
    ['-----BEGIN PGP PRIVATE KEY BLOCK-----', 'private key'],
    [SHARE, 'key share'],
    [noise(33).toString('base64').replaceAll('+', 'x').replaceAll('/', 'y'), 'key share'],
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
      sha256: noise(32).toString('hex'),
      digest: noise(32).toString('base64url'),
      fingerprint: noise(20).toString('hex'),
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
