import { generateKeyPairSync, sign, verify } from 'node:crypto';
import { z } from 'zod';

/** What the caller decides about an activation token; times in whole seconds since the epoch. */
export interface WrappingTokenInput {
  /** Empty in tokens of current versions. */
  readonly accessor: string;
  /** API address of the primary, where the receiver unwraps the token. */
  readonly addr: string;
  readonly exp: number;
  readonly iat: number;
  /** ID of the wrapping token: `hvs.` and 24 characters (`s.` before 1.10). */
  readonly jti: string;
}

const HEADER = z.strictObject({ alg: z.literal('ES512'), typ: z.literal('JWT') });
const CLAIMS = z.object({
  accessor: z.string(),
  addr: z.string(),
  exp: z.number().int(),
  iat: z.number().int(),
  jti: z.string().min(1),
  nbf: z.number().int(),
  type: z.literal('wrapping'),
});

/** Claims of an activation token. */
export type WrappingTokenClaims = z.infer<typeof CLAIMS>;

/** Seconds that a token is dated back, against clocks that differ. */
const NOT_BEFORE_LEEWAY_SECONDS = 5;

/**
 * Issues and checks activation tokens in the form of a JWT, with a P-521 key that only this primary holds.
 *
 * Signatures differ from run to run even under a fixed seed: the key pair and ECDSA take the platform's randomness.
 */
export class ActivationTokenSigner {
  readonly #keys = generateKeyPairSync('ec', { namedCurve: 'P-521' });

  /** Signs a token; the header carries no `kid`, and `nbf` lies 5 seconds before `iat`. */
  signWrapped({ accessor, addr, exp, iat, jti }: WrappingTokenInput): string {
    const claims: WrappingTokenClaims = {
      accessor,
      addr,
      exp,
      iat,
      jti,
      nbf: iat - NOT_BEFORE_LEEWAY_SECONDS,
      type: 'wrapping',
    };
    const signed = `${encodeSegment({ alg: 'ES512', typ: 'JWT' })}.${encodeSegment(claims)}`;
    const signature = sign('sha512', Buffer.from(signed), { key: this.#keys.privateKey, dsaEncoding: 'ieee-p1363' });
    return `${signed}.${signature.toString('base64url')}`;
  }

  /**
   * Claims of a token that this signer issued, undefined for any other text.
   *
   * Expiry is not looked at: like the service, the caller decides by the wrapping token that `jti` names.
   */
  verify(jwt: string): WrappingTokenClaims | undefined {
    const [header, payload, signature, ...rest] = jwt.split('.');
    if (header === undefined || payload === undefined || signature === undefined || rest.length > 0) return undefined;
    if (!HEADER.safeParse(decodeSegment(header)).success) return undefined;
    const genuine = verify(
      'sha512',
      Buffer.from(`${header}.${payload}`),
      { key: this.#keys.publicKey, dsaEncoding: 'ieee-p1363' },
      Buffer.from(signature, 'base64url'),
    );
    return genuine ? CLAIMS.safeParse(decodeSegment(payload)).data : undefined;
  }
}

function encodeSegment(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function decodeSegment(segment: string): unknown {
  try {
    return JSON.parse(Buffer.from(segment, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}
