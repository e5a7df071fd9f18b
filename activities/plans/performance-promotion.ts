import { directing } from '../../src/moves/clients';
import { finalReading, secondReading } from '../../src/moves/every-run';
import { followsAsPerformance } from '../../src/moves/following';
import type { Listed, Move, Named } from '../../src/moves/move';
import { demotion, promote, promoteByForce, verifyWrite, waitServes, writeMarker } from '../../src/moves/primary';
import type { Assessment, Follower } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { orElse } from '../../src/errors';
import { inPlaceOf, operationsOf } from '../approvals/planning';
import { check, notCheckable, refuses } from '../checks/check';
import {
  hasRole,
  healthyTree,
  mayBeOneSet,
  bothAnswer,
  mayHandOver,
  missingNodes,
  otherReadable,
  rolesOf,
  takesPart,
} from '../checks/replication';
import type { Quiescing } from '../checks/quiesce';
import { clientHooksOf, quiescing } from '../checks/quiesce';
import { goneChecks } from '../checks/signs';
import { isOlder, versionsInOrder } from '../checks/versions';
import { lookUpMarker, markerRights } from '../evidence/marker';
import { currentExecution } from '../execution';
import { describeFilter, findFilter, withheld } from '../filters/paths-filters';
import { snapshotWanted } from '../snapshots/snapshots';
import type { Observed, PlanInput } from './observed';
import { comparing, exposureText, observe, repointing } from './observed';

/** What was asked and read; the old primary, the new one, and the other secondaries of the performance set. */
type Promotion = Exclude<ReturnType<typeof findSides>, Check>;

/** A primary that is gone has no clients to quiesce. */
const NOBODY_HELD: Quiescing = { by: 'none', checks: [], warnings: [], steps: [], rights: {} };

/** A performance secondary becomes primary, planned or in place of a primary that is gone (facts 8.6). */
export async function assessPerformancePromotion(
  request: PlanInput<'performancePromotion'>,
): Promise<Assessment<PromotionRoute>> {
  const { input } = request;
  const observed = await observe('performancePromotion', request, [input.to, input.from]);
  const { deployment } = observed;
  const base = observed.base('promote', 'force');
  const promotion = findSides(input, observed);
  if ('verdict' in promotion) return { ...base, preconditions: [promotion] };
  const { from, to } = promotion;
  const planned = input.mode === 'planned';
  const judged = [
    ...(planned
      ? plannedChecks(promotion)
      : [
          ...goneChecks({ ...observed, from, to, overrideDrSecondary: input.overrideDrSecondary }),
          ...takesPart(to, { planned: false }),
        ]),
    ...newPrimaryChecks(promotion),
  ];
  // Without the required roles there is nothing to read filters and rights from.
  if (refuses(judged)) return { ...base, preconditions: judged };
  const quiesce = planned ? await quiescing(observed, input, from, to.cluster) : NOBODY_HELD;
  const filters = await filtersOf(promotion);
  const snapshotted = planned ? from.cluster : to.cluster;
  const snapshot = snapshotWanted(deployment, planned ? 'demotion' : 'forced-promotion', snapshotted);
  const route = routeOf(promotion, filters, quiesce, snapshot.wanted);
  const moves = movesOf(input, promotion, route, quiesce, snapshot.move);
  // A paths filter may keep the marker's engine away.
  const marker = planned && !route.candidate.filter ? await markerOn(observed, to.cluster) : { rights: {}, checks: [] };
  const more = { [to.cluster]: marker.rights, [snapshotted]: snapshot.rights };
  const rights = await observed.rights(operationsOf(moves), more, planned ? from.cluster : undefined);
  const preconditions = [...judged, ...quiesce.checks, ...filters.checks, ...marker.checks, ...rights];
  const { mode, others, candidate, old } = route;
  const members = [from.cluster, to.cluster, ...others.map(({ cluster }) => cluster)];
  const plan = observed.plan({
    clusters: observed.observations.filter(({ cluster }) => members.includes(cluster)),
    moves,
    warnings: [
      ...warningsOf(input, route, preconditions),
      ...quiesce.warnings,
      ...filters.warnings,
      ...(planned ? [from, to].flatMap(missingNodes) : []),
    ],
    choices: {
      ...{ mode, acceptLoss: input.acceptLoss, overrideDrSecondary: input.overrideDrSecondary, quiesce: quiesce.by },
      ...Object.fromEntries(
        [...others, ...(old ? [old] : []), candidate].map(({ cluster, filter }) => [
          `filter of ${cluster}`,
          describeFilter(filter),
        ]),
      ),
    },
  });
  return { ...base, preconditions, route, plan };
}

