import type { Authority, ChangeResult, OfKind, OnCluster, SecondaryToken } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { AllowedOperation, GatedOperation, RunbookPlan } from '../../src/contracts/plan';
import type { ReplicationKind, TokenUse } from '../../src/contracts/runbook-inputs';
import { RunbookError } from '../../src/errors';
import { verifyBeginning } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import type { Execution } from '../execution';
import { kindName, readKind } from '../joining/onboarding-read';
import { describeReplication, isAlive } from '../observe';
import { CHANGE_TIMEOUT_MS, beforeSending, readActConfirm, withCredential } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, awaitClusterId, openOperationToken, readClusterId } from '../tokens/operation-token';

/** One change of one kind of replication on one cluster. It demands the approval of its gate. */
interface EndInput extends OnCluster, OfKind {
  readonly authority: Authority;
}

interface Revocation extends EndInput {
  /** `cluster` is the primary, `id` what it knows the secondary by. */
  readonly id: string;
  /** The cluster of the inventory that has this id and answers. */
  readonly secondary?: string | undefined;
}

/** The secondaries of a primary that an approval of its end is bound to. */
export function cutOffDetail(ids: readonly string[]): string {
  return `cuts off ${[...ids].sort().join(', ') || 'nobody'}`;
}

/** Whether a secondary may be disabled that is connected to its primary, or only one that is not, as an approval says it. */
export const CONNECTION = { none: 'disconnected', any: 'also while connected' } as const;

/** Whether a secondary knows no primary any more: what a blank token leaves behind. */
function hasForgotten(state: ReplicationObservation): boolean {
  return (
    state.mode === 'secondary' &&
    (state.primaryClusterAddress ?? '') === '' &&
    (state.knownPrimaryClusterAddresses ?? []).length === 0 &&
    !state.peers.some(({ connected }) => connected)
  );
}

/** Other secondaries than `id` that the primary is connected to now. */
export function othersConnected(primary: ReplicationObservation, id: string, heartbeatAgeMs: number): string[] {
  return primary.peers.flatMap((peer) =>
    peer.id !== undefined && peer.id !== id && isAlive({ mode: 'primary', peers: [peer] }, heartbeatAgeMs)
      ? [peer.id]
      : [],
  );
}

/**
 * Revokes an id on its primary and sees that the primary does not know it any more. Of kind `dr` it refuses the only
 * connected secondary unless the approved plan says that it is acknowledged.
 */
export async function revokeSecondary(input: Revocation): Promise<ChangeResult> {
  const { kind, id, secondary } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { limits } = clusters.deployment(input.deployment);
  const { access, on } = await identified(input);
  return changed(input, access, {
    until: (state) => state.mode === 'primary' && !(state.knownSecondaries ?? []).includes(id),
    needed: `${input.cluster} does not know ${id}`,
    role: 'primary',
    act: async (seen) => {
      const target = secondary === undefined ? undefined : clusters.of(input.deployment, secondary);
      const peer = target && (await identityOfId(target, kind, id, signal));
      const operation = `${kind}.primary.revoke-secondary` as const;
      const plan = await verified(input, { operation, on, ...(peer ? { with: peer } : {}), detail: id });
      if (kind === 'dr' && othersConnected(seen, id, limits.heartbeatAgeMs).length === 0)
        demandAcknowledgement(plan, input.cluster, id);
      return async () => access.client[kind].primary.revokeSecondary({ id }, await withCredential(access, execution));
    },
  });
}

/**
 * Makes a secondary forget its primary (`update-primary` with a blank token). One that is connected is refused: its primary
 * must have revoked it before.
 */
export async function forgetPrimary(input: EndInput & SecondaryToken): Promise<ChangeResult> {
  const { kind } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const { heartbeatAgeMs } = clusters.deployment(input.deployment).limits;
  const { access, on } = await identified(input);
  return changed(input, access, {
    until: hasForgotten,
    needed: `${input.cluster} knows no ${kindName(kind)} primary`,
    role: 'secondary',
    act: async (seen) => {
      if (isAlive(seen, heartbeatAgeMs))
        throw refused(input.cluster, `${input.cluster} is connected to its primary.`, seen, 'not connected', {
          next: 'Revoke it on its primary first: what is connected is in use.',
        });
      await verified(input, { operation: `${kind}.secondary.forget-primary`, on });
      return async () => {
        const { client } = access;
        if (kind === 'performance')
          return client.performance.secondary.updatePrimary({ token: '' }, await withCredential(access, execution));
        const drOperationToken = await operationToken(input, access, on.clusterId, 'dr.update-primary');
        return client.dr.secondary.updatePrimary({ drOperationToken, token: '' }, inBody(execution));
      };
    },
  });
}

/** Ends replication on a primary: refuses where it knows other secondaries than those that were approved to be cut off. */
export async function disablePrimary(input: EndInput): Promise<ChangeResult> {
  const { kind } = input;
  const execution = currentExecution();
  const { access, on } = await identified(input);
  return changed(input, access, {
    until: ({ mode }) => mode === 'disabled',
    needed: `${kindName(kind)} replication is disabled on ${input.cluster}`,
    role: 'primary',
    act: async (seen) => {
      const detail = cutOffDetail(seen.knownSecondaries ?? []);
      await verified(input, { operation: `${kind}.primary.disable`, on, detail });
      return async () => access.client[kind].primary.disable(await withCredential(access, execution));
    },
  });
}

/**
 * Ends replication on a secondary. One that is connected is refused where only a disconnected one was approved: it is in
 * use, and comes back only by being wiped.
 */
