import { setTimeout as delay } from 'node:timers/promises';
import type { RejoinActivities, RejoinRoute } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { RunbookError } from '../../src/errors';
import { drSetOf, findCluster } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import { readDr } from '../roles/dr-roles';
import { verifyBeginning, verifyOperation } from '../approvals/authority';
import { Deadline } from '../deadline';
import type { ClusterAccess, Clusters } from '../clusters';
import type { Execution } from '../execution';
import { execute, executeChange } from '../execution';
import { describeReplication } from '../observe';
import { readBothKinds } from './onboarding-read';
import { awaitClusterId } from '../tokens/operation-token';
import { gateFacts, observeDeployment, siteFacts } from '../approvals/planning';
import type { RoleOpinions } from '../roles/prove-not-primary';
import { askRole } from '../roles/prove-not-primary';
import { CHANGE_TIMEOUT_MS, beforeSending, readActConfirm } from '../read-act-confirm';
import { rejoinPlan, rejoinTokens } from '../plans/rejoin-plan';
import { connectedTo, judgeRejoin, servingPrimary } from '../checks/rejoin-rules';
import { runHook } from '../hooks/run-hook';
import { splitFindings, splitLoss } from '../evidence/split-loss';
import { readWalSamples, unattestedSamples } from '../evidence/wal-sample-series';

/** Between two looks at the nodes. */
const POLL_MS = 300;
/** How long a check waits for standby nodes that tell what was; a read must be over within its time. */
const CHECK_BUDGET_MS = 20_000;
/** What a node says that knows its role; anything else is no word about it. */
const KNOWN_MODES: readonly string[] = ['primary', 'secondary', 'disabled'];

