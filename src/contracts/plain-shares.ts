/**
 * Tells a key share in plain text from what people and programs otherwise write. Pure: workflows check every signal with it before
 * anything is copied. Envelopes of the signal `share` have stricter rules of their own (`src/keys`).
 */

import { jsonIn } from './words';

/** How far into the input shares are searched for. */
const MAX_DEPTH = 8;
const MAX_VALUES = 500;
const MAX_TEXT = 64 * 1024;
/** Signed documents in the payloads of others. Without the limit each level could be read several times, and there are many. */
const DOCUMENTS_DEEP = 3;

/** Byte lengths of a share as clusters make them: the key and one byte. Nothing else that people paste has these lengths. */
const SHARE_LENGTHS: ReadonlySet<number> = new Set([17, 33]);
/** Byte lengths of digests, fingerprints and identifiers. These are shares only if the text says so. */
const DIGEST_LENGTHS: ReadonlySet<number> = new Set([16, 20, 24, 28, 32]);
const SHORTEST = 16;
/** Of a signed document: base64url of the base64 of the shortest share. Shorter ones come by the thousand, and only cost time. */
const SHORTEST_PART = 30;
const LONGEST = 33;

/** As chats insert it into what is copied from them. */
const UNSEEN = /(?:(?!\s)[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}])+/gu;
/** One replacement for several of them in a row. */
const MARK = '\u200b';
/** A word that only such a mark separates from what follows, or from what comes before. */
const WORD_BEFORE = /(?<!\S)([A-Z]?[^\sA-Z\d+/_=\u200b-]+)\u200b/g;
const WORD_BEHIND = /\u200b([A-Z]?[^\sA-Z\d+/_=\u200b-]+)(?!\S)/g;
const NAMED_A_SHARE = /\b(key[ _-]?)?share\b|\bunseal([ _-]?key)?\b|\brecovery[ _-]?key\b/i;
const URL = /\bhttps?:\/\/\S+/gi;
const HEX = /(?<![0-9A-Za-z+/_=-])[0-9a-f]{32,66}(?![0-9A-Za-z+/_=-])/gi;
/** As people read it aloud: groups of hexadecimal digits. */
const SPOKEN_HEX = /(?<![0-9A-Za-z])(?:[0-9a-f]{2,8}[ :]){3,40}[0-9a-f]{2,8}(?![0-9A-Za-z])/gi;
const BASE64 = /(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{22,44}={0,2}(?![A-Za-z0-9+/_=-])/g;
const SIGNED_DOCUMENT = /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*/g;

/** Members that contain a PGP key. People and terminals break it into lines, and the last one may be as long as a share. */
const PGP_KEYS: ReadonlySet<string> = new Set(['recipientPgpKey', 'recipient']);
const ARMOR = /-----(?:BEGIN|END) PGP PUBLIC KEY BLOCK-----/g;
const ARMOR_HEADER = /^(?:Version|Comment|Hash|Charset): .*$/gm;
/** Base64 of a public key: its packet of tag 6, in the old or the new form, with a length of one or two bytes, from version 4 on. */
const PUBLIC_KEY = /^(?:(?:m[A-P]|x[g-r]).[E-G]|(?:mQ|x[st])..B)[A-Za-z0-9+/]+={0,2}(?:=[A-Za-z0-9+/]{4})?$/;
/** The shortest key that can encrypt has more letters. */
const SHORTEST_KEY = 400;

export function withoutUnseen(text: string): string {
  return text.replace(UNSEEN, '');
}

/**
 * Whether this is true of any text in a value, or of the name of a member, as deep as documents of this project go.
 *
 * @param holds - gets the member that contains the text, also in a list
 */
export function someText(value: unknown, holds: (text: string, member?: string) => boolean): boolean {
  let values = 0;
  const search = (part: unknown, depth: number, member?: string): boolean => {
    values += 1;
    if (depth > MAX_DEPTH || values > MAX_VALUES) return false;
    if (typeof part === 'string') return holds(part, member);
    if (typeof part !== 'object' || part === null) return false;
    if (Array.isArray(part)) return part.some((each) => search(each, depth + 1, member));
    const members = Object.entries(part).slice(0, MAX_VALUES - values);
    return members.some(([key, each]) => holds(key) || search(each, depth + 1, key));
  };
  return search(value, 0);
}

/** Whether anything in `value` seems to be a key share in plain text: texts, names of members, payloads of signed documents. */
export function holdsKeyShare(value: unknown, deep = DOCUMENTS_DEEP): boolean {
  return someText(value, (text, member = '') => {
    const named = NAMED_A_SHARE.test(member);
    if (!PGP_KEYS.has(member)) return textHoldsKeyShare(text, named, deep);
    return !isPgpKey(text) && [text, text.replace(/\s+/g, '')].some((each) => textHoldsKeyShare(each, named, deep));
  });
}

/** Of any length. It mixes lower and upper case, which names of hosts and files and hexadecimal shares do not. */
const A_TOKEN = /(?<![A-Za-z0-9+/_-])hv[sbr]\.(?=[A-Z0-9_-]*[a-z])(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{20,}/;
/** Includes tokens of earlier versions of the service. A share behind such a prefix has another length. */
const TOKENS =
  /(?<![A-Za-z0-9+/_-])(?:hv[sbr]\.(?=[A-Z0-9_-]*[a-z])(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{20,}|[sbr]\.[A-Za-z0-9]{24}(?![A-Za-z0-9+/_=-]))/g;

/** What seems to be in plain text in `value`. If it is only a token of the service, that token has to be ended, and no cluster rekeyed. */
export function plainSecretIn(value: unknown): 'plain-text-share' | 'plain-text-token' | undefined {
  if (holdsKeyShare(value)) return holdsTokenAlone(value) ? 'plain-text-token' : 'plain-text-share';
  return someText(value, (text) => textHoldsToken(text)) ? 'plain-text-token' : undefined;
}

/** Whether a text, or a signed document in it, seems to contain a token of the service, even one that resembles no share. */
export function textHoldsToken(text: string, deep = DOCUMENTS_DEEP): boolean {
  const whole = text.slice(0, MAX_TEXT);
  const shown = withoutUnseen(whole);
  // Also unchanged: without the invisible characters it may be joined to the word before it.
  if (A_TOKEN.test(shown) || A_TOKEN.test(whole)) return true;
  const signed = deep > 0 ? shown.match(SIGNED_DOCUMENT) : null;
  return (signed ?? []).some((jws) => jws.split('.').some((part) => textHoldsToken(decoded(part), deep - 1)));
}

/** For a value that seems to contain a share: whether that is a token. */
export function holdsTokenAlone(value: unknown): boolean {
  const shown = (text: string) => withoutUnseen(text.slice(0, MAX_TEXT));
  // As strict as for shares, apart from tokens that are in one piece.
  const isShare = (text: string, member = '') => {
    const whole = shown(text);
    const readings = whole.match(TOKENS)?.join() === text.match(TOKENS)?.join() ? [text, whole] : [whole];
    return readings.some((each) => textHoldsKeyShare(each.replace(TOKENS, ' '), NAMED_A_SHARE.test(member)));
  };
  return someText(value, (text) => shown(text).search(TOKENS) !== -1) && !someText(value, isShare);
}

/** Whether a text is a public key and nothing else: base64 in one line, or in lines of one length, or armored. */
function isPgpKey(text: string): boolean {
  const lines = text.replace(ARMOR_HEADER, '').replace(ARMOR, '').trim().split(/\s+/);
  const key = lines.join('');
  const checked = lines.at(-1)?.startsWith('=') === true;
  const full = lines.slice(0, checked ? -2 : -1);
  return (
    key.length >= SHORTEST_KEY &&
    PUBLIC_KEY.test(key) &&
    // Shares, one per line, are lines of one length too.
    full.every((line) => line.length === full[0]?.length && !SHARE_LENGTHS.has(bytesOf(line))) &&
    !lines.some(isHexShare) &&
    !(text.match(ARMOR_HEADER) ?? []).some((header) => textHoldsKeyShare(header))
  );
}

/** Base64 of any relevant length has other letters too. */
function isHexShare(line: string): boolean {
  return line.length >= 2 * SHORTEST && /^[0-9a-f]+$/i.test(line);
}

/**
 * Whether a text seems to contain a key share.
 *
 * @param named - the text is labeled as a share, so lengths of digests count too
 */
export function textHoldsKeyShare(text: string, named = false, deep = DOCUMENTS_DEEP): boolean {
  const marked = text.slice(0, MAX_TEXT).replace(UNSEEN, MARK);
  // Without the invisible characters a share may be joined to words beside it; with them, it may be in pieces.
  const [before, behind] = [marked.replace(WORD_BEFORE, '$1 '), marked.replace(WORD_BEHIND, ' $1')];
  const readings = [marked, before, behind, before.replace(WORD_BEHIND, ' $1')].map((each) =>
    each.replaceAll(MARK, ''),
  );
  const all = [...new Set([...readings, marked])];
  if (all.some((each) => showsKeyShare(each, named))) return true;
  const documents = deep === 0 ? [] : all.flatMap((each) => each.match(SIGNED_DOCUMENT) ?? []);
  const parts = new Set(documents.flatMap((jws) => jws.split('.').slice(0, 2)));
  return [...parts].some((part) => part.length >= SHORTEST_PART && partHoldsKeyShare(decoded(part), deep - 1));
}

function showsKeyShare(shown: string, named: boolean): boolean {
  const rest = shown.replace(SIGNED_DOCUMENT, ' ').replace(URL, ' ');
  const digestsCount = named || NAMED_A_SHARE.test(rest);
  const counts = (bytes: number) =>
    Number.isInteger(bytes) &&
    bytes >= SHORTEST &&
    bytes <= LONGEST &&
    (SHARE_LENGTHS.has(bytes) || !DIGEST_LENGTHS.has(bytes) || digestsCount);
  return (
    (rest.match(HEX) ?? []).some((run) => counts(run.length / 2)) ||
    (rest.match(SPOKEN_HEX) ?? []).some((run) => counts(run.replace(/[ :]/g, '').length / 2)) ||
    (rest.match(BASE64) ?? []).some((run) => looksRandom(run) && counts(bytesOf(run)))
  );
}

/** Member by member: the type of an envelope mentions shares, which does not mean that the digests beside it are shares. */
function partHoldsKeyShare(text: string, deep: number): boolean {
  const value = jsonIn(text);
  return value === undefined ? textHoldsKeyShare(text, false, deep) : holdsKeyShare(value, deep);
}

/** How many bytes this base64 encodes. */
function bytesOf(base64: string): number {
  return Math.floor((base64.replace(/(?<!=)=+$/, '').length * 3) / 4);
}

/**
 * Random base64 changes between lower case, upper case and digits at two of three places. Words, names and paths do not. Of random
 * shares of 33 bytes, one in ten thousand changes less often; of the shortest ones, one in a hundred.
 */
function looksRandom(text: string): boolean {
  const least = SHARE_LENGTHS.has(bytesOf(text)) ? 0.3 : 0.45;
  const classes = [...text.replace(/(?<!=)=+$/, '')].map((character) =>
    /[a-z]/.test(character) ? 'a' : /[A-Z]/.test(character) ? 'A' : /[0-9]/.test(character) ? '0' : '+',
  );
  if (!classes.includes('a') || !classes.includes('A')) return false;
  const changes = classes.filter((one, index) => index > 0 && one !== classes[index - 1]).length;
  return changes >= least * (classes.length - 1);
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const SIX_BITS = new Map([...ALPHABET].map((character, value) => [character, value]));

/** Base64url to text, one character per byte: a share is ASCII. Workflows have no decoder of the platform. */
export function decoded(base64url: string): string {
  let bits = 0;
  let held = 0;
  let text = '';
  for (const character of base64url) {
    held = (held << 6) | (SIX_BITS.get(character) ?? -1);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    text += String.fromCharCode((held >> bits) & 0xff);
    held &= (1 << bits) - 1;
  }
  return text;
}
