import { createMessage, decrypt, generateKey, readMessage, type PrivateKey } from 'openpgp';
import fc from 'fast-check';
import {
  encodeWithOneTimePassword,
  encryptWithPgp,
  PgpKeyCannotEncryptError,
  PgpKeyParseError,
  randomBase62,
  randomToken,
  randomUuid,
  readPgpFingerprint,
  seededRandom,
} from '../../src/simulator/cryptography/tokens';

async function pgpKey(options: { subkeys?: { sign: boolean }[]; date?: Date; keyExpirationTime?: number } = {}) {
  const { privateKey } = await generateKey({
    type: 'ecc',
    userIDs: [{ name: 'runbook' }],
    format: 'object',
    ...options,
  });
  const publicKey = Buffer.from(privateKey.toPublic().write()).toString('base64');
  return { privateKey, publicKey };
}

async function decryptText(privateKey: PrivateKey, encoded: string): Promise<string> {
  const message = await readMessage({ binaryMessage: Buffer.from(encoded, 'base64') });
  const decrypted: { data: unknown } = await decrypt({ message, decryptionKeys: privateKey });
  return String(decrypted.data);
}

describe('random values', () => {
  it('depend on the seed alone, and not on how the bytes are asked for', () => {
    const whole = seededRandom(11)(48);
    const stream = seededRandom(11);
    expect(Buffer.concat([stream(1), stream(0), stream(31), stream(16)])).toEqual(whole);
    expect(seededRandom(12)(48)).not.toEqual(whole);
    expect(seededRandom(-1)(8)).not.toEqual(seededRandom(1)(8));
  });

  it('in base62 use each character equally often', () => {
    const text = randomBase62(62_000, seededRandom(13));
    expect(text).toMatch(/^[0-9A-Za-z]{62000}$/);
    const counts = new Map<string, number>();
    for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
    expect(counts.size).toBe(62);
    expect(Math.min(...counts.values())).toBeGreaterThan(850);
    expect(Math.max(...counts.values())).toBeLessThan(1150);
  });

  it('make tokens of prefix and 24 characters', () => {
    const random = seededRandom(14);
    expect(randomToken('hvs.', random)).toMatch(/^hvs\.[0-9A-Za-z]{24}$/);
    expect(randomToken('hvb.', random)).toMatch(/^hvb\.[0-9A-Za-z]{24}$/);
    expect(randomToken('s.', random)).toMatch(/^s\.[0-9A-Za-z]{24}$/);
    expect(randomToken('s.', random)).not.toBe(randomToken('s.', random));
  });

  it('make version 4 UUIDs', () => {
    const random = seededRandom(15);
    const uuids = Array.from({ length: 50 }, () => randomUuid(random));
    const pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    expect(uuids.filter((uuid) => !pattern.test(uuid))).toEqual([]);
    expect(new Set(uuids).size).toBe(50);
  });
});

describe('one-time password', () => {
  it('gives the documented vector, in standard base64 without padding', () => {
    expect(encodeWithOneTimePassword('hvs.EXAMPLEexampleEXAMPLE012', 'aB3dE5fG7hJ9kL1mN3pQ5rS7tU9v')).toBe(
      'CTRASgBtJwpnJA9cEy1cHSJWNQl0PwN7MWUIRA',
    );
  });

  it('gives the token back by XOR, never padded', () => {
    fc.assert(
      fc.property(fc.integer(), fc.constantFrom('hvs.' as const, 's.' as const), (seed, prefix) => {
        const random = seededRandom(seed);
        const token = randomToken(prefix, random);
        const otp = randomBase62(token.length, random);
        const encoded = encodeWithOneTimePassword(token, otp);
        expect(encoded).toMatch(/^[A-Za-z0-9+/]+$/);
        const password = Buffer.from(otp);
        const decoded = Buffer.from(encoded, 'base64').map((byte, index) => byte ^ (password[index] ?? 0));
        expect(Buffer.from(decoded).toString()).toBe(token);
      }),
      { seed: 16, numRuns: 50 },
    );
  });

  it('of another length is refused without naming either text', () => {
    const encode = (): string => encodeWithOneTimePassword('hvs.canary', 'short');
    expect(encode).toThrow('length of byte slices is not equivalent: 10 != 5');
    expect(encode).not.toThrow('canary');
  });
});

describe('PGP', () => {
  it('encrypts the text to the key and names the primary key in lower-case hex', async () => {
    const { privateKey, publicKey } = await pgpKey();
    const { encoded, fingerprint } = await encryptWithPgp(publicKey, 'hvs.EXAMPLEexampleEXAMPLE012');
    expect(await decryptText(privateKey, encoded)).toBe('hvs.EXAMPLEexampleEXAMPLE012');
    expect(encoded).toBe(Buffer.from(encoded, 'base64').toString('base64'));
    expect(fingerprint).toBe(privateKey.getFingerprint());
    expect(fingerprint).toMatch(/^[0-9a-f]{40}$/);
    expect(await readPgpFingerprint(publicKey)).toBe(fingerprint);
  });

  it.each([
    ['without subkeys', { subkeys: [] }],
    ['with a signing subkey alone', { subkeys: [{ sign: true }] }],
    ['that expired', { date: new Date('2020-01-01'), keyExpirationTime: 60 }],
  ])('reads the fingerprint of a key %s and refuses to encrypt to it', async (_name, options) => {
    const { privateKey, publicKey } = await pgpKey(options);
    expect(await readPgpFingerprint(publicKey)).toBe(privateKey.getFingerprint());
    await expect(encryptWithPgp(publicKey, 'text')).rejects.toBeInstanceOf(PgpKeyCannotEncryptError);
  });

  it.each([
    ['no base64', '-----BEGIN PGP PUBLIC KEY BLOCK-----'],
    ['nothing', ''],
    ['some bytes', Buffer.from('not a key').toString('base64')],
  ])('refuses %s as key', async (_name, text) => {
    await expect(readPgpFingerprint(text)).rejects.toThrow('error parsing PGP key');
    await expect(encryptWithPgp(text, 'text')).rejects.toBeInstanceOf(PgpKeyParseError);
  });

  it('refuses a message, which is OpenPGP and not a key', async () => {
    const message = Buffer.from((await createMessage({ text: 'x' })).write()).toString('base64');
    await expect(readPgpFingerprint(message)).rejects.toBeInstanceOf(PgpKeyParseError);
  });
});
