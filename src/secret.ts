/** `inspect.custom` of `node:util`, which browsers do not have. */
const INSPECT = Symbol.for('nodejs.util.inspect.custom');

const REDACTED = '[redacted]';

/** What a secret is, so that one kind cannot be passed where another is meant. */
export type SecretKind =
  | 'service-token'
  | 'operation-token'
  | 'root-token'
  | 'batch-token'
  | 'activation-token'
  | 'key-share'
  | 'one-time-password'
  | 'private-key'
  | 'passphrase'
  /** What a login is made with: a secret ID, a JWT, the key of a client certificate. */
  | 'login-secret'
  /** The address of a webhook, or a key with which anyone may page. */
  | 'notification-secret';

/**
 * A value that must never be readable in a log, an error, a result, a heartbeat or an argument. Every way of printing it
 * gives `[redacted]`; only {@link Secret.reveal} gives the value, at the one place that sends or stores it.
 */
export class Secret<K extends SecretKind = SecretKind> {
  readonly kind: K;
  readonly #value: string;

  constructor(kind: K, value: string) {
    this.kind = kind;
    this.#value = value;
  }

  /** The value itself. Call it in the expression that consumes it; never keep or return the result. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return REDACTED;
  }

  toJSON(): string {
    return REDACTED;
  }

  [INSPECT](): string {
    return REDACTED;
  }
}
