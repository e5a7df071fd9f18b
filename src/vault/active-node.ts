import { RunbookError, isRunbookError } from '../errors';
import { originOf } from './addresses';
import type { NodeAddress } from './addresses';
import type { Leader } from './sys-shapes';

/** What one node said of the leader. */
export type LeaderOpinion =
  | { readonly node: NodeAddress; readonly leader: Leader }
  | { readonly node: NodeAddress; readonly error: RunbookError };

/**
 * The node that is active by the agreement of all that answered: exactly one claims it, and no other node of the target
 * is named. A name outside of the target is never followed; a node can be known to itself by another name.
 *
 * @throws RunbookError NO_ACTIVE_NODE, REDIRECT_REFUSED, or the common reason why no node could be asked.
 */
export function agreeOnActiveNode(cluster: string, opinions: readonly LeaderOpinion[]): NodeAddress {
  const answers = opinions.filter((opinion) => 'leader' in opinion);
  const failures = opinions.filter((opinion) => 'error' in opinion);
  const [first] = failures;
  if (answers.length === 0 && first !== undefined && isNoAnswer(first.error)) {
    if (failures.every((failure) => isNoAnswer(failure.error))) throw first.error;
  }

  // Without high availability there is one node, and it is active when it answers.
  const claimants = answers.filter(({ leader }) => leader.isSelf || !leader.haEnabled).map(({ node }) => node);
  const named = answers
    .filter(({ leader }) => !leader.isSelf)
    .map(({ leader }) => originOf(leader.leaderAddress ?? ''));
  const known = opinions.map(({ node }) => node);
  const [claimant] = claimants;
  const namesAnother = named.some(
    (origin) => origin !== claimant?.origin && known.some((node) => node.origin === origin),
  );
  if (claimant !== undefined && claimants.length === 1 && !namesAnother) return claimant;

  const observed = opinions.map(describe).join('; ');
  const foreign = named.find((origin) => origin !== undefined && !known.some((node) => node.origin === origin));
  if (claimants.length === 0 && !namesAnother && foreign !== undefined) {
    throw new RunbookError(
      'REDIRECT_REFUSED',
      `cluster ${cluster}: its nodes name a leader that is not an address of it`,
      {
        cluster,
        observed,
        needed: `one of ${known.map((node) => node.address).join(', ')}`,
        next: 'Add the address of every node to the inventory.',
      },
    );
  }
  throw new RunbookError(
    'NO_ACTIVE_NODE',
    `cluster ${cluster}: its nodes do not agree on an active node: ${observed}`,
    {
      cluster,
      observed,
      needed: 'one node that is active',
    },
  );
}

function isNoAnswer(error: RunbookError): boolean {
  return error.httpStatus === undefined && !isRunbookError(error, 'RESPONSE_INVALID');
}

function describe(opinion: LeaderOpinion): string {
  if ('error' in opinion) return `${opinion.node.address}: ${opinion.error.code}`;
  if (opinion.leader.isSelf) return `${opinion.node.address}: active`;
  return `${opinion.node.address}: names ${originOf(opinion.leader.leaderAddress ?? '') ?? 'none'}`;
}
