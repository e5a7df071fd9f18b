import { finalReading, secondReading } from '../../src/moves/every-run';
import { compareRoots, followsAsDr, followsAsPerformance } from '../../src/moves/following';
import type { Listed, Move, Named } from '../../src/moves/move';
import { demote, unfence, verifyDemoted, verifyStillDemoted } from '../../src/moves/primary';
import { asking, disposing } from '../../src/moves/tokens';
import type { Assessment, KnownFilter } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { InputOf, ReplicationKind, TokenSource } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { operationsOf } from '../approvals/planning';
import { asWarning, check, notCheckable } from '../checks/check';
import {
  connectedTo,
  asPinned,
  everyNodeAnswers,
  everyNodeUnsealed,
  noDrSecondary,
  oneActiveNode,
  rolesOf,
  roleText,
  sameSet,
  servesAsPrimary,
} from '../checks/replication';
import { noneOlder, supportedVersion } from '../checks/versions';
import { UPDATE_PRIMARY } from '../checks/rights';
import { currentExecution } from '../execution';
import { describeFilter, findFilter } from '../filters/paths-filters';
import { isAlive, kindName } from '../observe';
import { lastPrimaryChange } from '../roles/primary-changes';
import type { PrimaryChange } from '../roles/primary-changes';
import { snapshotWanted } from '../snapshots/snapshots';
import { exposureText, observe, repointing } from './observed';
import type { PlanInput } from './observed';

/** What a rejoin follows. */
export interface RejoinRoute {
  readonly kind: ReplicationKind;
  /** The former primary. */
  readonly cluster: string;
  /** The primary that serves. */
  readonly primary: string;
  /** The other clusters of its set, which may follow no primary now. */
  readonly others: readonly string[];
  /** The role that the former primary reports: `secondary` if it was already demoted. */
  readonly former: 'primary' | 'secondary';
  /** DR: where the operation token comes from. */
  readonly tokenSource?: TokenSource;
  /** Performance: the paths filter that it gets. */
  readonly filter?: KnownFilter;
  /** Whether to take one of the former primary before its demotion. */
  readonly snapshot: boolean;
  readonly hooks: { readonly unfence: boolean };
  /** What is lost when it joins; the amount is never known. */
  readonly lost: string;
  readonly findings: readonly Finding[];
}

type RejoinInput = InputOf<'drRejoin'> | InputOf<'performanceRejoin'>;
type Rejoining = Assessment<RejoinRoute>;

/** The gate that approves the demotion, and attests the fence. */
const GATE = { dr: 'plan', performance: 'promote' } as const;

/** A primary that was replaced is back: it is demoted before it is unfenced, and joins the one that serves. */
export function assessDrRejoin(request: PlanInput<'drRejoin'>): Promise<Rejoining> {
  return assessRejoin('dr', request);
}

/** The same for performance replication: its paths filter is written before it joins. */
export function assessPerformanceRejoin(request: PlanInput<'performanceRejoin'>): Promise<Rejoining> {
  return assessRejoin('performance', request);
}

