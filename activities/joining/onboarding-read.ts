import type { ReplicationObservation } from '../../src/contracts/observations';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError, orElse } from '../../src/errors';
import type { ClusterAccess } from '../clusters';
import { demand } from '../checks/check';
import { hasRole } from '../checks/replication';
import { observeReplication } from '../observe';

/** What a cluster is for both kinds of replication, by its active node. */
export interface BothKinds {
  readonly dr: ReplicationObservation;
  readonly performance: ReplicationObservation;
}

/**
 * Reads both kinds of the node that is active by agreement, found anew.
 *
 * @throws RunbookError SERVICE_UNAVAILABLE, which may be tried again, where the node restarts and tells no mode
 */
export async function readBothKinds({ client, entry }: ClusterAccess, signal: AbortSignal): Promise<BothKinds> {
  const status = await client.atActiveNode((node) => client.sys.replicationStatus({ node, signal }), { signal });
  if (status.dr.mode === 'unknown' || status.performance.mode === 'unknown') {
    throw new RunbookError('SERVICE_UNAVAILABLE', `${entry.name} does not tell its modes: it restarts.`, {
      cluster: entry.name,
      observed: 'mode unknown',
      needed: 'a mode',
    });
  }
  // Ages of heartbeats are not asked for here.
  return {
    dr: observeReplication(status.dr, undefined),
    performance: observeReplication(status.performance, undefined),
  };
}

/** @throws RunbookError PRECONDITION_FAILED, which may be tried again where the cluster tells no mode */
export function demandRole(
  cluster: string,
  kind: ReplicationKind,
  needed: 'primary' | 'secondary',
  state: ReplicationObservation,
): void {
  demand([hasRole({ cluster, [kind]: state }, kind, needed)], 'It goes no further', state.mode === 'unknown');
}

const NODE_TIMEOUT_MS = 3_000;

/** The seal of every node of a cluster. */
interface Seals {
  /** `sealed` is absent where the node does not answer. */
  readonly nodes: readonly { readonly address: string; readonly sealed?: boolean }[];
  readonly observed: string;
}

/** Asks every node for its seal. Unauthenticated, and answered by sealed nodes too (facts 1.6). */
export async function readSealsOf({ entry, client }: ClusterAccess, signal: AbortSignal): Promise<Seals> {
  const nodes = await Promise.all(
    entry.addresses.map(async (address) => {
      const asking = client.sys.sealStatus({ node: address, signal, timeoutMs: NODE_TIMEOUT_MS });
      const status = await asking.catch(orElse(signal, () => undefined));
      return { address, sealed: status?.sealed };
    }),
  );
  return { nodes, observed: sealsText(nodes) };
}

/** Nodes that are known to be sealed. */
export function sealedNodes({ nodes }: Pick<Seals, 'nodes'>): readonly string[] {
  return nodes.filter((node) => node.sealed === true).map((node) => node.address);
}

/** Every node answers and is unsealed. */
export function allUnsealed({ nodes }: Pick<Seals, 'nodes'>): boolean {
  return nodes.every((node) => node.sealed === false);
}

function sealsText(nodes: Seals['nodes']): string {
  return nodes
    .map(({ address, sealed }) => {
      if (sealed === undefined) return `${address} does not answer`;
      return `${address} ${sealed ? 'sealed' : 'unsealed'}`;
    })
    .join('; ');
}
