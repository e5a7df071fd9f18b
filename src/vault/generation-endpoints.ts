import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import { fetchAccepted, fetchAnswer, neededInput } from './answers';
import type { Fields } from './fields';
import { readGenerationAttempt } from './generation-attempt';
import type { GeneratedTokenKind, GenerationAttempt } from './generation-attempt';
import type { Accepted, CallOptions, Caller } from './types';

/** Parameters of a new attempt: at most one of the two. */
interface StartAttemptParameters {
  /** Base64 of a binary OpenPGP public key that can encrypt. A sign-only key loses the token at the last share. */
  readonly pgpKey?: string;
  /** The caller's own one-time password; absent, the service makes one and returns it once. */
  readonly otp?: Secret<'one-time-password'>;
}

/**
 * The four calls of a generation attempt (interface sections 3 and 4.1): under `generate-operation-token` for DR
 * operation tokens, under `sys/generate-root` for root tokens. From version 2.0 of the service on they need a token.
 */
export class GenerationEndpoints<K extends GeneratedTokenKind> {
  constructor(
    private readonly caller: Caller,
    private readonly base: string,
    private readonly kind: K,
  ) {}

  /** Progress of the single attempt of the active node. */
  readAttempt(options?: CallOptions): Promise<GenerationAttempt<K>> {
    const request = { method: 'GET', path: `${this.base}/attempt`, effect: 'reads' } as const;
    return fetchAnswer(this.caller, request, options, (body) => this.read(body));
  }

  /** Starts an attempt. BAD_REQUEST where one exists already. */
  async startAttempt(parameters: StartAttemptParameters = {}, options?: CallOptions): Promise<GenerationAttempt<K>> {
    if (parameters.pgpKey !== undefined && parameters.otp !== undefined) {
      throw new RunbookError(
        'INVALID_INPUT',
        '"pgpKey" and "otp" exclude each other: the service would ignore the key',
      );
    }
    const body = { pgp_key: parameters.pgpKey, otp: parameters.otp };
    const request = { method: 'POST', path: `${this.base}/attempt`, body, effect: 'changes' } as const;
    return fetchAnswer(this.caller, request, options, (answer) => this.read(answer));
  }

  /** Cancels whatever attempt exists. Never call it on an attempt that is not ours. */
  cancelAttempt(options?: CallOptions): Promise<Accepted> {
    return fetchAccepted(this.caller, { method: 'DELETE', path: `${this.base}/attempt`, effect: 'changes' }, options);
  }

  /** Gives one key share. Where the answer to the last share is lost, a token exists that nobody knows. */
  async update(
    parameters: { readonly key: Secret; readonly nonce: string },
    options?: CallOptions,
  ): Promise<GenerationAttempt<K>> {
    neededInput('nonce', parameters.nonce);
    neededInput('key', parameters.key.reveal());
    const body = { key: parameters.key, nonce: parameters.nonce };
    const request = { method: 'POST', path: `${this.base}/update`, body, effect: 'changes' } as const;
    return fetchAnswer(this.caller, request, options, (answer) => this.read(answer));
  }

  /** The fields are flat as a rule; some versions put them under `data`. */
  private read(body: Fields): GenerationAttempt<K> {
    return readGenerationAttempt(this.kind, body.has('progress') ? body : (body.child('data') ?? body));
  }
}
