import type { Assessment, KnownFilter } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { InputOf, ReplicationKind, TokenSource } from '../../src/contracts/runbook-inputs';
import { keyShares } from '../../src/contracts/words';
import type { Deployment } from '../../src/inventory';
import type { Listed, PlannedOperation } from '../approvals/planning';
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
import { UPDATE_PRIMARY } from '../checks/tokens';
import { noneOlder, supportedVersion } from '../checks/versions';
import { currentExecution } from '../execution';
import { describeFilter, findFilter } from '../filters/paths-filters';
import { isAlive, kindName } from '../observe';
import { lastPrimaryChange } from '../roles/primary-changes';
import type { PrimaryChange } from '../roles/primary-changes';
import { snapshotWanted } from '../snapshots/snapshots';
import { COMPARE_ROOTS, FINAL_STATE, exposureInWords, observe, tokenSteps } from './observed';
import type { PlanInput } from './observed';

/** What a rejoin follows. */
export interface RejoinRoute {
  readonly kind: ReplicationKind;
  /** The former primary. */
  readonly cluster: string;
  /** The primary that serves. */
  readonly primary: string;
  /** The others of its set, which may follow nobody now. */
  readonly others: readonly string[];
  /** What the former primary still takes itself for: `secondary` where it was demoted already. */
  readonly former: 'primary' | 'secondary';
  /** DR: where the operation token comes from. */
  readonly tokenSource?: TokenSource;
  /** Performance: the paths filter that it gets. */
  readonly filter?: KnownFilter;
  /** Of the former primary, before its demotion. */
  readonly snapshot: boolean;
  readonly hooks: { readonly unfence: boolean };
  /** What is lost by its joining: how much, nothing tells. */
  readonly lost: string;
  readonly findings: readonly Finding[];
}

type RejoinInput = InputOf<'drRejoin'> | InputOf<'performanceRejoin'>;
type Rejoining = Assessment<RejoinRoute>;

/** The gate that approves the demotion, and attests the fence. */
const GATE = { dr: 'plan', performance: 'promote' } as const;

/** A primary that was replaced is back: it is demoted before it is let out, and joins the one that serves. */
export function assessDrRejoin(request: PlanInput<InputOf<'drRejoin'>>): Promise<Rejoining> {
  return assessRejoin('dr', request);
}

/** The same for performance replication: its paths filter stands before it joins. */
export function assessPerformanceRejoin(request: PlanInput<InputOf<'performanceRejoin'>>): Promise<Rejoining> {
  return assessRejoin('performance', request);
}

async function assessRejoin(kind: ReplicationKind, request: PlanInput<RejoinInput>): Promise<Rejoining> {
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
  const lost = `how much ${cluster} wrote after the split is not known${wal}`;
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
  const pair = { on: former, with: primary };
  const detail = filter && describeFilter(filter.known.filter);
  const operations: Listed<PlannedOperation> = [
    demotes && { operation: `${kind}.primary.demote`, ...pair },
    { operation: 'hook.unfence', ...pair },
    { operation: `${kind}.secondary.repoint-after-unfence`, ...pair, detail },
  ];
  return {
    ...base,
    preconditions: [
      ...judged,
      ...(demotes && input.primary === undefined ? notPromotedLast(kind, former, primary, changes?.last) : []),
      ...(await observed.rights(operations, { [cluster]: demotes ? snapshot.rights : {} })),
      ...(filter ? [filter.judged] : []),
      // A cluster that still is primary has no slot and takes no ceremony call: that shows after its demotion only.
      ...(tokens?.checks ?? []).map((each) => (demotes ? afterDemotion(each) : each)),
    ],
    route,
    plan: observed.plan({
      clusters: [former, primary],
      operations,
      warnings: [...warningsOf(route), ...((tokens ?? filter)?.warnings ?? [])],
      steps: stepsOf(route, former, snapshot.step),
      choices: {
        former: mode,
        ...(tokens && { tokenSource: tokens.source }),
        ...(detail && { filter: detail }),
        ...route.hooks,
      },
    }),
  };
}

/** Who serves now: the one other primary of the set; a refusal where there is none, several, or another than asked. */
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
        ? 'Two others take themselves for primary: find out which one clients write to, before anything else.'
        : `Nothing was changed. Where no other cluster is primary, ${cluster} must not be demoted: it would leave no primary.`,
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
  const comesBack = `A node of ${cluster} that comes back later may still say that it is primary, until it hears of the demotion.`;
  return [
    servesAsPrimary(primary, kind, `Look at ${primary.cluster}: without it there is nothing to join.`),
    oneActiveNode(former),
    asWarning(everyNodeAnswers(former), comesBack),
    asWarning(everyNodeUnsealed(former), comesBack),
    ...(former.reachable ? formerRole(kind, former, primary, deployment.limits.heartbeatAgeMs) : []),
    ...(isMember(mode) ? [sameSet(kind, primary, former, otherSet)] : []),
    noneOlder(primary, former),
    supportedVersion(former),
    ...[primary, former].flatMap(asPinned),
    // A DR secondary has no role of its own.
    ...(kind === 'dr' ? [] : [noDrSecondary(former, OWN_ROLE, `Name the DR primary of ${cluster} instead.`)]),
    // Fencing cannot be seen from here; what contradicts it can.
    notCheckable('the former primary is fenced', cluster, {
      observed: 'cannot be seen by this program',
      needed: 'no clients, no egress of its own, no cluster port; approving the plan attests it',
    }),
    ...(mode === 'primary' ? [nobodyConnected(kind, former)] : []),
  ];
}

