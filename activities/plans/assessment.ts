import type { Assessment, RunbookActivities, SwitchoverRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, PlanDocument, Precondition } from '../../src/contracts/plan';
import type { DrSwitchoverInput, TokenSource } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { drSetOf, findCluster, findDeployment } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import { judgeRoster } from '../ceremony/ceremony-roster';
import type { Clusters } from '../clusters';
import { breakGlassWarnings, ceremonyCallsAllowed, isIn } from '../ceremony/ceremony-access';
import { execute } from '../execution';
import { describeReplication, observeCluster } from '../observe';
import { gateFacts, identityOf, observeDeployment, planDocument, siteFacts } from '../approvals/planning';
import { providedWarning } from '../checks/provided-rules';
import { readPrimaryChanges } from '../roles/primary-changes';
import type { SwitchoverFacts } from '../checks/switchover-facts';
import { ceremonyAccess, readSwitchoverFacts } from '../checks/switchover-facts';
import { judgeSwitchover } from '../checks/switchover-rules';
import { compareVersions } from '../checks/versions';

/** Reading a deployment and judging it: what the plan and the refusal are made of. Changes nothing. */
export function createAssessmentActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<RunbookActivities, 'assessDrSwitchover' | 'readDeployment' | 'assessCeremony'> {
  const { inventory } = dependencies;
  const observeAll = (deployment: string, signal: AbortSignal) => observeDeployment(clusters, deployment, signal);
  const site = (deployment: string) => siteFacts(dependencies, deployment);

  return {
    readDeployment: execute(async ({ deployment }, { signal }) => ({
      observations: await observeAll(deployment, signal),
    })),

    assessDrSwitchover: execute(
      async ({ input, ownFingerprint }, { run, signal }): Promise<Assessment<SwitchoverRoute>> => {
        const deployment = findDeployment(inventory, input.deployment);
        findCluster(deployment, input.to);
        const observations = await observeAll(input.deployment, signal);
        const base = {
          observations,
          site: await site(input.deployment),
          gates: {
            plan: gateFacts(inventory, deployment, 'plan'),
            go: gateFacts(inventory, deployment, 'go', input.go === 'required'),
          },
        };
        const found = findSides(deployment, input, observations);
        if ('refused' in found) return { ...base, preconditions: [found.refused] };
        const { from, to, others, performanceSecondaries } = found;
        const [facts, otherCeremonies, changes] = await Promise.all([
          readSwitchoverFacts(
            clusters.of(input.deployment, from.cluster),
            clusters.of(input.deployment, to.cluster),
            to,
            deployment.marker.path,
            signal,
          ),
          Promise.all(
            others
              .filter((each) => each.dr?.mode === 'secondary')
              .map(async (each) => ({
                cluster: each.cluster,
                version: each.version,
                ...(await ceremonyAccess(clusters.of(input.deployment, each.cluster), each, signal)),
              })),
          ),
          readPrimaryChanges(dependencies, deployment.name, deployment.limits, { ns: run.ns, signal }),
        ]);
        const tokenSource = chooseTokenSource(deployment, input, facts);
        const preconditions = judgeSwitchover({
          input,
          deployment,
          from,
          to,
          others,
          performanceSecondaries,
          facts: { ...facts, otherCeremonies },
          tokenSource,
          ownFingerprint,
          changes,
          now: Date.now(),
        });
        const route: SwitchoverRoute = {
          from: from.cluster,
          to: to.cluster,
          otherDrSecondaries: others.filter((each) => each.dr?.mode === 'secondary').map((each) => each.cluster),
          performanceSecondaries: performanceSecondaries.map((each) => each.cluster),
          rejoin: compareVersions(from.version ?? '', to.version ?? '') >= 0,
          tokenSource,
          hooks: {
            quiesce: deployment.hooks.quiesce !== undefined,
            release: deployment.hooks.release !== undefined,
            traffic: deployment.hooks.traffic !== undefined,
            probe: deployment.hooks.probe !== undefined,
          },
        };
        return {
          ...base,
          preconditions,
          route,
          plan: switchoverPlan(input, route, found, deployment),
        };
      },
    ),

    assessCeremony: execute(async ({ deployment: name, cluster, uses }, { signal }) => {
      const deployment = findDeployment(inventory, name);
      const access = clusters.access(findCluster(deployment, cluster));
      const observation = await observeCluster(access, signal);
      return {
        observation,
        preconditions: await judgeCeremony(deployment, observation, access, uses, signal),
        site: await site(name),
      };
    }),
  };
}