async function assessRejoin(kind: ReplicationKind, request: PlanInput<'drRejoin' | 'performanceRejoin'>) {
  const { input } = request;
  const { cluster } = input;
  const observed = await observe(`${kind}Rejoin`, request, [cluster]);
  const { deployment, signal } = observed;
  const base = observed.base(GATE[kind], 'unfence');
  const others =
    kind === 'dr' ? observed.othersOf(cluster) : observed.observations.filter((each) => each.cluster !== cluster);
  const primary = servingPrimary(kind, input, others);
  if ('verdict' in primary) return { ...base, preconditions: [primary] };
  const former = observed.of(cluster);
  const judged = rejoinChecks(kind, deployment, former, primary);
  const mode = former[kind]?.mode;
  if (!isMember(mode)) return { ...base, preconditions: judged };
  const demotes = mode === 'primary';
  const [source, target] = [observed.access(primary.cluster), observed.access(cluster)];
  const [tokens, filter, changes] = await Promise.all([
    kind === 'dr' ? observed.tokens(cluster, [UPDATE_PRIMARY]) : undefined,
    kind === 'dr' ? undefined : findFilter(source, target, deployment.pathsFilters[cluster], signal),
    lastPrimaryChange(currentExecution(), deployment.name),
  ]);
  const snapshot = snapshotWanted(deployment, 'demotion', cluster);
  const { lastWal } = former[kind] ?? {};
  const wal = lastWal === undefined ? '' : `; it is at WAL ${lastWal}`;
  const lost = `how much ${cluster} wrote after the split is unknown${wal}`;
  const route: RejoinRoute = {
    kind,
    cluster,
    primary: primary.cluster,
    others: others.flatMap((each) => (each === primary ? [] : [each.cluster])),
    former: mode,
    tokenSource: tokens?.source,
    filter: filter?.known,
    snapshot: demotes && snapshot.wanted,
    hooks: { unfence: deployment.hooks.unfence !== undefined },
    lost,
    findings: splitFindings(cluster, primary.cluster, lost, connectedTo(kind, former)),
  };
  const detail = filter && describeFilter(filter.known.filter);
  const moves = movesOf(route, { former, primary }, snapshot.move, detail);
  return {
    ...base,
    preconditions: [
      ...judged,
      ...(demotes && input.primary === undefined ? notPromotedLast(kind, former, primary, changes?.last) : []),
      ...(await observed.rights(operationsOf(moves), { [cluster]: demotes ? snapshot.rights : {} })),
      ...(filter ? [filter.judged] : []),
      // A cluster that is still primary has no slot and accepts no ceremony call: both can be read only after its demotion.
      ...(tokens?.checks ?? []).map((each) => (demotes ? afterDemotion(each) : each)),
    ],
    route,
    plan: observed.plan({
      clusters: [former, primary],
      moves,
      warnings: [...warningsOf(route), ...((tokens ?? filter)?.warnings ?? [])],
      choices: {
        former: mode,
        ...(tokens && { tokenSource: tokens.source }),
        ...(detail && { filter: detail }),
        ...route.hooks,
      },
    }),
  };
}

/** The only other primary of the set, which serves now; a refusal if there is none, several, or not the named one. */
function servingPrimary(
  kind: ReplicationKind,
  { cluster, primary: wanted }: RejoinInput,
  others: readonly ClusterObservation[],
): ClusterObservation | Check {
  const primaries = others.filter((each) => each[kind]?.mode === 'primary');
  const [primary] = primaries;
  if (primary && primaries.length === 1 && (wanted === undefined || wanted === primary.cluster)) return primary;
  return check(`one other ${kindName(kind)} primary serves`, undefined, false, {
    observed: rolesOf(others, kind) || 'no other cluster in its set',
    needed: `${wanted ?? `exactly one other cluster of the ${kind === 'dr' ? 'DR set' : 'deployment'}`} is ${kindName(kind)} primary`,
    next:
      primaries.length > 1
        ? 'Several other clusters believe that they are primary: before anything else, find out which one clients write to.'
        : `Nothing was changed. If no other cluster is primary, do not demote ${cluster}: that would leave no primary.`,
  });
}

