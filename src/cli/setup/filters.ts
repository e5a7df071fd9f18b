import { describeFilter, standing, stateOf } from '../../../activities/filters/paths-filters';
import { isRunbookError } from '../../errors';
import type { FilterState } from '../../contracts/activities';
import type { Secret } from '../../secret';
import type { ServiceClient } from '../../vault';
import type { FoundCluster } from './clusters';

/** The paths filter of a performance secondary that is in force. */
export interface FoundFilter {
  readonly name: string;
  /** Absent if it could not be read. */
  readonly filter?: FilterState;
  /** What a person is told. */
  readonly line: string;
}

const unread = (name: string, why: string): FoundFilter => ({
  name,
  line: `Warning: the paths filter of ${name} was not read (${why}). Write it, or "none", under pathsFilters.${name} in the inventory.`,
});

/**
 * The paths filters that a performance primary keeps for its secondaries: for each, under its id there and under its
 * cluster ID.
 *
 * @param at - the primary with a token for it; absent if there is no token
 */
export function filtersInForce(
  clusters: readonly FoundCluster[],
  at?: { readonly primary: FoundCluster; readonly client: ServiceClient; readonly token: Secret<'service-token'> },
): Promise<readonly FoundFilter[]> {
  const found = clusters.flatMap(({ name, filterIds }) => (filterIds === undefined ? [] : [{ name, filterIds }]));
  return Promise.all(
    found.map(async ({ name, filterIds }): Promise<FoundFilter> => {
      if (at === undefined) return unread(name, 'that needs a token of the performance primary');
      const { primary, client, token } = at;
      if (!primary.role.includes('performance primary')) return unread(name, `${primary.name} is not its primary`);
      const read = async (id: string) => ({
        id,
        filter: stateOf(await client.performance.primary.pathsFilter.read(id, { token })),
      });
      try {
        const { filter = 'none', differing } = standing(await Promise.all(filterIds.map(read)));
        if (differing !== undefined) return unread(name, `it differs: ${differing}`);
        return { name, filter, line: `${name}: ${describeFilter(filter)} (written under pathsFilters)` };
      } catch (error) {
        if (!isRunbookError(error)) throw error;
        return unread(name, error.code);
      }
    }),
  );
}
