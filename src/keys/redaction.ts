/** What to look for, in this order, and what to put in its place. Later patterns do not match earlier replacements. */
const REPLACEMENTS: readonly (readonly [RegExp, string])[] = [
  [
    /-----BEGIN (PGP [A-Z ]+|[A-Z ]*PRIVATE KEY|AGE ENCRYPTED FILE)-----[\s\S]*?(?:-----END \1-----|$)/g,
    '[redacted block]',
  ],
  [/\bAGE-SECRET-KEY-[A-Z0-9-]+/gi, '[redacted key]'],
  [/\b(age1pq1[a-z0-9]{6})[a-z0-9]{20,}/gi, '$1...'],
  [/\b(?:hv[srb]|[srb])\.[A-Za-z0-9_-]{16,}/g, '[redacted token]'],
  [/(?<![\w-])(?=[\w-]+\.)([\w-]*?)eyJ[\w-]+(?:\.[\w-]*){1,4}/g, '$1[redacted document]'],
  // "incorrect nonce supplied; nonce for this operation is ..." hands the right nonce to whoever guesses wrong.
  [/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?<=nonce[^\n]{36,196})/gi, '[redacted nonce]'],
  [/(?<![0-9A-Za-z])[0-9a-fA-F]{32,}(?![0-9A-Za-z])/g, '[redacted]'],
  [/(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{22,}={1,2}/g, '[redacted]'],
  [
    /(?<![A-Za-z0-9+/_-])(?=[A-Za-z0-9+/_-]*\d)(?=[A-Za-z0-9+/_-]*[a-z])(?=[A-Za-z0-9+/_-]*[A-Z])[A-Za-z0-9+/_-]{40,}/g,
    '[redacted]',
  ],
];

/**
 * Text with everything taken out that looks like a secret: tokens of the service, signed and sealed documents, private
 * keys, PGP and PEM blocks, nonces, long hexadecimal and base64 runs. Recipients are shortened. For texts that others
 * wrote (the service, people), before they reach an error, a log or a report. It errs on the side of taking out too much.
 */
export function redact(text: string): string {
  return REPLACEMENTS.reduce((redacted, [pattern, replacement]) => redacted.replace(pattern, replacement), text);
}
