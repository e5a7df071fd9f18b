import type {
  Authority,
  ChangeResult,
  OfKind,
  OnCluster,
  SecondaryToken,
  OnDeployment,
} from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { ReplicationKind, TokenUse } from '../../src/contracts/runbook-inputs';
import { RunbookError, orElse } from '../../src/errors';
import { verifyBeginning } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { demand } from '../checks/check';
import { anotherStays } from '../checks/replication';
import { currentExecution } from '../execution';
import { demandRole } from '../joining/onboarding-read';
import type { Execution } from '../execution';
import { describeReplication, isAlive, kindName, readKind } from '../observe';
import { CHANGE_TIMEOUT_MS } from '../deadline';
import { beforeSending, readActConfirm, resultOf, withCredential, awaitState } from '../read-act-confirm';
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

/**
 * Revokes an id on its primary and sees that the primary does not know it any more. Of kind `dr` it refuses the only
 * connected secondary unless the approved plan says that it is acknowledged.
 */
export function revokeSecondary(input: Revocation): Promise<ChangeResult> {
  const { deployment, cluster, kind, id, secondary } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  return changed(input, {
    until: (state) => state.mode === 'primary' && !(state.knownSecondaries ?? []).includes(id),
    needed: `${cluster} does not know ${id}`,
    role: 'primary',
    act: async (seen, { access, on }) => {
      const target = secondary === undefined ? undefined : clusters.of(deployment, secondary);
      const peer = target && (await identityOfId(target, kind, id, signal));
      const operation = `${kind}.primary.revoke-secondary` as const;
      const plan = await verifyBeginning(input, { operation, on, ...(peer ? { with: peer } : {}), detail: id });
      const { heartbeatAgeMs } = clusters.deployment(deployment).limits;
      const acknowledged = plan.choices['acknowledgeLastSecondary'] === true;
      if (kind === 'dr')
        demand([anotherStays({ cluster, dr: seen }, id, heartbeatAgeMs, acknowledged)], `${id} was not revoked`);
      return async () => access.client[kind].primary.revokeSecondary({ id }, await withCredential(access, execution));
    },
  });
}

/**
 * Makes a secondary forget its primary (`update-primary` with a blank token). One that is connected is refused: its primary
 * must have revoked it before.
 */
export function forgetPrimary(input: EndInput & SecondaryToken): Promise<ChangeResult> {
  const { deployment, cluster, kind } = input;
  const execution = currentExecution();
  const { heartbeatAgeMs } = execution.clusters.deployment(deployment).limits;
  return changed(input, {
    until: hasForgotten,
    needed: `${cluster} knows no ${kindName(kind)} primary`,
    role: 'secondary',
    act: async (seen, { access, on }) => {
      if (isAlive(seen, heartbeatAgeMs))
        throw refused(cluster, `${cluster} is connected to its primary.`, seen, 'not connected', {
          next: 'Revoke it on its primary first: what is connected is in use.',
        });
      await verifyBeginning(input, { operation: `${kind}.secondary.forget-primary`, on });
      return async () => {
        const { dr, performance } = access.client;
        if (kind === 'performance')
          return performance.secondary.updatePrimary({ token: '' }, await withCredential(access, execution));
        const drOperationToken = await operationToken(input, access, on.clusterId, 'dr.update-primary');
        return dr.secondary.updatePrimary({ drOperationToken, token: '' }, inBody(execution));
      };
    },
  });
}

/** Ends replication on a primary: refuses where it knows other secondaries than those that were approved to be cut off. */
export function disablePrimary(input: EndInput): Promise<ChangeResult> {
  const { kind } = input;
  const execution = currentExecution();
  return changed(input, {
    ...disabled(input),
    role: 'primary',
    act: async (seen, { access, on }) => {
      const detail = cutOffDetail(seen.knownSecondaries ?? []);
      await verifyBeginning(input, { operation: `${kind}.primary.disable`, on, detail });
      return async () => access.client[kind].primary.disable(await withCredential(access, execution));
    },
  });
}

/**
 * Ends replication on a secondary. One that is connected is refused where only a disconnected one was approved: it is in
 * use, and comes back only by being wiped.
 */
export function disableSecondary(input: EndInput & SecondaryToken): Promise<ChangeResult> {
  const { deployment, cluster, kind } = input;
  const execution = currentExecution();
  const { heartbeatAgeMs } = execution.clusters.deployment(deployment).limits;
  return changed(input, {
    ...disabled(input),
    role: 'secondary',
    act: async (seen, { access, on }) => {
      const operation = `${kind}.secondary.disable` as const;
      const { operations } = await verifyBeginning(input, { operation, on, detail: CONNECTION.none });
      const also = operations.some((each) => each.operation === operation && each.detail === CONNECTION.any);
      if (also) await verifyBeginning(input, { operation, on, detail: CONNECTION.any });
      else if (isAlive(seen, heartbeatAgeMs))
        // Right after a revocation it may show its connection for a moment.
        throw refused(cluster, `${cluster} is connected to its primary.`, seen, 'not connected', {
          next: 'Somebody attached it again, or its revocation is not seen yet. Find out, then retry; abort where it is in use.',
          retryable: true,
        });
      return async () => {
        const { dr, performance } = access.client;
        if (kind === 'performance') return performance.secondary.disable({}, await withCredential(access, execution));
        const drOperationToken = await operationToken(input, access, on.clusterId, 'dr.disable');
        return dr.secondary.disable({ drOperationToken }, inBody(execution));
      };
    },
  });
}

