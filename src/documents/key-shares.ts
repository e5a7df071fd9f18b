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
 * invisible characters that chat programs insert. Takes it out of a line of `vault operator init`, quotes, a JSON text, or
 * one more encoding, if there is exactly one reading. Returns lower-case hexadecimal.
 *
 * @throws RunbookError `INVALID_INPUT` with a fixed text that never quotes what was typed.
 */
export function parseShare(text: string): Secret<'key-share'> {
  const shown = withoutUnseen(text);
  const typed = shown.replace(/\s+/g, '');
  const readings = new Set(readingsOf(shown, typed).map((bytes) => hex.encode(bytes)));
  const [only, ...others] = readings;
  if (only !== undefined && others.length === 0) return new Secret('key-share', only);
  throw new RunbookError('INVALID_INPUT', notAShare(shown, typed, readings.size), {
    observed: `${typed.length} characters`,
    needed: '32 to 66 characters of hexadecimal (usually 66), or 22 to 44 of base64 (usually 44)',
    next: 'Nothing was stored or sent. Give only one key share, with nothing around it.',
  });
}

/** Every share that a text can be read as. */
function readingsOf(shown: string, typed: string): readonly Uint8Array[] {
  const lines = shown.split(/[\r\n]+/).filter((line) => line.trim() !== '');
  const ofLines = lines.flatMap((line) => decodeShare(unlabeled(line)) ?? []);
  // A share that was broken into lines is one; several lines that are each a share are several.
  if (ofLines.length > 1) return ofLines;
  const whole = [decodeShare(typed), decodedTwice(typed)].flatMap((bytes) => bytes ?? []);
  if (whole.length > 0) return whole;
  const strings = stringsIn(shown);
  if (strings.length > 0) return strings.flatMap((each) => decodeShare(each) ?? decodedTwice(each) ?? []);
  return ofLines.length > 0 ? ofLines : lines.flatMap((line) => decodedTwice(unlabeled(line)) ?? []);
}

/** What programs write before a share: `Unseal Key 1:`, `Recovery Key 2:`, `Key 1 (hex)    :`; and what lists put around it. */
const LABEL =
  /^\s*["'`]?(?:(?:unseal|recovery)[ _]?)?(?:key(?: share)?|share)s?[ _]?\d*(?: ?\((?:hex|base64)\))?["'`]?\s*[:=]\s*/i;

function unlabeled(line: string): string {
  return line
    .replace(LABEL, '')
    .replace(/^[\s"'`[({<-]+/, '')
    .replace(/(?<![\s"'`\])}>,;])[\s"'`\])}>,;]+$/, '')
    .replace(/\s+/g, '');
}

/** A share in one more base64, as a Kubernetes Secret shows it. */
function decodedTwice(text: string): Uint8Array | undefined {
  const outer = tryDecode(base64, text) ?? tryDecode(base64nopad, text);
  if (outer === undefined || outer.some((byte) => byte > 0x7e || (byte < 0x20 && byte !== 0x0a && byte !== 0x0d)))
    return undefined;
  return decodeShare(String.fromCharCode(...outer).trim());
}

/** The texts in a JSON text, as deep as the output of the service's command line. */
function stringsIn(text: string): readonly string[] {
  const collect = (value: unknown, depth: number): string[] => {
    if (typeof value === 'string') return [value.trim()];
    if (typeof value !== 'object' || value === null || depth > 4) return [];
    return Object.values(value).flatMap((each) => collect(each, depth + 1));
  };
  try {
    return collect(JSON.parse(text), 0);
  } catch {
    // The parser's own error quotes the text.
    return [];
  }
}

/** Why a text is no share. Fixed texts. */
function notAShare(shown: string, typed: string, readings: number): string {
  if (readings > 1 && decodedTwice(typed) !== undefined)
    return 'This may be a key share that is encoded once more (base64 of it). Decode it once, then give it again.';
  if (readings > 1) return 'This holds more than one key share: give one of them.';
  if (isEncrypted(shown, typed))
    return 'This is still encrypted for you (an OpenPGP message). Decrypt it first, and give the key share that comes out.';
  return 'This is not a key share: it must be 16 to 33 bytes in hexadecimal or base64.';
}

/** An OpenPGP message, armored or as the service returns it: its first packet has a session key for somebody. */
function isEncrypted(shown: string, typed: string): boolean {
  if (shown.includes('-----BEGIN PGP MESSAGE-----')) return true;
  const binary = /^([0-9a-f]{2})+$/i.test(typed) ? tryDecode(hex, typed.toLowerCase()) : undefined;
  const bytes = binary ?? tryDecode(base64, typed) ?? tryDecode(base64nopad, typed);
  const [first = 0] = bytes ?? [];
  return (bytes?.length ?? 0) > SHARE_BYTES.longest && (first === 0xc1 || (first >= 0x84 && first <= 0x87));
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
  const token = onlyTokenIn(text) ?? text.trim();
  if (GENERATED.test(token)) return new Secret('operation-token', token);
  throw new RunbookError('INVALID_INPUT', notAToken(token), {
    observed: `${token.length} characters`,
    needed: 'the decoded token of a finished generate-root -dr-token: "hvs." and 24 characters',
    next: 'Nothing was stored or sent. Give only the operation token, with nothing around it.',
  });
}

/** The one token in a JSON text or in a table, if nothing beside it could be a secret. */
function onlyTokenIn(text: string): string | undefined {
  const tokens = new Set([...text.matchAll(/(?<![\w.-])h?v?[sbr]\.[\w-]{20,}(?![\w.-])/g)].map(([token]) => token));
  const [only, ...others] = tokens;
  if (only === undefined || others.length > 0 || looksLikeShare(text.replaceAll(only, ''))) return undefined;
  return only;
}

function notAToken(text: string): string {
  if (/^(?:hvb|b)\./.test(text)) return 'This is a batch token, not an operation token.';
  if (/^hv[sr]\.|^[sr]\./.test(text)) return 'This is a token of another kind, not an operation token.';
  if (looksLikeShare(text))
    return 'This looks like a KEY SHARE, which you give only to the service itself, or like a token that was not decoded.';
  return 'This is not an operation token.';
}
