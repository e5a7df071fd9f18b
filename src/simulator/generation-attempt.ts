import { decodeHex, decodeStandardBase64 } from './cryptography/encoding';
import { combineShares, ShamirError } from './cryptography/shamir';
import {
  encodeWithOneTimePassword,
  encryptWithPgp,
  PgpKeyCannotEncryptError,
  PgpKeyParseError,
  randomBase62,
  randomUuid,
  readPgpFingerprint,
  TOKEN_BODY_LENGTH,
  type RandomBytes,
} from './cryptography/tokens';
import { badRequest } from './messages';
import { HandlerPanic, type ServiceFault } from './service-fault';

/** What an attempt generates: both kinds share the one slot of a node. */
export type GenerationStrategy = 'generate-root' | 'dr-operation-token';

/** Flat answer of `attempt` and `update`; every key is always present. */
export interface GenerationStatus {
  readonly nonce: string;
  readonly started: boolean;
  /** Shares taken so far. */
  readonly progress: number;
  /** Shares needed. */
  readonly required: number;
  readonly complete: boolean;
  /** Filled by the last share only, and not to be had again. */
  readonly encoded_token: string;
  /** The same as `encoded_token` for `generate-root`, always empty for the DR operation token. */
  readonly encoded_root_token: string;
  /** Lower-case hex, empty without PGP key. */
  readonly pgp_fingerprint: string;
  /** Filled by the answer to the start that generated it. */
  readonly otp: string;
  /** Characters; 0 in answers of `update`. */
  readonly otp_length: number;
}

/** What the node supplies to its attempt slot. */
export interface GenerationAttemptsOptions {
  /** Shares needed: threshold of the seal, or of the recovery keys. */
  threshold(): number;
  /** Whether a combined key opens this cluster. */
  verifyRootKey(key: Buffer): boolean;
  /** Creates the token, with all effects, and returns it. */
  issueToken(strategy: GenerationStrategy, nonce: string): string;
  readonly random: RandomBytes;
}

interface Attempt {
  readonly nonce: string;
  readonly strategy: GenerationStrategy;
  readonly otp: string;
  readonly pgpKey: string;
  readonly pgpFingerprint: string;
  shares: Buffer[];
}

/** As many characters as a token has. */
const OTP_LENGTH = 'hvs.'.length + TOKEN_BODY_LENGTH;
const MINIMUM_KEY_BYTES = 16;
/** 32 bytes of key and the x coordinate. */
const MAXIMUM_KEY_BYTES = 33;
const AES_KEY_BYTES = [16, 24, 32];

/**
 * The generation attempt of one node: `generate-root` and `dr/secondary/generate-operation-token`.
 *
 * The slot belongs to the process. It survives seal and unseal, step-down and a return of the leadership with nonce and
 * progress; another node has another slot; a restart of the process loses it (drop the instance). Whether the node is
 * initialised, unsealed and active is for the caller to check first. Calls are served one after the other.
 *
 * Errors are `ServiceFault` with status 400, in the service's order of checks and with its texts. Some hold more than a
 * client may expect: a wrong nonce is answered with the right one, and a wrong share with a raw newline.
 */
export class GenerationAttempts {
  readonly #options: GenerationAttemptsOptions;
  #attempt: Attempt | undefined;
  #lastCall: Promise<unknown> = Promise.resolve();

  constructor(options: GenerationAttemptsOptions) {
    this.#options = options;
  }

  /** `GET attempt`. Shows an attempt of either strategy. */
  read(): Promise<GenerationStatus> {
    return this.#serialised(() => this.#status());
  }

  /**
   * `POST attempt`. Without `otp` and `pgp_key` the service generates a one-time password and shows it once; with both,
   * the PGP key is not even looked at. A PGP key that cannot encrypt is accepted.
   *
   * @throws ServiceFault 400
   */
  start(
    strategy: GenerationStrategy,
    body: { readonly pgp_key?: string | undefined; readonly otp?: string | undefined } = {},
  ): Promise<GenerationStatus> {
    return this.#serialised(async () => {
      const pgpKey = body.otp ? '' : (body.pgp_key ?? '');
      const generatedOtp = body.otp || pgpKey ? '' : randomBase62(OTP_LENGTH, this.#options.random);
      const otp = body.otp || generatedOtp;
      if (otp && Buffer.byteLength(otp) !== OTP_LENGTH) throw badRequest('OTP string is wrong length');
      const pgpFingerprint = pgpKey ? await fingerprintOf(pgpKey) : '';
      if (this.#attempt !== undefined) throw badRequest('root generation already in progress');

      this.#attempt = { nonce: randomUuid(this.#options.random), strategy, otp, pgpKey, pgpFingerprint, shares: [] };
      return { ...this.#status(), otp: generatedOtp };
    });
  }

  /**
   * `POST update`: one key share, in hex or base64. With the last one the token is issued and the slot is free again.
   *
   * A failure at the threshold puts the progress back to 0 and keeps attempt, nonce and one-time password.
   *
   * @throws ServiceFault 400
   * @throws HandlerPanic when the PGP key cannot encrypt: the token was issued, nobody learns it, and the attempt stays
   *   started at progress 0
   */
  update(
    strategy: GenerationStrategy,
    body: { readonly key?: string | undefined; readonly nonce?: string | undefined },
  ): Promise<GenerationStatus> {
    return this.#serialised(async () => {
      const share = decodeShare(body.key ?? '');
      const attempt = this.#matchingAttempt(strategy, body.nonce ?? '');
      if (attempt.shares.some((earlier) => earlier.equals(share)))
        throw badRequest('given key has already been provided during this generation operation');
      attempt.shares.push(share);
      const required = this.#options.threshold();
      const progress = attempt.shares.length;
      if (progress < required) return this.#updateAnswer(attempt, progress, required, '');

      const { shares } = attempt;
      attempt.shares = [];
      this.#authenticate(shares, required);
      const encodedToken = await encodeToken(attempt, this.#options.issueToken(strategy, attempt.nonce));
      this.#attempt = undefined;
      return this.#updateAnswer(attempt, progress, required, encodedToken);
    });
  }

