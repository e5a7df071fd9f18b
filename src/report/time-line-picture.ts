import { shortDuration, timeText } from './headlines';
import { drawing, label, tag, widthOf } from './svg';
import type { TimeLine, TimeRow } from './time-line';
import { placeOn, ticksOf } from './time-line';

/* The time line as a picture: for a wide page with the names beside the bars, for a telephone with the names above them. */

interface Layout {
  readonly id: 'wide' | 'narrow';
  readonly width: number;
  /** Where the bars are. */
  readonly left: number;
  readonly length: number;
  readonly rowHeight: number;
  /** From the top of a row to its bar. */
  readonly barTop: number;
  readonly textTop: number;
  /** Of the name of a row, beside its number. */
  readonly textWidth: number;
  readonly cut: number;
  readonly tickDistance: number;
}

const SIZE = 11.5;
const SMALL = 10;
const BAR = 9;
/** The number of a step stands before its name. */
const NUMBER = 26;
const TOOK = 76;
const LAYOUTS: readonly Layout[] = [
  {
    ...{ id: 'wide', width: 810, left: 352, length: 382, rowHeight: 20, barTop: 5.5, textTop: 13.5 },
    ...{ textWidth: 343 - NUMBER, cut: 30, tickDistance: 62 },
  },
  {
    ...{ id: 'narrow', width: 340, left: 1, length: 338, rowHeight: 33, barTop: 19, textTop: 13.5 },
    ...{ textWidth: 338 - NUMBER - TOOK, cut: 22, tickDistance: 66 },
  },
];

/** Above the first row: what is cut out, then the axis. */
const CUT_LINE = 11;
const topOf = ({ cuts }: TimeLine) => (cuts.length > 0 ? 33 : 19);

type Place = (at: number) => number;

function axisOf(line: TimeLine, layout: Layout, place: Place, bottom: number): string {
  const ticks = ticksOf(line, place, layout.length, layout.tickDistance);
  const marks = ticks.map((at, index) => {
    const x = place(at);
    const text = index === 0 && at === line.from ? '0' : elapsedText(at - line.from);
    const anchor = x < 20 ? 'start' : x > layout.length - 30 ? 'end' : 'middle';
    return (
      tag('line', { x1: layout.left + x, x2: layout.left + x, y1: topOf(line) - 3, y2: bottom, class: 'grid' }) +
      label(text, {
        x: layout.left + x,
        y: topOf(line) - 7,
        width: layout.tickDistance - 4,
        size: SMALL,
        anchor,
        className: 'soft',
      })
    );
  });
  return marks.join('');
}

/** Time since the beginning, as short as its precision allows. */
function elapsedText(ms: number): string {
  if (ms < 60_000) return `${Number((ms / 1_000).toFixed(2))} s`;
  return shortDuration(ms).replace(/ 0 s$| 0 min$/, '');
}

/** A gap in the axis, with its length above it. */
function cutsIn(line: TimeLine, layout: Layout, place: Place, bottom: number): string {
  let free = -Infinity;
  const top = topOf(line) - 4;
  return line.cuts
    .map(({ from, to }) => {
      const x = layout.left + place(from) + layout.cut / 2;
      const text = `${shortDuration(to - from)} cut`;
      const half = widthOf(text, SMALL) / 2;
      const at = Math.min(Math.max(x, half + 1), layout.width - half - 1);
      const fits = at - half > free;
      if (fits) free = at + half + 4;
      const [left, right] = [x - 4, x + 4];
      return (
        tag('rect', { x: left, y: top, width: 8, height: bottom - top, class: 'cut' }) +
        [left, right].map((edge) => tag('line', { x1: edge, x2: edge, y1: top, y2: bottom, class: 'torn' })).join('') +
        (fits
          ? label(text, { x: at, y: CUT_LINE, width: 2 * half + 1, size: SMALL, anchor: 'middle', className: 'soft' })
          : '')
      );
    })
    .join('');
}

const isHeading = ({ kind }: TimeRow) => kind === 'outage' || kind === 'paused' || kind === 'unprotected';

