import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check, PlanDocument } from '../../src/contracts/plan';
import type { DrRejoinInput, TokenSource } from '../../src/contracts/runbook-inputs';
import { keyShares } from '../../src/contracts/words';
import type { Deployment } from '../../src/inventory';
import { identityOf, planDocument } from '../approvals/planning';
import { asWarning, check, notCheckable } from '../checks/check';
import { everyNodeAnswers, everyNodeUnsealed, oneActiveNode } from '../checks/nodes';
import { roleText, rolesOf, sameSet, servesAsPrimary } from '../checks/replication';
import { DEMOTE, REVOKE, SECONDARY_TOKEN, UPDATE_PRIMARY } from '../checks/tokens';
import { noneOlder } from '../checks/versions';
import { isAlive } from '../observe';
import { observe } from './observed';
import type { PlanInput } from './observed';

/** What a rejoin follows. */
export interface RejoinRoute {
  /** The former primary. */
  readonly cluster: string;
  /** The primary that serves. */
  readonly primary: string;
  /** The other members of the DR set, which may follow nobody now. */
  readonly others: readonly string[];
  /** What the former primary still takes itself for: `secondary` where it was demoted already. */
  readonly former: 'primary' | 'secondary';
  readonly tokenSource: TokenSource;
  readonly hooks: { readonly dump: boolean; readonly unfence: boolean };
}

/** A primary that was replaced is back: it is demoted before it is let out, and joins the one that serves. */
export async function assessDrRejoin(request: PlanInput<DrRejoinInput>): Promise<Assessment<RejoinRoute>> {
  const { input } = request;
  const { cluster } = input;
  const observed = await observe(request, [cluster]);
  const { deployment } = observed;
  const base = observed.base({ plan: true, unfence: true });
  const others = observed.othersOf(cluster);
  const primary = servingPrimary(input, others);
  if ('verdict' in primary) return { ...base, preconditions: [primary] };
  const former = observed.of(cluster);
  const judged = rejoinChecks(deployment, former, primary);
  const mode = former.dr?.mode;
  if (mode !== 'primary' && mode !== 'secondary') return { ...base, preconditions: judged };
  const isPrimary = mode === 'primary';
  const [tokens, ...rights] = await Promise.all([
    observed.tokens(cluster, [UPDATE_PRIMARY]),
    observed.rights(primary.cluster, { [SECONDARY_TOKEN]: ['update', 'sudo'], [REVOKE]: ['update'] }),
    isPrimary ? observed.rights(cluster, { [DEMOTE]: ['update'] }) : [],
  ]);
  const { hooks } = deployment;
  const route: RejoinRoute = {
    cluster,
    primary: primary.cluster,
    others: others.flatMap((each) => (each === primary ? [] : [each.cluster])),
    former: mode,
    tokenSource: tokens.source,
    hooks: { dump: hooks.dump !== undefined, unfence: hooks.unfence !== undefined },
  };
  return {
    ...base,
    preconditions: [
      ...judged,
      ...rights.flat(),
      // A cluster that still is primary has no slot and takes no ceremony call: that shows after its demotion only.
      ...tokens.checks.map((each) => (isPrimary ? afterDemotion(each) : each)),
    ],
    route,
    plan: rejoinPlan(input, route, former, primary, tokens.warnings),
  };
}

/** Who serves now: the one other DR primary of the set; a refusal where there is none, several, or another than asked. */
function servingPrimary(
  { cluster, primary: wanted }: DrRejoinInput,
  others: readonly ClusterObservation[],
): ClusterObservation | Check {
  const primaries = others.filter((each) => each.dr?.mode === 'primary');
  const [primary] = primaries;
  if (primary && primaries.length === 1 && (wanted === undefined || wanted === primary.cluster)) return primary;
  return check('one other DR primary serves', undefined, false, {
    observed: rolesOf(others, 'dr') || 'no other cluster in its DR set',
    needed: `${wanted ?? 'exactly one other member of the DR set'} is DR primary`,
    next:
      primaries.length > 1
        ? 'Two others take themselves for primary: find out which one clients write to, before anything else.'
        : `Nothing was changed. Where no other cluster is primary, ${cluster} must not be demoted: it would leave no primary.`,
  });
}

function rejoinChecks(deployment: Deployment, former: ClusterObservation, primary: ClusterObservation): Check[] {
  const { cluster, dr: { mode } = {} } = former;
  const otherSet = `${cluster} belongs to another DR set: it can only be onboarded, which wipes it.`;
  const comesBack = `A node of ${cluster} that comes back later may still say that it is primary, until it hears of the demotion.`;
  return [
    servesAsPrimary(primary, 'dr', `Look at ${primary.cluster}: without it there is nothing to join.`),
    oneActiveNode(former),
    asWarning(everyNodeAnswers(former), comesBack),
    asWarning(everyNodeUnsealed(former), comesBack),
    ...(former.reachable ? formerRole(former, primary, deployment.limits.heartbeatAgeMs) : []),
    ...(mode === 'primary' || mode === 'secondary' ? [sameSet('dr', primary, former, otherSet)] : []),
    noneOlder(primary, former),
    // Fencing cannot be seen from here; what contradicts it can.
    notCheckable('the former primary is fenced', cluster, {
      observed: 'cannot be seen by this program',
      needed: 'no clients, no egress of its own, no cluster port; approving the plan attests it',
    }),
    ...(mode === 'primary' ? [nobodyConnected(former)] : []),
  ];
}

