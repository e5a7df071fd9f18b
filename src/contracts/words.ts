import type { PointVerdict, ReadinessPoint, ReadinessResult, ReadinessVerdict } from './readiness';

/** Characters that a terminal, a browser or a chat obeys or hides instead of showing them. Some of them are letters by category. */
const OBEYED = /[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu;
/** Everything but letters, marks, numbers, punctuation, symbols and the plain space, and those of them that look like nothing. */
const NOT_SHOWN = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|[\u{1107f}\u{16fe4}\u{13441}\u{13442}\u{1d159}\u2800\ufffc]/gu;
/** More marks on one letter than any language has would overlap the lines around it. A leading mark would sit on our own letter. */
const LOOSE_MARKS = /^\p{M}+|(?<=\p{M}{4})\p{M}+/gu;

/** Removes what is obeyed or hidden. Makes visible what looks like nothing or has no meaning. */
function shownOnly(text: string): string {
  return text.replace(OBEYED, '').replace(NOT_SHOWN, '\ufffd').replace(LOOSE_MARKS, '');
}

/** Anybody's text as one line: it ends no line, moves no cursor, changes no reading direction and hides nothing. */
export function oneLine(text: string): string {
  // Most texts are plain already, and there are many of them.
  if (!/[^\x20-\x7e]| {2}/.test(text)) return text;
  return shownOnly(text.replace(/\s+/g, ' '));
}

/** Somebody else's words, to be inserted into a text of ours: {@link oneLine}, without the backticks that would make a command of them. */
export function escapeUntrusted(text: string): string {
  return oneLine(text).replaceAll('`', "'");
}

/** {@link oneLine} of every text in a value, including names of members. Renderers get this. */
export function inLines<T>(value: T): T {
  const cleaned = (each: unknown): unknown => {
    if (typeof each === 'string') return oneLine(each);
    if (Array.isArray(each)) return each.map(cleaned);
    if (typeof each !== 'object' || each === null) return each;
    return Object.fromEntries(Object.entries(each).map(([name, member]) => [oneLine(name), cleaned(member)]));
  };
  // Texts stay texts, and every member stays where it was.
  return cleaned(value) as T;
}

/**
 * A text of ours on one line, in pieces. What is between backticks is code, with its columns kept. Backticks are paired from the
 * left; an unpaired one is a letter.
 */
export function pieces(text: string): readonly { readonly text: string; readonly code: boolean }[] {
  const parts = text.split('`');
  if (parts.length % 2 === 0) parts.push(parts.splice(-2).join("'"));
  return parts
    .map((part, index) => ({ text: index % 2 === 1 ? terminalLine(part) : oneLine(part), code: index % 2 === 1 }))
    .filter((each) => each.text !== '');
}

/** A complete line for a terminal, with its columns kept. Nothing in it ends the line or is obeyed by the terminal. */
export function terminalLine(line: string): string {
  return shownOnly(line.replace(/[^\S ]+/g, ' '));
}

/**
 * A text of ours as lines for a terminal. Each command in it gets its own line, without backticks, ready to copy: a shell would
 * run what is between backticks. A single word in backticks, such as an option, stays in its sentence.
 */
export function terminalText(text: string, indent = ''): string[] {
  const lines: string[] = [];
  let sentence = '';
  const end = () => {
    if (sentence.trim() !== '') lines.push(`${indent}${lines.length === 0 ? '' : '  '}${sentence.trim()}`);
    sentence = '';
  };
  for (const { text: part, code } of pieces(text)) {
    if (code && part.includes(' ')) {
      end();
      lines.push(`${indent}    ${part}`);
    } else sentence += sentence === '' && !code ? part.replace(/^[\s.,;:)]+/, '') : part;
  }
  end();
  return lines;
}

/** A text of ours that shares a line with others. A command in it also appears elsewhere, to be copied. */
export function unmarked(text: string): string {
  return oneLine(text).replaceAll('`', '');
}

