import type { Assessment, FailoverActivities, FailoverLoss, FailoverRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import { findCluster, findDeployment } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import { fenceLostPrimary } from '../roles/dr-failover-fence';
import type { Clusters } from '../clusters';
import { execute, executeChange } from '../execution';
import { readSigns, signsText, spokeAgainst, witnesses } from '../evidence/failover-evidence';
import { failoverPlan } from './failover-plan';
import { judgeSuccessor } from '../checks/failover-rules';
import { findFailoverSides } from '../checks/failover-sides';
import { WAITED_FOR, judgeSigns, lastHeardAt, observerOf, signsAgree } from '../checks/failover-signs';
import { heartbeatAge } from '../observe';
import { gateFacts, observeDeployment, siteFacts } from '../approvals/planning';
import { awaitState } from '../read-act-confirm';
import { PROMOTE, UPDATE_PRIMARY } from '../checks/switchover-facts';
import { assessTokenSource } from '../tokens/token-source';
import type { LossBound } from '../evidence/wal-sample-series';
import { lossBound, readWalSamples, unattestedSamples } from '../evidence/wal-sample-series';

/** Beside the silence that is waited for: how long the signs may take to agree, ms. */
const SIGNS_BUDGET_MS = 30_000;

/** Unplanned change of the DR primary: the evidence, and the promotion of a secondary (interface 4.1: `dr/secondary/promote`). */
export function createFailoverActivities(dependencies: ActivityDependencies, clusters: Clusters): FailoverActivities {
  const { inventory } = dependencies;
  return {
    assessDrFailover: execute(async ({ input, ownFingerprint }, { signal }): Promise<Assessment<FailoverRoute>> => {
      const deployment = findDeployment(inventory, input.deployment);
      const observations = await observeDeployment(clusters, input.deployment, signal);
      const base = {
        observations,
        site: await siteFacts(dependencies, input.deployment),
        gates: {
          promote: gateFacts(inventory, deployment, 'promote'),
          force: gateFacts(inventory, deployment, 'force'),
        },
      };
      const found = findFailoverSides(deployment, input, observations);
      if ('refused' in found) return { ...base, preconditions: [found.refused] };
      const { from, to } = found;
      const [lost, heir] = [clusters.of(input.deployment, from.cluster), clusters.of(input.deployment, to.cluster)];
      const heard = lastHeardAt([observerOf(to, 'dr'), ...witnesses(found).observers]);
      const known = await readWalSamples(dependencies, input.deployment, signal, heard);
      const bound = lossBound(known.samples, from.cluster, to.cluster, { at: to.at, received: to.dr?.lastRemoteWal });
      const loss = lossOf(from, to, bound);
      const [{ source, preconditions, warnings }, credentialReadable] = await Promise.all([
        assessTokenSource({
          deployment,
          secondary: heir,
          observation: to,
          primary: undefined,
          wanted: input.tokenSource,
          paths: [PROMOTE, UPDATE_PRIMARY],
          ownFingerprint,
          signal,
        }),
        lost.credential().then(
          () => true,
          () => false,
        ),
      ]);
      const signs = judgeSigns({ ...witnesses(found), primaryGoneMs: deployment.limits.primaryGoneMs });
      const successor = judgeSuccessor({ ...found, input, deployment, loss, credentialReadable });
      const hook = deployment.hooks.fence !== undefined && input.fencing !== 'attested';
      const route: FailoverRoute = {
        from: from.cluster,
        to: to.cluster,
        otherDrSecondaries: found.others.map(({ cluster }) => cluster),
        silentDrSecondaries: found.silent.map(({ cluster }) => cluster),
        performanceSecondaries: found.performanceSecondaries.map(({ cluster }) => cluster),
        tokenSource: source,
        fencing: hook ? 'hook' : 'attested',
        hooks: {
          traffic: deployment.hooks.traffic !== undefined,
          probe: deployment.hooks.probe !== undefined,
          release: deployment.hooks.release !== undefined,
        },
        ...(heard === undefined ? {} : { lastHeardAt: heard }),
        loss,
        findings: [...findingsFor(from.cluster, loss, [...signs, ...successor]), ...unattestedSamples(known)],
      };
      return {
        ...base,
        preconditions: [...signs, ...successor, ...preconditions],
        route,
        plan: failoverPlan(input, found, (name) => findCluster(deployment, name), { ...route, warnings }),
      };
    }),

    awaitPrimaryGone: execute(async ({ deployment, from, to, alsoGone }, execution) => {
      const { primaryGoneMs } = clusters.deployment(deployment).limits;
      const signs = await awaitState(execution, {
        read: async () => {
          const judged = await readSigns(clusters, deployment, { from, to, alsoGone }, execution.signal);
          const [silence] = judged;
          if (silence?.verdict === 'fail') throw spokeAgainst([silence]);
          return judged;
        },
        until: signsAgree,
        budgetMs: primaryGoneMs + SIGNS_BUDGET_MS,
        describe: signsText,
        needed: `every sign that ${from} is gone`,
        cluster: from,
        pollMs: 500,
      });
      return { observed: signsText(signs), at: Date.now() };
    }),

    fenceLostPrimary: executeChange((input, execution) =>
      fenceLostPrimary({ dependencies, clusters, execution }, input),
    ),
  };
}

/** Where the old primary was demoted and still answers, its tree tells more than any sample. */
function lossOf(from: ClusterObservation, to: ClusterObservation, { bound, why }: LossBound): FailoverLoss {
  const demoted = from.dr?.mode === 'secondary' && from.dr.merkleRoot !== undefined;
  if (demoted && from.dr?.merkleRoot === to.dr?.merkleRoot)
    return { loss: 'none', why: `${from.cluster} was demoted, and both have the same Merkle root` };
  return bound === undefined
    ? { loss: 'unknown', why: `bound unknown: ${why}; ${lastWords(to)}` }
    : { loss: 'bounded', boundWalEntries: bound, why: `${why}; ${lastWords(to)}` };
}

function lastWords({ cluster, dr }: ClusterObservation): string {
  const age = heartbeatAge(dr);
  const heard =
    age === undefined
      ? 'tells no heartbeat'
      : `heard its last heartbeat at ${new Date(Date.now() - age).toISOString()}`;
  return `${cluster} ${heard} and has last remote WAL ${dr?.lastRemoteWal ?? 'not told'}`;
}

function lossText({ loss, boundWalEntries, why }: FailoverLoss): string {
  if (loss === 'none') return `Nothing is lost: ${why}.`;
  const much =
    boundWalEntries === undefined
      ? 'What may be lost is not known'
      : `Of what was sampled, ${boundWalEntries} WAL entries are lost; what was written later may be lost as well`;
  return `${much}: ${why}.`;
}

/** Shown to the approvers beside the plan, which holds nothing that changes by itself. */
function findingsFor(from: string, loss: FailoverLoss, judged: readonly Precondition[]): Finding[] {
  const attested = judged.filter(({ verdict, name }) => verdict === 'not-checkable' && name !== 'loss bound');
  // A sign that only needs time is waited for in a step of its own, before the gate.
  const warned = judged.filter(({ verdict, next }) => verdict === 'warn' && next !== undefined && next !== WAITED_FOR);
  return [
    { severity: loss.loss === 'none' ? 'info' : 'warning', code: 'loss-bound', text: lossText(loss) },
    ...attested.map(({ name, observed, next }) => ({
      severity: 'warning' as const,
      code: 'sign-attested-by-people',
      text: `"${name}" could not be read: ${observed}.`,
      next: next ?? `The approvers of gate promote attest that ${from} is gone.`,
    })),
    ...warned.map(({ name, cluster, observed, next }) => ({
      severity: 'warning' as const,
      code: 'failover-warning',
      text: `${name}${cluster === undefined ? '' : ` (${cluster})`}: ${observed}.`,
      ...(next === undefined ? {} : { next }),
    })),
  ];
}
