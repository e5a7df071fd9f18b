import type { Authority, FilterState } from '../../src/contracts/activities';
import type { AllowedOperation } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { verifyBeginning, verifyOneOf, verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { identityOfMember } from '../checks/failover-sides';
import { readKind } from '../observe';
import { ANSWER_BUDGET_MS, awaitIdentityOf, readClusterId } from '../tokens/operation-token';
import { describeFilter } from '../filters/paths-filters';
import type { JoinTarget } from './join-target';

/** Operations that a re-point may be part of. A re-point on its own says how: by token or by addresses. */
const AFTERWARDS = ['switchover', 'unfence', 'promotion'] as const;

/** A secondary (`on`) and the primary that it is about to follow (`with`), by the cluster IDs read. */
export interface Pair {
  readonly on: AllowedOperation['on'];
  readonly with: AllowedOperation['on'];
}

/** How a secondary is about to follow a primary. */
interface FollowingAs extends Pair {
  /** Defaults to `performance`. */
  readonly kind?: ReplicationKind;
  readonly form: 'token' | 'addresses';
  /** The filter that the performance secondary must have there. */
  readonly filter?: FilterState | undefined;
  /** Addresses that people gave: only a plan of its own allows them, exactly as given. */
  readonly addresses?: readonly string[] | undefined;
  /** The re-point has already begun: the age of its approvals no longer counts. */
  readonly begun?: boolean;
  /** A failover names the members of its set without having read all of them. */
  readonly asMember?: () => Promise<AllowedOperation['on']>;
}

/** The detail of a re-point by addresses in a plan: the filter that stays, and the addresses that people gave. */
export function addressesDetail(filter: FilterState | undefined, addresses: readonly string[] | undefined) {
  const parts = [filter === undefined ? '' : describeFilter(filter), addresses ? `at ${addresses.join(', ')}` : ''];
  const detail = parts.filter((each) => each !== '').join('; ');
  return detail === '' ? {} : { detail };
}

/** A secondary and its primary by their present cluster IDs. */
export async function pairOf(target: ClusterAccess, source: ClusterAccess, signal: AbortSignal): Promise<Pair> {
  const [secondaryId, primaryId] = await Promise.all([readClusterId(target, signal), readClusterId(source, signal)]);
  return {
    on: { cluster: target.entry.name, clusterId: secondaryId },
    with: { cluster: source.entry.name, clusterId: primaryId },
  };
}

/**
 * Verifies that an approved plan lets this secondary join this primary with a new activation token; for a performance
 * secondary, with this filter.
 *
 * @param begun - the join has already begun: the age of its approvals no longer counts
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyJoining(
  { input, use, source, target, clusterId }: JoinTarget,
  { begun }: { readonly begun: boolean },
): Promise<void> {
  const { deployment, kind, authority, expected } = input;
  const { signal } = currentExecution();
  const on = { cluster: target.entry.name, clusterId };
  const pair: Pair = { on, with: await awaitIdentityOf(source, ANSWER_BUDGET_MS) };
  const { filter } = expected ?? {};
  if (use === 'enable') {
    const detail = kind === 'dr' ? {} : { detail: describeFilter(filter) };
    const verify = begun ? verifyOperation : verifyBeginning;
    const intended = { operation: `${kind}.secondary.enable`, ...pair, ...detail } as const;
    await verify(input, intended);
    return;
  }
  await verifyFollowing(deployment, authority, {
    ...{ ...pair, kind, form: 'token', filter, begun },
    asMember: async () => identityOfMember(target.entry, (await readKind(target, kind, signal)).setId),
  });
}

/**
 * Verifies that an approved plan lets this secondary follow this primary. If the plan names the filter of a performance
 * secondary, it allows only that filter. A re-point after a switchover, a promotion or a rejoin is never refused for
 * the age of its approvals.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyFollowing(
  deployment: string,
  authority: Authority,
  { kind = 'performance', form, filter, addresses, begun = false, asMember, ...pair }: FollowingAs,
): Promise<void> {
  const alone = `${kind}.secondary.repoint-by-${form}` as const;
  const afterwards = AFTERWARDS.map((event) => `${kind}.secondary.repoint-after-${event}` as const);
  // The plan of a failover names no filter: the filter on the primary counts.
  const details = filter === undefined ? [{}] : [{ detail: describeFilter(filter) }, {}];
  const operations = addresses ? [alone] : [alone, ...afterwards];
  const ways = operations.flatMap((operation) =>
    (addresses ? [addressesDetail(filter, addresses)] : details).map((detail) => async () => {
      const byMembership = operation === 'dr.secondary.repoint-after-promotion';
      const on = byMembership && asMember ? await asMember() : pair.on;
      const verify = operation === alone && !begun ? verifyBeginning : verifyOperation;
      return verify({ deployment, authority }, { operation, on, with: pair.with, ...detail });
    }),
  );
  await verifyOneOf(ways);
}
