import { isSameOperation } from '../../src/contracts/operations';
import type { Authority, ChangeResult, OfKind, OnCluster, SecondaryToken } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { AllowedOperation } from '../../src/contracts/plan';
import { RunbookError, orElse } from '../../src/errors';
import { verifyBeginning } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { demand } from '../checks/check';
import { anotherSecondaryStays } from '../checks/replication';
import { onCluster } from '../execution';
import { demandRole } from '../joining/following';
import { describeReplication, isAlive, kindName, readKind, replicationOf } from '../observe';
import { awaitState, readActConfirm, resultOf, withCredential } from '../read-act-confirm';
import {
  ANSWER_BUDGET_MS,
  authorisedOn,
  awaitIdentityOf,
  readClusterId,
  sendWithToken,
} from '../tokens/operation-token';

/* Revoking secondaries and ending replication (interface 4.1, 4.2; facts 2.4, 2.6, 2.10, 8.7). */

/** One change of one kind of replication on one cluster. It requires the approval of its gate. */
interface EndInput extends OnCluster, OfKind {
  readonly authority: Authority;
}

interface Revocation extends EndInput {
  /** `cluster` is the primary; `id` is the secondary's id there. */
  readonly id: string;
  /** The cluster of the inventory that has this id, if it answers. */
  readonly secondary?: string | undefined;
}

/** The secondaries that an approval to end replication on their primary is bound to. */
export function cutOffDetail(ids: readonly string[]): string {
  return `cuts off ${[...ids].sort().join(', ') || 'no secondary'}`;
}

/** Whether the approval covers only a secondary without connection to its primary, or also a connected one. */
export const CONNECTION = { none: 'disconnected', any: 'also while connected' } as const;

/** Whether a secondary no longer knows a primary: the effect of a blank token. */
function hasForgotten(state: ReplicationObservation): boolean {
  return (
    state.mode === 'secondary' &&
    (state.primaryClusterAddress ?? '') === '' &&
    (state.knownPrimaryClusterAddresses ?? []).length === 0 &&
    !state.peers.some(({ connected }) => connected)
  );
}

/**
 * Revokes an id on its primary, and confirms that the primary no longer knows it. For kind `dr`, refuses the only
 * connected secondary unless the approved plan acknowledges that.
 */
export function revokeSecondary(input: Revocation): Promise<ChangeResult> {
  const { deployment, cluster, kind, id, secondary } = input;
  const { execution, clusters, limits, access } = onCluster(input);
  return end(input, {
    until: (state) => state.mode === 'primary' && !(state.knownSecondaries ?? []).includes(id),
    needed: `${cluster} does not list ${id}`,
    role: 'primary',
    look: async (seen, on) => {
      const peer = secondary && (await identityOfId(clusters.of(deployment, secondary), input, execution.signal));
      const operation = { kind, endpoint: 'primary/revoke-secondary', gate: 'revoke' } as const;
      const plan = await verifyBeginning(input, { ...operation, on, ...(peer ? { with: peer } : {}), detail: id });
      const acknowledged = plan.choices['acknowledgeLastSecondary'] === true;
      const stays = () => anotherSecondaryStays({ cluster, dr: seen }, id, limits.heartbeatAgeMs, acknowledged);
      if (kind === 'dr') demand([stays()], `${id} was not revoked`);
      const options = await withCredential(access, execution);
      return () => access.client[kind].primary.revokeSecondary({ id }, options);
    },
  });
}

/**
 * Makes a secondary forget its primary (`update-primary` with a blank token). Refuses a connected secondary: its
 * primary must have revoked it first.
 */
