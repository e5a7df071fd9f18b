import type { Report, ReportStep } from '../contracts/report';
import type { Attested } from '../contracts/run-facts';
import { stepNumber } from '../moves/steps';
import { attestedName, counted, escapeUntrusted } from '../contracts/words';
import { shortDuration } from './headlines';

/*
 * When a run did what, whom it waited for, and when clients had no primary: rows of spans over one axis of time. Only waits in
 * which nothing else began or ended are cut out of the axis, and never within the outage or while clients were paused.
 */

/** A span of time, epoch milliseconds. `open`: no end is known, and it lasts until `to` at least. */
export interface Span {
  readonly from: number;
  readonly to: number;
  readonly open?: boolean;
}

export type RowKind = 'outage' | 'paused' | 'unprotected' | 'step' | 'failed' | 'skipped' | 'wait';

/** One line of the time line. */
export interface TimeRow {
  readonly kind: RowKind;
  /** The number of a step. */
  readonly number?: string;
  readonly text: string;
  readonly spans: readonly Span[];
  /** Moments within a wait, such as those at which key shares arrived. */
  readonly marks?: readonly number[];
  readonly took: string;
}

export interface TimeLine {
  readonly from: number;
  readonly to: number;
  readonly rows: readonly TimeRow[];
  /** What is cut out of the axis, in order of time. */
  readonly cuts: readonly Span[];
  /** What lies behind all rows. */
  readonly bands: readonly (Span & { readonly kind: 'outage' | 'paused' })[];
}

type Timed = Omit<TimeRow, 'took'>;

/** Time that is known of a span without an end: until then it lasted. */
type Until = (from: string, to: string | undefined) => Span;

/** The number that people signed, if there is one, and the name of a step, as every rendering of the report shows it. */
export function stepName(step: ReportStep): string {
  return `${stepNumber(step)}${step.name}`;
}

/** Every time of the report, so that a run without an end has one for its time line. */
function lastTimeOf({ startedAt, endedAt, steps, gates, parkings, receipts, outage }: Report): number {
  const activities = steps.flatMap((step) => [step, ...step.activities]);
  const times = [
    ...[startedAt, endedAt, outage?.endedAt],
    ...activities.flatMap((each) => [each.startedAt, each.endedAt]),
    ...gates.flatMap(({ openedAt, closedAt }) => [openedAt, closedAt]),
    ...parkings.flatMap(({ at, endedAt: over }) => [at, over]),
    ...receipts.map(({ at }) => at),
  ];
  return Math.max(...times.flatMap((time) => (time === undefined ? [] : [Date.parse(time)])));
}

const names = (people: readonly Attested[], none: string) =>
  [...new Set(people.map((each) => (each.how === 'claimed' ? attestedName(each) : escapeUntrusted(each.name))))].join(
    ', ',
  ) || none;

/** Attempts of one step are one row; work beside the steps, which has number 0, has none. */
function stepRows({ steps }: Report, until: Until): Timed[] {
  const rows = new Map<string, ReportStep[]>();
  for (const step of steps) {
    if (step.number === 0 || step.outcome === 'not-ordered') continue;
    const key = JSON.stringify([step.number, step.name]);
    rows.set(key, [...(rows.get(key) ?? []), step]);
  }
  return [...rows.values()].flatMap((attempts) => {
    const last = attempts.at(-1);
    if (!last) return [];
    const { name, outcome } = last;
    const number = stepNumber(last).trim();
    const more = attempts.length > 1 ? ` (${attempts.length} attempts)` : '';
    const kind = outcome === 'failed' || outcome === 'skipped' ? outcome : 'step';
    return [
      {
        ...{ kind, text: `${name}${more}`, ...(number !== '' && { number }) },
        spans: attempts.map(({ startedAt, endedAt }) => until(startedAt, endedAt)),
      },
    ];
  });
}

/** Who was waited for: at gates, on parked steps, for key shares, and in pauses. */
function waitRows({ gates, parkings, waits = [], holders = [], controls }: Report, until: Until): Timed[] {
  const atGates = gates
    .filter(({ openedAt, closedAt }) => openedAt !== closedAt)
    .map(({ gate, state, by, openedAt, closedAt }): Timed => {
      const how = state === 'approved' || state === 'opened' ? '' : `${state}, `;
      return {
        ...{ kind: 'wait', text: `Approval of gate ${gate}: ${how}${names(by, 'no one')}` },
        spans: [until(openedAt, closedAt)],
      };
    });
  const parked = [...new Set(parkings.map(({ step }) => step))].map((step): Timed => {
    const all = parkings.filter((each) => each.step === step);
    const decided = all.flatMap(({ decision }) =>
      decision ? [`${decision.action} by ${names([decision.by], '')}`] : [],
    );
    return {
      ...{ kind: 'wait', text: `Decision on "${step}": ${decided.join(', ') || 'none'}` },
      spans: all.map(({ at, decision, endedAt }) => until(at, decision?.at ?? endedAt)),
    };
  });
  const waited = (what: 'key-shares' | 'resume') =>
    waits.filter((each) => each.for === what).map(({ from, to }) => until(from, to));
  const gave = holders.flatMap(({ name, gave: given }) => (given ? [{ name, ...given }] : []));
  const shares: Timed = {
    kind: 'wait',
    text: holders.length === 0 ? 'A token from people' : `Key shares: ${names(gave, 'none')}`,
    spans: waited('key-shares'),
    marks: gave.map(({ at }) => Date.parse(at)),
  };
  const pausers = controls.filter(({ control }) => control === 'pause').map(({ by }) => by);
  const paused: Timed = { kind: 'wait', text: `Paused by ${names(pausers, 'people')}`, spans: waited('resume') };
  return [...atGates, ...parked, ...[shares, paused].filter(({ spans }) => spans.length > 0)];
}

