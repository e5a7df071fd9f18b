import type {
  Assessment,
  OnboardingActivities,
  PathsFilterFacts,
  SecondaryOnboardingRoute,
} from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type {
  DrSecondaryOnboardingInput,
  PerformanceSecondaryOnboardingInput,
} from '../../src/contracts/runbook-inputs';
import { findCluster } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import type { ClusterAccess, Clusters } from '../clusters';
import type { Execution } from '../execution';
import { execute } from '../execution';
import { mayCall, primaryRules } from './onboarding-primary';
import type { OnboardingWorld } from '../checks/onboarding-rules';
import {
  filterRules,
  onboardingRules,
  onboardingSteps,
  onboardingWarnings,
  wantedFilter,
} from '../checks/onboarding-rules';
import { describeFilter } from '../filters/paths-filters';
import { gateFacts, identityOf, observeDeployment, planDocument, siteFacts } from '../approvals/planning';

type Asked = DrSecondaryOnboardingInput &
  Partial<Pick<PerformanceSecondaryOnboardingInput, 'filter'>> & { readonly kind: ReplicationKind };

/** Reads and judges what an onboarding needs, and says in its plan what is wiped. Changes nothing. */
export function createOnboardingAssessmentActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<OnboardingActivities, 'assessDrSecondaryOnboarding' | 'assessPerformanceSecondaryOnboarding'> {
  return {
    assessDrSecondaryOnboarding: execute(({ input }, execution) =>
      assess(dependencies, clusters, execution, { ...input, kind: 'dr' }),
    ),
    assessPerformanceSecondaryOnboarding: execute(({ input }, execution) =>
      assess(dependencies, clusters, execution, { ...input, kind: 'performance' }, async (source, id) =>
        source.client.performance.primary.pathsFilter.read(id, {
          token: await source.credential(),
          signal: execution.signal,
        }),
      ),
    ),
  };
}

async function assess(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  { signal }: Execution,
  input: Asked,
  readFilter?: (source: ClusterAccess, id: string) => Promise<PathsFilterFacts | undefined>,
): Promise<Assessment<SecondaryOnboardingRoute>> {
  const { kind } = input;
  const deployment = clusters.deployment(input.deployment);
  const [primaryEntry, secondaryEntry] = [input.primary, input.secondary].map((name) => findCluster(deployment, name));
  const observations = await observeDeployment(clusters, input.deployment, signal);
  const base = {
    observations,
    site: await siteFacts(dependencies, input.deployment),
    gates: { wipe: gateFacts(dependencies.inventory, deployment, 'wipe') },
  };
  const of = (name: string | undefined) => observations.find((each) => each.cluster === name);
  const [primary, secondary] = [of(primaryEntry?.name), of(secondaryEntry?.name)];
  if (!primary || !secondary || !primaryEntry || !secondaryEntry) return { ...base, preconditions: [] };
  const [source, target] = [clusters.access(primaryEntry), clusters.access(secondaryEntry)];
  const world: OnboardingWorld = { kind, deployment, primary, secondary };
  const id = secondary.clusterId ?? '';
  const wanted = kind === 'performance' ? wantedFilter(deployment, { filter: 'inventory', ...input }) : {};
  const isPrimary = primary[kind]?.mode === 'primary' && primary.dr?.mode !== 'secondary';
  const existing = isPrimary && id !== '' ? await readFilter?.(source, id) : undefined;
  const judged = [
    ...primaryRules(deployment, kind, primary, observations),
    ...onboardingRules(world),
    ...(kind === 'performance' ? filterRules(world, wanted, existing) : []),
  ];
  // Rights are asked of clusters that are what they must be: others may not even serve the question.
  const rights = judged.some((each) => each.verdict === 'fail')
    ? []
    : [
        ...(await mayCall(source, primaryRights(kind, isPrimary, deployment.marker.path, wanted, id), signal)),
        ...(await mayCall(target, secondaryRights(kind, input.form), signal)),
      ];
  if (wanted === 'not-said') return { ...base, preconditions: judged };
  const route: SecondaryOnboardingRoute = {
    kind,
    primary: primary.cluster,
    secondary: secondary.cluster,
    id,
    enablesPrimary: !isPrimary,
    form: input.form,
    ...wanted,
  };
  const choices: Record<string, string> = { kind, form: input.form };
  if (kind === 'performance') choices['filter'] = describeFilter(route.filter);
  return {
    ...base,
    preconditions: [...judged, ...rights],
    route,
    plan: planDocument({
      runbook: kind === 'dr' ? 'drSecondaryOnboarding' : 'performanceSecondaryOnboarding',
      input,
      clusters: [primary, secondary],
      operations: [
        ...(isPrimary ? [] : [{ operation: `${kind}.primary.enable-for-secondary` as const, on: identityOf(primary) }]),
        {
          operation: `${kind}.secondary.enable`,
          on: identityOf(secondary),
          with: identityOf(primary),
          ...(kind === 'dr' ? {} : { detail: describeFilter(route.filter) }),
        },
      ],
      warnings: onboardingWarnings(world, route),
      steps: onboardingSteps(route),
      choices,
    }),
  };
}

/** What the workers' credential on the primary must be allowed to do. */
function primaryRights(
  kind: ReplicationKind,
  isPrimary: boolean,
  markerPath: string,
  wanted: ReturnType<typeof wantedFilter>,
  id: string,
): Readonly<Record<string, readonly string[]>> {
  const base = `sys/replication/${kind}/primary`;
  const filtered = wanted !== 'not-said' && wanted.filter !== undefined;
  return {
    ...(isPrimary ? {} : { [`${base}/enable`]: ['update'] }),
    [`${base}/secondary-token`]: ['update', 'sudo'],
    [`${base}/revoke-secondary`]: ['update'],
    ...(filtered ? { [`${base}/paths-filter/${id}`]: ['create|update', 'read'] } : {}),
    [markerPath]: ['create|update'],
  };
}

function secondaryRights(
  kind: ReplicationKind,
  form: SecondaryOnboardingRoute['form'],
): Readonly<Record<string, readonly string[]>> {
  const base = `sys/replication/${kind}/secondary`;
  return {
    [`${base}/enable`]: ['update'],
    ...(form === 'wrapped' ? {} : { [`${base}/generate-public-key`]: ['update'] }),
  };
}
