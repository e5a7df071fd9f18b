/** A span of time, epoch milliseconds. */
export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** The times that lie in at least one of the intervals: in order, apart, none empty. */
export function union(intervals: readonly Interval[]): readonly Interval[] {
  const result: Interval[] = [];
  for (const interval of intervals
    .filter(({ from, to }) => to > from)
    .toSorted((one, other) => one.from - other.from)) {
    const last = result.at(-1);
    if (last && interval.from <= last.to) result.splice(-1, 1, { from: last.from, to: Math.max(last.to, interval.to) });
    else result.push(interval);
  }
  return result;
}

/** The parts of the intervals that lie within the bounds. */
export function clipped(intervals: readonly Interval[], bounds: Interval): readonly Interval[] {
  return intervals
    .map(({ from, to }) => ({ from: Math.max(from, bounds.from), to: Math.min(to, bounds.to) }))
    .filter(({ from, to }) => to > from);
}

/** The times of `intervals` that lie in none of `removed`. Both must be unions. */
export function difference(intervals: readonly Interval[], removed: readonly Interval[]): readonly Interval[] {
  return intervals.flatMap((interval) => {
    const parts: Interval[] = [];
    let { from } = interval;
    for (const gap of clipped(removed, interval)) {
      if (gap.from > from) parts.push({ from, to: gap.from });
      from = gap.to;
    }
    return from < interval.to ? [...parts, { from, to: interval.to }] : parts;
  });
}

/** Milliseconds in all intervals of a union. */
export function lengthOf(intervals: readonly Interval[]): number {
  return intervals.reduce((sum, { from, to }) => sum + to - from, 0);
}
