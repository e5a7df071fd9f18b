import type {
  Authority,
  BetweenClusters,
  ChangeResult,
  FilterState,
  OnCluster,
  PathsFilterFacts,
} from '../../src/contracts/activities';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { DynamicFilter } from '../../src/vault';
import { verifyBeginning, verifyOneOf, verifyOperation } from '../approvals/authority';
import { notApproved } from '../approvals/gate';
import { betweenClusters, currentExecution, onCluster } from '../execution';
import { readKind } from '../observe';
import { pairOf, verifyFollowing } from './repoint-authority';
import { readActConfirm, resultOf, seenInTime } from '../read-act-confirm';
import { CHANGE_TIMEOUT_MS } from '../timing';
import { ANSWER_BUDGET_MS, awaitIdentity, readClusterId } from '../tokens/operation-token';
import {
  describeFilter,
  filterOfId,
  filterUnder,
  filtersUnder,
  isWider,
  standing,
  stateOf,
} from '../filters/paths-filters';

/* Changing the paths filters on a performance primary (interface 4.2: `paths-filter`; facts 6). */

const FILTER_BUDGET_MS = 30_000;
const COMPARE_BUDGET_MS = 20_000;

/** The filter of a secondary, on its performance primary, under one of its ids. */
interface FilterChange extends OnCluster {
  readonly id: string;
  /** The cluster whose filter it is; absent if the id belongs to no cluster of the inventory. */
  readonly secondary?: string | undefined;
  /** A plan that allows it. */
  readonly authority: Authority;
}

/** Writes a paths filter as an approved plan allows. `none` deletes it: the secondary then gets everything. */
export async function writePathsFilter(input: FilterChange & { readonly filter: FilterState }): Promise<ChangeResult> {
  const { cluster, id, filter } = input;
  const { execution, signal, access } = onCluster(input);
  const token = await access.credential();
  const filters = access.client.performance.primary.pathsFilter;
  const wanted = describeFilter(filter);
  let before: FilterState = 'none';
  const changed = await readActConfirm(execution, {
    read: () => filters.read(id, { token, signal }),
    until: (found) => describeFilter(found) === wanted,
    budgetMs: FILTER_BUDGET_MS,
    describe: describeFilter,
    needed: `under ${id}: ${wanted}`,
    cluster,
    allow: (found) => {
      before = stateOf(found);
    },
    prepare: async () => {
      await demandApproval(input, before, filter);
      const options = { token, signal, timeoutMs: CHANGE_TIMEOUT_MS };
      return () => (filter === 'none' ? filters.delete(id, options) : filters.write({ id, ...filter }, options));
    },
  }).catch((error: unknown) => {
    if (!isRunbookError(error, 'BAD_REQUEST')) throw error;
    const next = `Each path must be a mount or a namespace of ${cluster}. Create what is missing and retry; or abort, and start again with other paths.`;
    throw error.with({ next });
  });
  return resultOf(changed, changed.calls > 0 ? `${wanted}; before: ${describeFilter(before)}` : wanted);
}

const WRITE = { kind: 'performance', endpoint: 'primary/paths-filter' } as const;

/**
 * Called right before a filter is written or deleted, with the filter that was just read. Exactly this filter must be
 * approved for exactly this secondary. If the secondary sees no more than before, a plan that lets it join or follow
 * this primary with this filter is also enough: the filter is written for that purpose.
 *
 * @throws RunbookError NOT_APPROVED
 */
async function demandApproval(
  { deployment, cluster, id, secondary, authority }: FilterChange,
  before: FilterState,
  filter: FilterState,
): Promise<void> {
  const { clusters, signal } = currentExecution();
  const approved = { deployment, authority };
  if (secondary === undefined) {
    const on = { cluster, clusterId: await readClusterId(clusters.of(deployment, cluster), signal) };
    const detail = filterOfId(id, filter);
    const own = { ...WRITE, gate: 'filter', on, detail } as const;
    const onboarding = { ...WRITE, gate: 'wipe', on, detail } as const;
    await verifyOneOf([
      () => verifyBeginning(approved, own),
      // Before its token is issued, an existing filter may only be narrowed.
      ...(isWider(before, filter) ? [] : [() => verifyBeginning(approved, onboarding)]),
    ]);
    return;
  }
  const target = clusters.of(deployment, secondary);
  const [pair, status] = await Promise.all([
    pairOf(target, clusters.of(deployment, cluster), signal),
    readKind(target, 'performance', signal),
  ]);
  const { on, with: primary } = pair;
  if (id !== on.clusterId && id !== status.secondaryId)
    throw notApproved(
      `${id} is not an id of ${secondary}, whose cluster ID is ${on.clusterId}`,
      'an approved plan that allows this filter for this secondary',
      'Start filterReconciliation with the wanted filter; its gate asks for what is missing.',
    );
  const detail = describeFilter(filter);
  const writing = { ...WRITE, gate: 'filter', on: primary, with: on, detail } as const;
  const enabling = { kind: 'performance', endpoint: 'secondary/enable', gate: 'wipe', ...pair, detail } as const;
  const following = { ...pair, filter, form: 'token', begun: true } as const;
  await verifyOneOf([
    () => verifyBeginning(approved, writing),
    ...(isWider(before, filter)
      ? []
      : [() => verifyFollowing(deployment, authority, following), () => verifyOperation(approved, enabling)]),
  ]);
}

