const REDACTED = '[redacted]';

/** What looks like a secret, in this order. A group is what stands before it, and stays. */
const SECRETS: readonly RegExp[] = [
  /-----BEGIN [A-Z ]+-----[\s\S]*?(?:-----END [A-Z ]+-----|$)/g,
  /\bAGE-SECRET-KEY-[A-Z0-9-]+/gi,
  /\bhv[sbr]\.[\w-]{4,}/g,
  /(?<![\w.-])[sbr]\.[\w-]{16,}/g,
  /(?<![\w-])(?=[\w-]+\.)([\w-]*?)eyJ[\w-]+(?:\.[\w-]*){1,4}/g,
  // "incorrect nonce supplied; nonce for this operation is ..." hands the right nonce to whoever guesses wrong.
  /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?<=nonce[^\n]{36,196})/gi,
  /(?<![0-9a-f])[0-9a-f]{32,}(?![0-9a-f])/gi,
  /(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{22,}={1,2}/g,
  /(?<![\w+/-])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[\w+/-]{40,}/g,
];

/** In texts of a service also short base64: paths of ours, which look like it, do not stand there. */
const SHORT_BASE64 = /(?<![\w+/=-])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[\w+/]{24,}={0,2}/g;

const LONGEST_TEXT = 600;

/**
 * Text with everything taken out that looks like a secret: tokens of the service, signed and sealed documents, private
 * keys, PGP and PEM blocks, nonces, long hexadecimal and base64 runs. For texts that others wrote (the service, people),
 * before they reach an error, a log or a report. It errs on the side of taking out too much.
 */
export function redact(text: string): string {
  return SECRETS.reduce((redacted, pattern) => redacted.replace(pattern, replacement), text);
}

function replacement(_secret: string, before: unknown): string {
  return typeof before === 'string' ? `${before}${REDACTED}` : REDACTED;
}

/** A text of the service, fit for a message: also without the values that are known, on one line, at most 600 characters. */
export function redactText(text: string, knownSecrets: readonly string[] = []): string {
  const known = knownSecrets.filter((value) => value !== '');
  const unknown = known.reduce((redacted, value) => redacted.replaceAll(value, REDACTED), text);
  const redacted = redact(unknown).replace(SHORT_BASE64, REDACTED).replace(/\s+/g, ' ').trim();
  return redacted.length > LONGEST_TEXT ? `${redacted.slice(0, LONGEST_TEXT)} ...` : redacted;
}
