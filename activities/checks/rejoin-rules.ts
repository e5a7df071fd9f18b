import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { Deployment } from '../../src/inventory';
import { describeReplication, isAlive } from '../observe';
import { check } from './switchover-rule';
import { compareVersions } from './versions';

/** What a rejoin is judged by. */
interface RejoinWorld {
  readonly deployment: Deployment;
  readonly former: ClusterObservation;
  readonly primary: ClusterObservation;
}

/** Who serves now: the one other DR primary of the set; a refusal where there is none, several, or another than asked. */
export function servingPrimary(
  cluster: string,
  wanted: string | undefined,
  inSet: readonly ClusterObservation[],
): ClusterObservation | Precondition {
  const others = inSet.filter((each) => each.cluster !== cluster);
  const primaries = others.filter((each) => each.dr?.mode === 'primary');
  const [primary] = primaries;
  if (primary && primaries.length === 1 && (wanted === undefined || wanted === primary.cluster)) return primary;
  const seen = others.map(
    (each) => `${each.cluster}: ${each.reachable ? describeReplication(each.dr) : (each.error ?? 'not readable')}`,
  );
  return {
    name: 'one other DR primary serves',
    observed: seen.join('; ') || 'no other cluster in its DR set',
    needed: `${wanted ?? 'exactly one other member of the DR set'} is DR primary`,
    verdict: 'fail',
    next:
      primaries.length > 1
        ? 'Two others take themselves for primary: find out which one clients write to, before anything else.'
        : `Nothing was changed. Where no other cluster is primary, ${cluster} must not be demoted: it would leave no primary.`,
  };
}

/** Judges what was read. Pure. */
export function judgeRejoin(world: RejoinWorld): Precondition[] {
  return [
    serves(world),
    answers(world),
    nodes(world),
    ...role(world),
    ...sameSet(world),
    versions(world),
    ...fenced(world),
  ];
}

function serves({ primary }: RejoinWorld): Precondition {
  return check(
    'the primary serves',
    primary.cluster,
    primary.reachable && primary.dr?.mode === 'primary' && primary.dr.state !== 'idle',
    describeReplication(primary.dr),
    'primary, running, with one active node',
    `Look at ${primary.cluster}: without it there is nothing to join.`,
  );
}

function answers({ former }: RejoinWorld): Precondition {
  return check(
    'the former primary answers',
    former.cluster,
    former.reachable,
    former.activeNode ?? former.error ?? 'none of its nodes is active',
    'the nodes agree on one active node',
    `Start ${former.cluster} fenced, unseal it, and try again.`,
  );
}

function nodes({ former }: RejoinWorld): Precondition {
  return check(
    'every node is unsealed',
    former.cluster,
    former.nodes.every((node) => node.reachable && node.sealed !== true),
    former.nodes
      .map(
        ({ address, reachable, sealed }) =>
          `${address} ${!reachable ? 'does not answer' : sealed ? 'sealed' : 'unsealed'}`,
      )
      .join('; '),
    'every node answers, unsealed',
    `A node of ${former.cluster} that comes back later may still say that it is primary, until it hears of the demotion.`,
    'warn',
  );
}

function role({ former, primary, deployment }: RejoinWorld): Precondition[] {
  if (!former.reachable) return [];
  const { cluster, dr } = former;
  const known = dr?.mode === 'primary' || dr?.mode === 'secondary';
  const next =
    dr?.mode === 'disabled'
      ? `DR replication of ${cluster} is disabled: its membership is lost. Onboard it with drSecondaryOnboarding, which wipes it.`
      : `Look at the status of ${cluster}.`;
  const follows =
    dr?.mode === 'secondary' &&
    isAlive(dr, deployment.limits.heartbeatAgeMs) &&
    former.clusterId !== undefined &&
    primary.dr?.knownSecondaries?.includes(former.clusterId) === true;
  return [
    check(
      'it takes itself for the primary, or was demoted',
      cluster,
      known,
      describeReplication(dr),
      'primary, or secondary without a primary',
      next,
    ),
    check(
      'it has not joined yet',
      cluster,
      !follows,
      follows ? `connected to ${primary.cluster}` : 'not connected',
      `not a connected DR secondary of ${primary.cluster}`,
      `There is nothing to do: ${cluster} follows ${primary.cluster}.`,
    ),
  ];
}

function sameSet({ former, primary }: RejoinWorld): Precondition[] {
  if (former.dr?.mode !== 'primary' && former.dr?.mode !== 'secondary') return [];
  return [
    check(
      'same DR set',
      former.cluster,
      former.dr.setId !== undefined && former.dr.setId === primary.dr?.setId,
      former.dr.setId ?? 'none',
      primary.dr?.setId ?? 'the set of the primary',
      `${former.cluster} belongs to another DR set: it can only be onboarded, which wipes it.`,
    ),
  ];
}

function versions({ former, primary }: RejoinWorld): Precondition {
  const [own, other] = [former.version, primary.version];
  return check(
    'versions in order',
    former.cluster,
    own !== undefined && other !== undefined && compareVersions(own, other) >= 0,
    `${former.cluster} ${own ?? 'not told'}; ${primary.cluster} ${other ?? 'not told'}`,
    `${former.cluster} not older than ${primary.cluster}`,
    `Upgrade ${former.cluster} while it is fenced: replicating from newer to older is not safe.`,
  );
}

/** Fencing cannot be seen from here; what contradicts it can. */
function fenced({ former }: RejoinWorld): Precondition[] {
  const connected = connectedTo(former);
  return [
    {
      name: 'the former primary is fenced',
      cluster: former.cluster,
      observed: 'cannot be seen by this program',
      needed: 'no clients, no egress of its own, no cluster port; approving the plan attests it',
      verdict: 'not-checkable',
    },
    ...(former.dr?.mode === 'primary'
      ? [
          check(
            'no secondary is connected to it',
            former.cluster,
            connected.length === 0,
            connected.join(', ') || 'none',
            'none',
            `${former.cluster} is NOT fenced at its cluster port: these secondaries receive what it writes. Fence it now, or let its demotion end it.`,
            'warn',
          ),
        ]
      : []),
  ];
}

/** Ids of the secondaries of either kind that a primary says are connected to it. */
export function connectedTo({ dr, performance }: Pick<ClusterObservation, 'dr' | 'performance'>): string[] {
  return [dr, performance].flatMap((each) =>
    each?.mode === 'primary'
      ? each.peers.filter((peer) => peer.connected).map((peer) => peer.id ?? 'without an id')
      : [],
  );
}
