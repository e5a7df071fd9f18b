import { mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { z } from 'zod';
import { formatPublicKey, parsePublicKey } from '../documents/public-keys';
import type { PinnedKey, PublicKeyEntry } from '../documents/public-keys';
import { errnoOf, RunbookError } from '../errors';

const pinsFile = z.strictObject({
  version: z.literal(1),
  pins: z.array(z.strictObject({ environment: z.string().min(1), key: z.string(), addedAt: z.iso.datetime() })),
});
type PinsFile = z.infer<typeof pinsFile>;

/**
 * The workers' public keys that a person trusts now, one or more per environment; an empty list where there is no file.
 *
 * @param file path of `pins.json`.
 * @throws RunbookError `DOCUMENT_INVALID` where the file is damaged: a pin that cannot be read must not count as absent.
 */
export async function readPins(file: string): Promise<readonly PinnedKey[]> {
  return (await readPinsFile(file)).pins.map(({ environment, key }) => ({ environment, ...keyOf(file, key) }));
}

/**
 * Pins a workers' public key for an environment. A key that is pinned already is left as it is.
 *
 * @param line `<kid>:<x>`, given out of band, its fingerprint compared by voice.
 * @throws RunbookError `INVALID_INPUT` where the line is no public key, or the key is pinned for another environment.
 */
export async function addPin(file: string, environment: string, line: string, now = new Date()): Promise<PinnedKey> {
  const key = parsePublicKey(line.trim());
  if (key === undefined) throw notAKey();
  const content = await readPinsFile(file);
  const pinned = content.pins.find((pin) => keyOf(file, pin.key).kid === key.kid);
  if (pinned !== undefined && pinned.environment !== environment) {
    throw new RunbookError('INVALID_INPUT', `This key is pinned for environment "${pinned.environment}" already.`, {
      needed: 'one name for one key',
      next: `Give that name, or give the key up first: "runbook keys distrust ${key.kid}".`,
    });
  }
  if (pinned === undefined) {
    content.pins.push({ environment, key: formatPublicKey(key), addedAt: now.toISOString() });
    await writePinsFile(file, content);
  }
  return { environment, ...key };
}

/** A line that is no public key. */
export function notAKey(): RunbookError {
  return new RunbookError('INVALID_INPUT', 'This is not a public key of the form "<kid>:<x>".', {
    needed: 'the whole line with the colon, as "runbook keys workers" printed it',
    next: 'Copy the whole line again; a character may be missing.',
  });
}

/**
 * Takes a key off the pinned ones.
 *
 * @throws RunbookError `NOT_FOUND` where it is not pinned.
 */
export async function removePin(file: string, kid: string): Promise<{ readonly environment: string }> {
  const content = await readPinsFile(file);
  const pin = content.pins.find((each) => keyOf(file, each.key).kid === kid);
  if (pin === undefined) {
    throw new RunbookError('NOT_FOUND', `This key is not pinned in ${file}.`, {
      next: 'Nothing is to be done here; look whether --pins or RUNBOOKS_PINS names another file.',
    });
  }
  await writePinsFile(file, { ...content, pins: content.pins.filter((each) => each !== pin) });
  return { environment: pin.environment };
}

function keyOf(file: string, line: string): PublicKeyEntry {
  const key = parsePublicKey(line);
  if (key === undefined) throw damaged(file);
  return key;
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
  try {
    return pinsFile.parse(JSON.parse(text));
  } catch {
    throw damaged(file);
  }
}

function damaged(file: string): RunbookError {
  return new RunbookError('DOCUMENT_INVALID', `The file of pinned keys ${file} cannot be read.`, {
    next: 'Restore it, or remove it and pin the keys again after comparing their fingerprints by voice.',
  });
}
