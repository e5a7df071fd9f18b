import { config as strict, createMessage, encrypt, readKey } from 'openpgp';
import type { Key } from 'openpgp';
import { badRequest, BrokenConnection, decodeHex, decodeStandardBase64 } from './messages';
import type { JsonObject } from './messages';
import { TOKEN_LENGTH, type SeededRandom } from './random';
import type { Seal } from './shamir';
import type { TokenStore } from './token-store';

/** What an attempt needs of its cluster. */
export interface GeneratingCluster {
  readonly service: { now(): number };
  readonly random: SeededRandom;
  readonly seal: Seal;
  readonly tokens: TokenStore;
  readonly isDrSecondary: boolean;
  readonly attemptsOfTokens: Map<string, string>;
}

/** What an attempt generates. Both kinds share the one slot of a node. */
export type Strategy = 'generate-root' | 'dr-operation-token';

interface Attempt {
  readonly nonce: string;
  readonly strategy: Strategy;
  readonly otp: string;
  readonly pgpKey: Key | undefined;
  shares: Buffer[];
}

const MINIMUM_KEY_BYTES = 16;

/** 32 bytes of key and the x coordinate. */
const MAXIMUM_KEY_BYTES = 33;

/**
 * The generation attempt of one node: `generate-root` and `dr/secondary/generate-operation-token`.
 *
 * The slot belongs to the process. It survives seal, unseal, step-down, and a return of leadership, with nonce and
 * progress. Each node has its own slot, and a restart of the process loses it. Calls are served one after the other.
 *
 * The order of checks and the error texts are those of the service. Some texts contain more than a client may expect:
 * the answer to a wrong nonce contains the right one, and the answer to a wrong share contains a raw newline.
 */
export class GenerationAttempts {
  #attempt: Attempt | undefined;
  #lastCall: Promise<unknown> = Promise.resolve();

  constructor(private readonly cluster: GeneratingCluster) {}

  /**
   * `POST attempt`. Without `otp` and `pgp_key`, the service generates a one-time password and returns it once. With
   * both, it ignores the PGP key. It accepts a PGP key that cannot encrypt.
   */
  async start(strategy: Strategy, given: { readonly otp: string; readonly pgpKey: string }): Promise<JsonObject> {
    const { random } = this.cluster;
    const generated = given.otp || given.pgpKey ? '' : random.base62(TOKEN_LENGTH);
    const otp = given.otp || generated;
    if (otp && Buffer.byteLength(otp) !== TOKEN_LENGTH) throw badRequest('OTP string is wrong length');
    const pgpKey = otp ? undefined : await readPgpKey(given.pgpKey);
    if (this.#attempt !== undefined) throw badRequest('root generation already in progress');
    this.#attempt = { nonce: random.uuid(), strategy, otp, pgpKey, shares: [] };
    return { ...this.status(), otp: generated };
  }

  /**

   * `POST update`: one key share, in hex or base64. The last share issues the token and frees the slot.
   *
   * A failure at the threshold resets the progress to 0 and keeps the attempt, its nonce, and its one-time password.
   *
   * @throws BrokenConnection if the PGP key cannot encrypt: the token was issued, nobody learns it, and the attempt
   *   stays started with progress 0
   */
  async update(strategy: Strategy, given: { readonly key: string; readonly nonce: string }): Promise<JsonObject> {
    const share = decodeShare(given.key);
    const attempt = this.#matchingAttempt(strategy, given.nonce);
    if (attempt.shares.some((earlier) => earlier.equals(share)))
      throw badRequest('given key has already been provided during this generation operation');
    attempt.shares.push(share);
    const answer = { ...this.status(), otp_length: 0 };
    if (attempt.shares.length < this.cluster.seal.threshold) return answer;

    const { shares } = attempt;
    attempt.shares = [];
    this.#authenticate(shares);
    const encoded = await encodeToken(attempt, this.#issueToken(attempt));
    this.#attempt = undefined;
    const encodedRootToken = strategy === 'generate-root' ? encoded : '';
    return { ...answer, complete: true, encoded_token: encoded, encoded_root_token: encodedRootToken };
  }

  /** `DELETE attempt`: succeeds with or without an attempt, of either strategy. */
  cancel(): void {
    this.#attempt = undefined;
  }

  #matchingAttempt(strategy: Strategy, nonce: string): Attempt {
    const attempt = this.#attempt;
    if (attempt === undefined) throw badRequest('no root generation in progress');
    if (nonce !== attempt.nonce)
      throw badRequest(`incorrect nonce supplied; nonce for this root generation operation is "${attempt.nonce}"`);
    if (strategy !== attempt.strategy)
      throw badRequest('incorrect strategy supplied; a generate root operation of another type is already in progress');
    return attempt;
  }

  #authenticate(shares: readonly Buffer[]): void {
    if (!this.cluster.seal.opensWith(shares))
      throw badRequest(
        'root generation aborted: unable to authenticate: unable to retrieve stored keys: invalid key: ' +
          'failed to decrypt keys from storage: error decrypting seal wrapped value\n' +
          'error decrypting using seal shamir: cipher: message authentication failed',
      );
  }

