import type { Storage } from './storage';
import type { PathsFilter } from './stored';

/** Mounts that no filter can exclude. */
const NOT_FILTERABLE = ['sys/', 'identity/', 'cubbyhole/', 'auth/token/'];

function covers(paths: readonly string[], target: string): boolean {
  return paths.some((path) => target.startsWith(path));
}

/** Whether a storage entry passes the filter of a secondary. */
export function passesFilter(filter: PathsFilter | undefined, key: string): boolean {
  // Only these keys belong to a mount.
  const target = /^(?:mount|data)\/(.*)$/.exec(key)?.[1];
  if (filter === undefined || target === undefined || covers(NOT_FILTERABLE, target)) return true;
  return covers(filter.paths, target) === (filter.mode === 'allow');
}

/** The mounts that match the paths of the filter, including those created later. */
export function dynamicFilterOf(storage: Storage, filter: PathsFilter | undefined): string[] | undefined {
  if (filter === undefined) return undefined;
  const mounts = storage.keys('mount/').map((key) => key.slice('mount/'.length));
  return mounts.filter((path) => covers(filter.paths, path));
}

/** The path without a leading slash and with exactly one trailing slash. */
export function canonicalPath(path: string): string {
  return `${path.replace(/^\/+|(?<!\/)\/+$/g, '')}/`;
}

export function canonicalPaths(paths: readonly string[]): string[] {
  return [...new Set(paths.map(canonicalPath))];
}
