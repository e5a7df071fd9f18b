import type { SealsResult } from '../../src/contracts/activities';
import { isRunbookError } from '../../src/errors';
import type { ClusterAccess } from '../clusters';

const NODE_TIMEOUT_MS = 3_000;

/** Asks every node for its seal. Unauthenticated, and answered by sealed nodes too (facts 1.6). */
export async function readSealsOf({ entry, client }: ClusterAccess, signal: AbortSignal): Promise<SealsResult> {
  const seen = await Promise.all(
    entry.addresses.map(async (address) => {
      try {
        return { address, status: await client.sys.sealStatus({ node: address, signal, timeoutMs: NODE_TIMEOUT_MS }) };
      } catch (error) {
        if (signal.aborted || !isRunbookError(error)) throw error;
        return { address, status: undefined };
      }
    }),
  );
  const nodes = seen.map(({ address, status }) => ({ address, sealed: status?.sealed, progress: status?.progress }));
  // A node that was sealed by the join tells the primary's threshold already; the others come to it.
  const told = seen.find(({ status }) => status?.sealed === true)?.status ?? seen.find(({ status }) => status)?.status;
  return { nodes, threshold: told?.threshold, shares: told?.shares, observed: sealsText(nodes) };
}

/** Nodes that are known to be sealed. */
export function sealedNodes({ nodes }: Pick<SealsResult, 'nodes'>): readonly string[] {
  return nodes.filter((node) => node.sealed === true).map((node) => node.address);
}

/** Every node answers and is unsealed. */
export function allUnsealed({ nodes }: Pick<SealsResult, 'nodes'>): boolean {
  return nodes.every((node) => node.sealed === false);
}

function sealsText(nodes: SealsResult['nodes']): string {
  return nodes
    .map(({ address, sealed, progress }) => {
      if (sealed === undefined) return `${address} does not answer`;
      if (!sealed) return `${address} unsealed`;
      return `${address} sealed${progress ? `, ${progress} key shares given` : ''}`;
    })
    .join('; ');
}