  #issueToken({ strategy, nonce }: Attempt): string {
    const { cluster } = this;
    const now = cluster.service.now();
    // A DR secondary accepts the attempt, in its one slot, but cannot create a root token.
    if (strategy === 'generate-root' && cluster.isDrSecondary)
      throw badRequest('path disabled in replication DR secondary mode');
    const token =
      strategy === 'generate-root' ? cluster.tokens.createRootToken(now) : cluster.tokens.createOperationToken(now);
    cluster.attemptsOfTokens.set(token, nonce);
    return token;
  }

  /** `GET attempt`. Returns an attempt of either strategy, at the top level, always with every key. */
  status(): JsonObject {
    const attempt = this.#attempt;
    return {
      nonce: attempt?.nonce ?? '',
      started: attempt !== undefined,
      progress: attempt?.shares.length ?? 0,
      required: this.cluster.seal.threshold,
      complete: false,
      encoded_token: '',
      encoded_root_token: '',
      pgp_fingerprint: attempt?.pgpKey?.getFingerprint().toLowerCase() ?? '',
      otp: '',
      otp_length: TOKEN_LENGTH,
    };
  }

  /** Serves the calls to a node one after the other. */
  inTurn<T>(call: () => T | Promise<T>): Promise<T> {
    const result = this.#lastCall.then(call);
    this.#lastCall = result.catch(() => undefined);
    return result;
  }
}

/** Tries hex first, but uses it only if its length is valid, so that base64 of only hex digits is read as base64. */
function decodeShare(text: string): Buffer {
  if (text === '') throw badRequest("'key' must be specified in request body as JSON");
  const hex = decodeHex(text);
  const hexFits = hex !== undefined && hex.length >= MINIMUM_KEY_BYTES && hex.length <= MAXIMUM_KEY_BYTES;
  const share = hexFits ? hex : decodeStandardBase64(text);
  if (share === undefined) throw badRequest("'key' must be a valid hex or base64 string");
  if (share.length < MINIMUM_KEY_BYTES)
    throw badRequest(`invalid key: key is shorter than minimum ${MINIMUM_KEY_BYTES} bytes`);
  if (share.length > MAXIMUM_KEY_BYTES)
    throw badRequest(`invalid key: key is longer than maximum ${MAXIMUM_KEY_BYTES} bytes`);
  return share;
}

async function readPgpKey(base64: string): Promise<Key> {
  try {
    return await readKey({ binaryKey: decodeStandardBase64(base64) ?? Buffer.alloc(0) });
  } catch {
    throw badRequest(
      'error parsing PGP key: error parsing given PGP key: openpgp: invalid data: tag byte does not have MSB set',
    );
  }
}

/** The service encrypts to old keys too: RSA with 1024 bits, DSA with ElGamal. */
const OLD_KEYS_TOO = {
  ...strict,
  minRSABits: 1024,
  rejectPublicKeyAlgorithms: new Set<never>(),
  rejectCurves: new Set<never>(),
};

/** XOR with the one-time password in standard base64 without padding, or an OpenPGP message in standard base64. */
async function encodeToken({ otp, pgpKey }: Attempt, token: string): Promise<string> {
  if (pgpKey === undefined) {
    const [left, right] = [Buffer.from(token), Buffer.from(otp)];
    const mixed = left.map((byte, index) => byte ^ right.readUInt8(index));
    return Buffer.from(mixed)
      .toString('base64')
      .replace(/(?<!=)=+$/, '');
  }
  // Until now the key was only parsed: a sign-only, expired, or revoked key fails here.
  await pgpKey.getEncryptionKey(undefined, undefined, undefined, OLD_KEYS_TOO).catch((error: unknown) => {
    throw new BrokenConnection('close', error);
  });
  const message = await createMessage({ binary: Buffer.from(token) });
  // The declared type depends on stream types of a package that is not installed.
  const encrypted: unknown = await encrypt({
    ...{ message, encryptionKeys: pgpKey, config: OLD_KEYS_TOO },
    format: 'binary',
  });
  if (!(encrypted instanceof Uint8Array)) throw new TypeError('expected a binary OpenPGP message');
  return Buffer.from(encrypted).toString('base64');
}