/** The paths filter that the primary keeps for a secondary, under its present id or its cluster ID. */
export async function readPathsFilter(input: BetweenClusters) {
  const { primary, secondary } = input;
  const { signal, limits, source, target } = betweenClusters(input);
  const { clusterId: id } = await awaitIdentity(target, Math.min(ANSWER_BUDGET_MS, limits.streamingMs));
  const { secondaryId } = await readKind(target, 'performance', signal);
  const { filter, differing } = standing(await filtersUnder(source, [secondaryId ?? id, id], signal));
  if (differing === undefined) return { id, filter, observed: describeFilter(filter) };
  throw new RunbookError('STATE_DIVERGED', `${primary} has different paths filters for ${secondary}.`, {
    cluster: primary,
    observed: differing,
    needed: 'one filter',
    next: `Write the right filter under each of these ids on ${primary}, then retry.`,
  });
}

/** Compares the dynamic filter of a secondary as both clusters report it, and with the expected filter. */
export async function compareDynamicFilters(
  input: BetweenClusters & { readonly id: string; readonly expected?: PathsFilterFacts },
): Promise<{ readonly equal: boolean; readonly observed: string }> {
  const { primary, secondary, id, expected } = input;
  const { execution, signal, limits, source, target } = betweenClusters(input);
  const wanted = describeFilter(expected);
  const read = async () => {
    const onSource = { token: await source.credential(), signal };
    const [filter, onPrimary, onSecondary] = await Promise.all([
      filterUnder(source, id, signal),
      source.client.performance.primary.dynamicFilter(id, onSource),
      target.client.performance.secondary.dynamicFilter(id, { token: await target.credential(), signal }),
    ]);
    return { filter: describeFilter(filter), onPrimary, onSecondary };
  };
  type Seen = Awaited<ReturnType<typeof read>>;
  const describe = ({ filter, onPrimary, onSecondary }: Seen) =>
    `paths filter ${filter}, expected ${wanted}; ${primary}: ${dynamicText(onPrimary)}; ${secondary}: ${dynamicText(onSecondary)}`;
  const polling = {
    read,
    until: ({ filter, onPrimary, onSecondary }: Seen) =>
      dynamicText(onPrimary) === dynamicText(onSecondary) &&
      // Both may agree and still replicate everything, or withhold what nobody wants withheld.
      filter === wanted &&
      (expected === undefined || comesFrom(onPrimary, expected)),
    budgetMs: Math.min(COMPARE_BUDGET_MS, limits.streamingMs),
    describe,
    needed: 'the expected filter, and the same dynamic filter on both clusters',
  };
  const seen = await seenInTime(execution, polling);
  if ('late' in seen) return { equal: false, observed: seen.late };
  return { equal: true, observed: `the same on both clusters: ${dynamicText(seen.onPrimary)}` };
}

/** Whether the expansion exists, and everything in it is below a path of the filter. */
function comesFrom(dynamic: DynamicFilter | undefined, { paths }: PathsFilterFacts): boolean {
  const below = (each: string) => paths.some((path) => each.startsWith(path.endsWith('/') ? path : `${path}/`));
  return dynamic !== undefined && [...dynamic.mounts, ...dynamic.namespaces].every(below);
}

function dynamicText(filter: DynamicFilter | undefined): string {
  if (!filter) return 'none';
  return `mounts ${[...filter.mounts].sort().join(', ') || 'none'}, namespaces ${[...filter.namespaces].sort().join(', ') || 'none'}`;
}
