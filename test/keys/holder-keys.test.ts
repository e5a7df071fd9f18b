import { webcrypto } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createCeremonyKeys, openToken } from '../../src/keys';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { Secret } from '../../src/secret';
import { readHolderKey } from '../../src/documents/signing-keys';
import { createHolderKey, generatePassphrase, addPin, readPins, newSigningKey } from '../../src/keys/holder-keys';
import { formatPublicKey, parsePublicKey } from '../../src/documents/public-keys';
import { failureOf } from './builders';

/** scrypt at its lowest cost: the cost itself is age's, and a second each. */
const QUICK = 4;

describe("a person's signing key", () => {
  it('is read back from its file with its passphrase, and matches the line for the inventory', async () => {
    const passphrase = generatePassphrase();
    const { file, key } = await createHolderKey(passphrase, QUICK);
    expect(await readHolderKey(file, passphrase)).toMatchObject(key);
    expect(parsePublicKey(formatPublicKey(key))).toEqual(key);
    expect(file).toMatch(/^-----BEGIN AGE ENCRYPTED FILE-----\n/);
  });

  it.each([
    ['another passphrase', (file: string) => file, 'canary-wrong'],
    ['a damaged file', (file: string) => file.replace(/[A-Z]/g, 'A'), 'right'],
    ['another file', () => 'canary', 'right'],
  ])('does not open with %s, and the input is not repeated', async (_what, change, passphrase) => {
    const { file } = await createHolderKey(new Secret('passphrase', 'right'), QUICK);
    const failure = await failureOf(() => readHolderKey(change(file), new Secret('passphrase', passphrase)));
    expect(failure.code).toBe('DOCUMENT_INVALID');
    expect(failure.text).not.toContain('canary');
  });

  it('has a passphrase that can be read aloud and is never the same', () => {
    const passphrases = Array.from({ length: 50 }, () => generatePassphrase().reveal());
    expect(new Set(passphrases).size).toBe(50);
    for (const passphrase of passphrases) expect(passphrase).toMatch(/^([a-hjkmnp-z2-9]{5}-){4}[a-hjkmnp-z2-9]{5}$/);
  });
});

describe('pinned keys', () => {
  let directory: string;
  const key = newSigningKey().key;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'pins-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('are kept per environment, more than one while a key is replaced', async () => {
    const file = join(directory, 'deeper', 'pins.json');
    expect(await readPins(file)).toEqual([]);
    const next = newSigningKey().key;
    await addPin(file, 'production', formatPublicKey(key));
    await addPin(file, 'production', formatPublicKey(next));
    await addPin(file, 'production', formatPublicKey(key));
    expect(await readPins(file)).toEqual([
      { environment: 'production', kid: key.kid, x: key.x },
      { environment: 'production', kid: next.kid, x: next.x },
    ]);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  it('are refused if they are none, or pinned for another environment', async () => {
    const file = join(directory, 'pins.json');
    await addPin(file, 'production', formatPublicKey(key));
    expect((await failureOf(() => addPin(file, 'staging', formatPublicKey(key)))).code).toBe('INVALID_INPUT');
    expect((await failureOf(() => addPin(file, 'staging', key.kid))).code).toBe('INVALID_INPUT');
  });

  it('a damaged file does not count as an empty one, and is left as it is', async () => {
    const file = join(directory, 'pins.json');
    for (const text of [
      '',
      '{"version":2,"pins":[]}',
      `{"version":1,"pins":[{"environment":"a","key":"x","addedAt":"2030-01-01T00:00:00Z"}]}`,
    ]) {
      await writeFile(file, text);
      expect((await failureOf(() => readPins(file))).code).toBe('DOCUMENT_INVALID');
      expect((await failureOf(() => addPin(file, 'production', formatPublicKey(key)))).code).toBe('DOCUMENT_INVALID');
      expect(await readFile(file, 'utf8')).toBe(text);
    }
  });
});

/** Node.js 20 can hang where a key pair that it generated is exported: neither we nor our libraries let it generate one. */

it('new signing keys are different, and sign', () => {
  const [one, other] = [newSigningKey(), newSigningKey()];
  expect(one.key.kid).not.toBe(other.key.kid);
  expect(JSON.parse(one.jwk.reveal())).toMatchObject({ kty: 'OKP', crv: 'Ed25519', x: one.key.x });
});

it('the keys of a ceremony are made without key pairs of the platform', async () => {
  for (const name of ['X25519', 'Ed25519'])
    await expect(webcrypto.subtle.generateKey(name, true, ['sign'])).rejects.toMatchObject({
      name: 'NotSupportedError',
    });
  const keys = await createCeremonyKeys();
  expect(keys.pgpFingerprint).toMatch(/^[0-9a-f]{40}$/);
  for (const encoded of ['', 'canary', 'aHZzLmNhbmFyeQ==']) {
    const { code, text } = await failureOf(() => openToken(keys, encoded));
    expect([code, text.includes('canary')]).toEqual(['RESPONSE_INVALID', false]);
  }
  // Every other algorithm is as it was.
  await expect(
    webcrypto.subtle.generateKey({ name: 'AES-GCM', length: 256 }, true, ['encrypt']),
  ).resolves.toBeDefined();
});

it('no program of ours generates key pairs by the platform', () => {
  const users = ['src', 'activities', 'workflows']
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)))
    .filter((path) => path.endsWith('.ts') && !path.startsWith(join('src', 'simulator')))
    .filter((path) => /\bgenerateKeyPair(Sync)?\(/.test(readFileSync(path, 'utf8')));
  expect(users).toEqual([]);
});