function formerRole(former: ClusterObservation, primary: ClusterObservation, heartbeatAgeMs: number): Check[] {
  const { cluster, clusterId, dr } = former;
  const follows =
    dr?.mode === 'secondary' &&
    isAlive(dr, heartbeatAgeMs) &&
    clusterId !== undefined &&
    primary.dr?.knownSecondaries?.includes(clusterId) === true;
  return [
    check(
      'it takes itself for the primary, or was demoted',
      cluster,
      dr?.mode === 'primary' || dr?.mode === 'secondary',
      {
        observed: roleText(former, 'dr'),
        needed: 'primary, or secondary without a primary',
        next:
          dr?.mode === 'disabled'
            ? `DR replication of ${cluster} is disabled: its membership is lost. Onboard it with drSecondaryOnboarding, which wipes it.`
            : `Look at the status of ${cluster}.`,
      },
    ),
    check('it has not joined yet', cluster, !follows, {
      observed: follows ? `connected to ${primary.cluster}` : 'not connected',
      needed: `not a connected DR secondary of ${primary.cluster}`,
      next: `There is nothing to do: ${cluster} follows ${primary.cluster}.`,
    }),
  ];
}

function nobodyConnected(former: ClusterObservation): Check {
  const connected = connectedTo(former);
  return check('no secondary is connected to it', former.cluster, connected.length === 0, {
    observed: connected.join(', ') || 'none',
    needed: 'none',
    next: `${former.cluster} is NOT fenced at its cluster port: these secondaries receive what it writes. Fence it now, or let its demotion end it.`,
    otherwise: 'warn',
  });
}

/** Ids of the secondaries of either kind that a primary says are connected to it. */
export function connectedTo({ dr, performance }: Pick<ClusterObservation, 'dr' | 'performance'>): string[] {
  return [dr, performance].flatMap((each) =>
    each?.mode === 'primary'
      ? each.peers.filter((peer) => peer.connected).map((peer) => peer.id ?? 'without an id')
      : [],
  );
}

function afterDemotion(judged: Check): Check {
  const { name, cluster, needed, observed } = judged;
  const refused = name === 'ceremony calls allowed' && observed.startsWith('refused');
  return refused ? notCheckable(name, cluster, { observed: 'a primary takes none', needed }) : judged;
}

/** The plan of a rejoin. Approving it attests the fence. */
function rejoinPlan(
  input: DrRejoinInput,
  { cluster, primary: serving, former: mode, tokenSource, hooks }: RejoinRoute,
  former: ClusterObservation,
  primary: ClusterObservation,
  ofTokens: readonly string[],
): PlanDocument {
  const demotes = mode === 'primary';
  const pair = { on: identityOf(former), with: identityOf(primary) };
  return planDocument({
    runbook: 'drRejoin',
    input,
    clusters: [former, primary],
    operations: [
      demotes && { operation: 'dr.primary.demote', ...pair },
      { operation: 'hook.unfence', ...pair },
      { operation: 'dr.secondary.repoint-after-unfence', ...pair },
    ],
    warnings: [
      `Whoever approves attests that ${cluster} is still fenced: no clients reach it, it reaches no database or cloud, and its cluster port is closed.`,
      `Everything that ${cluster} wrote after ${serving} had become primary is lost: the data of ${serving} replace it.`,
      hooks.dump && demotes
        ? `The dump hook saves what ${cluster} holds before it is demoted; nobody else reads it back.`
        : `Nothing of what ${cluster} wrote is saved by this run${demotes ? ': save what is needed before approving' : ''}.`,
      `While ${cluster} was active it may have revoked leases and rotated credentials that ${serving} uses: clients may find them refused.`,
      hooks.unfence
        ? `The unfence hook is run after gate "unfence", which asks again.`
        : `There is no unfence hook: people take the fence away after the demotion, and attest it by approving gate "unfence".`,
      ...ofTokens,
    ],
    steps: [
      tokenSource === 'ceremony' && `Collect ${keyShares(former.seal?.recovery)} for an operation token on ${cluster}`,
      `State what ${cluster} wrote after the split`,
      demotes && hooks.dump && `Save what ${cluster} holds (dump hook)`,
      demotes && `Demote ${cluster}, where ${serving} serves as primary at that moment`,
      'Ask gate "unfence"',
      hooks.unfence && `Unfence ${cluster} (hook)`,
      `Make ${cluster} a DR secondary of ${serving} with an activation token, and wait until it streams`,
      'Compare the Merkle roots',
      tokenSource !== 'batch' && 'Delete the operation token and destroy the ceremony keys',
      'Read the final state',
    ],
    choices: { former: mode, tokenSource, ...hooks },
  });
}
