import type { ChangeResult, FailoverActivities } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError } from '../../src/errors';
import { activityRecords } from '../../src/report';
import type { ActivityDependencies } from '../dependencies';
import { lookAtMember, readDr } from './dr-roles';
import { demandSameOutage } from '../approvals/approval-age';
import { historyOf } from '../approvals/arrived-signals';
import { gateOf, verifyOperation } from '../approvals/authority';
import type { ClusterAccess, Clusters } from '../clusters';
import type { Execution } from '../execution';
import { alsoGoneIn, readSigns, spokeAgainst } from '../evidence/failover-evidence';
import { identityOfLost } from '../plans/failover-plan';
import { signsAgree } from '../checks/failover-signs';
import { describeReplication } from '../observe';
import { awaitClusterId, openOperationToken } from '../tokens/operation-token';
import { attestPromotion } from './primary-changes';
import type { ProofMemory } from './prove-not-primary';
import { askRole, proveNotPrimary, refusePrimary } from './prove-not-primary';
import { CHANGE_TIMEOUT_MS, awaitState, beforeSending, readActConfirm } from '../read-act-confirm';

type Promotion = Parameters<FailoverActivities['promoteAfterFailover']>[0];

/** The activities that promote a DR secondary, by the names under which a history has them. */
const PROMOTIONS: readonly string[] = ['promoteDrSecondary', 'promoteAfterFailover', 'forcePromoteAfterFailover'];

/** Refusals that mean "not yet": waited for within the budget, and never turned into force. */
const NOT_YET: ReadonlySet<string> = new Set([
  'NOT_CAUGHT_UP',
  'SERVICE_UNAVAILABLE',
  'NO_ACTIVE_NODE',
  'UNREACHABLE',
  'TEMPORAL_UNAVAILABLE',
]);

/**
 * Promotes a DR secondary whose primary is gone. The approved plan must allow it, with or without force; right before
 * each call the signs that the primary is gone are read again.
 */
export function promoteLostPrimarysHeir(dependencies: ActivityDependencies, clusters: Clusters) {
  return async (input: Promotion, execution: Execution, force: boolean): Promise<ChangeResult> => {
    const { deployment, cluster, otherCluster, token: reference, authority } = input;
    const { signal, run } = execution;
    const access = clusters.of(deployment, cluster);
    const lost = clusters.of(deployment, otherCluster);
    const { limits, drSets } = clusters.deployment(deployment);
    const clusterId = await awaitClusterId(access, execution, limits.promoteMs);
    const { setId } = await awaitState(execution, {
      read: () => readDr(access, signal),
      until: () => true,
      budgetMs: limits.promoteMs,
      describe: describeReplication,
      needed: `${cluster} tells its DR set`,
      cluster,
    });
    const operation = force ? 'dr.secondary.promote-force' : 'dr.secondary.promote';
    const plan = await verifyOperation(dependencies.inventory, run, deployment, authority, {
      operation,
      on: { cluster, clusterId },
      with: identityOfLost(lost.entry, setId),
    });
    const primaryClusterAddr =
      access.entry.advertisedClusterAddress === 'node-address' ? undefined : access.entry.advertisedClusterAddress;
    const others = (drSets.get(access.entry.drSet) ?? [])
      .filter((name) => name !== cluster && name !== otherCluster)
      .map((name) => clusters.of(deployment, name));
    const sides = { deployment, lost, cluster, alsoGone: alsoGoneIn(plan) };
    const memory: ProofMemory = {};
    let findings: readonly Finding[] = [];

    const changed = await readActConfirm(execution, {
      read: () => readDr(access, signal),
      until: (dr) => dr.mode === 'primary',
      budgetMs: limits.promoteMs,
      describe: describeReplication,
      needed: `${cluster} is DR primary`,
      cluster,
      allow: (dr) => {
        if (dr.mode === 'secondary') return;
        throw new RunbookError('PRECONDITION_FAILED', `${cluster} is no DR secondary.`, {
          cluster,
          observed: dr.mode,
          needed: 'secondary',
        });
      },
      notYet: (error) => NOT_YET.has(error.code),
      act: async () => {
        findings = await beforeSending(async () => {
          const seen = await Promise.all(others.map((other) => lookAtMember(other, signal)));
          await refuseDoubtful(dependencies, execution, others);
          await demandGone(dependencies, clusters, execution, sides, memory);
          const { requestedBy } = plan;
          const judged = { deployment, gate: gateOf(operation), requestedBy, authority };
          await demandSameOutage(dependencies.inventory, run, judged, await readDr(access, signal));
          return seen.flat();
        });
        const drOperationToken = await openOperationToken(
          dependencies,
          run,
          access,
          clusterId,
          reference,
          'dr.promote',
        );
        execution.throwIfCancelled();
        return access.client.dr.secondary.promote(
          { drOperationToken, primaryClusterAddr, ...(force ? { force: true } : {}) },
          { signal, timeoutMs: CHANGE_TIMEOUT_MS },
        );
      },
    });
    return attestPromotion(
      dependencies,
      run,
      { deployment, cluster },
      {
        outcome: changed.outcome,
        observed: `${cluster}: ${describeReplication(changed.state)}`,
        calledAt: changed.calledAt,
        confirmedAt: Date.now(),
        calls: changed.calls,
        ...(findings.length === 0 ? {} : { findings }),
      },
    );
  };
}

