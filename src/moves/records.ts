import type { FilterState } from '../contracts/activities';
import type { Change } from './move';

/* Trees, filters and tokens of one cluster. */

export const checkTree = (cluster: string) => `Check the Merkle tree of ${cluster}`;
export const checkTreeBefore = (cluster: string) => `${checkTree(cluster)} before`;
export const checkTreeAfter = (cluster: string) => `${checkTree(cluster)} after`;

/** A reindex cannot be cancelled. */
export function reindexing(cluster: string): Change {
  const notEnded = (begun: string) =>
    `A reindex of ${cluster} ${begun} and has not been confirmed to have finished. It cannot be cancelled. Watch reindex_in_progress in its DR status, do not kill a node of it meanwhile, and check it with merkleCheck afterwards.`;
  return {
    step: `Reindex ${cluster}`,
    note: 'wait until it ends',
    ifUnknown: notEnded('may have been started'),
    done: notEnded('was started'),
  };
}

/** A change of one paths filter, under one id of its secondary. */
export interface FilterChange {
  readonly secondary: string;
  /** Its secondary is no cluster of the inventory: `secondary` is its id. */
  readonly outside?: true | undefined;
  readonly id: string;
  readonly before: FilterState;
  readonly wanted: FilterState;
}

export function changeFilter({ secondary, outside, id, before, wanted }: FilterChange): string {
  const verb = wanted === 'none' ? 'Delete' : before === 'none' ? 'Create' : 'Replace';
  return outside ? `${verb} the paths filter of id ${id}` : `${verb} the paths filter of ${secondary} (id ${id})`;
}

/** What is left to do if the outcome of a change of a filter is unknown. */
export const ifFilterUnknown = (id: string, primary: string) =>
  `The paths filter of ${id} on ${primary} may have been changed. Read it before you connect a secondary under that id.`;

export const createBatchToken = (primary: string) => `Create a batch token on ${primary} and store it`;
export const deleteRecordedTokens = (cluster: string) => `Delete the tokens of ${cluster}`;
export const forgetOrphans = (cluster: string) => `Forget the orphans of ${cluster}`;
export const deleteProvidedToken = (cluster: string) => `Delete the provided token of ${cluster}`;
