import { RunbookError } from '../errors';
import { Secret } from '../secret';
import { base64, base64nopad, hex } from '@scure/base';
import { textHoldsKeyShare, withoutUnseen } from '../contracts/plain-shares';

/** Shortest and longest key share in bytes; the service refuses others. */
export const SHARE_BYTES = { shortest: 16, longest: 33 } as const;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function fits(bytes: number): boolean {
  return bytes >= SHARE_BYTES.shortest && bytes <= SHARE_BYTES.longest;
}

function tryDecode(coder: { decode(text: string): Uint8Array; encode(bytes: Uint8Array): string }, text: string) {
  try {
    const bytes = coder.decode(text);
    return coder.encode(bytes) === text ? bytes : undefined;
  } catch {
    // The decoder's own error quotes the text.
    return undefined;
  }
}

/** The bytes of `text` as the service reads a key share: hexadecimal first, then standard base64. */
function decodeShare(text: string): Uint8Array | undefined {
  if (/^([0-9a-f]{2})+$/i.test(text) && fits(text.length / 2)) return tryDecode(hex, text.toLowerCase());
  const bytes = tryDecode(base64, text) ?? tryDecode(base64nopad, text);
  return bytes !== undefined && fits(bytes.length) ? bytes : undefined;
}

/**
 * Reads a key share as a holder keeps it: hexadecimal or base64, 16 to 33 bytes. Ignores spaces, line ends, and the
 * invisible characters that chat programs insert. Returns lower-case hexadecimal.
 *
 * @throws RunbookError `INVALID_INPUT` with a fixed text that never quotes what was typed.
 */
export function parseShare(text: string): Secret<'key-share'> {
  const typed = withoutUnseen(text).replace(/\s+/g, '');
  const bytes = decodeShare(typed);
  if (bytes !== undefined) return new Secret('key-share', hex.encode(bytes));
  const message = 'This is not a key share: it must be 16 to 33 bytes in hexadecimal or base64.';
  throw new RunbookError('INVALID_INPUT', message, {
    observed: `${typed.length} characters`,
    needed: '32 to 66 characters of hexadecimal (usually 66), or 22 to 44 of base64 (usually 44)',
    next: 'Nothing was stored or sent. Check for a missing, doubled or wrong character, then type it again.',
  });
}

/** Whether `text` contains something that could be a plain-text key share. When in doubt, the answer is yes. */
export function looksLikeShare(text: string): boolean {
  return [text, withoutUnseen(text)].some(showsShare) || textHoldsKeyShare(text);
}

function showsShare(text: string): boolean {
  for (const [run] of text.matchAll(/(?<![0-9a-f])[0-9a-f]{32,}(?![0-9a-f])/gi)) {
    if (fits(run.length / 2)) return true;
  }
  for (const [run] of text.matchAll(/[A-Za-z0-9+/_-]{22,}/g)) {
    if (UUID.test(run)) continue;
    const classes = [/[a-z]/, /[A-Z]/, /[0-9]/].filter((pattern) => pattern.test(run)).length;
    if (classes >= 2 && fits(Math.floor((run.length * 3) / 4))) return true;
  }
  return false;
}

/** The form of a generated token. Ordinary service tokens are much longer; batch tokens have another prefix. */
const GENERATED = /^(?:hvs\.[A-Za-z0-9_-]{20,40}|s\.[A-Za-z0-9]{20,40})$/;

/**
 * Reads a DR operation token as the service's command line decodes it. A root token has the same form: only the service
 * can tell the two apart.
 *
 * @throws RunbookError `INVALID_INPUT` with a fixed text that never quotes what was typed.
 */
export function parseOperationToken(text: string): Secret<'operation-token'> {
  const token = text.trim();
  if (GENERATED.test(token)) return new Secret('operation-token', token);
  throw new RunbookError('INVALID_INPUT', notAToken(token), {
    observed: `${token.length} characters`,
    needed: 'the decoded token of a finished generate-root -dr-token: "hvs." and 24 characters',
    next: 'Nothing was stored or sent. Give only the operation token, with nothing around it.',
  });
}

function notAToken(text: string): string {
  if (/^(?:hvb|b)\./.test(text)) return 'This is a batch token, not an operation token.';
  if (/^hv[sr]\.|^[sr]\./.test(text)) return 'This is a token of another kind, not an operation token.';
  if (looksLikeShare(text))
    return 'This looks like a KEY SHARE, which you give only to the service itself, or like a token that was not decoded.';
  return 'This is not an operation token.';
}
