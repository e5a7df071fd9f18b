import { createPrivateKey, randomBytes, randomInt, webcrypto } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { armor, Encrypter } from 'age-encryption';
import writeFileAtomic from 'write-file-atomic';
import { z } from 'zod';
import { jsonIn } from '../contracts/words';
import { formatPublicKey, parsePublicKey, thumbprint } from '../documents/public-keys';
import type { PinnedKey, PublicKeyEntry } from '../documents/public-keys';
import { errnoOf, RunbookError } from '../errors';
import { Secret } from '../secret';

/** Creates a new Ed25519 signing key; returns it with its private JWK as text. */
export function newSigningKey() {
  const privateKey = newEd25519PrivateKey();
  const jwk = privateKey.export({ format: 'jwk' });
  const { x } = jwk;
  if (x === undefined)
    throw new RunbookError('INTERNAL', 'A new signing key has no public half.', { next: 'Run the command again.' });
  return { key: { kid: thumbprint(x), x, privateKey }, jwk: new Secret('private-key', JSON.stringify(jwk)) };
}

/** Without letters and digits that people confuse. */
const PASSPHRASE_ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789';
const PASSPHRASE_GROUPS = 5;
const PASSPHRASE_GROUP_LENGTH = 5;
/** The default of age: about one second on a small machine. */
const SCRYPT_WORK_FACTOR = 18;

/** A random passphrase of 25 characters in groups of five (more than 120 bits). */
export function generatePassphrase(): Secret<'passphrase'> {
  const group = () =>
    Array.from(
      { length: PASSPHRASE_GROUP_LENGTH },
      () => PASSPHRASE_ALPHABET[randomInt(PASSPHRASE_ALPHABET.length)],
    ).join('');
  return new Secret('passphrase', Array.from({ length: PASSPHRASE_GROUPS }, group).join('-'));
}

/**
 * Creates a person's Ed25519 signing key in a passphrase-protected age file, which the `age` program can also open.
 *
 * @param workFactor base-2 logarithm of the scrypt cost; lower in tests only.
 * @returns the armored file to keep, and the public key for the inventory.
 */
export async function createHolderKey(
  passphrase: Secret<'passphrase'>,
  workFactor = SCRYPT_WORK_FACTOR,
): Promise<{ readonly file: string; readonly key: PublicKeyEntry }> {
  const { key, jwk } = newSigningKey();
  const encrypter = new Encrypter();
  encrypter.setPassphrase(passphrase.reveal());
  encrypter.setScryptWorkFactor(workFactor);
  const file = armor.encode(await encrypter.encrypt(jwk.reveal()));
  return { file: file.endsWith('\n') ? file : `${file}\n`, key: { kid: key.kid, x: key.x } };
}

/** PKCS #8 (RFC 8410) of an Ed25519 private key, up to its 32 bytes. */
const ED25519_PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');

/**
 * A new Ed25519 private key from 32 random bytes. Does not use `generateKeyPair`: Node.js 20 hangs forever if the
 * garbage collector meets that job while its key is exported as a JWK (docs/decisions.md, decision 33).
 */
function newEd25519PrivateKey(): KeyObject {
  const seed = randomBytes(32);
  const der = Buffer.concat([ED25519_PKCS8, seed]);
  try {
    return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  } finally {
    seed.fill(0);
    der.fill(0);
  }
}

const AVOIDED = new Set(['X25519', 'Ed25519']);
const GUARDED = Symbol.for('replication-runbooks.webcrypto-guarded');

/**
 * The same workaround for libraries that generate with the Web Cryptography API and export at once, as OpenPGP.js does.
 * The API then reports the two curves as unsupported, and the library uses its own implementation.
 */
export function avoidGeneratedKeyPairs(subtle: webcrypto.SubtleCrypto = webcrypto.subtle): void {
  const guarded = subtle as webcrypto.SubtleCrypto & { [GUARDED]?: true };
  if (guarded[GUARDED]) return;
  const generate = subtle.generateKey.bind(subtle) as (...given: readonly unknown[]) => Promise<unknown>;
  const guard = (algorithm: string | { readonly name: string }, ...rest: readonly unknown[]): Promise<unknown> =>
    AVOIDED.has(typeof algorithm === 'string' ? algorithm : algorithm.name)
      ? Promise.reject(new DOMException('Key pairs of this curve are not generated here.', 'NotSupportedError'))
      : generate(algorithm, ...rest);
  Object.defineProperty(subtle, 'generateKey', { value: guard, configurable: true, writable: true });
  guarded[GUARDED] = true;
}

