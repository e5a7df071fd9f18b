/**
 * An answer of the service with an error status. The HTTP layer sends `status` with the body `{"errors": [...]}`.
 *
 * The texts are kept out of `message`: some of them leak (a wrong nonce is answered with the right one), and a message
 * ends in logs.
 */
export class ServiceFault extends Error {
  override readonly name = 'ServiceFault';

  constructor(
    /** HTTP status, 400 or above. */
    readonly status: number,
    /** Texts of the body, as the service sends them; may be empty. */
    readonly errors: readonly string[],
  ) {
    super(`the simulated service answers ${status}`);
  }
}

/**
 * The handler of a request died: the HTTP layer must close the connection without an answer. Effects that the handler
 * had before it died stay.
 */
export class HandlerPanic extends Error {
  override readonly name = 'HandlerPanic';

  constructor(cause?: unknown) {
    super('the handler of the simulated service panicked', { cause });
  }
}
