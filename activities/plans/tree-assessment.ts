import type { Assessment, MerkleRoute, ReindexRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { DrReindexInput, MerkleCheckInput } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import { findCluster } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { gateFacts, identityOf, observeDeployment, planDocument, siteFacts } from '../approvals/planning';
import type { ReindexState } from '../merkle/reindex-state';
import { readReindex } from '../merkle/reindex-state';
import { assessTokenSource } from '../tokens/token-source';
import {
  MERKLE_CHECK,
  REINDEX,
  isDrSecondary,
  noReindexUnderWay,
  primaryStable,
  reindexDetail,
  reindexSteps,
  reindexWarnings,
  setOf,
} from '../checks/tree-rules';

interface Seen {
  readonly observations: readonly ClusterObservation[];
  readonly target: ClusterObservation | undefined;
  readonly others: readonly ClusterObservation[];
  readonly state: ReindexState | undefined;
  readonly role: Precondition;
}

/** Reads all clusters, and whether a reindex of the named one is under way. */
async function look(
  clusters: Clusters,
  { deployment: name, cluster }: { readonly deployment: string; readonly cluster: string },
  signal: AbortSignal,
): Promise<Seen> {
  const deployment = clusters.deployment(name);
  const access = clusters.access(findCluster(deployment, cluster));
  const [observations, state] = await Promise.all([
    observeDeployment(clusters, name, signal),
    readReindex(access, signal).catch((error: unknown) => {
      if (!isRunbookError(error) || signal.aborted) throw error;
      return undefined;
    }),
  ]);
  return {
    observations,
    ...setOf(deployment, cluster, observations),
    state,
    role: isDrSecondary(
      observations.find((each) => each.cluster === cluster),
      cluster,
    ),
  };
}

async function tokensFor(
  clusters: Clusters,
  input: MerkleCheckInput | DrReindexInput,
  { target, others }: Seen,
  paths: readonly string[],
  ownFingerprint: string | undefined,
  signal: AbortSignal,
): ReturnType<typeof assessTokenSource> {
  const deployment = clusters.deployment(input.deployment);
  const primary = others.find((each) => each.reachable && each.dr?.mode === 'primary');
  const secondary = clusters.of(input.deployment, input.cluster);
  return assessTokenSource({
    deployment,
    secondary,
    observation: target ?? { cluster: input.cluster, at: 0, reachable: false, nodes: [] },
    primary: primary && clusters.of(input.deployment, primary.cluster),
    wanted: input.tokenSource,
    paths,
    ownFingerprint,
    signal,
  });
}

/** What stands against a Merkle check. It needs a token of the DR secondary, and nobody's approval. */
export async function assessMerkleCheck(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  input: MerkleCheckInput,
  ownFingerprint: string | undefined,
  signal: AbortSignal,
): Promise<Assessment<MerkleRoute>> {
  const seen = await look(clusters, input, signal);
  const base = { observations: seen.observations, site: await siteFacts(dependencies, input.deployment), gates: {} };
  const { target, role } = seen;
  if (!target || role.verdict === 'fail') return { ...base, preconditions: [role] };
  const tokens = await tokensFor(clusters, input, seen, [MERKLE_CHECK], ownFingerprint, signal);
  return {
    ...base,
    preconditions: [role, noReindexUnderWay(seen.state, input.cluster), ...tokens.preconditions],
    plan: planDocument({
      runbook: 'merkleCheck',
      input,
      clusters: [target],
      operations: [],
      warnings: tokens.warnings,
      steps: [`Check the Merkle tree of ${input.cluster}`, 'Delete the operation tokens'],
      choices: { tokenSource: tokens.source },
    }),
    route: { tokenSource: tokens.source },
  };
}

/** What stands against a reindex, what it costs, and what is to be approved. */
export async function assessReindex(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  input: DrReindexInput,
  ownFingerprint: string | undefined,
  signal: AbortSignal,
): Promise<Assessment<ReindexRoute>> {
  const { cluster, diff, force, skipFlush } = input;
  const deployment = clusters.deployment(input.deployment);
  const seen = await look(clusters, input, signal);
  const base = {
    observations: seen.observations,
    site: await siteFacts(dependencies, input.deployment),
    gates: { reindex: gateFacts(dependencies.inventory, deployment, 'reindex') },
  };
  const { target, others, role, state } = seen;
  if (!target || role.verdict === 'fail') return { ...base, preconditions: [role] };
  const stable = primaryStable(target, others, cluster, deployment.limits.heartbeatAgeMs);
  const tokens = await tokensFor(clusters, input, seen, [MERKLE_CHECK, REINDEX], ownFingerprint, signal);
  return {
    ...base,
    preconditions: [role, ...stable, noReindexUnderWay(state, cluster), ...tokens.preconditions],
    plan: planDocument({
      runbook: 'drReindex',
      input,
      clusters: [target, ...others.filter((each) => each.dr?.mode === 'primary')],
      operations: [
        {
          operation: 'dr.secondary.reindex',
          on: identityOf(target),
          detail: reindexDetail({ diff, force, skipFlush }),
        },
      ],
      warnings: [...reindexWarnings(input, others), ...tokens.warnings],
      steps: reindexSteps(input),
      choices: { diff, force, skipFlush, tokenSource: tokens.source },
    }),
    route: { tokenSource: tokens.source, epochBefore: state?.epoch, corruptedByStatus: state?.corrupted === true },
  };
}