function disabled({ cluster, kind }: EndInput) {
  return {
    until: ({ mode }: ReplicationObservation) => mode === 'disabled',
    needed: `${kindName(kind)} replication is disabled on ${cluster}`,
  };
}

type Identified = Awaited<ReturnType<typeof identified>>;

/** Read, act, confirm for one role change; what `act` looks at last leaves no doubt where it fails. */
async function changed(
  input: EndInput,
  asked: {
    readonly until: (state: ReplicationObservation) => boolean;
    readonly needed: string;
    readonly role: 'primary' | 'secondary';
    /** The last look and the approval; gives what sends the request. */
    readonly act: (seen: ReplicationObservation, at: Identified) => Promise<() => Promise<unknown>>;
  },
): Promise<ChangeResult> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { deployment, cluster, kind } = input;
  const at = await identified(input);
  let seen: ReplicationObservation | undefined;
  const change = await readActConfirm(execution, {
    read: async () => {
      // A DR secondary hides the performance role that is in its data: it would look disabled.
      if (kind === 'performance') refuseDrSecondary(cluster, await readKind(at.access, 'dr', signal));
      return readKind(at.access, kind, signal);
    },
    until: asked.until,
    budgetMs: clusters.deployment(deployment).limits.demoteMs,
    describe: describeReplication,
    needed: asked.needed,
    cluster,
    allow: (found) => {
      seen = found;
      demandRole(cluster, kind, asked.role, found);
    },
    act: async () => {
      const last = seen;
      if (last === undefined) throw new RunbookError('INTERNAL', 'nothing was read before a change');
      const send = await beforeSending(() => asked.act(last, at));
      execution.throwIfCancelled();
      return send();
    },
  });
  return resultOf(change, `${cluster}: ${describeReplication(change.state)}`);
}

/** Of a DR secondary, for exactly this use. */
function operationToken({ token }: SecondaryToken, access: ClusterAccess, clusterId: string, use: TokenUse) {
  return openOperationToken(access, clusterId, token, use);
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

/** The secondary that is about to be revoked must have the id that is revoked. */
async function identityOfId(access: ClusterAccess, kind: ReplicationKind, id: string, signal: AbortSignal) {
  const { name: cluster } = access.entry;
  const clusterId = await readClusterId(access, signal);
  const state = await readKind(access, kind, signal);
  if (id !== clusterId && id !== state.secondaryId)
    throw refused(cluster, `${cluster} has not the id ${id}.`, state, `id ${id}`);
  return { cluster, clusterId };
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

/* Secondaries are revoked, and replication ends (interface 4.1, 4.2; facts 2.4, 2.6, 2.10, 8.7). */

/** Waits until the primary sees no peer with this id and, where it is given, the secondary sees no primary. */
export async function awaitSecondaryGone(
  input: OnCluster & { readonly kind: ReplicationKind; readonly id: string; readonly secondary?: string },
): Promise<{ readonly observed: string }> {
  const { deployment, cluster, kind, id, secondary } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const access = clusters.of(deployment, cluster);
  const target = secondary === undefined ? undefined : clusters.of(deployment, secondary);
  const read = async () => {
    const [onPrimary, onSecondary] = await Promise.all([
      readKind(access, kind, signal),
      target && readKind(target, kind, signal),
    ]);
    const known = (onPrimary.knownSecondaries ?? []).includes(id);
    const peer = onPrimary.peers.some((each) => each.id === id && each.connected);
    const connected = onSecondary?.peers.some((each) => each.connected) ?? false;
    const seen = `${cluster} ${known ? 'knows' : 'does not know'} ${id} and ${peer ? 'is connected to it' : 'sees no such peer'}`;
    const there = `${secondary}: ${describeReplication(onSecondary)}, ${connected ? 'connected' : 'not connected'}`;
    return { gone: !known && !peer && !connected, observed: onSecondary ? `${seen}; ${there}` : seen };
  };
  const { observed } = await awaitState(execution, {
    read,
    until: ({ gone }) => gone,
    budgetMs: clusters.deployment(deployment).limits.streamingMs,
    describe: (seen) => seen.observed,
    needed: `${id} is gone on ${cluster}${secondary === undefined ? '' : `, and ${secondary} is not connected`}`,
    cluster,
  });
  return { observed };
}

/** Waits until every node says that this kind of replication is disabled. */
export async function awaitReplicationDisabled(
  input: OnDeployment & { readonly cluster: string; readonly kind: ReplicationKind },
): Promise<{ readonly observed: string }> {
  const { deployment, cluster, kind } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { client, entry } = clusters.of(deployment, cluster);
  const modeOf = (node: string): Promise<string> =>
    client[kind].status({ node, signal }).then(
      ({ mode }) => mode,
      orElse(signal, ({ code }) => `not readable (${code})`),
    );
  const describe = (modes: readonly string[]) =>
    entry.addresses.map((address, index) => `${address} ${modes[index] ?? 'not read'}`).join('; ');
  const seen = await awaitState(execution, {
    read: () => Promise.all(entry.addresses.map(modeOf)),
    until: (modes) => modes.every((mode) => mode === 'disabled'),
    budgetMs: clusters.deployment(deployment).limits.demoteMs,
    describe,
    needed: `every node of ${cluster} says that ${kindName(kind)} replication is disabled`,
    cluster,
  });
  return { observed: describe(seen) };
}
