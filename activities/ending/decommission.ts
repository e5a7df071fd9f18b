import type { OnCluster, OnDeployment } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import { currentExecution } from '../execution';
import { kindName, readKind } from '../joining/onboarding-read';
import { describeReplication } from '../observe';
import { awaitState } from '../read-act-confirm';

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
    return { known, peer, connected, onSecondary };
  };
  type Seen = Awaited<ReturnType<typeof read>>;
  const describe = ({ known, peer, onSecondary, connected }: Seen) =>
    [
      `${cluster} ${known ? 'knows' : 'does not know'} ${id} and ${peer ? 'is connected to it' : 'sees no such peer'}`,
      ...(onSecondary
        ? [`${secondary}: ${describeReplication(onSecondary)}, ${connected ? 'connected' : 'not connected'}`]
        : []),
    ].join('; ');
  const seen = await awaitState(execution, {
    read,
    until: ({ known, peer, connected }) => !known && !peer && !connected,
    budgetMs: clusters.deployment(deployment).limits.streamingMs,
    describe,
    needed: `${id} is gone on ${cluster}${secondary === undefined ? '' : `, and ${secondary} is not connected`}`,
    cluster,
  });
  return { observed: describe(seen) };
}

/** Waits until every node says that this kind of replication is disabled. */
export async function awaitReplicationDisabled(
  input: OnDeployment & { readonly cluster: string; readonly kind: ReplicationKind },
): Promise<{ readonly observed: string }> {
  const { deployment, cluster, kind } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { client, entry } = clusters.of(deployment, cluster);
  const modeOf = async (node: string): Promise<string> => {
    try {
      return (await client[kind].status({ node, signal })).mode;
    } catch (error) {
      if (signal.aborted || !isRunbookError(error)) throw error;
      return `not readable (${error.code})`;
    }
  };
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
