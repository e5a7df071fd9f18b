import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { RunbookError } from '../errors';
import { errnoOf } from './errno';
import { followStatements, refuseStatement, refuseTwo } from '../holder/key-statements';
import type { KeyStatement } from '../holder/key-statements';
import type { PinnedKey } from '../holder/public-keys';
import { formatPublicKey, parsePublicKey } from './signing-keys';
import type { PublicKeyEntry } from './signing-keys';

const pinsFile = z.strictObject({
  version: z.literal(1),
  pins: z.array(
    z.strictObject({
      environment: z.string().min(1),
      key: z.string(),
      addedAt: z.iso.datetime(),
      /** From then on it does not count: another key followed it, or the person gave it up. */
      until: z.iso.datetime().optional(),
      /** The `kid` of the one key that followed it here. */
      successor: z.string().optional(),
      /** The `kid` of the pinned key that vouched for it; compared by voice where nothing is given. */
      vouchedBy: z.string().optional(),
    }),
  ),
});
type PinsFile = z.infer<typeof pinsFile>;

/** A key that was pinned because a pinned one vouched for it. */
export interface FollowedPin {
  readonly environment: string;
  readonly previous: string;
  readonly key: PublicKeyEntry;
  /** When the previous key stops counting. */
  readonly until: Date;
}

/**
 * The workers' public keys that a person trusts now, one or more per environment; an empty list where there is no file.
 *
 * @param file path of `pins.json`.
 * @throws RunbookError `DOCUMENT_INVALID` where the file is damaged: a pin that cannot be read must not count as absent.
 */
export async function readPins(file: string, now = new Date()): Promise<readonly PinnedKey[]> {
  return counting(await readPinsFile(file), now).map(({ environment, key }) => ({ environment, ...keyOf(file, key) }));
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
  if (pinned?.until !== undefined && new Date(pinned.until) <= now) {
    throw new RunbookError(
      'INVALID_INPUT',
      `This key does not count since ${pinned.until}: another one followed it, or it was given up.`,
      {
        next: `Pin the key that the workers use now. To trust this one again all the same, remove it from ${file} first.`,
      },
    );
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
 * Takes statements by which pinned keys vouch for others, in any order, also several one after the other. A key that was
 * followed by one key here is never followed by a second, and one that does not count any more vouches for nothing.
 *
 * @param options.mayCountNothing statements that no pinned key signed are left alone.
 * @returns what was pinned, in the order of the chain; empty where every key is pinned already.
 * @throws RunbookError `DOCUMENT_INVALID` where none of the statements counts and none is known here already, or where
 * one vouches for what must not be pinned: then nothing is.
 */
export async function followPins(
  file: string,
  statements: readonly string[],
  { now = new Date(), mayCountNothing = false }: { readonly now?: Date; readonly mayCountNothing?: boolean } = {},
): Promise<readonly FollowedPin[]> {
  const content = await readPinsFile(file);
  const before = JSON.stringify(content);
  const trusted = counting(content, now).map(({ key }) => keyOf(file, key));
  const taken = await followStatements(trusted, statements, now.getTime());
  const followed = taken.followed.flatMap((statement) => follow(content, statement, now, file) ?? []);
  // A key that a person pinned before its statement came adds none, and ends the one that it follows all the same.
  if (JSON.stringify(content) !== before) await writePinsFile(file, content);
  if (taken.followed.length === 0 && !mayCountNothing) throw notTaken(taken.refusals[0]);
  return followed;
}

/** Why none of the statements counts. */
function notTaken(refusal: RunbookError | undefined): RunbookError {
  if (refusal === undefined) {
    return new RunbookError('DOCUMENT_INVALID', 'There is no statement about a signing key in this text.', {
      needed: 'what "runbook keys rotate" wrote',
      next: 'Ask the operators for that file, or compare the new key by voice: "runbook keys trust".',
    });
  }
  const { message, observed, needed, next } = refusal;
  return new RunbookError('DOCUMENT_INVALID', message, {
    ...(observed === undefined ? {} : { observed }),
    needed: needed ?? 'a statement of a key that is pinned here and still counts',
    next:
      next ?? 'Call the operators, at a number that you know, and compare the new key by voice: "runbook keys trust".',
    cause: refusal,
  });
}

/**
 * A pinned key does not count any more from now on.
 *
 * @throws RunbookError `NOT_FOUND` where it is not pinned.
 */
export async function retirePin(
  file: string,
  kid: string,
  now = new Date(),
): Promise<{ readonly environment: string }> {
  const content = await readPinsFile(file);
  const pin = content.pins.find((each) => keyOf(file, each.key).kid === kid);
  if (pin === undefined) {
    throw new RunbookError('NOT_FOUND', `This key is not pinned in ${file}.`, {
      next: 'Nothing is to be done here; look whether --pins or RUNBOOKS_PINS names another file.',
    });
  }
  if (pin.until === undefined || new Date(pin.until) > now) pin.until = now.toISOString();
  await writePinsFile(file, content);
  return { environment: pin.environment };
}

function follow(
  content: PinsFile,
  { key, previous, retire }: KeyStatement,
  now: Date,
  file: string,
): FollowedPin | undefined {
  const pin = content.pins.find((each) => keyOf(file, each.key).kid === previous);
  // Whoever vouched is pinned: before, or by the statement before this one.
  if (pin === undefined) throw damaged(file);
  if (pin.successor !== undefined && pin.successor !== key.kid) refuseTwo();
  const present = content.pins.find((each) => keyOf(file, each.key).kid === key.kid);
  if (present?.until !== undefined && new Date(present.until) <= now)
    refuseStatement('the key that it vouches for was given up on this machine');
  if (present !== undefined && present.environment !== pin.environment)
    refuseStatement('its key is pinned for another environment');
  const until = new Date(retire * 1000);
  pin.successor = key.kid;
  if (pin.until === undefined || new Date(pin.until) > until) pin.until = until.toISOString();
  if (present !== undefined) return undefined;
  const { environment } = pin;
  content.pins.push({ environment, key: formatPublicKey(key), addedAt: now.toISOString(), vouchedBy: previous });
  return { environment, previous, key, until };
}

function counting({ pins }: PinsFile, now: Date): PinsFile['pins'] {
  return pins.filter(({ until }) => until === undefined || new Date(until) > now);
}

function keyOf(file: string, line: string): PublicKeyEntry {
  const key = parsePublicKey(line);
  if (key === undefined) throw damaged(file);
  return key;
}

async function writePinsFile(file: string, content: PinsFile): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const temporary = `${file}.${randomUUID()}`;
  await writeFile(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600, flag: 'wx' });
  await rename(temporary, file);
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