interface Sides {
  readonly from: ClusterObservation;
  readonly to: ClusterObservation;
  readonly others: readonly ClusterObservation[];
  readonly performanceSecondaries: readonly ClusterObservation[];
}

/** Who is primary is read, never configured. */
function findSides(
  deployment: Deployment,
  input: DrSwitchoverInput,
  observations: readonly ClusterObservation[],
): Sides | { readonly refused: Precondition } {
  const members = drSetOf(deployment, input.to).members;
  const inSet = observations.filter((each) => members.includes(each.cluster));
  const to = inSet.find((each) => each.cluster === input.to);
  const primaries = inSet.filter((each) => each.dr?.mode === 'primary');
  const from =
    input.from === undefined
      ? (primaries.find((each) => each.cluster !== input.to) ?? primaries[0])
      : inSet.find((each) => each.cluster === input.from);
  if (!to || !from || from === to) {
    const seen = inSet
      .map(
        (each) => `${each.cluster}: ${each.reachable ? describeReplication(each.dr) : (each.error ?? 'not readable')}`,
      )
      .join('; ');
    return {
      refused: {
        name: 'a DR primary and its secondary',
        observed: seen,
        needed: `${input.to} is a DR secondary and ${input.from ?? 'another member of its DR set'} is the primary`,
        verdict: 'fail',
        next:
          from && from === to
            ? `${input.to} is the DR primary already: there is nothing to do.`
            : 'Where no primary answers, this is a failover and not a switchover.',
      },
    };
  }
  const servesPerformance = from.performance?.mode === 'primary';
  return {
    from,
    to,
    others: inSet.filter((each) => each !== from && each !== to),
    performanceSecondaries: servesPerformance
      ? observations.filter(
          (each) =>
            !inSet.includes(each) &&
            each.performance?.mode === 'secondary' &&
            each.performance.setId === from.performance?.setId &&
            each.dr?.mode !== 'secondary',
        )
      : [],
  };
}

function chooseTokenSource(deployment: Deployment, input: DrSwitchoverInput, facts: SwitchoverFacts): TokenSource {
  const wanted = input.tokenSource ?? deployment.ceremony.tokenSource;
  if (wanted !== 'auto') return wanted;
  const { usable, ttlSeconds, type } = facts.batchToken;
  const livesOn = ttlSeconds === undefined || ttlSeconds * 1000 >= deployment.ceremony.batchMarginMs;
  return usable && type === 'batch' && livesOn ? 'batch' : 'ceremony';
}

/** What the approval of the plan allows: each side may end as the primary, and the others follow that one. */
function switchoverPlan(
  input: DrSwitchoverInput,
  route: SwitchoverRoute,
  { from, to, others, performanceSecondaries }: Sides,
  deployment: Deployment,
): PlanDocument {
  const [former, next] = [identityOf(from), identityOf(to)];
  const following = others.filter(({ cluster }) => route.otherDrSecondaries.includes(cluster));
  const drSecondaries = following.map(identityOf);
  const followers = performanceSecondaries.map(identityOf);
  const followAs = (primary: AllowedOperation['on'], secondaries: readonly AllowedOperation['on'][]) => [
    ...secondaries.map((on) => ({ operation: 'dr.secondary.repoint-after-switchover', on, with: primary }) as const),
    ...followers.map(
      (on) => ({ operation: 'performance.secondary.repoint-after-switchover', on, with: primary }) as const,
    ),
  ];
  return planDocument({
    runbook: 'drSwitchover',
    input,
    clusters: [from, to, ...following, ...performanceSecondaries],
    operations: [
      { operation: 'dr.primary.demote', on: former, with: next },
      { operation: 'dr.secondary.promote-after-demotion', on: next, with: former },
      { operation: 'dr.secondary.promote-after-demotion', on: former, with: next },
      // An older one cannot follow the new primary: it stays out.
      ...followAs(next, [...(route.rejoin ? [former] : []), ...drSecondaries]),
      ...followAs(former, [next, ...drSecondaries]),
    ],
    warnings: route.tokenSource === 'provided' ? [providedWarning(deployment, to.cluster)] : [],
    steps: planSteps(input, route, [to, ...following, from]),
    choices: {
      tokenSource: route.tokenSource,
      go: input.go,
      onStuck: input.onStuck,
      acceptLoss: input.acceptLoss,
      rejoin: route.rejoin,
    },
  });
}

