import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { styleText } from 'node:util';
import { projectRoot } from '../dev-server/locations';

/** Rows in columns of equal width, two spaces apart; the last column is not padded. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, index) => (widths[index] = Math.max(widths[index] ?? 0, cell.length)));
  return rows.map((row) =>
    row
      .map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}

/** How the most important lines begin, after their time and mark. */
const GRAVE = /^(?:\d\d:\d\d:\d\dZ )?(?:== )? *(?:OUTAGE|CRITICAL|FAILED|PARKED|Refused: |Failed: |Error |fail +\S)/;
const WARNED = /^(?:\d\d:\d\d:\d\dZ )? *(?:Warning:|IMPORTANT|warn +\S|PAUSED)/;

const GOOD = /^\d\d:\d\d:\d\dZ == BACK:/;

/** A line with its color, for a terminal that shows colors. */
export function colored(line: string): string {
  if (GOOD.test(line)) return styleText(['green', 'bold'], line, { validateStream: false });
  if (GRAVE.test(line)) return styleText(['red', 'bold'], line, { validateStream: false });
  return WARNED.test(line) ? styleText('yellow', line, { validateStream: false }) : line;
}

/** Lines that must stay whole to be copied: commands, documents, JSON. Text from others never begins such a line. */
const COPIED = /^ *(?:(?:runbook|vault|temporal|sudo) [a-z]|export [A-Z]|[A-Z_]+=\S|\. \/|\S*$|[{[])/;
const NARROWEST = 24;

/**
 * Wraps a line for a terminal that is `columns` wide; 0 means unknown. Each further line begins with a margin: if the
 * terminal itself wrapped the line, text from others in its first column would look like ours.
 */
export function wrapped(line: string, columns: number | undefined): string[] {
  const width = Math.max(columns || Infinity, NARROWEST);
  if (line.length * 2 <= width || COPIED.test(line)) return [line];
  const margin = `${' '.repeat(Math.min(line.search(/\S/), width / 4))}  | `;
  const lines: string[] = [];
  let rest = line;
  for (;;) {
    const start = lines.length === 0 ? '' : margin;
    const end = fitting(rest, width - start.length);
    lines.push(`${start}${rest.slice(0, end)}`.trimEnd());
    if (end === rest.length) return lines;
    rest = rest.slice(end).trimStart();
    if (rest === '') return lines;
  }
}

/** How much of a text fits into a line: up to a space in its second half if there is one, never through a character. */
function fitting(text: string, width: number): number {
  let used = 0;
  let end = 0;
  let space = 0;
  for (const letter of text) {
    // Many non-Latin letters are two columns wide; which ones depends on the terminal.
    used += letter < '\u0300' ? 1 : 2;
    if (used > width) return space > end / 2 ? space : end;
    end += letter.length;
    if (letter === ' ') space = end;
  }
  return end;
}

type Values = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A template of deploy/templates with these values. A line whose value is absent is dropped; a line with a list is repeated. */
export function filled(template: string, values: Values): string {
  const place = /\{\{(\w+)\}\}/g;
  const text = readFileSync(join(projectRoot(), 'deploy', 'templates', template), 'utf8');
  const lines = text.split('\n').flatMap((line) => {
    const given = [...line.matchAll(place)].map(([, name = '']) => values[name]);
    if (given.includes(undefined)) return [];
    const list = given.find((value) => typeof value === 'object') ?? [''];
    return list.map((item) =>
      line.replace(place, (_, name: string) => {
        const value = values[name];
        return typeof value === 'string' ? value : item;
      }),
    );
  });
  return lines.join('\n');
}

/** The known word that a mistyped one is closest to: of another case, or with at most a third of its letters wrong. */
export function meant(given: string, known: readonly string[]): string | undefined {
  const letters = (text: string) =>
    text
      .toLowerCase()
      .replace(/[^a-z0-9]/g, '')
      .slice(0, 64);
  const near = known.map((word) => ({ word, wrong: distance(letters(given), letters(word)) }));
  const [best] = near.sort((one, other) => one.wrong - other.wrong);
  return best !== undefined && best.wrong <= letters(best.word).length / 3 ? best.word : undefined;
}

/** How many letters must be added, left out or replaced to make one word of the other (Levenshtein). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...one].entries()) {
    const next = [index + 1];
    for (const [column, each] of [...other].entries()) {
      const replaced = (row[column] ?? 0) + (letter === each ? 0 : 1);
      next.push(Math.min(replaced, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
