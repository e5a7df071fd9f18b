import type { Authority, BetweenClusters, ChangeResult, OfKind } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError } from '../../src/errors';
import { verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { betweenClusters } from '../execution';
import { callHook } from '../hooks/run-hook';
import { demandNoNodePrimary, demandServing } from './other-side';
import { opinionsText } from './prove-not-primary';
import { awaitIdentityOf } from '../tokens/operation-token';

/* A former primary returns after a failover: it is `secondary`; `primary` is the cluster that serves (facts 8.4). */

/** How long a check waits for standby nodes that report an old role; a read must end within its time. */
const CHECK_BUDGET_MS = 20_000;
/** The modes of a node that knows its role. */
const KNOWN_MODES: readonly string[] = ['primary', 'secondary', 'disabled'];

/** A former primary of a kind of replication, and the cluster that serves. */
type Rejoining = BetweenClusters & OfKind;

/**
 * Checks what must hold before the former primary is unfenced, and after people unfenced it: none of its nodes reports
 * primary, its active node reports secondary, and the other cluster serves as primary.
 */
export async function checkFormerPrimaryDemoted(input: Rejoining) {
  const { kind, primary, secondary } = input;
  const { source, target, limits } = betweenClusters(input);
  const opinions = await requireDemoted(kind, target, source, Math.min(CHECK_BUDGET_MS, limits.demoteMs));
  const silentNodes = opinions.nodes.filter((mode) => !KNOWN_MODES.includes(mode)).length;
  return { observed: `${secondary}: ${opinionsText(opinions)}; ${primary} serves`, at: Date.now(), silentNodes };
}

/** Runs the `unfence` hook; refuses while any node of the former primary reports that it is primary. */
export async function unfenceFormerPrimary(
  input: Rejoining & { readonly authority: Authority },
): Promise<ChangeResult> {
  const { deployment, kind, primary, secondary } = input;
  const { limits, source, target } = betweenClusters(input);
  const on = await awaitIdentityOf(target, limits.demoteMs);
  const newPrimary = await awaitIdentityOf(source, limits.demoteMs);
  await verifyOperation(input, { endpoint: 'hook/unfence', gate: 'unfence', on, with: newPrimary });
  await requireDemoted(kind, target, source, limits.demoteMs);
  return callHook({ deployment, hook: 'unfence', from: secondary, to: primary });
}

/** Every node that answers reports that the former primary is not primary, and the other cluster serves. */
async function requireDemoted(kind: ReplicationKind, access: ClusterAccess, other: ClusterAccess, budgetMs: number) {
  const { name } = access.entry;
  const opinions = await demandNoNodePrimary(access, kind, budgetMs);
  if (opinions.active !== 'secondary') {
    throw new RunbookError('PRECONDITION_FAILED', `It is not proven that ${name} is demoted: it must stay fenced.`, {
      cluster: name,
      observed: opinionsText(opinions),
      needed: 'its active node reports secondary, and no node reports primary',
      next: `Check ${name}. Do not unfence it manually before it reports secondary; if it was unfenced, fence it again.`,
    });
  }
  await demandServing(other, kind, `${name} must stay fenced`);
  return opinions;
}
