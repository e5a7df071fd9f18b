import type { Assessment, CutOff, TeardownRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, Precondition } from '../../src/contracts/plan';
import type { ReplicationTeardownInput, TokenSource } from '../../src/contracts/runbook-inputs';
import { findCluster, findDeployment } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { describeReplication, isAlive } from '../observe';
import { kindName } from '../joining/onboarding-read';
import { credentialMay } from '../roles/permissions';
import { gateFacts, identityOf, observeDeployment, planDocument, siteFacts } from '../approvals/planning';
import { CONNECTION, cutOffDetail, othersConnected } from '../ending/replication-end';
import { check } from '../checks/switchover-rule';
import { assessTokenSource } from '../tokens/token-source';

/** Reads the role that ends, and says who is cut off by it and what that costs later (facts 2.4, 2.10). */
export async function assessTeardown(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  input: ReplicationTeardownInput,
  ownFingerprint: string | undefined,
  signal: AbortSignal,
): Promise<Assessment<TeardownRoute>> {
  const { inventory } = dependencies;
  const { kind } = input;
  const deployment = findDeployment(inventory, input.deployment);
  findCluster(deployment, input.cluster);
  const observations = await observeDeployment(clusters, input.deployment, signal);
  const observed = observations.find(({ cluster }) => cluster === input.cluster);
  const state = observed?.[kind];
  const role = state?.mode;
  const base = {
    observations,
    site: await siteFacts(dependencies, input.deployment),
    gates: { disable: gateFacts(inventory, deployment, 'disable', role !== 'disabled') },
  };
  const preconditions: Precondition[] = [
    check(
      `${kindName(kind)} role readable`,
      input.cluster,
      role === 'primary' || role === 'secondary' || role === 'disabled',
      observed?.reachable ? describeReplication(state) : (observed?.error ?? 'not readable'),
      'primary, secondary or disabled',
      `See that ${input.cluster} is unsealed and has an active node, then start again.`,
    ),
  ];
  if (kind === 'performance') {
    // The performance role of a DR secondary is in its data and comes into force when it is promoted.
    const isDrSecondary = observed?.dr?.mode === 'secondary';
    const next = 'End its DR replication, or end the performance replication on its primary.';
    preconditions.push(
      check(
        'no DR secondary',
        input.cluster,
        !isDrSecondary,
        describeReplication(observed?.dr),
        'a role of its own',
        next,
      ),
    );
  }
  if (!observed || !state || (role !== 'primary' && role !== 'secondary' && role !== 'disabled'))
    return { ...base, preconditions };

  const access = clusters.of(input.deployment, input.cluster);
  const cutOff = role === 'primary' ? cutOffBy(input, state.knownSecondaries ?? [], observations) : [];
  const knownBy = role === 'secondary' ? knownByOf(input, observed, observations) : undefined;
  const connected = role === 'primary' ? othersConnected(state, '', deployment.limits.heartbeatAgeMs) : [];
  if (connected.length > 0)
    preconditions.push(
      check(
        'nobody is cut off',
        input.cluster,
        false,
        `connected: ${connected.join(', ')}`,
        'no connected secondary',
        'Each of them loses its primary for good.',
        'warn',
      ),
    );
  let tokenSource: TokenSource | undefined;
  let ofTokens: readonly string[] = [];
  const path = `sys/replication/${kind}/${role}/disable`;
  if (kind === 'dr' && role === 'secondary') {
    const primary = observations.find((each) => each.dr?.mode === 'primary' && each.dr.setId === state.setId);
    const tokens = await assessTokenSource({
      deployment,
      secondary: access,
      observation: observed,
      primary: primary && clusters.of(input.deployment, primary.cluster),
      wanted: input.tokenSource,
      paths: [path],
      ownFingerprint,
      signal,
    });
    tokenSource = tokens.source;
    ofTokens = tokens.warnings;
    preconditions.push(...tokens.preconditions);
  } else if (role !== 'disabled') {
    preconditions.push(await credentialMay(access, [path], ['update'], signal));
  }
  const route: TeardownRoute = { cluster: input.cluster, role, tokenSource, cutOff, knownBy };
  return {
    ...base,
    preconditions,
    route,
    plan: planOf(input, route, observed, observations, { heartbeatAgeMs: deployment.limits.heartbeatAgeMs, ofTokens }),
  };
}

