import { z } from 'zod';
import { RunbookError, isRunbookError } from '../errors';
import { claimedHeader, DOCUMENT_TYPES, verifyDocument } from './documents';
import { importPublicKey, parsePublicKey } from './public-keys';
import type { PublicKeyEntry } from './public-keys';

/** A statement that could be taken for ever would make an old stolen key as good as today's. */
export const LONGEST_LIFE_SECONDS = 400 * 24 * 3600;
/** Clocks of workers and holders differ. */
const CLOCK_SECONDS = 300;

/** What a workers' signing key says of the one that follows it. Times in seconds since 1970. */
export interface KeyStatement {
  /** The `kid` of the key that signed. */
  readonly previous: string;
  readonly key: PublicKeyEntry;
  readonly iat: number;
  /** Until when holders may take it. */
  readonly exp: number;
  /** From when on the previous key does not count any more, where the statement was taken. */
  readonly retire: number;
}

export const statementPayload = z.strictObject({
  key: z.string(),
  previous: z.string(),
  iat: z.int(),
  exp: z.int(),
  retire: z.int(),
});

/** @throws RunbookError `DOCUMENT_INVALID`, always. */
export function refuseStatement(why: string, next?: string): never {
  throw new RunbookError('DOCUMENT_INVALID', `The statement about a signing key is refused: ${why}.`, {
    next: next ?? 'Call the operators, at a number that you know, and compare the fingerprint of the new key by voice.',
  });
}

/**
 * Verifies one statement: signed by one of `keys`, about another key, in time.
 *
 * @param now milliseconds since 1970, by the clock of whoever takes it.
 * @throws RunbookError `DOCUMENT_INVALID`; the text repeats nothing of the document.
 */
export async function verifyKeyStatement(
  jws: string,
  keys: readonly PublicKeyEntry[],
  now: number,
): Promise<KeyStatement> {
  const { kid, payload } = await verifyDocument(jws, DOCUMENT_TYPES.signingKey, (id) => {
    const key = keys.find((each) => each.kid === id);
    return key && { name: key.kid, publicKey: importPublicKey(key.x) };
  });
  const parsed = statementPayload.safeParse(payload);
  if (!parsed.success) refuseStatement('it does not have the members that it must have');
  const { previous, iat, exp, retire } = parsed.data;
  const key = parsePublicKey(parsed.data.key) ?? refuseStatement('the key in it is none');
  if (previous !== kid) refuseStatement('it is signed with another key than the one that it follows');
  if (key.kid === kid) refuseStatement('a key does not follow itself');
  const seconds = now / 1000;
  if (exp <= seconds) refuseStatement('it is expired');
  if (iat > seconds + CLOCK_SECONDS) refuseStatement('it is made in the future');
  if (exp - iat > LONGEST_LIFE_SECONDS) refuseStatement('it is valid for longer than 400 days');
  if (retire < iat || retire > exp) refuseStatement('the previous key would not be retired while it is valid');
  return { previous, key, iat, exp, retire };
}

/** What became of several statements. */
export interface FollowedStatements {
  /** Those that count, in the order of the chain. */
  readonly followed: readonly KeyStatement[];
  /** Why another one does not count; empty where all do. */
  readonly refusals: readonly RunbookError[];
}

/**
 * Takes statements in any order: one counts where one of `keys` signed it, or a key for which such a statement vouches.
 *
 * @param now milliseconds since 1970.
 * @throws RunbookError `DOCUMENT_INVALID` where one key vouches for two others.
 */
export async function followStatements(
  keys: readonly PublicKeyEntry[],
  statements: readonly string[],
  now: number,
): Promise<FollowedStatements> {
  const vouching = [...keys];
  const followed: KeyStatement[] = [];
  const refusals = new Map<string, RunbookError>();
  const waiting = new Set(statements);
  for (let left = Number.POSITIVE_INFINITY; waiting.size > 0 && waiting.size < left;) {
    left = waiting.size;
    for (const jws of waiting) {
      const statement = await verifyKeyStatement(jws, vouching, now).catch((error: unknown) => {
        if (!isRunbookError(error)) throw error;
        refusals.set(jws, error);
        return undefined;
      });
      if (statement === undefined) continue;
      waiting.delete(jws);
      if (followed.some(({ previous, key }) => previous === statement.previous && key.kid !== statement.key.kid))
        refuseTwo();
      followed.push(statement);
      vouching.push(statement.key);
    }
  }
  return { followed, refusals: [...refusals].filter(([jws]) => waiting.has(jws)).map(([, error]) => error) };
}

/** Two keys that follow the same one: one of them may be a thief's. */
export function refuseTwo(): never {
  return refuseStatement(
    'another key followed the one that signed it',
    'Two keys that follow the same one: somebody else may have the old key. Call the operators, at a number that you know, and compare by voice.',
  );
}

/** Whether a document says of itself that it is such a statement. Nothing of it is verified. */
export function isKeyStatement(jws: string): boolean {
  return claimedHeader(jws).typ === DOCUMENT_TYPES.signingKey;
}