/** What the workflow follows. */
export type PromotionRoute = ReturnType<typeof routeOf>;

function routeOf(
  { input: { mode }, observed: { deployment }, from, to, silent }: Promotion,
  { others, candidate }: Pick<Awaited<ReturnType<typeof filtersOf>>, 'others' | 'candidate'>,
  { by: quiesce }: Quiescing,
  snapshot: boolean,
) {
  const planned = mode === 'planned';
  // An old primary newer than the new one is fine; an older one would replicate from newer to older.
  const older = planned && isOlder(from.version, to.version);
  return {
    ...{ mode, from: from.cluster, to: to.cluster },
    /** Every other secondary that answers. */
    others,
    /** The others that do not answer: people re-point them later. */
    silent: silent.map(({ cluster }) => cluster),
    /** The new primary with its filter of now, in case it stays a secondary. */
    candidate,
    /** The old primary, with the filter that it gets as a secondary; absent if it is gone or stays out. */
    old: planned && !older ? fromInventory(deployment, from) : undefined,
    /** Why it stays out. */
    staysOut: older ? `${from.cluster} stays out until it is upgraded to the version of ${to.cluster}.` : undefined,
    /** Whether to take one. Planned: of the old primary before its demotion; else of the new one before a forced promotion. */
    snapshot,
    /** How clients are quiesced, and released again. */
    quiesce,
    hooks: clientHooksOf(deployment),
  };
}

/** Which cluster is primary is read, never configured; a primary that is gone must be named if several clusters are silent. */
function findSides(input: InputOf<'performancePromotion'>, observed: Observed) {
  const { observations, of } = observed;
  const planned = input.mode === 'planned';
  const candidates = observations.filter((each) => (planned ? each.performance?.mode === 'primary' : !each.reachable));
  const [only, ...more] = candidates;
  const to = of(input.to);
  const from = input.from === undefined ? (more.length === 0 ? only : undefined) : of(input.from);
  if (!from || from === to) {
    return check('a performance primary and its secondary', undefined, false, {
      observed: rolesOf(observations, 'performance'),
      needed: `${input.to} is a performance secondary and ${input.from ?? 'one other cluster'} is ${planned ? 'the primary' : 'gone'}`,
      next:
        from === to && to.performance?.mode === 'primary'
          ? `${input.to} is already the performance primary: there is nothing to do.`
          : planned
            ? 'If no primary answers, start with {"mode": "unplanned"}.'
            : 'Name the cluster that was the performance primary with {"from": ...}.',
    });
  }
  const setId = to.performance?.setId;
  const rest = observations.filter((each) => each !== from && each !== to);
  return {
    ...{ input, observed, from, to },
    others: rest.filter((each) => each.performance?.mode === 'secondary' && each.performance.setId === setId),
    // A DR secondary and a standalone cluster are no performance secondaries; a silent cluster may be one.
    silent: rest.filter((each) => !each.reachable),
  };
}

/** Planned: both sides answer, and the new primary hears the old one and has everything. */
function plannedChecks({ observed, from, to }: Promotion): Check[] {
  const { deployment, observations } = observed;
  const inSet = observations.filter(({ performance }) => mayBeOneSet(performance?.setId, from.performance?.setId));
  const handOver = mayHandOver('performance', deployment.limits, { from, to, inSet });
  return bothAnswer(from, to) ? [...handOver, versionsInOrder(from, to)] : handOver;
}