/** Every secondary that the primary knows, by name where the inventory has it. */
function cutOffBy(
  { kind, cluster }: ReplicationTeardownInput,
  ids: readonly string[],
  observations: readonly ClusterObservation[],
): CutOff[] {
  return [...ids].sort().map((id) => {
    const owner = observations.find(
      (each) => each.cluster !== cluster && (each.clusterId === id || each[kind]?.secondaryId === id),
    );
    return { id, cluster: owner?.cluster };
  });
}

/** The primary that goes on knowing a secondary which ends its replication. */
function knownByOf(
  { kind }: ReplicationTeardownInput,
  observed: ClusterObservation,
  observations: readonly ClusterObservation[],
): TeardownRoute['knownBy'] {
  const state = observed[kind];
  const ids = [state?.secondaryId, observed.clusterId];
  for (const { cluster, [kind]: other } of observations) {
    if (other?.mode !== 'primary' || other.setId !== state?.setId) continue;
    const id = (other.knownSecondaries ?? []).find((known) => ids.includes(known));
    if (id !== undefined) return { primary: cluster, id };
  }
  return undefined;
}

function planOf(
  input: ReplicationTeardownInput,
  { cluster, role, cutOff, knownBy }: TeardownRoute,
  observed: ClusterObservation,
  observations: readonly ClusterObservation[],
  { heartbeatAgeMs, ofTokens }: { readonly heartbeatAgeMs: number; readonly ofTokens: readonly string[] },
) {
  const { kind } = input;
  const on = identityOf(observed);
  // One that nobody knows and that is not connected may be attached again meanwhile: then it is not what was approved.
  const inUse = role === 'secondary' && (knownBy !== undefined || isAlive(observed[kind], heartbeatAgeMs));
  const details: readonly string[] =
    role === 'primary'
      ? [cutOffDetail(cutOff.map(({ id }) => id))]
      : [CONNECTION.none, ...(inUse ? [CONNECTION.any] : [])];
  const operations: AllowedOperation[] =
    role === 'disabled' ? [] : details.map((detail) => ({ operation: `${kind}.${role}.disable` as const, on, detail }));
  const nameOf = ({ id, cluster: name }: CutOff) => (name === undefined ? `the secondary ${id}` : `${name} (id ${id})`);
  const other = kind === 'dr' ? 'performance' : 'dr';
  const otherMode = observed[other]?.mode;
  const warnings = [
    ...cutOff.map(
      (each) =>
        `${nameOf(each)} is cut off for good: it can follow a primary again only by being wiped and onboarded anew.`,
    ),
    ...(role === 'primary' && kind === 'dr'
      ? [`${cluster} has no DR secondary afterwards: if it fails then, its data is gone.`]
      : []),
    ...(role === 'primary' && kind === 'performance' && cutOff.length > 0
      ? ['Clients of the performance secondaries read what these have now; their writes to shared data fail.']
      : []),
    ...(role === 'secondary'
      ? [`${cluster} can become a ${kindName(kind)} secondary again only by being wiped and onboarded anew.`]
      : []),
    ...(role === 'secondary' && knownBy
      ? [`${knownBy.primary} goes on knowing ${cluster} by the id ${knownBy.id} until it is revoked.`]
      : []),
    ...(role !== 'disabled' && (otherMode === 'primary' || otherMode === 'secondary')
      ? [`The ${kindName(other)} replication of ${cluster} (${otherMode}) stays as it is.`]
      : []),
    ...ofTokens,
  ];
  const named = observations.filter((each) => cutOff.some((one) => one.cluster === each.cluster));
  return planDocument({
    runbook: 'replicationTeardown',
    input,
    clusters: [observed, ...named.filter(({ clusterId }) => clusterId !== undefined)],
    operations,
    warnings,
    steps: [
      ...(role === 'disabled' ? [] : [`Disable ${kindName(kind)} replication on ${cluster}, which is its ${role}`]),
      `See on every node of ${cluster} that it is disabled`,
    ],
    choices: { kind, role },
  });
}
