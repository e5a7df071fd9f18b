import type { Fields } from './fields';

export type FilterMode = 'allow' | 'deny';

/** Paths filter of a performance secondary (interface sections 2 and 4.2). */
export interface PathsFilter {
  readonly mode: FilterMode;
  readonly paths: readonly string[];
}

/** What the filters of a secondary come to, as one side sees it. */
export interface DynamicFilter {
  readonly mounts: readonly string[];
  readonly namespaces: readonly string[];
}

export function readPathsFilter(fields: Fields): PathsFilter {
  const mode = fields.neededText('mode');
  if (mode !== 'allow' && mode !== 'deny') return fields.missing('mode');
  return { mode, paths: fields.textsOrNone('paths') ?? [] };
}

export function readDynamicFilter(fields: Fields): DynamicFilter {
  return {
    mounts: fields.textsOrNone('dynamic_filtered_mounts') ?? [],
    namespaces: fields.textsOrNone('dynamic_filtered_namespaces') ?? [],
  };
}
