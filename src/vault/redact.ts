const REDACTED = '[redacted]';

/** What may stand in a text of the service and must not reach an error, a log or a history. Order matters. */
const PATTERNS: ReadonlyArray<readonly [RegExp, string]> = [
  // "incorrect nonce supplied; nonce for this root generation operation is <uuid>" gives away the right one.
  [/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?<=nonce[^\n]{36,116})/gi, REDACTED],
  [/(?<![\w-])(?=[\w-]+\.[\w-])([\w-]*?)eyJ[\w-]{5,}\.[\w-]+(\.[\w-]*)?/g, `$1${REDACTED}`],
  [/\bhv[sbr]\.[\w-]{4,}/g, REDACTED],
  [/(?<![\w.])[sbr]\.[A-Za-z0-9]{20,}/g, REDACTED],
  [/-----BEGIN [A-Z ]+-----[\s\S]*?(-----END [A-Z ]+-----|$)/g, REDACTED],
  [/(?<![0-9a-f])[0-9a-f]{32,}(?![0-9a-f])/gi, REDACTED],
  // Base64 without a slash of 24 characters and more, if digits and both cases occur: words and paths are kept.
  [/(?<![\w+/=-])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[A-Za-z0-9+/_]{24,}={0,2}/g, REDACTED],
];

const LONGEST_TEXT = 600;

/**
 * A text of the service, fit for a message: known secret values and everything that looks like a token, nonce, key or
 * share replaced, on one line, at most 600 characters.
 */
export function redactText(text: string, knownSecrets: readonly string[] = []): string {
  let redacted = text;
  for (const value of knownSecrets) {
    if (value !== '') redacted = redacted.replaceAll(value, REDACTED);
  }
  for (const [pattern, replacement] of PATTERNS) redacted = redacted.replace(pattern, replacement);
  redacted = redacted.replace(/\s+/g, ' ').trim();
  return redacted.length > LONGEST_TEXT ? `${redacted.slice(0, LONGEST_TEXT)} ...` : redacted;
}