function planSteps(
  input: DrSwitchoverInput,
  route: SwitchoverRoute,
  generateOn: readonly ClusterObservation[],
): string[] {
  const { from, to } = route;
  return [
    ...(route.tokenSource === 'ceremony'
      ? [
          ...breakGlassWarnings('operation-token', generateOn),
          `Generate an operation token on ${to} from the holders' key shares`,
        ]
      : []),
    ...(route.hooks.quiesce ? ['Quiesce the clients'] : []),
    `Write a marker on ${from} and wait until ${to} has it`,
    `Demote ${from} (OUTAGE begins)`,
    `Compare the Merkle roots; where loss cannot be excluded ${input.acceptLoss === 'none' ? `promote ${from} back` : 'go on and state the bound'}`,
    `Promote ${to}; where that gets stuck ${input.onStuck === 'promote-back' ? `promote ${from} back` : 'park'}`,
    `Wait until ${to} serves reads and writes${route.hooks.traffic ? ', lead the clients there' : ''} (OUTAGE ends)`,
    ...(route.rejoin ? [`Make ${from} a DR secondary of ${to}`] : [`Leave ${from} out until it is upgraded`]),
    ...route.otherDrSecondaries.map((cluster) => `Point ${cluster} at ${to}`),
    ...route.performanceSecondaries.map(
      (cluster) => `See that performance secondary ${cluster} follows ${to}, else re-point it with its paths filter`,
    ),
    ...(route.tokenSource !== 'batch' ? ['Delete the operation tokens and destroy the ceremony keys'] : []),
  ];
}

async function judgeCeremony(
  deployment: Deployment,
  observation: ClusterObservation,
  access: ReturnType<Clusters['of']>,
  uses: readonly string[],
  signal: AbortSignal,
): Promise<Precondition[]> {
  const { cluster, attempt, dr } = observation;
  const roster = judgeRoster(deployment, attempt?.required);
  const way = await ceremonyAccess(access, observation, signal);
  const judged = (name: string, good: boolean, observed: string, needed: string, next: string): Precondition => ({
    name,
    cluster,
    observed,
    needed,
    verdict: good ? 'ok' : 'fail',
    ...(good ? {} : { next }),
  });
  return [
    judged(
      'one active node',
      observation.reachable,
      observation.activeNode ?? observation.error ?? 'none',
      'one active node',
      `Look at the nodes of ${cluster}.`,
    ),
    judged(
      'every node is unsealed',
      observation.nodes.every((node) => node.sealed !== true),
      observation.nodes.map((node) => `${node.address} ${node.sealed ? 'sealed' : 'unsealed'}`).join('; '),
      'every node is unsealed',
      `Unseal ${cluster}.`,
    ),
    judged(
      'DR secondary',
      dr?.mode === 'secondary',
      describeReplication(dr),
      'secondary',
      'Operation tokens exist on DR secondaries only.',
    ),
    ceremonyCallsAllowed(cluster, 'operation-token', observation.version, way),
    // From version 2.0 people may have to open the calls first.
    ...(isIn(way.access)
      ? [
          judged(
            'generation slot readable',
            attempt !== undefined,
            attempt ? 'readable' : 'not readable',
            'readable',
            `Look at the active node of ${cluster}.`,
          ),
        ]
      : []),
    judged(
      'generation slot free',
      attempt?.started !== true,
      attempt?.started ? `an attempt, progress ${attempt.progress} of ${attempt.required}` : 'free',
      'free',
      'Let its owner finish or cancel it.',
    ),
    judged('enough key holders', roster.good, roster.observed, roster.needed, roster.next),
    judged('uses named', uses.length > 0, uses.join(', '), 'at least one use', 'Name what the token is for.'),
  ];
}
