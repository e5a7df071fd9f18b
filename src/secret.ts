import { withoutUnseen } from './contracts/plain-shares';

/** `inspect.custom` of `node:util`, which browsers do not have. */
const INSPECT = Symbol.for('nodejs.util.inspect.custom');

const REDACTED = '[redacted]';

/** The kind of a secret, so that one kind cannot be passed in place of another. */
export type SecretKind =
  | 'service-token'
  | 'operation-token'
  | 'root-token'
  | 'batch-token'
  | 'activation-token'
  | 'key-share'
  | 'private-key'
  | 'passphrase'
  /** What authenticates a login: a secret ID, a JWT, the key of a client certificate. */
  | 'login-secret'
  /** The address of a webhook, or a key that lets anybody page. */
  | 'notification-secret'
  /** What the senders of webhooks sign with, one per line. */
  | 'trigger-secret';

/**
 * A value that must never be readable in a log, an error, a result, a heartbeat or an argument. Every way of printing
 * it gives `[redacted]`. Only {@link Secret.reveal} returns the value, at the one place that sends or stores it.
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

/** Patterns of secrets, applied in this order. A capturing group matches the text before the secret, which stays. */
const SECRETS: readonly RegExp[] = [
  /-----BEGIN [A-Z ]+-----[\s\S]*?(?:-----END [A-Z ]+-----|$)/g,
  /\bAGE-SECRET-KEY-[A-Z0-9-]+/gi,
  /\bhv[sbr]\.[\w-]{4,}/g,
  /(?<![\w.-])[sbr]\.[\w-]{16,}/g,
  /(?<![\w-])(?=[\w-]+\.)([\w-]*?)eyJ[\w-]+(?:\.[\w-]*){1,4}/g,
  // "incorrect nonce supplied; nonce for this operation is ..." reveals the nonce after a wrong guess.
  /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?<=nonce[^\n]{36,196})/gi,
  /(?<![0-9a-f])[0-9a-f]{32,}(?![0-9a-f])/gi,
  /(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{22,}={1,2}/g,
  /(?<![\w+/-])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[\w+/-]{40,}/g,
];

/** Short base64, for texts of the service only: our own paths look like it, but do not occur there. */
const SHORT_BASE64 = /(?<![\w+/=-])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[\w+/]{24,}={0,2}/g;

/** A run of text without separators; it may contain invisible characters. */
const RUN = /[^\s"'`<>(){},;|]+/g;
/** A token of the service, even directly after letters. */
const GLUED_TOKEN = /hv[sbr]\.[\w-]{4}|[sbr]\.[\w-]{16}/;

const LONGEST_TEXT = 600;

/**
 * Removes everything that looks like a secret: tokens of the service, signed and sealed documents, private keys, PGP
 * and PEM blocks, nonces, long hexadecimal and base64 runs. For texts that others wrote (the service, people), before
 * they reach an error, a log or a report. When in doubt, it removes too much.
 */
export function redact(text: string): string {
  return takeOut(text, SECRETS);
}

function takeOut(text: string, patterns: readonly RegExp[], known: readonly string[] = []): string {
  const once = (shown: string) =>
    patterns.reduce(
      (redacted, pattern) => redacted.replace(pattern, replacement),
      known.reduce((redacted, value) => redacted.replaceAll(value, REDACTED), shown),
    );
  // A program that shows the text removes invisible characters, which would make a split secret complete again.
  const seen = withoutUnseen(text);
  if (seen === text) return once(text);
  // First redact the unchanged text: without its invisible characters, a secret could be glued to the word before it.
  // If a run had a match, the rest of the secret may follow an invisible character: redact the complete run.
  const asItStands = once(text).replace(RUN, (run) => {
    const shown = withoutUnseen(run);
    return shown !== run && (run.includes(REDACTED) || GLUED_TOKEN.test(shown)) ? REDACTED : run;
  });
  return once(withoutUnseen(asItStands));
}

function replacement(_secret: string, before: unknown): string {
  return typeof before === 'string' ? `${before}${REDACTED}` : REDACTED;
}

/** A text of the service, made fit for a message: without `knownSecrets` too, on one line, at most 600 characters. */
export function redactText(text: string, knownSecrets: readonly string[] = []): string {
  const known = knownSecrets.filter((value) => value !== '');
  const redacted = takeOut(text, [...SECRETS, SHORT_BASE64], known)
    .replace(/\s+/g, ' ')
    .trim();
  return redacted.length > LONGEST_TEXT ? `${redacted.slice(0, LONGEST_TEXT)} ...` : redacted;
}

export const PLAIN_HTTP = 'plain http is allowed on loopback addresses only';

/**
 * What is wrong with an address that receives secrets: it must be HTTPS, or HTTP on loopback. Never quotes the address.
 */
export function addressMistake(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) return 'not an http(s) address';
  if (url.username !== '' || url.password !== '') return 'an address must not contain a user name or password';
  const isLoopback = /^(localhost|\[::1\]|127(\.\d{1,3}){3})$/.test(url.hostname);
  return url.protocol === 'http:' && !isLoopback ? PLAIN_HTTP : undefined;
}