function rejoinChecks(
  kind: ReplicationKind,
  deployment: Deployment,
  former: ClusterObservation,
  primary: ClusterObservation,
): Check[] {
  const { cluster, [kind]: { mode } = {} } = former;
  const otherSet = `${cluster} belongs to another ${kindName(kind)} set: it can only be onboarded, which wipes it.`;
  const comesBack = `A node of ${cluster} that comes back later may still report that it is primary, until it learns of the demotion.`;
  return [
    servesAsPrimary(primary, kind, `Check ${primary.cluster}: without it there is nothing to join.`),
    oneActiveNode(former),
    asWarning(everyNodeAnswers(former), comesBack),
    asWarning(everyNodeUnsealed(former), comesBack),
    ...(former.reachable ? formerRole(kind, former, primary, deployment.limits.heartbeatAgeMs) : []),
    ...(isMember(mode) ? [sameSet(kind, primary, former, otherSet)] : []),
    noneOlder(primary, former),
    supportedVersion(former),
    ...[primary, former].flatMap(asPinned),
    // A DR secondary has no performance role of its own.
    ...(kind === 'dr' ? [] : [noDrSecondary(former, OWN_ROLE, `Name the DR primary of ${cluster} instead.`)]),
    // A fence cannot be observed from here; what contradicts it can.
    notCheckable('the former primary is fenced', cluster, {
      observed: 'not observable by this program',
      needed: 'no clients, no egress, no reachable cluster port; approving the plan attests this',
    }),
    ...(mode === 'primary' ? [nobodyConnected(kind, former)] : []),
  ];
}

const OWN_ROLE = 'a cluster with its own performance role';

const isMember = (mode: string | undefined) => mode === 'primary' || mode === 'secondary';

function formerRole(
  kind: ReplicationKind,
  former: ClusterObservation,
  primary: ClusterObservation,
  heartbeatAgeMs: number,
): Check[] {
  const { cluster, clusterId, [kind]: seen } = former;
  const follows =
    seen?.mode === 'secondary' &&
    isAlive(seen, heartbeatAgeMs) &&
    [clusterId, seen.secondaryId].some((id) => id !== undefined && primary[kind]?.knownSecondaries?.includes(id));
  return [
    check('it believes that it is primary, or was demoted', cluster, isMember(seen?.mode), {
      observed: roleText(former, kind),
      needed: 'primary, or secondary without a primary',
      next:
        seen?.mode === 'disabled'
          ? `${kind === 'dr' ? 'DR' : 'Performance'} replication of ${cluster} is disabled: its membership is lost. Onboard it with ${kind}SecondaryOnboarding, which wipes it.`
          : `Check the status of ${cluster}.`,
    }),
    check('it has not joined yet', cluster, !follows, {
      observed: follows ? `connected to ${primary.cluster}` : 'not connected',
      needed: `not a connected ${kindName(kind)} secondary of ${primary.cluster}`,
      next: `There is nothing to do: ${cluster} follows ${primary.cluster}.`,
    }),
  ];
}

/** The input may name the wrong cluster: the one that was promoted in place of the former primary, and serves. */
function notPromotedLast(
  kind: ReplicationKind,
  { cluster }: ClusterObservation,
  primary: ClusterObservation,
  last: PrimaryChange | undefined,
): Check[] {
  if (last?.cluster !== cluster || !last.runbook.startsWith(kind)) return [];
  return [
    check('it was not promoted last', cluster, false, {
      observed: `${cluster} was promoted last, by ${last.runbook}, run ${last.runId}, at ${new Date(last.at).toISOString()}`,
      needed: `the former ${kindName(kind)} primary, not the one that was promoted in its place`,
      next: `If the former primary is ${primary.cluster}, name it as "cluster". If the primary was changed manually since, name the one that serves as "primary".`,
    }),
  ];
}

function nobodyConnected(kind: ReplicationKind, former: ClusterObservation): Check {
  const connected = connectedTo(kind, former);
  return check('no secondary is connected to it', former.cluster, connected.length === 0, {
    observed: connected.join(', ') || 'none',
    needed: 'none',
    next: `${former.cluster} is NOT fenced at its cluster port: these secondaries receive its writes. Fence it now, or let its demotion end that.`,
    otherwise: 'warn',
  });
}

function afterDemotion(judged: Check): Check {
  const { name, cluster, needed, observed } = judged;
  const refused = name === 'ceremony calls allowed' && observed.startsWith('refused');
  return refused ? notCheckable(name, cluster, { observed: 'a primary accepts none', needed }) : judged;
}