export async function disableSecondary(input: EndInput & SecondaryToken): Promise<ChangeResult> {
  const { kind } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const { heartbeatAgeMs } = clusters.deployment(input.deployment).limits;
  const { access, on } = await identified(input);
  return changed(input, access, {
    until: ({ mode }) => mode === 'disabled',
    needed: `${kindName(kind)} replication is disabled on ${input.cluster}`,
    role: 'secondary',
    act: async (seen) => {
      const operation = `${kind}.secondary.disable` as const;
      const { operations } = await verified(input, { operation, on, detail: CONNECTION.none });
      const also = operations.some((each) => each.operation === operation && each.detail === CONNECTION.any);
      if (also) await verified(input, { operation, on, detail: CONNECTION.any });
      else if (isAlive(seen, heartbeatAgeMs))
        // Right after a revocation it may show its connection for a moment.
        throw refused(input.cluster, `${input.cluster} is connected to its primary.`, seen, 'not connected', {
          next: 'Somebody attached it again, or its revocation is not seen yet. Find out, then retry; abort where it is in use.',
          retryable: true,
        });
      return async () => {
        const { client } = access;
        if (kind === 'performance')
          return client.performance.secondary.disable({}, await withCredential(access, execution));
        const drOperationToken = await operationToken(input, access, on.clusterId, 'dr.disable');
        return client.dr.secondary.disable({ drOperationToken }, inBody(execution));
      };
    },
  });
}

/** Read, act, confirm for one role change; what `act` looks at last leaves no doubt where it fails. */
async function changed(
  input: EndInput,
  access: ClusterAccess,
  asked: {
    readonly until: (state: ReplicationObservation) => boolean;
    readonly needed: string;
    readonly role: 'primary' | 'secondary';
    /** The last look and the approval; gives what sends the request. */
    readonly act: (seen: ReplicationObservation) => Promise<() => Promise<unknown>>;
  },
): Promise<ChangeResult> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { kind } = input;
  let seen: ReplicationObservation | undefined;
  const { outcome, state, calledAt, calls } = await readActConfirm(execution, {
    read: async () => {
      // A DR secondary hides the performance role that is in its data: it would look disabled.
      if (kind === 'performance') refuseDrSecondary(input.cluster, await readKind(access, 'dr', signal));
      return readKind(access, kind, signal);
    },
    until: asked.until,
    budgetMs: clusters.deployment(input.deployment).limits.demoteMs,
    describe: describeReplication,
    needed: asked.needed,
    cluster: input.cluster,
    allow: (found) => {
      seen = found;
      if (found.mode !== asked.role)
        throw refused(input.cluster, `${input.cluster} is no ${kindName(kind)} ${asked.role}.`, found, asked.role);
    },
    act: async () => {
      const last = seen;
      if (last === undefined) throw new RunbookError('INTERNAL', 'nothing was read before a change');
      const send = await beforeSending(() => asked.act(last));
      execution.throwIfCancelled();
      return send();
    },
  });
  return {
    outcome,
    observed: `${input.cluster}: ${describeReplication(state)}`,
    calledAt,
    confirmedAt: Date.now(),
    calls,
  };
}

/** Of a DR secondary, for exactly this use. */
function operationToken({ token }: SecondaryToken, access: ClusterAccess, clusterId: string, use: TokenUse) {
  const execution = currentExecution();
  return openOperationToken(execution, execution.run, access, clusterId, token, use);
}

/** Options of a call whose token is in its body. */
function inBody({ signal }: Execution) {
  return { signal, timeoutMs: CHANGE_TIMEOUT_MS };
}

async function identified(input: EndInput) {
  const execution = currentExecution();
  const { clusters } = execution;
  const access = clusters.of(input.deployment, input.cluster);
  const { demoteMs } = clusters.deployment(input.deployment).limits;
  const clusterId = await awaitClusterId(access, execution, Math.min(ANSWER_BUDGET_MS, demoteMs));
  return { access, on: { cluster: input.cluster, clusterId } };
}

function verified(
  { deployment, authority }: EndInput,
  doing: AllowedOperation & { readonly operation: GatedOperation },
): Promise<RunbookPlan> {
  const { inventory, run } = currentExecution();
  return verifyBeginning(inventory, run, deployment, authority, doing);
}

/** The secondary that is about to be revoked must have the id that is revoked. */
async function identityOfId(access: ClusterAccess, kind: ReplicationKind, id: string, signal: AbortSignal) {
  const { name: cluster } = access.entry;
  const clusterId = await readClusterId(access, signal);
  const state = await readKind(access, kind, signal);
  if (id !== clusterId && id !== state.secondaryId)
    throw refused(cluster, `${cluster} has not the id ${id}.`, state, `id ${id}`);
  return { cluster, clusterId };
}

function demandAcknowledgement(plan: RunbookPlan, primary: string, id: string): void {
  if (plan.choices['acknowledgeLastSecondary'] === true) return;
  throw new RunbookError('PRECONDITION_FAILED', `No DR secondary of ${primary} would be connected any more.`, {
    cluster: primary,
    observed: `${id} is the only one that is connected, or none is`,
    needed: 'another connected DR secondary',
    next: 'Connect another DR secondary first, or start again with {"acknowledgeLastSecondary": true}.',
  });
}

function refuseDrSecondary(cluster: string, dr: ReplicationObservation): void {
  if (dr.mode !== 'secondary') return;
  throw refused(cluster, `${cluster} is a DR secondary: its performance role is its primary's.`, dr, 'no DR secondary');
}

function refused(
  cluster: string,
  message: string,
  observed: ReplicationObservation,
  needed: string,
  more: { readonly next?: string; readonly retryable?: boolean } = {},
): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', message, {
    cluster,
    observed: describeReplication(observed),
    needed,
    retryable: observed.mode === 'unknown',
    ...more,
  });
}
