import type { Storage } from './storage';

export interface PathsFilter {
  readonly mode: 'allow' | 'deny';
  readonly paths: readonly string[];
}

/** Mounts that no filter can leave out. */
const NOT_FILTERABLE = ['sys/', 'identity/', 'cubbyhole/', 'auth/token/'];

/** `mount/<path>` and `data/<path>/...` are the keys that belong to a mount. */
function belongsToMount(key: string): string | undefined {
  const match = /^(?:mount|data|namespace)\/(.*)$/.exec(key);
  return match?.[1];
}

function covers(paths: readonly string[], target: string): boolean {
  return paths.some((path) => target === path || target.startsWith(path));
}

/** Whether an entry of the storage passes a secondary's filter. */
export function passesFilter(filter: PathsFilter | undefined, key: string): boolean {
  const target = belongsToMount(key);
  if (filter === undefined || target === undefined || covers(NOT_FILTERABLE, target)) return true;
  const listed = covers(filter.paths, target);
  if (filter.mode === 'deny') return !listed;
  // In allow mode a namespace comes along when something inside it is listed.
  return listed || (key.startsWith('namespace/') && filter.paths.some((path) => path.startsWith(target)));
}

export interface DynamicFilter {
  readonly mounts: readonly string[];
  readonly namespaces: readonly string[];
}

/** What the listed namespaces and mounts expand to, with children that were made later. */
export function dynamicFilterOf(storage: Storage, filter: PathsFilter): DynamicFilter {
  const named = (prefix: string): string[] => storage.keys(prefix).map((key) => key.slice(prefix.length));
  return {
    mounts: named('mount/').filter((path) => covers(filter.paths, path)),
    namespaces: named('namespace/').filter((path) => covers(filter.paths, path)),
  };
}

/** The paths with one trailing slash and no leading one, each once. */
export function canonicalPaths(paths: readonly string[]): string[] {
  return [...new Set(paths.map((path) => `${path.replace(/^\/+|(?<!\/)\/+$/g, '')}/`))];
}
