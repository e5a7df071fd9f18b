import type { PathsFilterFacts, ChangeResult } from './results';

/** The paths filter of a performance secondary; `none` where it gets everything. */
export type FilterState = PathsFilterFacts | 'none';

/** What a primary must keep for a secondary right before that is pointed at it. */
export interface ExpectedFilter {
  readonly filter: FilterState;
  /** Who decided that the filter is not written. It is not looked for then. */
  readonly skippedBy?: string;
}

/** One filter that becomes another. A secondary has two where the primary knows it by another id than its cluster ID. */
export interface FilterChange {
  readonly secondary: string;
  /** The id under which the primary keeps the filter. */
  readonly id: string;
  readonly before: FilterState;
  readonly wanted: FilterState;
}

/** The filters that the primary has for one secondary. */
export interface SecondaryFilters {
  readonly secondary: string;
  /** The id that counts: the one that the primary knows the secondary by. */
  readonly id: string;
  /** Under this id and, where it is another one, under the cluster ID. */
  readonly filters: readonly { readonly id: string; readonly filter: FilterState }[];
  /** Whether it follows this primary now; else its filter is kept for when it does. */
  readonly attached: boolean;
}

/** What `filterReconciliation` follows. */
export interface FilterRoute {
  readonly primary: string;
  readonly secondaries: readonly (SecondaryFilters & {
    /** Absent where nobody said what it should be: it is left as it is. */
    readonly wanted?: FilterState;
  })[];
  readonly changes: readonly FilterChange[];
}

/** What a change of a filter found out. */
export interface FilterChangeResult extends ChangeResult {
  /** What was there; absent where nothing had to be changed. */
  readonly before?: FilterState;
}