/** What Markdown could read as markup, a link or an entity. An underscore within a word is none of these. */
const MARKUP = /[\\*[\]<>#|~]|(?<!\w)_|_(?!\w)|:(?=\/\/)|(?<=www)\.|&(?=#?\w+;)/gi;

/**
 * Text as Markdown that shows it unchanged, on one line, with commands in backticks. Nothing that people or a service put into it
 * becomes a heading, a link or markup of ours.
 */
export function prose(text: string): string {
  return pieces(text)
    .map((piece) => (piece.code ? `\`${piece.text}\`` : piece.text.replace(MARKUP, '\\$&')))
    .join('');
}

/** {@link prose} of somebody else's words. */
export function escapeMarkdown(text: string): string {
  return prose(escapeUntrusted(text));
}

/** A command as Markdown code, whatever it contains. */
export function inCode(command: string): string {
  const line = terminalLine(command);
  return line.includes('`') ? `\`\` ${line} \`\`` : `\`${line}\``;
}

/** JSON for a terminal or a pipe. What it would obey, hide or not show is escaped, so that nothing is lost. */
export function jsonText(value: unknown, indent?: number): string {
  const escapedUnit = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const escaped = (found: string) => (found === '\n' ? found : found.split('').map(escapedUnit).join(''));
  return [OBEYED, NOT_SHOWN, /(?<![\p{L}\p{M}\p{N}])\p{M}|(?<=\p{M}{4})\p{M}/gu].reduce(
    (text, pattern) => text.replace(pattern, escaped),
    JSON.stringify(value, undefined, indent) ?? 'null',
  );
}

/** The value of a JSON text; undefined if it is not JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A name with how it is known. A claim is marked everywhere. */
export function attestedName({ name, how }: { readonly name: string; readonly how: string }): string {
  return `${escapeUntrusted(name)} (${how === 'claimed' ? 'UNVERIFIED' : how})`;
}

/** A fingerprint in groups of four, to be read aloud. */
export function spelled(fingerprint: string): string {
  return (fingerprint.match(/.{1,4}/g) ?? []).join(' ');
}

/** `1 node`, `3 nodes`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** A duration for people: `850 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`. */
export function durationText(milliseconds: number): string {
  const ms = Math.max(0, Math.round(milliseconds));
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A duration such as `500ms`, `30s`, `10m`, `4h` or `7d`, in ms; undefined if the text is none. */
export function durationMs(text: string): number | undefined {
  const [, amount, unit = ''] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? [];
  const ms = Number(amount) * (UNITS[unit] ?? Number.NaN);
  return Number.isNaN(ms) ? undefined : ms;
}

/** A time of day in UTC with seconds, with the date if it is another day. */
export function clock(epochMs: number, now = Date.now()): string {
  const iso = new Date(epochMs).toISOString();
  const time = `${iso.slice(11, 19)}Z`;
  return iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? time : `${iso.slice(0, 10)} ${time}`;
}

/** What the holders of a cluster have. Under auto-unseal their shares are of the recovery key. */
export function keyShares(recovery: boolean | undefined): string {
  return recovery === true ? 'recovery key shares' : 'key shares';
}

const ORDER: readonly PointVerdict[] = ['fail', 'warn', 'not-checkable', 'ok'];

export function isWorse(verdict: PointVerdict, before: PointVerdict): boolean {
  return ORDER.indexOf(verdict) < ORDER.indexOf(before);
}

/** Red points first, otherwise in the same order. */
export function redFirst<T extends Pick<ReadinessPoint, 'verdict'>>(points: readonly T[]): T[] {
  return points.toSorted((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict));
}

export const pointName = ({ id, cluster }: Pick<ReadinessPoint, 'id' | 'cluster'>): string =>
  cluster === undefined ? id : `${id} (${cluster})`;

export function changeText({ change, before, now, ...point }: ReadinessResult['changes'][number]): string {
  return `${change}: ${pointName(point)}, ${before} before, ${now} now`;
}

export function verdictWords(verdict: ReadinessVerdict): string {
  return verdict.replaceAll('-', ' ');
}

export function verdictsText({ switchover, failover }: Pick<ReadinessResult, 'switchover' | 'failover'>): string {
  return `switchover ${verdictWords(switchover)}, failover ${verdictWords(failover)}`;
}
