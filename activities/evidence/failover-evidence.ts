import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check, RunbookPlan } from '../../src/contracts/plan';
import { RunbookError } from '../../src/errors';
import type { Clusters } from '../clusters';
import type { FailoverSides } from '../checks/failover-sides';
import { findFailoverSides } from '../checks/failover-sides';
import type { Observer } from '../checks/signs';
import { judgeSigns, observerOf } from '../checks/signs';
import { observeDeployment } from '../approvals/planning';

/**
 * Reads the whole deployment and judges the signs that `from` is gone.
 *
 * @throws RunbookError PRECONDITION_FAILED where another cluster is primary; SERVICE_UNAVAILABLE, which may be tried
 *   again, where the successor does not say what it hears
 */
export async function readSigns(
  clusters: Clusters,
  name: string,
  named: { readonly from: string; readonly to: string; readonly alsoGone?: readonly string[] | undefined },
  signal: AbortSignal,
): Promise<readonly Check[]> {
  const deployment = clusters.deployment(name);
  const { from, to } = named;
  const found = findFailoverSides(deployment, named, await observeDeployment(clusters, name, signal));
  if ('verdict' in found) throw spokeAgainst([found]);
  if (!found.to.dr) {
    throw new RunbookError('SERVICE_UNAVAILABLE', `${to} does not say whether it hears ${from}.`, {
      cluster: to,
      observed: found.to.error ?? 'no status',
      needed: 'its DR status',
    });
  }
  return judgeSigns({ ...witnesses(found), primaryGoneMs: deployment.limits.primaryGoneMs });
}

/** The further silent members that the approvers of a plan attested to serve nobody. */
export function alsoGoneIn({ choices }: RunbookPlan): readonly string[] {
  const named = choices['alsoGone'];
  return typeof named === 'string' ? named.split(', ') : [];
}

/** Who can say whether the primary is heard. */
export function witnesses({ from, to, others, performanceSecondaries }: FailoverSides): {
  readonly from: ClusterObservation;
  readonly to: ClusterObservation;
  readonly observers: readonly Observer[];
} {
  const observers = [
    ...others.map((each) => observerOf(each, 'dr')),
    ...performanceSecondaries.map((each) => observerOf(each, 'performance')),
    // One that follows a primary was not the primary that is gone, and says whether it hears the real one.
    ...(follows(from) ? [observerOf(from, 'dr')] : []),
  ];
  return { from, to, observers };
}

function follows({ dr }: ClusterObservation): boolean {
  return dr?.mode === 'secondary' && (dr.primaryClusterAddress ?? '') !== '';
}

export function signsText(signs: readonly Check[]): string {
  return signs.map(({ name, observed, verdict }) => `${name}: ${verdict} (${observed})`).join('; ');
}

/** What contradicts a failover: nobody is asked to approve it, and nothing is promoted. */
export function spokeAgainst(signs: readonly Check[]): RunbookError {
  const [first] = signs;
  return new RunbookError('PRECONDITION_FAILED', `It is not proven that the primary is gone. ${signsText(signs)}`, {
    retryable: false,
    outcomeKnown: true,
    ...(first?.cluster === undefined ? {} : { cluster: first.cluster }),
    observed: first?.observed ?? '',
    needed: first?.needed ?? '',
    next: signs.flatMap(({ next }) => next ?? []).join(' '),
  });
}
