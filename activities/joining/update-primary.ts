import type { ChangeResult } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { demand } from '../checks/check';
import { attachedBefore, hasRole, knowsSecondary, sameSet } from '../checks/replication';
import type { ObservedRoles } from '../checks/replication';
import { betweenClusters } from '../execution';
import { requireFilter } from '../filters/paths-filters';
import { isAlive, kindName, readKind, replicationOf } from '../observe';
import { awaitSettled, readActConfirm, resultOf } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, authorisedOn, awaitIdentity, sendWithToken } from '../tokens/operation-token';
import { follows, readSource, demandRole } from './following';
import type { TokenParameters } from './join-by-token';
import { joinByToken } from './join-by-token';
import { pairOf, verifyFollowing, verifyJoining } from './repoint-authority';
import type { JoinInput } from './join-target';

const POINTED_BUDGET_MS = 30_000;

interface UpdatePrimary extends JoinInput {
  /** By addresses, the id, certificate and filter stay. */
  readonly by: 'token' | 'addresses';
  /** Addresses that people gave; without any, the known addresses of the primary are used. */
  readonly addresses?: readonly string[] | undefined;
}

/** Points a secondary at a primary, by activation token or by the addresses of the primary. */
export async function updatePrimary(input: UpdatePrimary): Promise<ChangeResult> {
  return input.by === 'token' ? byToken(input) : byAddresses(input);
}

/** How to read the secondary, and when it counts as pointed at the primary. */
async function pointing(input: UpdatePrimary, given: readonly string[] = []) {
  const { kind, primary, secondary } = input;
  const { source, target, signal, limits } = betweenClusters(input);
  const { addresses: known, state: primaryState } = await readSource(source, kind, signal);
  const addresses = new Set([...known, ...given]);
  // It must also be connected: a primary that was demoted in between has forgotten its secondaries.
  const attached = (state: ReplicationObservation) =>
    follows(state, addresses) && isAlive(state, limits.heartbeatAgeMs);
  return {
    ...{ known, primaryState, attached },
    /** A secondary that already knew the address must connect: it may be cut off, or no longer accepted. */
    pointedSince: (before: ReplicationObservation) => (state: ReplicationObservation) =>
      follows(before, addresses) ? attached(state) : follows(state, addresses),
    reading: {
      ...replicationOf(target, kind, signal),
      budgetMs: POINTED_BUDGET_MS,
      needed: `${secondary} has ${primary} configured as its ${kindName(kind)} primary`,
    },
  };
}

async function byToken(input: UpdatePrimary): Promise<ChangeResult> {
  const { kind, primary, secondary, expected } = input;
  const { execution, signal, limits, source, target } = betweenClusters(input);
  const { doubt, step } = execution;
  // An earlier attempt, or a retry that people decided on, may have sent the call.
  const again = doubt.mayHaveSent || (step?.attempt ?? 1) > 1;
  const { clusterId } = await awaitIdentity(target, Math.min(ANSWER_BUDGET_MS, limits.streamingMs));
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
      const { body, options } = await authorisedOn(target, input, clusterId, 'dr.update-primary');
      if (expected) await requireFilter(source, secondary, clusterId, expected, signal);
      const { secondary: endpoints } = target.client[kind];
      return (how: TokenParameters) =>
        sendWithToken(target, input.token, endpoints.updatePrimary({ ...body, ...how }, options));
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
  const observed = (state: ReplicationObservation): ObservedRoles => ({ cluster: secondary, [kind]: state });
  const changed = await readActConfirm(execution, {
    ...reading,
    until: pointedSince(await reading.read()),
    allow: (state) => demand([attachedBefore(observed(state), kind)], 'Not sent', state.mode === 'unknown'),
    prepare: async (seen) => {
      const from: ObservedRoles = { cluster: primary, [kind]: await readKind(source, kind, signal) };
      const next = `Start secondaryRepointing of ${secondary} to its ${kindName(kind)} primary with {"form": "token"}.`;
      const knows = knowsSecondary(from, observed(seen), kind);
      demand([hasRole(from, kind, 'primary', next), sameSet(kind, from, observed(seen), next), knows], 'Not sent');
      if (expected) await requireFilter(source, secondary, seen.secondaryId ?? '', expected, signal);
      // The step may have been parked for hours since the plan was judged.
      await verify(false);
      const { body, options } = await authorisedOn(target, input, pair.on.clusterId, 'dr.update-primary');
      const how = { ...body, updatePrimaryAddrs: addresses ?? [...known] };
      return () => sendWithToken(target, input.token, target.client[kind].secondary.updatePrimary(how, options));
    },
  });
  return resultOf(changed, reading.needed);
}