/** What must hold for the cluster that becomes primary, and for those that then follow it. */
function newPrimaryChecks({ observed, to, others, silent }: Promotion): Check[] {
  const protects = observed.othersOf(to.cluster).filter((each) => each.dr?.mode === 'secondary');
  return [
    hasRole(to, 'performance', 'secondary', `Only a performance secondary can be promoted.`),
    ...healthyTree(to, 'performance'),
    check('DR secondary of the new primary', to.cluster, protects.length > 0, {
      observed: rolesOf(protects, 'dr') || 'none',
      needed: 'a DR secondary that protects the new primary',
      next: `Onboard a DR secondary of ${to.cluster} before the promotion or soon after.`,
      otherwise: 'warn',
    }),
    ...others.map((each) => versionsInOrder(to, each)),
    ...silent.map((each) =>
      otherReadable(each, `If ${each.cluster} is a performance secondary, re-point it later with secondaryRepointing.`),
    ),
  ];
}

/**
 * The filters of the others and of the new primary: planned, the old primary stores them; otherwise only the inventory
 * knows them. The new primary is included in case it stays a secondary.
 */
async function filtersOf(promotion: Promotion) {
  const { input, observed, from, to, others } = promotion;
  const { pathsFilters } = observed.deployment;
  const source = input.mode === 'planned' ? observed.access(from.cluster) : undefined;
  const find = (cluster: string) =>
    findFilter(source, observed.access(cluster), pathsFilters[cluster], currentExecution().signal);
  const [own, ...found] = await Promise.all([
    source && find(to.cluster),
    ...others.map(async ({ cluster }) => {
      const { known, judged, warnings } = await find(cluster);
      return { follower: { cluster, ...known }, judged, warnings };
    }),
  ]);
  const candidate = own ? { cluster: to.cluster, ...own.known } : fromInventory(observed.deployment, to);
  const isKnown = own !== undefined || pathsFilters[to.cluster] !== undefined;
  return {
    candidate,
    others: found.map(({ follower }) => follower),
    checks: [
      ...(own ? [own.judged] : []),
      hasAllData(promotion, candidate, isKnown),
      ...found.map(({ judged }) => judged),
    ],
    warnings: found.flatMap(({ warnings }) => warnings),
  };
}

/** In the outage the marker is read there and a write is verified, with the credential for that cluster. */
async function markerOn({ access, deployment, signal }: Observed, cluster: string) {
  return lookUpMarker(access(cluster), deployment, signal).then(
    (places) => ({ rights: markerRights(places), checks: [] }),
    orElse(signal, ({ code, observed = code, needed = 'an answer', next }) => ({
      rights: {},
      checks: [check('marker on the new primary', cluster, false, { observed, needed, next })],
    })),
  );
}

/** A new primary with a paths filter lacks data: what was kept away from it is lost for all clusters. */
function hasAllData({ input, to }: Promotion, { filter }: Follower, isKnown: boolean): Check {
  const name = 'the new primary has all data';
  const needed = 'a secondary without a paths filter';
  if (!isKnown)
    return notCheckable(name, to.cluster, {
      observed: 'the inventory names no filter for it, and no primary answers that stores one',
      needed,
      next: `The approvers attest that ${to.cluster} has no paths filter.`,
    });
  const accepted = input.mode === 'unplanned' || input.acceptLoss === 'bounded';
  return check(name, to.cluster, filter === undefined, {
    observed:
      filter === undefined ? 'no paths filter' : `${describeFilter(filter)}: it never received ${withheld(filter)}`,
    needed,
    next: accepted
      ? 'Data that was kept away from it is lost for every cluster that follows it. Choose another secondary if there is one.'
      : 'Choose another secondary; remove its filter with filterReconciliation first; or accept the loss with {"acceptLoss": "bounded"}.',
    otherwise: accepted ? 'warn' : 'fail',
  });
}

function fromInventory({ pathsFilters }: Deployment, { cluster, clusterId }: ClusterObservation): Follower {
  const wanted = pathsFilters[cluster];
  return { cluster, id: clusterId ?? '', ...(wanted === undefined || wanted === 'none' ? {} : { filter: wanted }) };
}