/** A former primary is back: it is demoted before it is let out, and then joins the primary that serves (facts 8.4). */
export function createRejoinActivities(dependencies: ActivityDependencies, clusters: Clusters): RejoinActivities {
  const { inventory } = dependencies;

  return {
    assessDrRejoin: execute(async ({ input, ownFingerprint }, { signal }) => {
      const deployment = clusters.deployment(input.deployment);
      const entry = findCluster(deployment, input.cluster);
      const observations = await observeDeployment(clusters, input.deployment, signal);
      const base = {
        observations,
        site: siteFacts(dependencies, input.deployment),
        gates: {
          plan: gateFacts(inventory, deployment, 'plan'),
          unfence: gateFacts(inventory, deployment, 'unfence'),
        },
      };
      const { members } = drSetOf(deployment, input.cluster);
      const inSet = observations.filter((each) => members.includes(each.cluster));
      const former = inSet.find((each) => each.cluster === input.cluster);
      const primary = servingPrimary(input.cluster, input.primary, inSet);
      if (!former || 'verdict' in primary) return { ...base, preconditions: 'verdict' in primary ? [primary] : [] };

      const judged = judgeRejoin({ deployment, former, primary });
      const mode = former.dr?.mode;
      if (mode !== 'primary' && mode !== 'secondary') return { ...base, preconditions: judged };
      const source = clusters.of(input.deployment, primary.cluster);
      const { tokenSource, preconditions, warnings } = await rejoinTokens({
        deployment,
        former: { access: clusters.access(entry), observation: former },
        primary: source,
        wanted: input.tokenSource,
        ownFingerprint,
        signal,
      });
      const route: RejoinRoute = {
        cluster: input.cluster,
        primary: primary.cluster,
        others: members.filter((name) => name !== input.cluster && name !== primary.cluster),
        former: mode,
        tokenSource,
        hooks: { dump: deployment.hooks.dump !== undefined, unfence: deployment.hooks.unfence !== undefined },
      };
      return {
        ...base,
        preconditions: [...judged, ...preconditions],
        route,
        plan: rejoinPlan(input, route, former, primary, warnings),
      };
    }),

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

    demoteFormerPrimary: executeChange(async ({ deployment, primary, secondary: cluster, authority }, execution) => {
      const { signal, run } = execution;
      const { limits } = clusters.deployment(deployment);
      const [access, other] = [clusters.of(deployment, cluster), clusters.of(deployment, primary)];
      const on = { cluster, clusterId: await awaitClusterId(access, execution, limits.demoteMs) };
      const successor = { cluster: primary, clusterId: await awaitClusterId(other, execution, limits.demoteMs) };
      const doing = { operation: 'dr.primary.demote', on, with: successor } as const;
      await verifyOperation(inventory, run, deployment, authority, doing);
      const token = await access.credential();

      const changed = await readActConfirm(execution, {
        read: () => readDr(access, signal),
        until: (dr) => dr.mode === 'secondary',
        budgetMs: limits.demoteMs,
        describe: describeReplication,
        needed: `${cluster} is a DR secondary`,
        cluster,
        allow: (dr) => {
          if (dr.mode === 'primary') return;
          throw new RunbookError('PRECONDITION_FAILED', `${cluster} is neither DR primary nor DR secondary.`, {
            cluster,
            observed: dr.mode,
            needed: 'primary',
          });
        },
        act: async () => {
          // The last look: demoting the only primary would leave clients without one.
          await beforeSending(async () => {
            await requireServing(other, signal, `${cluster} was not demoted`);
            await verifyBeginning(inventory, run, deployment, authority, doing);
          });
          execution.throwIfCancelled();
          return access.client.dr.primary.demote({ token, signal, timeoutMs: CHANGE_TIMEOUT_MS });
        },
      });
      await noNodeIsPrimary(access, execution, limits.demoteMs);
      return {
        outcome: changed.outcome,
        observed: `${cluster}: ${describeReplication(changed.state)}`,
        calledAt: changed.calledAt,
        confirmedAt: Date.now(),
        calls: changed.calls,
      };
    }),

    checkFormerPrimaryDemoted: execute(async ({ deployment, primary, secondary }, execution) => {
      const { demoteMs } = clusters.deployment(deployment).limits;
      const [access, other] = [clusters.of(deployment, secondary), clusters.of(deployment, primary)];
      const said = await requireDemoted(access, other, execution, Math.min(CHECK_BUDGET_MS, demoteMs));
      const silentNodes = said.nodes.filter((mode) => !KNOWN_MODES.includes(mode)).length;
      return { observed: `${secondary}: ${opinionsText(said)}; ${primary} serves`, at: Date.now(), silentNodes };
    }),

    unfenceFormerPrimary: executeChange(async ({ deployment, primary, secondary, authority, step }, execution) => {
      const { run } = execution;
      const { limits } = clusters.deployment(deployment);
      const [access, other] = [clusters.of(deployment, secondary), clusters.of(deployment, primary)];
      const on = { cluster: secondary, clusterId: await awaitClusterId(access, execution, limits.demoteMs) };
      const successor = { cluster: primary, clusterId: await awaitClusterId(other, execution, limits.demoteMs) };
      const doing = { operation: 'hook.unfence', on, with: successor } as const;
      await verifyOperation(inventory, run, deployment, authority, doing);
      await requireDemoted(access, other, execution, limits.demoteMs);
      return runHook(clusters, { deployment, hook: 'unfence', from: secondary, to: primary, step }, execution);
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
  const said = await noNodeIsPrimary(access, execution, budgetMs);
  if (said.active !== 'secondary') {
    throw new RunbookError('PRECONDITION_FAILED', `It is not proven that ${name} is demoted: it must stay fenced.`, {
      cluster: name,
      observed: opinionsText(said),
      needed: 'its active node says secondary, and no node says primary',
      next: `Look at ${name}; do not unfence it by hand before it says secondary, and fence it again where it is let out.`,
    });
  }
  await requireServing(other, execution.signal, `${name} must stay fenced`);
  return said;
}

function opinionsText({ active, nodes }: RoleOpinions): string {
  return `active node ${active ?? 'silent'}; nodes ${nodes.join(', ')}`;
}

/** Standby nodes tell their old mode for a while: what they say counts when that is over. */
async function noNodeIsPrimary(access: ClusterAccess, execution: Execution, budgetMs: number): Promise<RoleOpinions> {
  const { name } = access.entry;
  const deadline = new Deadline(budgetMs);
  const ask = () => deadline.poll(() => askRole(access, execution.signal));
  let said = await ask();
  // The active node is known at once; it does not lag.
  while (said.nodes.includes('primary') && said.active !== 'primary' && !deadline.isOver) {
    execution.progress(`waiting until no node of ${name} says primary; observed ${said.nodes.join(', ')}`);
    await delay(POLL_MS, undefined, { signal: execution.signal });
    said = await ask();
  }
  if (!said.nodes.includes('primary')) return said;
  throw new RunbookError('STATE_DIVERGED', `A node of ${name} still says that it is DR primary.`, {
    cluster: name,
    observed: opinionsText(said),
    needed: 'no node says primary',
    next: `Keep ${name} fenced, and fence it again where it is let out. Look at the node that says primary; retry once it has heard of the demotion.`,
  });
}

/** The cluster must serve as DR primary now. */
async function requireServing(
  access: ClusterAccess,
  signal: AbortSignal,
  consequence: string,
): Promise<ReplicationObservation> {
  const dr = await readDr(access, signal);
  if (dr.mode === 'primary' && dr.state !== 'idle') return dr;
  const { name } = access.entry;
  throw new RunbookError('PRECONDITION_FAILED', `${name} does not serve as DR primary; ${consequence}.`, {
    cluster: name,
    observed: describeReplication(dr),
    needed: 'primary, running',
    next: `Find out which cluster clients write to. Retry only where ${name} serves again.`,
  });
}
