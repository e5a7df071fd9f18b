import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { Deployment } from '../../src/inventory';
import { drSetOf } from '../../src/inventory';
import { check } from './check';
import { mayBeOneSet, roleText } from './roles';
import { heartbeatsStopped, observerOf } from './signs';

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
 * The signs that the performance primary is gone: it does not answer as primary, nobody else of its set is primary, and no
 * secondary has heard it for longer than the limit. Pure.
 */
export function goneChecks({ deployment, from, to, observations, overrideDrSecondary }: PrimaryLost): Check[] {
  const setId = to.performance?.setId;
  const { mode } = from.performance ?? {};
  const primaries = observations
    .filter((each) => each.performance?.mode === 'primary' && mayBeOneSet(each.performance.setId, setId))
    .map(({ cluster }) => cluster);
  const witnesses = observations.filter((each) => each === to || mayHear(each, from, setId));
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
      primaries.length === 0 && mode !== 'primary',
      primaries.join(', ') || 'none',
      'none',
      'Where the primary answers, start performancePromotion with {"mode": "planned"}.',
    ),
    check(
      'the primary does not answer, or is a secondary',
      from.cluster,
      !from.reachable || mode === 'secondary' || mode === 'disabled',
      roleText(from, 'performance'),
      'no answer, or another role than primary',
      `Find out what ${from.cluster} is; where it must not serve any more, stop or seal its nodes.`,
    ),
    ...witnesses.map((each) => silentNow(each, from.cluster, deployment.limits.primaryGoneMs)),
    noUsableDrSecondary(deployment, from.cluster, observations, overrideDrSecondary),
  ];
}

/** Nothing here waits for a sign: one that was heard a moment ago is not gone. */
function silentNow(witness: ClusterObservation, from: string, primaryGoneMs: number): Check {
  const judged = heartbeatsStopped(observerOf(witness, 'performance'), from, primaryGoneMs);
  if (judged.verdict !== 'warn') return judged;
  return {
    ...judged,
    verdict: 'fail',
    next: `${from} failed a moment ago. Look at it from elsewhere, then start again.`,
  };
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

/** A DR secondary of the failed primary could take over its place, with every token and lease. */
function noUsableDrSecondary(
  deployment: Deployment,
  from: string,
  observations: readonly ClusterObservation[],
  override: boolean,
): Check {
  const { members } = drSetOf(deployment, from);
  const usable = observations
    .filter(
      ({ cluster, reachable, dr, nodes }) =>
        cluster !== from &&
        members.includes(cluster) &&
        reachable &&
        dr?.mode === 'secondary' &&
        dr.state === 'stream-wals' &&
        dr.corruptedMerkleTree !== true &&
        nodes.some((node) => node.reachable && node.sealed === false),
    )
    .map(({ cluster }) => cluster);
  return check(
    'no DR secondary of the failed primary is usable',
    from,
    usable.length === 0,
    usable.length === 0 ? 'none answers, streaming and unsealed' : `${usable.join(', ')} could be promoted`,
    'none: a DR secondary has every token, lease and local mount',
    override
      ? 'overrideDrSecondary says that it is not promoted.'
      : `Start drFailover to ${usable[0] ?? 'it'}, or start again with {"overrideDrSecondary": true}.`,
    override ? 'warn' : 'fail',
  );
}
