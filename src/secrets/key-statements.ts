import { z } from 'zod';
import { RunbookError } from '../errors';
import { DOCUMENT_TYPES, signDocument, verifyDocument } from './documents';
import { formatPublicKey, importPublicKey, parsePublicKey } from './signing-keys';
import type { PublicKeyEntry, SigningKey } from './signing-keys';

const DAY_SECONDS = 24 * 3600;
/** A statement that could be taken for ever would make an old stolen key as good as today's. */
const LONGEST_LIFE_SECONDS = 400 * DAY_SECONDS;
/** Clocks of workers and holders differ. */
const CLOCK_SECONDS = 300;
/** Documents of a chain that are looked at. */
const LONGEST_CHAIN = 50;

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

const statementPayload = z.strictObject({
  key: z.string(),
  previous: z.string(),
  iat: z.int(),
  exp: z.int(),
  retire: z.int(),
});

function refuse(why: string): never {
  throw new RunbookError('DOCUMENT_INVALID', `The statement about a signing key is refused: ${why}.`);
}

/** Signs with the present key that another one follows it (`runbooks-signing-key-v1`). */
export async function signKeyStatement(
  present: SigningKey,
  next: PublicKeyEntry,
  times: Pick<KeyStatement, 'iat' | 'exp' | 'retire'>,
): Promise<string> {
  const { iat, exp, retire } = times;
  if (next.kid === present.kid) refuse('a key does not follow itself');
  if (!(exp > iat && exp - iat <= LONGEST_LIFE_SECONDS)) refuse('it must be valid for a time of at most 400 days');
  if (!(retire >= iat && retire <= exp)) refuse('the previous key must be retired while it is valid');
  const payload = { key: formatPublicKey(next), previous: present.kid, iat, exp, retire };
  return signDocument(DOCUMENT_TYPES.signingKey, payload, present);
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
  if (!parsed.success) refuse('it does not have the members that it must have');
  const { previous, iat, exp, retire } = parsed.data;
  const key = parsePublicKey(parsed.data.key) ?? refuse('the key in it is none');
  if (previous !== kid) refuse('it is signed with another key than the one that it follows');
  if (key.kid === kid) refuse('a key does not follow itself');
  const seconds = now / 1000;
  if (exp <= seconds) refuse('it is expired');
  if (iat > seconds + CLOCK_SECONDS) refuse('it is made in the future');
  if (exp - iat > LONGEST_LIFE_SECONDS) refuse('it is valid for longer than 400 days');
  if (retire < iat || retire > exp) refuse('the previous key would not be retired while it is valid');
  return { previous, key, iat, exp, retire };
}

/** The statements in a text, one in a line; other lines are not looked at. */
export function statementsIn(text: string): string[] {
  const lines = text.split(/\s+/).filter((line) => /^eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/.test(line));
  return [...new Set(lines)].filter(isKeyStatement).slice(0, LONGEST_CHAIN);
}

/** Whether a document says of itself that it is such a statement. Nothing of it is verified. */
export function isKeyStatement(jws: string): boolean {
  try {
    const header: unknown = JSON.parse(Buffer.from(jws.split('.')[0] ?? '', 'base64url').toString('utf8'));
    return typeof header === 'object' && header !== null && 'typ' in header && header.typ === DOCUMENT_TYPES.signingKey;
  } catch {
    return false;
  }
}

/**
 * The statements that lead to the present key, the oldest first, as far as holders may still take them. Nothing is
 * verified here: holders do that, each by the key that he pinned.
 *
 * @param now milliseconds since 1970.
 */
export function statementsFor(presentKid: string, lines: readonly string[], now: number): readonly string[] {
  const named = lines.flatMap((jws) => {
    const parsed = statementPayload.safeParse(payloadOf(jws));
    const to = parsed.success ? parsePublicKey(parsed.data.key)?.kid : undefined;
    return parsed.success && to !== undefined && parsed.data.exp * 1000 > now
      ? [{ jws, from: parsed.data.previous, to }]
      : [];
  });
  const chain: string[] = [];
  for (let wanted = [presentKid]; wanted.length > 0;) {
    const found = named.filter(({ jws, to }) => wanted.includes(to) && !chain.includes(jws));
    chain.unshift(...found.map(({ jws }) => jws));
    wanted = found.map(({ from }) => from);
  }
  return chain;
}

function payloadOf(jws: string): unknown {
  try {
    return JSON.parse(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}
