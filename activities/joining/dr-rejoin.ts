import type { RejoinActivities } from '../../src/contracts/activities';
import { RunbookError } from '../../src/errors';
import type { ActivityDependencies } from '../dependencies';
import { verifyOperation } from '../approvals/authority';
import type { ClusterAccess, Clusters } from '../clusters';
import type { Execution } from '../execution';
import { execute, executeChange } from '../execution';
import { readBothKinds } from './onboarding-read';
import { awaitClusterId } from '../tokens/operation-token';
import { demandNoNodePrimary, demandServing, opinionsText } from '../roles/other-side';
import type { RoleOpinions } from '../roles/prove-not-primary';
import { connectedTo } from '../plans/dr-rejoin';
import { callHook } from '../hooks/run-hook';
import { splitFindings, splitLoss } from '../evidence/split-loss';
import { readWalSamples, unattestedSamples } from '../evidence/wal-sample-series';

/** How long a check waits for standby nodes that tell what was; a read must be over within its time. */
const CHECK_BUDGET_MS = 20_000;
/** What a node says that knows its role; anything else is no word about it. */
const KNOWN_MODES: readonly string[] = ['primary', 'secondary', 'disabled'];

/** A former primary is back: it is demoted before it is let out, and then joins the primary that serves (facts 8.4). */
export function createRejoinActivities(dependencies: ActivityDependencies, clusters: Clusters): RejoinActivities {
  const { inventory } = dependencies;

  return {
    describeSplit: execute(async ({ deployment, primary, secondary }, { signal }) => {
      const access = clusters.of(deployment, secondary);
      const [seen, known] = await Promise.all([
        readBothKinds(access, signal),
        readWalSamples(dependencies, deployment, signal),
      ]);
      const loss = splitLoss(known.samples, secondary, primary, seen.dr);
      const amount =
        loss.atMostWalEntries === undefined ? 'how much is unknown' : `at most ${loss.atMostWalEntries} WAL entries`;
      return {
        ...loss,
        observed: `${secondary} wrote after the split: ${amount} (${loss.why})`,
        findings: [
          ...splitFindings({ former: secondary, primary, amount, why: loss.why, connected: connectedTo(seen) }),
          ...unattestedSamples(known),
        ],
      };
    }),

    checkFormerPrimaryDemoted: execute(async ({ deployment, primary, secondary }, execution) => {
      const { demoteMs } = clusters.deployment(deployment).limits;
      const [access, other] = [clusters.of(deployment, secondary), clusters.of(deployment, primary)];
      const said = await requireDemoted(access, other, execution, Math.min(CHECK_BUDGET_MS, demoteMs));
      const silentNodes = said.nodes.filter((mode) => !KNOWN_MODES.includes(mode)).length;
      return { observed: `${secondary}: ${opinionsText(said)}; ${primary} serves`, at: Date.now(), silentNodes };
    }),

    unfenceFormerPrimary: executeChange(async ({ deployment, primary, secondary, authority }, execution) => {
      const { run } = execution;
      const { limits } = clusters.deployment(deployment);
      const [access, other] = [clusters.of(deployment, secondary), clusters.of(deployment, primary)];
      const on = { cluster: secondary, clusterId: await awaitClusterId(access, execution, limits.demoteMs) };
      const successor = { cluster: primary, clusterId: await awaitClusterId(other, execution, limits.demoteMs) };
      const doing = { operation: 'hook.unfence', on, with: successor } as const;
      await verifyOperation(inventory, run, deployment, authority, doing);
      await requireDemoted(access, other, execution, limits.demoteMs);
      return callHook(clusters, { deployment, hook: 'unfence', from: secondary, to: primary }, execution);
    }),
  };
}

/** The former primary is none, by the word of every node that answers, and the other cluster serves. */
async function requireDemoted(
  access: ClusterAccess,
  other: ClusterAccess,
  execution: Execution,
  budgetMs: number,
): Promise<RoleOpinions> {
  const { name } = access.entry;
  const said = await demandNoNodePrimary(access, 'dr', execution, budgetMs);
  if (said.active !== 'secondary') {
    throw new RunbookError('PRECONDITION_FAILED', `It is not proven that ${name} is demoted: it must stay fenced.`, {
      cluster: name,
      observed: opinionsText(said),
      needed: 'its active node says secondary, and no node says primary',
      next: `Look at ${name}; do not unfence it by hand before it says secondary, and fence it again where it is let out.`,
    });
  }
  await demandServing(other, 'dr', execution.signal, `${name} must stay fenced`);
  return said;
}