function rowOf(row: TimeRow, top: number, layout: Layout, place: Place): string {
  const { left, width, rowHeight, barTop, textTop } = layout;
  const bold = row.kind === 'outage';
  const indent = isHeading(row) ? 0 : NUMBER;
  const bars = row.spans.map(({ from, to, open }) => {
    const x = left + place(from);
    const wide = Math.max(2.5, place(to) - place(from));
    const within = Math.min(x, left + layout.length - wide);
    const bar = tag('rect', { x: within, y: top + barTop, width: wide, height: BAR, rx: 2, class: `bar ${row.kind}` });
    if (open !== true) return bar;
    // An arrow: it went on.
    const tip = within + wide;
    const [upper, middle] = [top + barTop, top + barTop + BAR / 2];
    return (
      bar + tag('path', { d: `M${tip - 4} ${upper}l4 ${BAR / 2}l-4 ${BAR / 2}`, class: 'open', 'data-middle': middle })
    );
  });
  const marks = (row.marks ?? []).map((at) =>
    tag('circle', { cx: left + place(at), cy: top + barTop + BAR / 2, r: 3, class: 'mark' }),
  );
  const tookX = layout.id === 'wide' ? left + layout.length + 8 : width - 1;
  return [
    tag('line', { x1: 0, x2: width, y1: top + rowHeight, y2: top + rowHeight, class: 'rule' }),
    ...(row.number === undefined
      ? []
      : [
          label(row.number, {
            x: NUMBER - 6,
            y: top + textTop,
            width: NUMBER - 6,
            size: SMALL,
            anchor: 'end',
            className: 'soft',
          }),
        ]),
    label(row.text, {
      ...{ x: indent, y: top + textTop, width: layout.textWidth + NUMBER - indent, size: SIZE, bold },
      className: `name ${row.kind}`,
    }),
    ...bars,
    ...marks,
    label(row.took, {
      ...{ x: tookX, y: top + textTop, width: TOOK - 8, size: SMALL, bold },
      ...{ anchor: layout.id === 'wide' ? ('start' as const) : ('end' as const), className: `took ${row.kind}` },
    }),
  ].join('');
}

/** What the picture says, as sentences. */
export function timeLineDescription(line: TimeLine): string {
  const since = (at: number) => elapsedText(Math.max(0, at - line.from));
  const rows = line.rows.map(({ number, text, spans, took }) => {
    const begin = Math.min(...spans.map(({ from }) => from));
    return `${number === undefined ? '' : `${number} `}${text}: after ${since(begin)}, ${took}.`;
  });
  return [`From ${clock(line.from)} to ${clock(line.to)} UTC.`, ...rows].join(' ');
}

const clock = (at: number) => timeText(new Date(at).toISOString());

function pictureIn(line: TimeLine, layout: Layout): string {
  const place = placeOn(line, layout.length, layout.cut);
  const top = topOf(line);
  const bottom = top + line.rows.length * layout.rowHeight;
  const bands = line.bands.map(({ kind, from, to }) => {
    const x = place(from);
    return tag('rect', {
      ...{ x: layout.left + x, y: top - 3, width: Math.max(1.5, place(to) - x), height: bottom - top + 3 },
      class: `band ${kind}`,
    });
  });
  const [begin, end] = [clock(line.from), clock(line.to)];
  const ends = { y: bottom + 15, width: layout.length / 2 - 4, size: SMALL, className: 'soft' } as const;
  return drawing(
    {
      ...{
        id: `time-line-${layout.id}`,
        width: layout.width,
        height: bottom + 20,
        className: `time-line ${layout.id}`,
      },
      ...{ title: `Time line of ${shortDuration(line.to - line.from)}`, description: timeLineDescription(line) },
    },
    ...bands,
    axisOf(line, layout, place, bottom),
    ...line.rows.map((row, index) => rowOf(row, top + index * layout.rowHeight, layout, place)),
    cutsIn(line, layout, place, bottom),
    label(begin, { ...ends, x: layout.left }),
    label(end, { ...ends, x: layout.left + layout.length, anchor: 'end' }),
  );
}

/** Both forms: the style of the page shows the one that fits. */
export function timeLinePicture(line: TimeLine): string {
  return LAYOUTS.map((layout) => pictureIn(line, layout)).join('\n');
}