function warningsOf(
  { acceptLoss }: InputOf<'performancePromotion'>,
  { from, to, mode, others, old, staysOut, candidate }: PromotionRoute,
  preconditions: readonly Check[],
) {
  const planned = mode === 'planned';
  const exposed = [...others, ...(old ? [old] : [])];
  const usable = preconditions.find(
    ({ name, verdict }) => name.startsWith('no DR secondary') && verdict === 'warn',
  )?.observed;
  return [
    `Every token and every lease changes for clients that move to ${to}: clients of ${from} log in again on ${to}, and leases of ${from} stay on ${from}.`,
    `Local mounts and their data stay behind on ${from}.`,
    planned && `From the demotion of ${from} until ${to} serves, no cluster accepts writes of shared data.`,
    !planned && `Writes that ${from} accepted and did not replicate are lost; how many is unknown.`,
    !planned &&
      `When ${from} comes back it still believes that it is primary: until it is demoted, keep clients away from it, and keep it away from the cluster ports of the others.`,
    usable !== undefined && `A DR secondary of ${from} would keep all tokens, unlike this promotion: ${usable}.`,
    candidate.filter &&
      `Data that the filter of ${to} kept away from it is lost for every cluster that follows it: ${withheld(candidate.filter)}.`,
    ...exposed.map(({ cluster, filter }) => filter && exposureText(cluster, filter)),
    old && !old.filter && `${from} becomes a secondary without a paths filter: it keeps everything.`,
    staysOut,
    planned &&
      acceptLoss === 'bounded' &&
      `Writes that ${to} was not verified to have are lost when ${from} joins again.`,
  ];
}

/** What the run does. Planned, its approval also allows the way back: either side may end up as the primary. */
function movesOf(
  { acceptLoss }: InputOf<'performancePromotion'>,
  { observed: { of }, from: former, to: next }: Promotion,
  { from, to, mode, hooks, others, old, candidate }: PromotionRoute,
  quiesce: Quiescing,
  snapshot: Move | false,
): Listed<Move> {
  const planned = mode === 'planned';
  const promotion = (on: Named, other: Named, gate: 'promote' | 'force' = 'promote') => {
    const operation = { kind: 'performance', endpoint: 'secondary/promote', gate } as const;
    return { ...operation, on, detail: inPlaceOf(other.cluster) };
  };
  const follow = (primary: Named, { cluster, filter }: Follower) =>
    repointing('performance', 'promote', of(cluster), primary, describeFilter(filter));
  const sides = { gate: 'promote', on: former, with: next } as const;
  return [
    secondReading,
    planned && snapshot,
    ...quiesce.steps.map((each, index) => ({
      ...each,
      operations: [
        index === 0 &&
          quiesce.by === 'quota' &&
          ({ kind: 'performance', endpoint: 'quotas/rate-limit', ...sides } as const),
      ],
    })),
    planned && { step: writeMarker(from, to) },
    planned && {
      ...demotion('performance', from, to),
      operations: [{ kind: 'performance', endpoint: 'primary/demote', ...sides }],
    },
    planned && comparing(from, quiesce.by, acceptLoss),
    {
      step: promote(to),
      note: planned
        ? `if that is refused, promote ${from} back`
        : 'if that is refused, people may ask for a forced promotion',
      operations: [promotion(next, former), planned && promotion(former, next)],
    },
    !planned && snapshot && { ...snapshot, when: FORCED },
    !planned && {
      step: promoteByForce(to),
      when: `${FORCED}, which gate "force" must approve`,
      operations: [promotion(next, former, 'force')],
    },
    { step: waitServes(to) },
    ...directing(quiesce.by, hooks),
    { step: verifyWrite(to) },
    ...[...others, ...(old ? [old] : [])].flatMap((each) =>
      followsAsPerformance(each.cluster, to, each.filter && describeFilter(each.filter), 'token', {
        operations: [follow(next, each)],
      }),
    ),
    // The way back.
    planned && { operations: [candidate, ...others].map((each) => follow(former, each)) },
    finalReading,
  ];
}

const FORCED = 'people ask for a forced promotion';