const OWN_ROLE = 'a cluster with a performance role of its own';

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
    check('it takes itself for the primary, or was demoted', cluster, isMember(seen?.mode), {
      observed: roleText(former, kind),
      needed: 'primary, or secondary without a primary',
      next:
        seen?.mode === 'disabled'
          ? `${kind === 'dr' ? 'DR' : 'Performance'} replication of ${cluster} is disabled: its membership is lost. Onboard it with ${kind}SecondaryOnboarding, which wipes it.`
          : `Look at the status of ${cluster}.`,
    }),
    check('it has not joined yet', cluster, !follows, {
      observed: follows ? `connected to ${primary.cluster}` : 'not connected',
      needed: `not a connected ${kindName(kind)} secondary of ${primary.cluster}`,
      next: `There is nothing to do: ${cluster} follows ${primary.cluster}.`,
    }),
  ];
}

/** The wrong side may be named: the cluster that was promoted in the place of the former primary serves. */
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
      next: `Is the former primary ${primary.cluster}? Then name it as "cluster". If the primary was changed by hand since, name the one that serves as "primary".`,
    }),
  ];
}

function nobodyConnected(kind: ReplicationKind, former: ClusterObservation): Check {
  const connected = connectedTo(kind, former);
  return check('no secondary is connected to it', former.cluster, connected.length === 0, {
    observed: connected.join(', ') || 'none',
    needed: 'none',
    next: `${former.cluster} is NOT fenced at its cluster port: these secondaries receive what it writes. Fence it now, or let its demotion end it.`,
    otherwise: 'warn',
  });
}

function afterDemotion(judged: Check): Check {
  const { name, cluster, needed, observed } = judged;
  const refused = name === 'ceremony calls allowed' && observed.startsWith('refused');
  return refused ? notCheckable(name, cluster, { observed: 'a primary takes none', needed }) : judged;
}

/** Approving the plan attests the fence. */
function warningsOf({ cluster, primary: serving, former, snapshot, filter: known, hooks }: RejoinRoute) {
  return [
    `Whoever approves attests that ${cluster} is still fenced: no clients reach it, it reaches no database or cloud, and its cluster port is closed.`,
    `Everything that ${cluster} wrote after ${serving} had become primary is lost: the data of ${serving} replace it.`,
    snapshot
      ? `A snapshot saves what ${cluster} holds before it is demoted; nobody else reads it back.`
      : `Nothing of what ${cluster} wrote is saved by this run${former === 'primary' ? ': save what is needed before approving' : ''}.`,
    known &&
      (known.filter
        ? exposureInWords(cluster, known.filter)
        : `${cluster} becomes a secondary without paths filter: it goes on having everything that is not local.`),
    known &&
      `Clients of ${cluster} keep their tokens and leases there; what they write for all fails until it follows ${serving}.`,
    `While ${cluster} was active it may have revoked leases and rotated credentials that ${serving} uses: clients may find them refused.`,
    hooks.unfence
      ? `The unfence hook is run after gate "unfence", which asks again.`
      : `There is no unfence hook: people take the fence away after the demotion, and attest it by approving gate "unfence".`,
  ];
}

function stepsOf(
  { kind, cluster, primary: serving, former: mode, tokenSource, filter: known, hooks }: RejoinRoute,
  former: ClusterObservation,
  snapshot: string | false,
) {
  return [
    tokenSource === 'ceremony' && `Collect ${keyShares(former.seal?.recovery)} for an operation token on ${cluster}`,
    mode === 'primary' && snapshot,
    mode === 'primary' && `Demote ${cluster}, where ${serving} serves as primary at that moment`,
    'Ask gate "unfence"',
    hooks.unfence && `Unfence ${cluster} (hook)`,
    known?.filter &&
      `Write the paths filter of ${cluster} on ${serving} under ${known.id}: ${describeFilter(known.filter)}`,
    `Make ${cluster} a ${kindName(kind)} secondary of ${serving} with an activation token, and wait until it streams`,
    known?.filter && 'Make sure of the filter again, and compare it on both sides',
    !known?.filter && COMPARE_ROOTS,
    tokenSteps(former, tokenSource).end,
    FINAL_STATE,
  ];
}

/** What is told of its joining beside the plan: what is lost, what it may have broken, what contradicts its fence. */
function splitFindings(former: string, primary: string, amount: string, connected: readonly string[]): Finding[] {
  return [
    {
      severity: 'warning',
      code: 'writes-after-split-lost',
      text: `What ${former} wrote after ${primary} had become primary is lost when it joins: ${amount}.`,
      next: `Compare with what clients of ${former} believe to have written; a snapshot from before its demotion is the only copy.`,
    },
    {
      severity: 'warning',
      code: 'leases-of-two-primaries',
      text: `While ${former} was active it may have revoked leases, and rotated credentials, that ${primary} had renewed or held meanwhile.`,
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
