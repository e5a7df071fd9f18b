import type { FilterState } from '../contracts/activities';

/* Trees, filters and tokens of one cluster. */

export const checkTree = (cluster: string) => `Check the Merkle tree of ${cluster}`;
export const checkTreeBefore = (cluster: string) => `${checkTree(cluster)} before`;
export const checkTreeAfter = (cluster: string) => `${checkTree(cluster)} after`;
export const reindex = (cluster: string) => `Reindex ${cluster}`;

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

export const createBatchToken = (primary: string) => `Create a batch token on ${primary} and store it`;
export const deleteRecordedTokens = (cluster: string) => `Delete the tokens of ${cluster}`;
export const forgetOrphans = (cluster: string) => `Forget the orphans of ${cluster}`;
export const deleteProvidedToken = (cluster: string) => `Delete the provided token of ${cluster}`;
