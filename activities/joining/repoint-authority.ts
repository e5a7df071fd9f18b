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

/** The gates of the changes that a re-point may be part of: a switchover, a rejoin, a promotion. On its own it has gate `repoint`. */
const AFTERWARDS = ['plan', 'unfence', 'promote'] as const;

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

/** The detail of a re-point by addresses in a plan: the addresses, if people gave them, and the filter that stays. */
export function addressesDetail(filter: FilterState | undefined, addresses: readonly string[] | undefined): string {
  const at = addresses ? `by the addresses ${addresses.join(', ')}` : 'by its known addresses';
  return filter === undefined ? at : `${at}; ${describeFilter(filter)}`;
}

/** Whether the detail of a re-point says that it goes by addresses, without an activation token. */
export function isByAddresses(detail: string | undefined): boolean {
  return detail?.startsWith('by ') === true;
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
    await verify(input, { kind, endpoint: 'secondary/enable', gate: 'wipe', ...pair, ...detail });
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
  const operation = { kind, endpoint: 'secondary/update-primary' } as const;
  // The plan of a failover names no filter: the filter on the primary counts.
  const byToken = filter === undefined ? [undefined] : [describeFilter(filter), undefined];
  const alone =
    form === 'token'
      ? byToken
      : [addressesDetail(filter, addresses), ...(addresses ? [] : [addressesDetail(undefined, undefined)])];
  const ways = [
    ...alone.map((detail) => ({ gate: 'repoint', detail }) as const),
    ...(addresses ? [] : AFTERWARDS.flatMap((gate) => byToken.map((detail) => ({ gate, detail })))),
  ].map((way) => async () => {
    const byMembership = kind === 'dr' && way.gate === 'promote';
    const on = byMembership && asMember ? await asMember() : pair.on;
    const verify = way.gate === 'repoint' && !begun ? verifyBeginning : verifyOperation;
    return verify({ deployment, authority }, { ...operation, ...way, on, with: pair.with });
  });
  await verifyOneOf(ways);
}