/** The outage, how long clients were paused, and how long no DR secondary streamed. */
function bandRows({ outage, clientsHeld, withoutDrProtection }: Report, until: Until): Timed[] {
  const held = clientsHeld?.spans ?? (clientsHeld ? [clientsHeld] : []);
  return [
    ...(outage ? [{ kind: 'outage' as const, text: 'OUTAGE', spans: [until(outage.startedAt, outage.endedAt)] }] : []),
    ...(held.length > 0
      ? [{ kind: 'paused' as const, text: 'Clients paused', spans: held.map(({ from, to }) => until(from, to)) }]
      : []),
    ...(withoutDrProtection
      ? [
          {
            ...{ kind: 'unprotected' as const, text: 'Without DR protection' },
            spans: [until(withoutDrProtection.from, withoutDrProtection.to)],
          },
        ]
      : []),
  ];
}

const lengthOf = (spans: readonly Span[]) => spans.reduce((sum, { from, to }) => sum + to - from, 0);

/** From the beginning of the first span to the end of the last one. */
const extentOf = (spans: readonly Span[]): Span => ({
  from: Math.min(...spans.map(({ from }) => from)),
  to: Math.max(...spans.map(({ to }) => to)),
});

/**
 * The time line of a run.
 *
 * @param most - how many rows there may be, at least 8
 * @returns undefined if the run did nothing that takes time
 */
export function timeLineOf(report: Report, most: number): TimeLine | undefined {
  const { startedAt, endedAt, outage } = report;
  const to = lastTimeOf(report);
  const until: Until = (begin, end) => {
    const from = Date.parse(begin);
    return end === undefined
      ? { from, to: Math.max(from, to), open: true }
      : { from, to: Math.max(from, Date.parse(end)) };
  };
  const took = (row: Timed): TimeRow => {
    const isOpen = row.spans.some(({ open }) => open);
    const length = shortDuration(lengthOf(row.spans));
    if (!isOpen) return { ...row, took: length };
    return { ...row, took: row.kind === 'step' && endedAt !== undefined ? 'not known' : `> ${length}` };
  };
  const work = [...waitRows(report, until), ...stepRows(report, until)].toSorted(
    (one, other) => extentOf(one.spans).from - extentOf(other.spans).from,
  );
  if (work.length === 0) return undefined;
  const bands = bandRows(report, until);
  const from = Math.min(Date.parse(startedAt), ...(outage ? [Date.parse(outage.startedAt)] : []));
  const axis = { from, to: Math.max(to, from + 1) };
  const all = [...bands, ...work];
  const kept = bands.filter(({ kind }) => kind !== 'unprotected').flatMap(({ spans }) => spans);
  // Before the run began, nothing is known of an outage that it did not cause.
  const known = kept.map((span) => ({ ...span, from: Math.max(span.from, Date.parse(startedAt)) }));
  return {
    ...axis,
    rows: [...bands, ...fewer(work, kept, most - bands.length)].map(took),
    cuts: cutsOf(axis, [...all, { spans: [{ from: Date.parse(startedAt), to: axis.to }] }], known),
    bands: bands.flatMap(({ kind, spans }) =>
      kind === 'outage' || kind === 'paused' ? spans.map((span) => ({ ...span, kind })) : [],
    ),
  };
}

/** How long a gap is, as a part of all other time, before it leaves too little room for the rest. */
const LONG = { wait: 0.4, step: 2 } as const;
const MOST_CUTS = 5;

