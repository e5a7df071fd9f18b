import { oneLine } from '../contracts/words';
import { shortDuration, timeText } from './headlines';
import type { RowKind, TimeLine } from './time-line';
import { placeOn } from './time-line';

/* The time line as text, to scale, for terminals and Markdown. */

const NAME = 34;
const COLUMNS = 32;
const CUT = 3;

const FILLED: Readonly<Record<RowKind, string>> = {
  outage: '█',
  paused: '▒',
  unprotected: '░',
  step: '█',
  failed: '✗',
  skipped: '░',
  wait: '▒',
};

/** The text in exactly so many columns; letters may be wide, so they are counted as people see them. */
function inColumns(given: string, columns: number): string {
  const text = oneLine(given);
  const letters = [...new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(text)].map(
    ({ segment }) => segment,
  );
  const wide = (letter: string) =>
    /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u.test(
      letter,
    )
      ? 2
      : 1;
  const width = letters.reduce((sum, letter) => sum + wide(letter), 0);
  if (width <= columns) return text + ' '.repeat(columns - width);
  let [kept, used] = ['', 0];
  for (const letter of letters) {
    if (used + wide(letter) > columns - 1) break;
    kept += letter;
    used += wide(letter);
  }
  return `${kept}…${' '.repeat(columns - 1 - used)}`;
}

/** @returns one line for the scale, one for each row; none is wider than 79 columns */
export function timeLineText(line: TimeLine): readonly string[] {
  const place = placeOn(line, COLUMNS, CUT);
  const column = (at: number) => Math.min(COLUMNS - 1, Math.floor(place(at)));
  const outage = line.bands.filter(({ kind }) => kind === 'outage');
  const guides = new Set(outage.flatMap(({ from, to }) => [column(from), column(to)]));
  const cuts = line.cuts.map(({ from }) => Math.round(place(from)) + 1);
  const blank = Array.from({ length: COLUMNS }, (_, at): string =>
    cuts.includes(at) ? '⫽' : guides.has(at) ? '┊' : ' ',
  );
  const rows = line.rows.map(({ kind, number, text, spans, took }) => {
    const cells = [...blank];
    for (const { from, to } of spans)
      for (let at = column(from); at <= Math.max(column(from), column(to) - 1); at++)
        if (cells[at] !== '⫽') cells[at] = FILLED[kind];
    const isHeading = kind === 'outage' || kind === 'paused' || kind === 'unprotected';
    const before = isHeading ? '' : `${(number ?? '').padStart(3)} `;
    return `${before}${inColumns(text, NAME - before.length)} ${cells.join('')} ${took}`.trimEnd();
  });
  const cutText = line.cuts.map(({ from, to }) => shortDuration(to - from)).join(', ');
  const scale = `Time line of ${shortDuration(line.to - line.from)}, from ${clock(line.from)} to ${clock(line.to)} UTC`;
  return [scale, ...(cutText === '' ? [] : [`⫽ cut out: ${cutText}`]), ...rows];
}

const clock = (at: number) => timeText(new Date(at).toISOString());