/** A malformed key line is an error: it must not count as an absent pin. */
const publicKeyLine = z.string().refine((line) => parsePublicKey(line) !== undefined);
const pinsFile = z.strictObject({
  version: z.literal(1),
  pins: z.array(z.strictObject({ environment: z.string().min(1), key: publicKeyLine, addedAt: z.iso.datetime() })),
});
type PinsFile = z.infer<typeof pinsFile>;

/**
 * The workers' public keys that a person trusts now, one or more per environment; empty if there is no file.
 *
 * @param file path of `pins.json`.
 * @throws RunbookError `DOCUMENT_INVALID` if the file is damaged: an unreadable pin must not count as absent.
 */
export async function readPins(file: string): Promise<readonly PinnedKey[]> {
  return (await readPinsFile(file)).pins.map(({ environment, key }) => ({ environment, ...publicKeyOf(key) }));
}

/**
 * Pins a workers' public key for an environment. A key that is already pinned stays unchanged.
 *
 * @param line `<kid>:<x>`, received out of band, its fingerprint compared by voice.
 * @throws RunbookError `INVALID_INPUT` if the line is not a public key, or the key is pinned for another environment.
 */
export async function addPin(file: string, environment: string, line: string, now = new Date()): Promise<PinnedKey> {
  const key = publicKeyOf(line);
  const content = await readPinsFile(file);
  const pinned = content.pins.find((pin) => publicKeyOf(pin.key).kid === key.kid);
  if (pinned !== undefined && pinned.environment !== environment) {
    throw new RunbookError('INVALID_INPUT', `This key is already pinned for environment "${pinned.environment}".`, {
      needed: 'one name for one key',
      next: `Use that name, or remove the key first: "runbook keys distrust ${key.kid}".`,
    });
  }
  if (pinned === undefined) {
    content.pins.push({ environment, key: formatPublicKey(key), addedAt: now.toISOString() });
    await writePinsFile(file, content);
  }
  return { environment, ...key };
}

/**
 * Reads the line `<kid>:<x>` as a person enters it.
 *
 * @throws RunbookError `INVALID_INPUT` if it is not a public key.
 */
export function publicKeyOf(line: string): PublicKeyEntry {
  const key = parsePublicKey(line.trim());
  if (key !== undefined) return key;
  throw new RunbookError('INVALID_INPUT', 'This is not a public key of the form "<kid>:<x>".', {
    needed: 'the complete line with the colon, as "runbook keys workers" printed it',
    next: 'Copy the complete line again; a character may be missing.',
  });
}

/**
 * Removes a pinned key.
 *
 * @throws RunbookError `NOT_FOUND` if it is not pinned.
 */
export async function removePin(file: string, kid: string): Promise<{ readonly environment: string }> {
  const content = await readPinsFile(file);
  const pin = content.pins.find((each) => publicKeyOf(each.key).kid === kid);
  if (pin === undefined) {
    throw new RunbookError('NOT_FOUND', `This key is not pinned in ${file}.`, {
      next: 'There is nothing to do here. Check whether RUNBOOKS_PINS names another file.',
    });
  }
  await writePinsFile(file, { ...content, pins: content.pins.filter((each) => each !== pin) });
  return { environment: pin.environment };
}

async function writePinsFile(file: string, content: PinsFile): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeFileAtomic(file, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
}

async function readPinsFile(file: string): Promise<PinsFile> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return { version: 1, pins: [] };
    throw damaged(file);
  }
  const { data } = pinsFile.safeParse(jsonIn(text));
  if (data === undefined) throw damaged(file);
  return data;
}

function damaged(file: string): RunbookError {
  return new RunbookError('DOCUMENT_INVALID', `The file of pinned keys ${file} cannot be read.`, {
    next: 'Restore it, or remove it and pin the keys again after comparing their fingerprints by voice.',
  });
}
