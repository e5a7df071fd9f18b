import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../../src/secret';
import { readHolderKey } from '../../src/documents/signing-keys';
import { createHolderKey, generatePassphrase, addPin, readPins, newSigningKey } from '../../src/keys/holder-keys';
import { formatPublicKey, parsePublicKey } from '../../src/documents/public-keys';
import { failureOf } from './builders';

/** scrypt at its lowest cost: the cost itself is age's, and a second each. */
const QUICK = 4;

describe("a person's signing key", () => {
  it('comes back from its file with its passphrase, and fits the line for the inventory', async () => {
    const passphrase = generatePassphrase();
    const { file, kid, inventoryLine } = await createHolderKey(passphrase, QUICK);
    const key = await readHolderKey(file, passphrase);
    expect(key.kid).toBe(kid);
    expect(parsePublicKey(inventoryLine)).toEqual({ kid, x: key.x });
    expect(file).toMatch(/^-----BEGIN AGE ENCRYPTED FILE-----\n/);
  });

  it.each([
    ['another passphrase', (file: string) => file, 'canary-wrong'],
    ['a damaged file', (file: string) => file.replace(/[A-Z]/g, 'A'), 'right'],
    ['another file', () => 'canary', 'right'],
  ])('does not open with %s, and nothing is repeated', async (_what, change, passphrase) => {
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

  it('are refused where they are none, or pinned for another environment', async () => {
    const file = join(directory, 'pins.json');
    await addPin(file, 'production', formatPublicKey(key));
    expect((await failureOf(() => addPin(file, 'staging', formatPublicKey(key)))).code).toBe('INVALID_INPUT');
    expect((await failureOf(() => addPin(file, 'staging', key.kid))).code).toBe('INVALID_INPUT');
  });

  it('a damaged file is not taken for an empty one, and is left as it is', async () => {
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