/** Approving the plan attests the fence. */
function warningsOf({ cluster, primary: serving, former, snapshot, filter: known, hooks }: RejoinRoute) {
  return [
    `By approving you attest that ${cluster} is still fenced: no clients reach it, it reaches no database or cloud, and its cluster port is closed.`,
    `Everything that ${cluster} wrote after ${serving} became primary is lost: the data of ${serving} replaces it.`,
    snapshot
      ? `A snapshot saves the data of ${cluster} before it is demoted; no runbook restores it.`
      : `This run saves nothing that ${cluster} wrote${former === 'primary' ? ': save what is needed before you approve' : ''}.`,
    known &&
      (known.filter
        ? exposureText(cluster, known.filter)
        : `${cluster} becomes a secondary without a paths filter: it keeps everything that is not local.`),
    known &&
      `Clients of ${cluster} keep their tokens and leases there; their writes to shared data fail until it follows ${serving}.`,
    `While ${cluster} was active it may have revoked leases and rotated credentials that ${serving} uses: clients may find them refused.`,
    hooks.unfence
      ? `The unfence hook runs after gate "unfence", which needs its own approvals.`
      : `There is no unfence hook: people remove the fence after the demotion, and attest that by approving gate "unfence".`,
  ];
}

function movesOf(
  { kind, cluster, primary, former: mode, tokenSource: source, filter, hooks }: RejoinRoute,
  sides: { readonly former: ClusterObservation; readonly primary: Named },
  snapshot: Move | false,
  detail: string | undefined,
): Listed<Move> {
  const demotes = mode === 'primary';
  const tokens = { source, recovery: sides.former.seal?.recovery, clusters: [cluster] };
  const pair = { on: sides.former, with: sides.primary };
  const joins = { operations: [repointing(kind, 'unfence', pair.on, pair.with, detail)] };
  return [
    ...asking(tokens),
    secondReading,
    demotes && snapshot,
    demotes && {
      step: demote(cluster),
      note: `only while ${primary} serves as primary`,
      operations: [{ kind, endpoint: 'primary/demote', gate: GATE[kind], ...pair }],
    },
    {
      step: verifyDemoted(cluster),
      note: 'then gate "unfence" opens',
      operations: [{ endpoint: 'hook/unfence', gate: 'unfence', ...pair }],
    },
    hooks.unfence ? { step: unfence(cluster), note: 'by the hook' } : { step: verifyStillDemoted(cluster) },
    ...(kind === 'dr'
      ? followsAsDr(tokens, cluster, primary, joins)
      : followsAsPerformance(cluster, primary, filter?.filter && describeFilter(filter.filter), 'token', joins)),
    !filter?.filter && { step: compareRoots(primary, cluster) },
    ...disposing(tokens),
    finalReading,
  ];
}

/** Reported next to the plan: what is lost when it joins, what it may have broken, and what contradicts its fence. */
function splitFindings(former: string, primary: string, amount: string, connected: readonly string[]): Finding[] {
  return [
    {
      severity: 'warning',
      code: 'writes-after-split-lost',
      text: `What ${former} wrote after ${primary} became primary is lost when it joins: ${amount}.`,
      next: `Compare with what clients of ${former} believe they wrote; a snapshot from before its demotion is the only copy.`,
    },
    {
      severity: 'warning',
      code: 'leases-of-two-primaries',
      text: `While ${former} was active it may have revoked leases and rotated credentials that ${primary} renewed or held in the meantime.`,
      next: `Look for refused credentials behind ${primary} (databases, clouds), and rotate or revoke there what no longer works.`,
    },
    ...(connected.length === 0
      ? []
      : [
          {
            severity: 'critical' as const,
            code: 'former-primary-not-fenced',
            text: `Secondaries were connected to ${former} while ${primary} was primary: ${connected.join(', ')}. They received what ${former} wrote.`,
            next: `Point each of them at ${primary} (secondaryRepointing), and compare their Merkle trees.`,
          },
        ]),
  ];
}