/** Long gaps in which nothing began or ended; those in which a step went on only if they leave hardly any room. */
function cutsOf(
  axis: Span,
  rows: readonly { readonly kind?: RowKind; readonly spans: readonly Span[] }[],
  never: readonly Span[],
): Span[] {
  const work = rows.flatMap(({ kind, spans }) => (kind === 'step' || kind === 'failed' ? spans : []));
  const isWork = (gap: Span) => work.some(({ from, to }) => from <= gap.from && gap.to <= to);
  const edges = [axis.from, axis.to, ...rows.flatMap(({ spans }) => spans.flatMap(({ from, to }) => [from, to]))]
    .filter((at) => at >= axis.from && at <= axis.to)
    .toSorted((one, other) => one - other);
  const gaps = edges
    .flatMap((to, index) => (index === 0 ? [] : [{ from: edges[index - 1] ?? to, to }]))
    .filter((gap) => never.every((span) => gap.to <= span.from || gap.from >= span.to))
    .toSorted((one, other) => other.to - other.from - (one.to - one.from));
  const cuts: Span[] = [];
  let left = axis.to - axis.from;
  for (const gap of gaps.slice(0, MOST_CUTS)) {
    const length = gap.to - gap.from;
    if (length <= LONG[isWork(gap) ? 'step' : 'wait'] * (left - length) || left - length < 1) continue;
    left -= length;
    cuts.push(gap);
  }
  return cuts.toSorted((one, other) => one.from - other.from);
}

/** Joins neighboring rows of steps that ended as they should, first those outside the outage, until there are few enough. */
function fewer(rows: readonly Timed[], outage: readonly Span[], most: number): readonly Timed[] {
  const isInside = ({ spans }: Timed) => {
    const { from, to } = extentOf(spans);
    return outage.some((span) => from < span.to && to > span.from);
  };
  let few = rows;
  for (const mayJoin of [(row: Timed) => !isInside(row), () => true]) {
    if (few.length <= most) return few;
    few = joined(few, mayJoin, few.length - most);
  }
  if (few.length <= most) return few;
  const cut = few.slice(most - 1);
  return [
    ...few.slice(0, most - 1),
    {
      kind: 'step',
      text: `${counted(cut.length, 'further line')}: see the table`,
      spans: cut.flatMap(({ spans }) => spans),
    },
  ];
}

/** Rows that say more than that a step was done stay. */
const isPlain = ({ kind, spans }: Timed) => kind === 'step' && spans.length === 1 && spans[0]?.open !== true;

function joined(rows: readonly Timed[], mayJoin: (row: Timed) => boolean, excess: number): readonly Timed[] {
  const result: Timed[] = [];
  let group: Timed[] = [];
  let toRemove = excess;
  const end = () => {
    const [first] = group;
    const last = group.at(-1);
    if (first && last && group.length > 2 && toRemove > 0) {
      const numbers = [first.number, last.number]
        .filter((each) => each !== undefined)
        .join('-')
        .replace('.-', '-');
      result.push({
        ...{
          kind: 'step',
          text: `${group.length} steps: ${first.text} ... ${last.text}`,
          spans: group.flatMap(({ spans }) => spans),
        },
        ...(numbers !== '' && { number: numbers }),
      });
      toRemove -= group.length - 1;
    } else result.push(...group);
    group = [];
  };
  for (const row of rows) {
    if (isPlain(row) && mayJoin(row)) group.push(row);
    else {
      end();
      result.push(row);
    }
  }
  end();
  return result;
}

/** Where a time stands on an axis of this length whose cuts have this length each. */
export function placeOn({ from, to, cuts }: TimeLine, length: number, cutLength: number): (at: number) => number {
  const cutMs = lengthOf(cuts);
  const scale = (length - cuts.length * cutLength) / Math.max(1, to - from - cutMs);
  return (at) => {
    let [before, shift] = [at - from, 0];
    for (const cut of cuts) {
      if (at <= cut.from) break;
      const inside = Math.min(at, cut.to) - cut.from;
      before -= inside;
      shift += (inside / (cut.to - cut.from)) * cutLength;
    }
    return Math.min(length, Math.max(0, before * scale + shift));
  };
}

/** Round distances between marks of an axis, milliseconds. */
const STEPS = [
  ...[50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_200_000],
  ...[1_800_000, 3_600_000, 7_200_000, 14_400_000, 28_800_000, 86_400_000, 259_200_000, 604_800_000],
];

/** Marks of the axis, in time since its beginning, at least `least` apart. None within a cut. */
export function ticksOf(
  line: TimeLine,
  place: (at: number) => number,
  length: number,
  least: number,
): readonly number[] {
  const { from, to, cuts } = line;
  const uncut = to - from - lengthOf(cuts);
  const step = STEPS.find((each) => (each / Math.max(1, uncut)) * length >= least) ?? Math.max(1, uncut);
  const ticks: number[] = [];
  let last = -Infinity;
  // Long times that are cut out hold no marks: go from piece to piece.
  const pieces = [from, ...cuts.map((cut) => cut.to)].map((begin, index) => ({ begin, end: cuts[index]?.from ?? to }));
  for (const { begin, end } of pieces) {
    for (let at = from + Math.ceil((begin - from) / step) * step; at <= end; at += step) {
      if (place(at) - last < least) continue;
      last = place(at);
      ticks.push(at);
    }
  }
  return ticks;
}