export function forgetPrimary(input: EndInput & SecondaryToken): Promise<ChangeResult> {
  const { cluster, kind } = input;
  const { limits, access } = onCluster(input);
  return end(input, {
    until: hasForgotten,
    needed: `${cluster} has no ${kindName(kind)} primary configured`,
    role: 'secondary',
    look: async (seen, on) => {
      if (isAlive(seen, limits.heartbeatAgeMs))
        throw refused(cluster, `${cluster} is connected to its primary.`, seen, 'not connected', {
          next: 'Revoke it on its primary first: a connected secondary is in use.',
        });
      await verifyBeginning(input, { kind, endpoint: 'secondary/update-primary', gate: 'revoke', on });
      const { body, options } = await authorisedOn(access, input, on.clusterId, 'dr.update-primary');
      const { secondary } = access.client[kind];
      return () => sendWithToken(access, input.token, secondary.updatePrimary({ ...body, token: '' }, options));
    },
  });
}

/** Ends replication on a primary. Refuses if its secondaries are not exactly those that were approved to be cut off. */
export function disablePrimary(input: EndInput): Promise<ChangeResult> {
  const { kind } = input;
  const { execution, access } = onCluster(input);
  return end(input, {
    ...disabled(input),
    role: 'primary',
    look: async (seen, on) => {
      const detail = cutOffDetail(seen.knownSecondaries ?? []);
      await verifyBeginning(input, { kind, endpoint: 'primary/disable', gate: 'disable', on, detail });
      const options = await withCredential(access, execution);
      return () => access.client[kind].primary.disable(options);
    },
  });
}

/**
 * Ends replication on a secondary. Refuses a connected secondary if only a disconnected one was approved: it is in use,
 * and can rejoin only by being wiped.
 */
export function disableSecondary(input: EndInput & SecondaryToken): Promise<ChangeResult> {
  const { cluster, kind } = input;
  const { limits, access } = onCluster(input);
  return end(input, {
    ...disabled(input),
    role: 'secondary',
    look: async (seen, on) => {
      const operation = { kind, endpoint: 'secondary/disable', gate: 'disable' } as const;
      const { operations } = await verifyBeginning(input, { ...operation, on, detail: CONNECTION.none });
      const also = operations.some((each) => isSameOperation(each, operation) && each.detail === CONNECTION.any);
      if (also) await verifyBeginning(input, { ...operation, on, detail: CONNECTION.any });
      else if (isAlive(seen, limits.heartbeatAgeMs))
        // Right after a revocation, the connection may still show for a moment.
        throw refused(cluster, `${cluster} is connected to its primary.`, seen, 'not connected', {
          next: 'Either somebody attached it again, or its revocation is not visible yet. Find out which, then retry; abort if it is in use.',
          retryable: true,
        });
      const { body, options } = await authorisedOn(access, input, on.clusterId, 'dr.disable');
      return () => sendWithToken(access, input.token, access.client[kind].secondary.disable(body, options));
    },
  });
}

function disabled({ cluster, kind }: EndInput) {
  return {
    until: ({ mode }: ReplicationObservation) => mode === 'disabled',
    needed: `${kindName(kind)} replication is disabled on ${cluster}`,
  };
}

/** Read, act, confirm for ending one role. */
async function end(
  input: EndInput,
  asked: {
    readonly until: (state: ReplicationObservation) => boolean;
    readonly needed: string;
    readonly role: 'primary' | 'secondary';
    /** The last check and the approval; returns the function that sends the request. */
    readonly look: (seen: ReplicationObservation, on: AllowedOperation['on']) => Promise<() => Promise<unknown>>;
  },
): Promise<ChangeResult> {
  const { cluster, kind } = input;
  const { execution, signal, limits, access } = onCluster(input);
  const { until, needed, role, look } = asked;
  const on = await awaitIdentityOf(access, Math.min(ANSWER_BUDGET_MS, limits.demoteMs));
  const replication = replicationOf(access, kind, signal);
  const change = await readActConfirm(execution, {
    ...replication,
    read: async () => {
      // A DR secondary hides the performance role in its data: it would look disabled.
      const dr = kind === 'performance' ? await readKind(access, 'dr', signal) : undefined;
      const why = `${cluster} is a DR secondary: its performance role is that of its primary.`;
      if (dr?.mode === 'secondary') throw refused(cluster, why, dr, 'not a DR secondary');
      return replication.read();
    },
    until,
    budgetMs: limits.demoteMs,
    needed,
    allow: (found) => demandRole(cluster, kind, role, found),
    prepare: (seen) => look(seen, on),
  });
  return resultOf(change, `${cluster}: ${describeReplication(change.state)}`);
}

