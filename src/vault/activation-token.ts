import { Secret } from '../secret';
import { isObject } from './fields';
import type { Fields } from './fields';

/** A secondary activation token (interface section 2; facts 4). Single use. */
export interface ActivationToken {
  readonly token: Secret<'activation-token'>;
  /** `wrapped`: a JWT that the secondary unwraps at the primary. `encrypted`: readable by the secondary's key only. */
  readonly form: 'wrapped' | 'encrypted';
  /** Read from the JWT on the spot; its signature is not checked and it is never unwrapped. */
  readonly claims?: ActivationTokenClaims;
  readonly accessor?: string;
  readonly ttlSeconds?: number;
  /** The address that issued it. */
  readonly node: string;
}

/** Claims of the wrapped form. Times in unix seconds. */
export interface ActivationTokenClaims {
  /** API address at which the secondary will unwrap the token. */
  readonly addr?: string;
  readonly exp?: number;
  readonly iat?: number;
}

/** Reads either form from the envelope of a secondary-token answer. */
export function readActivationToken(envelope: Fields, node: string): ActivationToken {
  const encrypted = envelope.child('data')?.filledText('token');
  if (encrypted !== undefined) {
    return { token: new Secret('activation-token', encrypted), form: 'encrypted', node };
  }
  const wrapInfo = envelope.child('wrap_info') ?? envelope.missing('wrap_info');
  const token = wrapInfo.neededText('token');
  return {
    token: new Secret('activation-token', token),
    form: 'wrapped',
    claims: decodeClaims(token),
    accessor: wrapInfo.filledText('accessor'),
    ttlSeconds: wrapInfo.number('ttl'),
    node,
  };
}

function decodeClaims(token: string): ActivationTokenClaims | undefined {
  const payload = token.split('.')[1];
  if (payload === undefined) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
    if (!isObject(claims)) return undefined;
    return {
      addr: typeof claims.addr === 'string' && claims.addr !== '' ? claims.addr : undefined,
      exp: typeof claims.exp === 'number' ? claims.exp : undefined,
      iat: typeof claims.iat === 'number' ? claims.iat : undefined,
    };
  } catch {
    return undefined;
  }
}
