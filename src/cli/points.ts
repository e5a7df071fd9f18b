import type { ReadinessPoint } from '../contracts/readiness';
import { pointName, redFirst } from '../contracts/readiness-words';
import { inLines, terminalText, unmarked } from './text';

/** One thing that was looked at: a precondition of a plan, a point of readiness, a finding of `doctor`. */
export type Point = Pick<ReadinessPoint, 'id' | 'cluster' | 'verdict' | 'observed'> &
  Partial<Pick<ReadinessPoint, 'about' | 'needed' | 'reason' | 'next'>>;

const INDENT = ' '.repeat(10);

/** What stands against it first, each value in a line of its own; what holds takes one line. */
export function pointLines(points: readonly Point[]): string[] {
  return redFirst(inLines(points)).flatMap((point) => {
    const { verdict, about = 'both', observed, needed, reason, next } = point;
    const mark = (verdict === 'not-checkable' ? '?' : verdict).padEnd(4);
    const title = `  ${mark}  ${pointName(point)}${about === 'both' ? '' : `, for a ${about}`}`;
    if (verdict === 'ok') return [`${title}: ${unmarked(observed)}`];
    const why = reason === undefined ? '' : ` (${reason})`;
    return [
      title,
      `${INDENT}observed: ${unmarked(`${observed}${why}`)}`,
      ...(needed === undefined ? [] : [`${INDENT}needed:   ${unmarked(needed)}`]),
      ...(next === undefined ? [] : terminalText(`next: ${next}`, INDENT)),
    ];
  });
}
