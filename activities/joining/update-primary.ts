import type { ChangeResult, OfKind, SecondaryToken } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { demand } from '../checks/check';
import { attachedBefore, hasRole, knowsSecondary, sameSet } from '../checks/replication';
import type { Told } from '../checks/replication';
import type { ClusterAccess } from '../clusters';
import { betweenClusters, currentExecution } from '../execution';
import { requireFilter } from '../filters/paths-filters';
import { kindName, readKind, replicationOf } from '../observe';
import { CHANGE_TIMEOUT_MS, awaitSettled, readActConfirm, resultOf, withCredential } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, awaitClusterId, openOperationToken } from '../tokens/operation-token';
import { follows, isAttached, readSource, demandRole } from './following';
import type { JoinInput, TokenParameters } from './join-by-token';
import { joinByToken } from './join-by-token';
import { pairOf, verifyFollowing, verifyJoining } from './repoint-authority';

const POINTED_BUDGET_MS = 30_000;

interface UpdatePrimary extends JoinInput {
  /** By addresses id, certificate and filter stay. */
  readonly by: 'token' | 'addresses';
  /** Those that people gave; what is known of the primary where there are none. */
  readonly addresses?: readonly string[] | undefined;
}

/** Points a secondary at a primary, by an activation token or by the addresses of the primary. */
export async function updatePrimary(input: UpdatePrimary): Promise<ChangeResult> {
  return input.by === 'token' ? byToken(input) : byAddresses(input);
}

/** How the secondary is read, and when it is pointed at the primary. */
async function pointing(input: UpdatePrimary, given: readonly string[] = []) {
  const { kind, primary, secondary } = input;
  const { source, target, signal, limits } = betweenClusters(input);
  const { addresses: known, state: primaryState } = await readSource(source, kind, signal);
  const addresses = new Set([...known, ...given.flatMap(withScheme)]);
  const attached = (state: ReplicationObservation) => isAttached(state, addresses, limits.heartbeatAgeMs);
  return {
    ...{ known, primaryState, attached },
    /** One that knew the address before, and was cut off or does not accept it any more, proves nothing by knowing it still. */
    pointedSince: (before: ReplicationObservation) => (state: ReplicationObservation) =>
      follows(before, addresses) ? attached(state) : follows(state, addresses),
    reading: {
      ...replicationOf(target, kind, signal),
      budgetMs: POINTED_BUDGET_MS,
      needed: `${secondary} knows ${primary} as its ${kindName(kind)} primary`,
    },
  };
}

async function byToken(input: UpdatePrimary): Promise<ChangeResult> {
  const { kind, primary, secondary, expected } = input;
  const { execution, signal, limits, source, target } = betweenClusters(input);
  const { doubt, step } = execution;
  // An attempt, or a try that people decided on, came before this one, and may have sent the call.
  const again = doubt.mayHaveSent || (step?.attempt ?? 1) > 1;
  const clusterId = await awaitClusterId(target, execution, Math.min(ANSWER_BUDGET_MS, limits.streamingMs));
  const joining = { input, use: 'update-primary', source, target, clusterId } as const;
  const { primaryState, reading, attached, pointedSince } = await pointing(input);
  demandRole(primary, kind, 'primary', primaryState);
  const { needed } = reading;
  const before = await awaitSettled(execution, { ...reading, until: attached });
  if (attached(before)) {
    await verifyJoining(joining, { begun: true });
    return resultOf({ outcome: 'already', calls: 0 }, needed);
  }
  demandRole(secondary, kind, 'secondary', before);
  const use = {
    ...reading,
    observed: needed,
    until: pointedSince(before),
    prepare: async () => {
      await verifyJoining(joining, { begun: true });
      const send = await updatePrimarySender(input, target, clusterId);
      if (expected) await requireFilter(source, secondary, clusterId, expected, signal);
      return send;
    },
  };
  return joinByToken(joining, use, again);
}

async function byAddresses(input: UpdatePrimary): Promise<ChangeResult> {
  const { deployment, kind, primary, secondary, authority, expected, addresses } = input;
  const { execution, signal, source, target } = betweenClusters(input);
  const pair = await pairOf(target, source, signal);
  const way = { ...pair, kind, form: 'addresses', filter: expected?.filter, addresses } as const;
  const verify = (begun: boolean) => verifyFollowing(deployment, authority, { ...way, begun });
  await verify(true);
  const { known, reading, pointedSince } = await pointing(input, addresses);
  const told = (state: ReplicationObservation): Told => ({ cluster: secondary, [kind]: state });
  const changed = await readActConfirm(execution, {
    ...reading,
    until: pointedSince(await reading.read()),
    allow: (state) => demand([attachedBefore(told(state), kind)], 'It goes no further', state.mode === 'unknown'),
    prepare: async (seen) => {
      const from: Told = { cluster: primary, [kind]: await readKind(source, kind, signal) };
      const next = `Start secondaryRepointing of ${secondary} to its ${kindName(kind)} primary with {"form": "token"}.`;
      const knows = knowsSecondary(from, told(seen), kind);
      demand(
        [hasRole(from, kind, 'primary', next), sameSet(kind, from, told(seen), next), knows],
        'It goes no further',
      );
      if (expected) await requireFilter(source, secondary, seen.secondaryId ?? '', expected, signal);
      // The step may have been parked for hours since the plan was judged.
      await verify(false);
      const send = await updatePrimarySender(input, target, pair.on.clusterId);
      return () => send({ updatePrimaryAddrs: addresses ?? [...known] });
    },
  });
  return resultOf(changed, reading.needed);
}

/** How a secondary is pointed: by a token, which is blank where it is to forget its primary, or by addresses. */
type Pointed = TokenParameters | { readonly token: '' } | { readonly updatePrimaryAddrs: readonly string[] };

/** What sends the call, with the credential or the operation token of the secondary read before. */
export async function updatePrimarySender(
  { kind, token }: OfKind & SecondaryToken,
  access: ClusterAccess,
  clusterId: string,
): Promise<(how: Pointed) => Promise<unknown>> {
  const execution = currentExecution();
  const { dr, performance } = access.client;
  if (kind === 'performance') {
    const options = await withCredential(access, execution);
    return (how) => performance.secondary.updatePrimary(how, options);
  }
  const drOperationToken = await openOperationToken(access, clusterId, token, 'dr.update-primary');
  const options = { signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS };
  return (how) => dr.secondary.updatePrimary({ drOperationToken, ...how }, options);
}

/** The service tells addresses with a scheme, and takes them without one too. */
function withScheme(address: string): string[] {
  return address.startsWith('https://') ? [address] : [address, `https://${address}`];
}
