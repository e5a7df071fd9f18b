import type { Authority, BetweenClusters, ChangeResult, OfKind, SplitFacts } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError } from '../../src/errors';
import { verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { splitFindings, splitLoss } from '../evidence/split-loss';
import { readWalSamples, unattestedSamples } from '../evidence/wal-samples';
import { currentExecution } from '../execution';
import { callHook } from '../hooks/run-hook';
import { connectedTo } from '../plans/rejoin';
import { demandNoNodePrimary, demandServing } from '../roles/other-side';
import type { RoleOpinions } from '../roles/prove-not-primary';
import { opinionsText } from '../roles/prove-not-primary';
import { awaitClusterId } from '../tokens/operation-token';
import { readBothKinds } from './onboarding-read';

/* A former primary comes back after a failover: `secondary` is the former primary, `primary` the one that serves (facts 8.4). */

/** How long a check waits for standby nodes that tell what was; a read must be over within its time. */
const CHECK_BUDGET_MS = 20_000;
/** What a node says that knows its role; anything else is no word about it. */
const KNOWN_MODES: readonly string[] = ['primary', 'secondary', 'disabled'];

/** A former primary of a kind of replication, and the one that serves. */
type Rejoining = BetweenClusters & OfKind;

/** Bounds what is lost by its joining with the samples of `walSampler`, where there are some: they are of DR replication. */
export async function describeSplit({ deployment, kind, primary, secondary }: Rejoining): Promise<SplitFacts> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const access = clusters.of(deployment, secondary);
  const [seen, known] = await Promise.all([
    readBothKinds(access, signal),
    kind === 'dr' ? readWalSamples(execution, deployment, signal) : { samples: [], unattested: 0 },
  ]);
  const loss =
    kind === 'dr'
      ? splitLoss(known.samples, secondary, primary, seen.dr)
      : { why: 'samples of walSampler bound DR replication only' };
  const amount =
    loss.atMostWalEntries === undefined ? 'how much is unknown' : `at most ${loss.atMostWalEntries} WAL entries`;
  return {
    ...loss,
    observed: `${secondary} wrote after the split: ${amount} (${loss.why})`,
    findings: [
      ...splitFindings({ former: secondary, primary, amount, why: loss.why, connected: connectedTo(kind, seen) }),
      ...unattestedSamples(known),
    ],
  };
}

/**
 * Reads what must hold before the former primary is let out, and after people did it: none of its nodes says primary,
 * its active node says secondary, and the other cluster serves as primary.
 */
export async function checkFormerPrimaryDemoted({
  deployment,
  kind,
  primary,
  secondary,
}: Rejoining): Promise<{ readonly observed: string; readonly at: number; readonly silentNodes: number }> {
  const { clusters } = currentExecution();
  const { demoteMs } = clusters.deployment(deployment).limits;
  const [access, other] = [clusters.of(deployment, secondary), clusters.of(deployment, primary)];
  const said = await requireDemoted(kind, access, other, Math.min(CHECK_BUDGET_MS, demoteMs));
  const silentNodes = said.nodes.filter((mode) => !KNOWN_MODES.includes(mode)).length;
  return { observed: `${secondary}: ${opinionsText(said)}; ${primary} serves`, at: Date.now(), silentNodes };
}

/** The `unfence` hook; refuses while any node of the former primary says that it is primary. */
export async function unfenceFormerPrimary(
  input: Rejoining & { readonly authority: Authority },
): Promise<ChangeResult> {
  const { deployment, kind, primary, secondary } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const { limits } = clusters.deployment(deployment);
  const [access, other] = [clusters.of(deployment, secondary), clusters.of(deployment, primary)];
  const on = { cluster: secondary, clusterId: await awaitClusterId(access, execution, limits.demoteMs) };
  const successor = { cluster: primary, clusterId: await awaitClusterId(other, execution, limits.demoteMs) };
  const doing = { operation: 'hook.unfence', on, with: successor } as const;
  await verifyOperation(input, doing);
  await requireDemoted(kind, access, other, limits.demoteMs);
  return callHook({ deployment, hook: 'unfence', from: secondary, to: primary });
}

/** The former primary is none, by the word of every node that answers, and the other cluster serves. */
async function requireDemoted(
  kind: ReplicationKind,
  access: ClusterAccess,
  other: ClusterAccess,
  budgetMs: number,
): Promise<RoleOpinions> {
  const { name } = access.entry;
  const said = await demandNoNodePrimary(access, kind, budgetMs);
  if (said.active !== 'secondary') {
    throw new RunbookError('PRECONDITION_FAILED', `It is not proven that ${name} is demoted: it must stay fenced.`, {
      cluster: name,
      observed: opinionsText(said),
      needed: 'its active node says secondary, and no node says primary',
      next: `Look at ${name}; do not unfence it by hand before it says secondary, and fence it again where it is let out.`,
    });
  }
  await demandServing(other, kind, `${name} must stay fenced`);
  return said;
}
