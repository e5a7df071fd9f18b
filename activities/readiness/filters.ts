import type { PathsFilter } from '../../src/vault';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { WantedFilter } from '../../src/inventory';
import { describeFilter } from '../filters/paths-filters';
import type { Look } from './look';
import { inspect } from './look';
import type { Question } from './point';
import { holds, judged, notCheckable } from './point';
import type { ClusterView, World } from './world';

/** The paths filter of each performance secondary: what the inventory wants beside what the primary has. */
export async function pathsFilters(look: Look, world: World): Promise<ReadinessPoint[]> {
  const { clusters, deployment } = world;
  const primary = clusters.find(({ observation }) => observation.performance?.mode === 'primary');
  const secondaries = clusters.filter(({ observation }) => observation.performance?.mode === 'secondary');
  if (primary === undefined) return [];
  const source = look.clusters.of(deployment.name, primary.name);
  const points = await Promise.all(
    secondaries.map(async (view) => {
      const wanted = deployment.pathsFilters[view.name];
      const question = filterQuestion(view);
      if (wanted === undefined)
        return notCheckable(question, `the inventory does not say what ${view.name} may see (pathsFilters)`);
      const { clusterId, performance } = view.observation;
      const ids = [...new Set([performance?.secondaryId, clusterId].flatMap((id) => id ?? []))];
      return inspect(
        look,
        [question],
        async (signal) => {
          const token = await source.credential();
          return Promise.all(
            ids.map((id) => source.client.performance.primary.pathsFilter.read(id, { token, signal })),
          );
        },
        (found) => judgeFilters(view, wanted, found),
      );
    }),
  );
  return points.flat();
}

function filterQuestion({ name }: ClusterView): Question {
  return {
    id: 'paths-filter',
    cluster: name,
    source: 'api',
    needed: 'the paths filter that the inventory wants',
    next: 'Run filterReconciliation.',
  };
}

/** A filter may stand under the id of the token and under the cluster ID; every one that is there must fit. Pure. */
export function judgeFilters(
  view: ClusterView,
  wanted: WantedFilter,
  found: readonly (PathsFilter | undefined)[],
): ReadinessPoint[] {
  const seen = found.filter((each) => each !== undefined).map(describeFilter);
  const needed = describeFilter(wanted);
  const observed = seen.length === 0 ? [describeFilter('none')] : [...new Set(seen)];
  const question = { ...filterQuestion(view), needed };
  if (observed.length > 1) return judged(question, 'warn', observed.join(' and '), { reason: 'its two ids disagree' });
  return holds(question, observed[0] === needed, 'warn', observed.join(' and '), {
    reason: 'a change of roles takes the filter along as it is',
  });
}