/** The secondary that is about to be revoked must have this id. */
async function identityOfId(access: ClusterAccess, { kind, id }: Revocation, signal: AbortSignal) {
  const { name: cluster } = access.entry;
  const clusterId = await readClusterId(access, signal);
  const state = await readKind(access, kind, signal);
  if (id !== clusterId && id !== state.secondaryId)
    throw refused(cluster, `${cluster} does not have the id ${id}.`, state, `id ${id}`);
  return { cluster, clusterId };
}

function refused(
  cluster: string,
  message: string,
  observed: ReplicationObservation,
  needed: string,
  more: { readonly next?: string; readonly retryable?: boolean } = {},
): RunbookError {
  const details = { cluster, observed: describeReplication(observed), needed, retryable: observed.mode === 'unknown' };
  return new RunbookError('PRECONDITION_FAILED', message, { ...details, ...more });
}

/** Waits until the primary sees no peer with this id and the secondary, if given, sees no primary. */
export async function awaitSecondaryGone(
  input: OnCluster & OfKind & { readonly id: string; readonly secondary?: string },
): Promise<{ readonly observed: string }> {
  const { deployment, cluster, kind, id, secondary } = input;
  const { execution, clusters, signal, limits, access } = onCluster(input);
  const read = async () => {
    const [onPrimary, onSecondary] = await Promise.all([
      readKind(access, kind, signal),
      secondary === undefined ? undefined : readKind(clusters.of(deployment, secondary), kind, signal),
    ]);
    const known = (onPrimary.knownSecondaries ?? []).includes(id);
    const peer = onPrimary.peers.some((each) => each.id === id && each.connected);
    const connected = onSecondary?.peers.some((each) => each.connected) ?? false;
    const seen = `${cluster} ${known ? 'lists' : 'does not list'} ${id} and ${peer ? 'is connected to it' : 'sees no such peer'}`;
    const there = `${secondary}: ${describeReplication(onSecondary)}, ${connected ? 'connected' : 'not connected'}`;
    return { gone: !known && !peer && !connected, observed: onSecondary ? `${seen}; ${there}` : seen };
  };
  const { observed } = await awaitState(execution, {
    read,
    until: ({ gone }) => gone,
    budgetMs: limits.streamingMs,
    describe: (seen) => seen.observed,
    needed: `${id} is gone from ${cluster}${secondary === undefined ? '' : `, and ${secondary} is not connected`}`,
    cluster,
  });
  return { observed };
}

/** Waits until every node reports that this kind of replication is disabled. */
export async function awaitReplicationDisabled(input: OnCluster & OfKind): Promise<{ readonly observed: string }> {
  const { cluster, kind } = input;
  const { execution, signal, limits, access } = onCluster(input);
  const { client, entry } = access;
  const modeOf = (node: string) =>
    client[kind].status({ node, signal }).then(
      ({ mode }) => ({ node, mode: mode }),
      orElse(signal, ({ code }) => ({ node, mode: `not readable (${code})` })),
    );
  const describe = (nodes: readonly { readonly node: string; readonly mode: string }[]) =>
    nodes.map(({ node, mode }) => `${node} ${mode}`).join('; ');
  const seen = await awaitState(execution, {
    read: () => Promise.all(entry.addresses.map(modeOf)),
    until: (nodes) => nodes.every(({ mode }) => mode === 'disabled'),
    budgetMs: limits.demoteMs,
    describe,
    needed: `every node of ${cluster} reports that ${kindName(kind)} replication is disabled`,
    cluster,
  });
  return { observed: describe(seen) };
}