  /** `DELETE attempt`: succeeds whether or not one is running, and whatever its strategy. */
  cancel(): Promise<void> {
    return this.#serialised(() => {
      this.#attempt = undefined;
    });
  }

  #matchingAttempt(strategy: GenerationStrategy, nonce: string): Attempt {
    const attempt = this.#attempt;
    if (attempt === undefined) throw badRequest('no root generation in progress');
    if (nonce !== attempt.nonce)
      throw badRequest(`incorrect nonce supplied; nonce for this root generation operation is "${attempt.nonce}"`);
    if (strategy !== attempt.strategy)
      throw badRequest('incorrect strategy supplied; a generate root operation of another type is already in progress');
    return attempt;
  }

  #authenticate(shares: readonly Buffer[], required: number): void {
    const key = combine(shares, required);
    if (!AES_KEY_BYTES.includes(key.length))
      throw aborted(`invalid key: failed to setup unseal key: crypto/aes: invalid key size ${key.length}`);
    if (!this.#options.verifyRootKey(key))
      throw aborted(
        'unable to retrieve stored keys: invalid key: failed to decrypt keys from storage: ' +
          'error decrypting seal wrapped value\n' +
          'error decrypting using seal shamir: cipher: message authentication failed',
      );
  }

  #status(): GenerationStatus {
    return {
      nonce: this.#attempt?.nonce ?? '',
      started: this.#attempt !== undefined,
      progress: this.#attempt?.shares.length ?? 0,
      required: this.#options.threshold(),
      complete: false,
      encoded_token: '',
      encoded_root_token: '',
      pgp_fingerprint: this.#attempt?.pgpFingerprint ?? '',
      otp: '',
      otp_length: OTP_LENGTH,
    };
  }

  #updateAnswer(attempt: Attempt, progress: number, required: number, encodedToken: string): GenerationStatus {
    return {
      nonce: attempt.nonce,
      started: true,
      progress,
      required,
      complete: progress === required,
      encoded_token: encodedToken,
      encoded_root_token: attempt.strategy === 'generate-root' ? encodedToken : '',
      pgp_fingerprint: attempt.pgpFingerprint,
      otp: '',
      otp_length: 0,
    };
  }

  #serialised<T>(call: () => T | Promise<T>): Promise<T> {
    const result = this.#lastCall.then(call);
    this.#lastCall = result.catch(() => undefined);
    return result;
  }
}

/** Hex is tried first and kept only when its length fits, so that base64 made of hex digits is read as base64. */
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

function combine(shares: readonly Buffer[], required: number): Buffer {
  const [only] = shares;
  if (required === 1 && only !== undefined) return only;
  try {
    return combineShares(shares);
  } catch (error) {
    if (error instanceof ShamirError) throw badRequest(`failed to compute root key: ${error.message}`);
    throw error;
  }
}

async function fingerprintOf(pgpKey: string): Promise<string> {
  try {
    return await readPgpFingerprint(pgpKey);
  } catch (error) {
    if (error instanceof PgpKeyParseError) throw badRequest(error.message);
    throw error;
  }
}

async function encodeToken(attempt: Attempt, token: string): Promise<string> {
  if (attempt.otp) return encodeWithOneTimePassword(token, attempt.otp);
  try {
    return (await encryptWithPgp(attempt.pgpKey, token)).encoded;
  } catch (error) {
    if (error instanceof PgpKeyCannotEncryptError) throw new HandlerPanic(error);
    throw error;
  }
}

function aborted(reason: string): ServiceFault {
  return badRequest(`root generation aborted: unable to authenticate: ${reason}`);
}
