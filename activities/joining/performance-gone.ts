import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { Deployment } from '../../src/inventory';
import { drSetOf } from '../../src/inventory';
import { mayBeOneSet } from '../checks/follow-rules';
import { describeReplication, heartbeatAge } from '../observe';
import { check } from '../checks/switchover-rule';

/** What is looked at before a performance secondary is promoted without its primary. */
interface PrimaryLost {
  readonly deployment: Deployment;
  readonly from: ClusterObservation;
  readonly to: ClusterObservation;
  /** All clusters of the deployment. */
  readonly observations: readonly ClusterObservation[];
  readonly overrideDrSecondary: boolean;
}

/**
 * The signs that the performance primary is gone: it does not answer as primary, nobody else of its set is primary, and
 * no secondary has heard it for longer than the limit. `stream-wals` proves nothing: it stays with a dead primary.
 */
export function judgeGone({ deployment, from, to, observations, overrideDrSecondary }: PrimaryLost): Precondition[] {
  const setId = to.performance?.setId;
  const primaries = observations
    .filter((each) => each.performance?.mode === 'primary' && mayBeOneSet(each.performance.setId, setId))
    .map(({ cluster }) => cluster);
  const witnesses = observations.filter((each) => each === to || mayHear(each, from, setId));
  const { primaryGoneMs } = deployment.limits;
  return [
    check(
      'performance replication set is known',
      to.cluster,
      setId !== undefined && setId !== '',
      setId || 'not told',
      'the replication set of the new primary: without it nobody can say which clusters belong to it',
      `Find out why ${to.cluster} does not tell its replication set.`,
    ),
    check(
      'no cluster answers as performance primary',
      undefined,
      primaries.length === 0 && from.performance?.mode !== 'primary',
      primaries.join(', ') || 'none',
      'none',
      'Where the primary answers, start performancePromotion with {"mode": "planned"}.',
    ),
    check(
      'the primary does not answer, or is a secondary',
      from.cluster,
      !from.reachable || from.performance?.mode === 'secondary' || from.performance?.mode === 'disabled',
      from.reachable ? describeReplication(from.performance) : (from.error ?? 'not readable'),
      'no answer, or another role than primary',
      `Find out what ${from.cluster} is; where it must not serve any more, stop or seal its nodes.`,
    ),
    ...witnesses.map((each) => silentSince(each, from.cluster, primaryGoneMs)),
    ...drSecondaries(deployment, from, observations, overrideDrSecondary),
  ];
}

/** The DR secondaries that could take over the place of the failed primary, with every token and lease. */
function usableDrSecondaries(
  deployment: Deployment,
  from: string,
  observations: readonly ClusterObservation[],
): readonly ClusterObservation[] {
  const { members } = drSetOf(deployment, from);
  return observations.filter(
    (each) =>
      each.cluster !== from &&
      members.includes(each.cluster) &&
      each.reachable &&
      each.dr?.mode === 'secondary' &&
      each.dr.state === 'stream-wals' &&
      each.dr.corruptedMerkleTree !== true &&
      each.nodes.some(({ reachable, sealed }) => reachable && sealed === false),
  );
}

/**
 * Whether a cluster can testify that the primary is silent: a secondary that may be of the same set. The one that is
 * said to be gone testifies as long as it is a secondary that knows a primary: that is none that was demoted.
 */
function mayHear(each: ClusterObservation, from: ClusterObservation, setId: string | undefined): boolean {
  const seen = each.performance;
  if (seen?.mode !== 'secondary' || !mayBeOneSet(seen.setId, setId)) return false;
  return each !== from || Boolean(seen.primaryClusterAddress) || seen.peers.length > 0;
}

function silentSince(witness: ClusterObservation, from: string, primaryGoneMs: number): Precondition {
  const age = heartbeatAge(witness.performance);
  const connected = witness.performance?.peers.some((peer) => peer.connected) === true;
  const told = `${connected ? 'connected' : 'disconnected'}, last heartbeat ${age === undefined ? 'not told' : 'told'}`;
  const name = 'hears the primary no more';
  const needed = `no heartbeat for more than ${primaryGoneMs / 1000} s`;
  if (age === undefined && !connected) {
    return {
      name,
      cluster: witness.cluster,
      observed: told,
      needed,
      verdict: 'not-checkable',
      next: `The approvers attest that ${from} is gone.`,
    };
  }
  return check(
    name,
    witness.cluster,
    age !== undefined && age > primaryGoneMs,
    age === undefined
      ? told
      : `${connected ? 'connected' : 'disconnected'}, last heartbeat ${Math.round(age / 1000)} s ago`,
    needed,
    `Only the way from here to ${from} may be broken, or it failed a moment ago. Look at ${from} from elsewhere, then start again.`,
  );
}

function drSecondaries(
  deployment: Deployment,
  from: ClusterObservation,
  observations: readonly ClusterObservation[],
  override: boolean,
): Precondition[] {
  const usable = usableDrSecondaries(deployment, from.cluster, observations).map(({ cluster }) => cluster);
  return [
    check(
      'no DR secondary of the failed primary is usable',
      from.cluster,
      usable.length === 0,
      usable.length === 0 ? 'none answers, streaming and unsealed' : `${usable.join(', ')} could be promoted`,
      'none: a DR secondary has every token, lease and local mount',
      override
        ? 'overrideDrSecondary says that it is not promoted.'
        : `Start drFailover to ${usable[0] ?? 'it'}, or start again with {"overrideDrSecondary": true}.`,
      override ? 'warn' : 'fail',
    ),
  ];
}
