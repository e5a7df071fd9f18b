import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, Check } from '../../src/contracts/plan';
import type { ReplicationTeardownInput, TokenSource } from '../../src/contracts/runbook-inputs';
import { identityOf, planDocument } from '../approvals/planning';
import { check } from '../checks/check';
import { mayCall } from '../checks/credentials';
import { roleText } from '../checks/roles';
import { assessTokenSource } from '../checks/tokens';
import { CONNECTION, cutOffDetail, othersConnected } from '../ending/replication-end';
import { currentExecution } from '../execution';
import { kindName } from '../joining/onboarding-read';
import { isAlive } from '../observe';
import { observe } from './observed';
import type { PlanInput } from './observed';

/** A secondary that loses its primary for good. */
export interface CutOff {
  readonly id: string;
  /** Its name in the inventory, where it is known. */
  readonly cluster?: string;
}

/** What `replicationTeardown` follows. */
export interface TeardownRoute {
  readonly cluster: string;
  /** The role that ends. `disabled`: there is nothing to end. */
  readonly role: 'primary' | 'secondary' | 'disabled';
  readonly tokenSource?: TokenSource;
  /** Of a primary: every secondary that it knows. */
  readonly cutOff: readonly CutOff[];
  /** Of a secondary: the primary that still knows it, and by which id. */
  readonly knownBy?: { readonly primary: string; readonly id: string };
}

/** A role ends; who is cut off by it, and what that costs later (facts 2.4, 2.10). */
export async function assessReplicationTeardown({
  input,
  ownFingerprint,
}: PlanInput<ReplicationTeardownInput>): Promise<Assessment<TeardownRoute>> {
  const { signal } = currentExecution();
  const { kind, cluster } = input;
  const observed = await observe(input.deployment, [cluster]);
  const { deployment, observations, access, of } = observed;
  const seen = of(cluster);
  const state = seen[kind];
  const role = state?.mode;
  const base = observed.base({ disable: role !== 'disabled' });
  const checks = roleChecks(kind, seen);
  if (!state || (role !== 'primary' && role !== 'secondary' && role !== 'disabled'))
    return { ...base, preconditions: checks };
  const { heartbeatAgeMs } = deployment.limits;
  const connected = role === 'primary' ? othersConnected(state, '', heartbeatAgeMs) : [];
  if (connected.length > 0) {
    const next = 'Each of them loses its primary for good.';
    const told = `connected: ${connected.join(', ')}`;
    checks.push(check('nobody is cut off', cluster, false, told, 'no connected secondary', next, 'warn'));
  }
  const path = `sys/replication/${kind}/${role}/disable`;
  const primary = observations.find((each) => each.dr?.mode === 'primary' && each.dr.setId === state.setId);
  const tokens =
    kind === 'dr' && role === 'secondary'
      ? await assessTokenSource({
          deployment,
          secondary: access(cluster),
          observation: seen,
          primary: primary && access(primary.cluster),
          wanted: input.tokenSource,
          paths: [path],
          ownFingerprint,
          signal,
        })
      : undefined;
  if (tokens) checks.push(...tokens.checks);
  else if (role !== 'disabled') checks.push(...(await mayCall(access(cluster), { [path]: ['update'] }, signal)));
  const route: TeardownRoute = {
    cluster,
    role,
    tokenSource: tokens?.source,
    cutOff: role === 'primary' ? cutOffBy(input, state.knownSecondaries ?? [], observations) : [],
    knownBy: role === 'secondary' ? knownByOf(input, seen, observations) : undefined,
  };
  const plan = planOf(input, route, seen, observations, { heartbeatAgeMs, ofTokens: tokens?.warnings ?? [] });
  return { ...base, preconditions: checks, route, plan };
}

function roleChecks(kind: ReplicationTeardownInput['kind'], seen: ClusterObservation): Check[] {
  const { cluster, dr } = seen;
  const role = seen[kind]?.mode;
  return [
    check(
      `${kindName(kind)} role readable`,
      cluster,
      role === 'primary' || role === 'secondary' || role === 'disabled',
      roleText(seen, kind),
      'primary, secondary or disabled',
      `See that ${cluster} is unsealed and has an active node, then start again.`,
    ),
    // The performance role of a DR secondary is in its data and comes into force when it is promoted.
    ...(kind === 'performance'
      ? [
          check(
            'no DR secondary',
            cluster,
            dr?.mode !== 'secondary',
            roleText(seen, 'dr'),
            'a role of its own',
            'End its DR replication, or end the performance replication on its primary.',
          ),
        ]
      : []),
  ];
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
