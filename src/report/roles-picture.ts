import type { Report } from '../contracts/report';
import { clockText, timeText } from './headlines';
import type { ClusterRoles, Link, Role, Roles } from './roles';
import { roleName, rolesText } from './roles';
import { drawing, label, tag, widthOf, fitted } from './svg';

/*
 * One cluster below the other, each in its own box. DR replication is drawn on the left side, performance replication on the
 * right: so lines never cross a text, whatever the deployment looks like.
 */

const WIDTH = 340;
/** With a line for a note, if any box has one. */
const HEIGHTS = { plain: 58, noted: 75 } as const;
const GAP = 14;
const LANE = 10;
/** Between a box and the first line beside it. */
const TO_LANE = 14;
const PADDING = 9;
const [NAME_SIZE, PILL_SIZE, NOTE_SIZE] = [14, 10.5, 10.5];

const TITLES: Readonly<Record<Roles['when'], string>> = {
  before: 'Before',
  after: 'After',
  unchanged: 'Unchanged by the run',
};

/** Lines of one primary share a lane; two primaries share one if their lines do not meet. */
function lanesOf(links: readonly Link[], rowOf: (cluster: string) => number): ReadonlyMap<string, number> {
  const lanes = new Map<string, number>();
  const taken: { readonly from: number; readonly to: number }[][] = [];
  for (const primary of new Set(links.map((each) => each.primary))) {
    const rows = [primary, ...links.filter((each) => each.primary === primary).map((each) => each.secondary)].map(
      rowOf,
    );
    const span = { from: Math.min(...rows), to: Math.max(...rows) };
    const free = taken.findIndex((lane) => lane.every((each) => each.to < span.from || each.from > span.to));
    const lane = free < 0 ? taken.length : free;
    taken[lane] = [...(taken[lane] ?? []), span];
    lanes.set(primary, lane);
  }
  return lanes;
}

const laneCount = (lanes: ReadonlyMap<string, number>) => Math.max(0, ...[...lanes.values()].map((lane) => lane + 1));
const gutter = (count: number) => (count === 0 ? 1 : TO_LANE + count * LANE);

/** The lines of one kind. `side`: -1 draws them left of the boxes, which end at `edge`; 1 right of them. */
function linesOf(
  links: readonly Link[],
  lanes: ReadonlyMap<string, number>,
  edge: number,
  side: -1 | 1,
  middleOf: (cluster: string) => number,
): string {
  return links
    .map(({ kind, primary, secondary, streams }) => {
      const x = edge + side * (TO_LANE + (lanes.get(primary) ?? 0) * LANE);
      const [from, to] = [middleOf(primary), middleOf(secondary)];
      const down = to > from ? 1 : -1;
      const [r, head] = [6, 7];
      const path = `M${edge} ${from}H${x - side * r}q${side * r} 0 ${side * r} ${down * r}V${to - down * r}q0 ${down * r} ${-side * r} ${down * r}H${edge + side * head}`;
      const className = `link ${kind}${streams ? '' : ' broken'}`;
      const tip = `${edge + side},${to} ${edge + side * (head + 1)},${to - 4.5} ${edge + side * (head + 1)},${to + 4.5}`;
      return (
        tag('path', { d: path, class: className, fill: 'none' }) +
        tag('polygon', { points: tip, class: `head${streams ? '' : ' broken'}` }) +
        tag('circle', { cx: edge, cy: from, r: 3, class: 'root' })
      );
    })
    .join('');
}

/** A role as a small sign; its width is that of its text. */
function pill(text: string, role: Role, x: number, y: number, width: number, anchor: 'start' | 'end'): string {
  const shown = fitted(text, width - 12, PILL_SIZE, role === 'primary');
  const wide = widthOf(shown, PILL_SIZE, role === 'primary') + 12;
  const left = anchor === 'start' ? x : x - wide;
  return (
    tag('rect', { x: left, y, width: wide, height: 17, rx: 8.5, class: `pill ${role.replace(' ', '-')}` }) +
    label(shown, {
      ...{ x: left + wide / 2, y: y + 12.2, width: wide, size: PILL_SIZE, anchor: 'middle' },
      ...{ bold: role === 'primary', className: `on ${role.replace(' ', '-')}` },
    })
  );
}

/** DR on the left, performance on the right; the right one gets all the room that the left one leaves. */
function pillsOf({ dr, performance }: ClusterRoles, x: number, y: number, width: number): string[] {
  if (dr === 'not read' && performance === 'not read') return [pill('roles not read', dr, x, y, width, 'start')];
  if (dr === 'none' && performance === 'none')
    return [label('no replication', { x, y: y + 12.2, width, size: NOTE_SIZE, className: 'soft' })];
  const left = roleName('dr', dr);
  const leftWidth = dr === 'none' ? 0 : Math.min(widthOf(left, PILL_SIZE, true) + 12, width / 2);
  return [
    ...(dr === 'none' ? [] : [pill(left, dr, x, y, leftWidth, 'start')]),
    ...(performance === 'none'
      ? []
      : [pill(roleName('performance', performance), performance, x + width, y, width - leftWidth - 6, 'end')]),
  ];
}

function boxOf(roles: ClusterRoles, x: number, y: number, width: number, height: number): string {
  const { cluster, dr, performance, notes, isChanged } = roles;
  const inner = width - 2 * PADDING;
  const isUnread = dr === 'not read' && performance === 'not read';
  const line = { x: x + PADDING, width: inner };
  return [
    tag('rect', { x, y, width, height, rx: 7, class: `box${isChanged ? ' changed' : isUnread ? ' unread' : ''}` }),
    label(cluster, { ...line, y: y + 21, size: NAME_SIZE, bold: true }),
    ...pillsOf(roles, x + PADDING, y + 32, inner),
    ...(notes.length === 0
      ? []
      : [label(notes.join(', '), { ...line, y: y + 64, size: NOTE_SIZE, className: 'soft' })]),
  ].join('');
}

/** Draws the roles of all clusters at one time. `noted`: with room for notes, so that two pictures are of one size. */
export function rolesPicture({ when, readAt, clusters, links }: Roles, noted: boolean): string {
  const height = HEIGHTS[noted ? 'noted' : 'plain'];
  const rowOf = (cluster: string) => clusters.findIndex((each) => each.cluster === cluster);
  const middleOf = (cluster: string) => rowOf(cluster) * (height + GAP) + height / 2 + 1;
  const [dr, performance] = [links.filter(({ kind }) => kind === 'dr'), links.filter(({ kind }) => kind !== 'dr')];
  const [left, right] = [lanesOf(dr, rowOf), lanesOf(performance, rowOf)];
  const x = gutter(laneCount(left));
  const width = WIDTH - x - gutter(laneCount(right));
  const text = clusters.map((each) => `${each.cluster}: ${rolesText(each, links)}.`).join(' ');
  return drawing(
    {
      ...{ id: `roles-${when}`, className: 'roles', width: WIDTH, height: clusters.length * (height + GAP) - GAP + 2 },
      title: `${TITLES[when]}, read at ${timeText(new Date(readAt).toISOString())} UTC`,
      description: text,
    },
    linesOf(dr, left, x, -1, middleOf),
    linesOf(performance, right, x + width, 1, middleOf),
    ...clusters.map((each, row) => boxOf(each, x, row * (height + GAP) + 1, width, height)),
  );
}

/** Above the picture. */
export function rolesTitle({ when, readAt }: Roles, report: Pick<Report, 'startedAt'>): string {
  return `${TITLES[when]}, read at ${clockText(new Date(readAt).toISOString(), report)} UTC`;
}
