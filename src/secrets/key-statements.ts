import {
  isKeyStatement,
  LONGEST_LIFE_SECONDS,
  refuseStatement as refuse,
  statementPayload,
} from '../holder/key-statements';
import type { KeyStatement } from '../holder/key-statements';
import { DOCUMENT_TYPES, signDocument } from './documents';
import { formatPublicKey, parsePublicKey } from './signing-keys';
import type { PublicKeyEntry, SigningKey } from './signing-keys';

export { isKeyStatement, verifyKeyStatement } from '../holder/key-statements';
export type { KeyStatement } from '../holder/key-statements';

/** Documents of a chain that are looked at. */
const LONGEST_CHAIN = 50;

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

/** The statements in a text, one in a line; other lines are not looked at. */
export function statementsIn(text: string): string[] {
  const lines = text.split(/\s+/).filter((line) => /^eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/.test(line));
  return [...new Set(lines)].filter(isKeyStatement).slice(0, LONGEST_CHAIN);
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
