import type { ChangeResult } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { demand } from '../checks/check';
import { attachedBefore, hasRole, knowsSecondary, sameSet } from '../checks/replication';
import type { Told } from '../checks/replication';
import { currentExecution } from '../execution';
import { requireFilter } from '../filters/paths-filters';
import { describeReplication, kindName, readKind } from '../observe';
import { CHANGE_TIMEOUT_MS } from '../deadline';
import { awaitSettled, beforeSending, readActConfirm, resultOf, withCredential } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, awaitClusterId } from '../tokens/operation-token';
import { follows, isAttached, primaryAddresses } from './following';
import type { JoinInput, JoinTarget, TokenParameters } from './join-by-token';
import { joinByToken, joinTargetOf, mayHaveCalledBefore, readPrimary, updateToken } from './join-by-token';
import { demandRole } from './onboarding-read';
import { pairOf, verifyFollowing, verifyJoining } from './repoint-authority';

interface ByAddresses {
  readonly updatePrimaryAddrs: readonly string[];
}

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

async function byToken(input: UpdatePrimary): Promise<ChangeResult> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { deployment, kind, primary, secondary, expected } = input;
  const { heartbeatAgeMs, streamingMs } = clusters.deployment(deployment).limits;
  const target = clusters.of(deployment, secondary);
  const again = mayHaveCalledBefore();
  const clusterId = await awaitClusterId(target, execution, Math.min(ANSWER_BUDGET_MS, streamingMs));
  const joining = joinTargetOf(input, 'update-primary', clusterId);
  const { source } = joining;
  const [addresses] = await Promise.all([primaryAddresses(source, signal), readPrimary(joining)]);
  const attached = (state: ReplicationObservation) => isAttached(state, addresses, heartbeatAgeMs);
  const needed = `${secondary} knows ${primary} as its ${kindName(kind)} primary`;
  const reading = {
    read: () => readKind(target, kind, signal),
    budgetMs: POINTED_BUDGET_MS,
    describe: describeReplication,
    needed,
    cluster: secondary,
  };
  const before = await awaitSettled(execution, { ...reading, until: attached });
  if (attached(before)) {
    await verifyJoining(joining, { begun: true });
    return resultOf({ outcome: 'already', calls: 0 }, needed);
  }
  demandRole(secondary, kind, 'secondary', before);
  const use = {
    ...reading,
    observed: needed,
    // A cluster that was promoted back is known to its secondary already, which it does not accept any more: only a
    // live connection proves anything then.
    until: (state: ReplicationObservation) =>
      follows(before, addresses) ? attached(state) : follows(state, addresses),
    prepare: async () => {
      await verifyJoining(joining, { begun: true });
      const send = await senderFor(joining);
      if (expected) await requireFilter(source, secondary, clusterId, expected, signal);
      return send;
    },
  };
  return joinByToken(joining, use, again);
}

async function byAddresses(input: UpdatePrimary): Promise<ChangeResult> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { deployment, kind, primary, secondary, authority, expected, addresses: given } = input;
  const [source, target] = [clusters.of(deployment, primary), clusters.of(deployment, secondary)];
  const pair = await pairOf(target, source, signal);
  const way = { ...pair, kind, form: 'addresses', filter: expected?.filter, addresses: given } as const;
  const verify = (begun: boolean) => verifyFollowing(deployment, authority, { ...way, begun });
  await verify(true);
  const { heartbeatAgeMs } = clusters.deployment(deployment).limits;
  const known = await primaryAddresses(source, signal);
  const addresses = new Set([...known, ...(given ?? []).flatMap(withScheme)]);
  const before = await readKind(target, kind, signal);
  const needed = `${secondary} knows ${primary} as its ${kindName(kind)} primary`;
  let seen = before;
  const told = (state: ReplicationObservation): Told => ({ cluster: secondary, [kind]: state });
  const changed = await readActConfirm(execution, {
    read: () => readKind(target, kind, signal),
    // One that knew the address before and was cut off proves nothing by knowing it still.
    until: (state) =>
      follows(before, addresses) ? isAttached(state, addresses, heartbeatAgeMs) : follows(state, addresses),
    budgetMs: POINTED_BUDGET_MS,
    describe: describeReplication,
    needed,
    cluster: secondary,
    allow: (state) => {
      seen = state;
      demand([attachedBefore(told(state), kind)], 'It goes no further', state.mode === 'unknown');
    },
    act: async () => {
      // The step may have been parked for hours since the plan was judged.
      await beforeSending(async () => {
        const from: Told = { cluster: primary, [kind]: await readKind(source, kind, signal) };
        const next = `Start secondaryRepointing of ${secondary} to its ${kindName(kind)} primary with {"form": "token"}.`;
        const knows = knowsSecondary(from, told(seen), kind);
        demand(
          [hasRole(from, kind, 'primary', next), sameSet(kind, from, told(seen), next), knows],
          'It goes no further',
        );
        if (expected) await requireFilter(source, secondary, seen.secondaryId ?? '', expected, signal);
        await verify(false);
      });
      execution.throwIfCancelled();
      const send = await senderFor(joinTargetOf(input, 'update-primary', pair.on.clusterId));
      return send({ updatePrimaryAddrs: given ?? [...known] });
    },
  });
  return resultOf(changed, needed);
}

/** What sends the call, with the credential or the operation token of the secondary read before. */
async function senderFor(joining: JoinTarget): Promise<(how: TokenParameters | ByAddresses) => Promise<unknown>> {
  const execution = currentExecution();
  const { dr, performance } = joining.target.client;
  if (joining.input.kind === 'dr') {
    const drOperationToken = await updateToken(joining);
    const options = { signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS };
    return (how) => dr.secondary.updatePrimary({ drOperationToken, ...how }, options);
  }
  const options = await withCredential(joining.target, execution);
  return (how) => performance.secondary.updatePrimary(how, options);
}

/** The service tells addresses with a scheme, and takes them without one too. */
function withScheme(address: string): string[] {
  return address.startsWith('https://') ? [address] : [address, `https://${address}`];
}