interface SidesToProve {
  readonly deployment: string;
  /** The primary that is gone. */
  readonly lost: ClusterAccess;
  /** The heir. */
  readonly cluster: string;
  /** As the approved plan names them. */
  readonly alsoGone: readonly string[];
}

/** The last look: no node of the lost primary says that it is primary, and every sign is still there. */
export async function demandGone(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  execution: Execution,
  { deployment, lost, cluster, alsoGone }: SidesToProve,
  memory: ProofMemory,
): Promise<void> {
  const { signal, run } = execution;
  const from = lost.entry.name;
  const said = await askRole(lost, signal);
  refusePrimary(from, said);
  // One that answers was demoted, or was never the primary, which the signs tell; a promotion of it by this run whose answer was lost must not come late.
  const proof = { deployment, gate: 'promote', candidate: clusters.of(deployment, cluster), other: lost } as const;
  if (said.active !== undefined) await proveNotPrimary(dependencies, run, proof, signal, memory);
  const signs = await readSigns(clusters, deployment, { from, to: cluster, alsoGone }, signal);
  if (!signsAgree(signs)) throw spokeAgainst(signs.filter(({ verdict }) => verdict === 'fail' || verdict === 'warn'));
}

/** A member that says nothing, and that this very run may have promoted before it was taken over, may be primary. */
async function refuseDoubtful(
  { temporal }: ActivityDependencies,
  { run, signal }: Execution,
  others: readonly ClusterAccess[],
): Promise<void> {
  const roles = await Promise.all(others.map((other) => askRole(other, signal)));
  const silent = others.filter((_, index) => roles[index]?.active === undefined).map(({ entry }) => entry.name);
  if (silent.length === 0) return;
  const records = activityRecords(await historyOf(temporal, run));
  const doubtful = records.find(
    ({ type, cluster, outcome, outcomeKnown }) =>
      PROMOTIONS.includes(type) && silent.includes(cluster ?? '') && !(outcome === 'failed' && outcomeKnown === true),
  );
  if (!doubtful) return;
  const name = doubtful.cluster ?? '';
  throw new RunbookError('STATE_DIVERGED', `${name} says nothing, and this run may have promoted it.`, {
    cluster: name,
    observed: `a promotion of ${name} that is not known to have failed`,
    needed: `${name} answers as a secondary`,
    next: `Bring ${name} back; or, where it is gone, start a failover from it: {"from": "${name}"}.`,
  });
}
