import type { PathsFilterFacts, ChangeResult } from './results';

/** The paths filter of a performance secondary; `none` where it gets everything. */
export type FilterState = PathsFilterFacts | 'none';

/** What a primary must keep for a secondary right before that is pointed at it. */
export interface ExpectedFilter {
  readonly filter: FilterState;
  /** Who decided that the filter is not written. It is not looked for then. */
  readonly skippedBy?: string;
}

/** What a change of a filter found out. */
export interface FilterChangeResult extends ChangeResult {
  /** What was there; absent where nothing had to be changed. */
  readonly before?: FilterState;
}
