import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, Check } from '../../src/contracts/plan';
import type { SecondaryDecommissionInput, TokenSource } from '../../src/contracts/runbook-inputs';
import { identityOf, planDocument } from '../approvals/planning';
import { check } from '../checks/check';
import { mayCall } from '../checks/credentials';
import { isConnected } from '../checks/replication';
import { hasRole } from '../checks/roles';
import { assessTokenSource } from '../checks/tokens';
import type { ClusterAccess } from '../clusters';
import { CONNECTION, othersConnected } from '../ending/replication-end';
import { currentExecution } from '../execution';
import { describeFilter } from '../filters/paths-filters';
import { kindName } from '../joining/onboarding-read';
import { observe } from './observed';
import type { Observed, PlanInput } from './observed';

/** What `secondaryDecommission` follows. */
export interface DecommissionRoute {
  readonly primary: string;
  /** The id by which the primary knows the secondary. */
  readonly id: string;
  /** Whether the primary knows the id; else it was revoked before, and only the secondary's side is left. */
  readonly known: boolean;
  /** The cluster of the inventory that has this id and answers; absent where there is none. */
  readonly secondary?: string;
  readonly afterwards: SecondaryDecommissionInput['afterwards'];
  /** Where the operation token for the DR secondary comes from; absent where none is needed. */
  readonly tokenSource?: TokenSource;
  /** The paths filter that stays on the primary under this id, in words. */
  readonly filterLeft?: string;
}

/** A secondary is cut off for good (facts 8.7, 9.12). */
export async function assessSecondaryDecommission({
  input,
  ownFingerprint,
}: PlanInput<SecondaryDecommissionInput>): Promise<Assessment<DecommissionRoute>> {
  const { signal } = currentExecution();
  const { kind, afterwards } = input;
  const observed = await observe(input.deployment, [input.primary, input.secondary]);
  const { deployment, observations, access, of } = observed;
  const base = observed.base({ revoke: true, disable: afterwards === 'disable' });
  const primary = of(input.primary);
  const role = hasRole(primary, kind, 'primary', 'A secondary is revoked on the primary that it follows.');
  if (role.verdict === 'fail') return { ...base, preconditions: [role] };
  const found = identify(input, primary, observations);
  const { id, secondary } = found;
  if (id === undefined) return { ...base, preconditions: [role, found.judged] };
  const known = (primary[kind]?.knownSecondaries ?? []).includes(id);
  const source = access(primary.cluster);
  const revoke = { [`sys/replication/${kind}/primary/revoke-secondary`]: ['update'] };
  const tokens = await judgeAfterwards(observed, input, source, secondary, ownFingerprint);
  const route: DecommissionRoute = {
    primary: primary.cluster,
    id,
    known,
    secondary: secondary?.cluster,
    afterwards: secondary ? afterwards : 'nothing',
    tokenSource: tokens.source,
    filterLeft: kind === 'performance' ? await filterOf(source, id, signal) : undefined,
  };
  return {
    ...base,
    preconditions: [
      role,
      found.judged,
      idKnown(input, primary, id, secondary, known),
      ...(known ? anotherStays(input, primary, id, deployment.limits.heartbeatAgeMs) : []),
      ...(known ? await mayCall(source, revoke, signal) : []),
      ...tokens.checks,
    ],
    route,
    plan: planOf(input, route, primary, secondary, { silent: found.silent, ...tokens }),
  };
}

/** Which id is meant, and which cluster of the inventory has it. */
function identify(
  { kind, id: asked, secondary: named, afterwards }: SecondaryDecommissionInput,
  primary: ClusterObservation,
  observations: readonly ClusterObservation[],
): {
  readonly id?: string;
  /** It answers: its ids were read. */
  readonly secondary?: ClusterObservation;
  /** It is named and does not answer. */
  readonly silent?: string;
  readonly judged: Check;
} {
  const idsOf = (each: ClusterObservation) =>
    each.reachable && each.clusterId !== undefined
      ? [each[kind]?.secondaryId, each.clusterId].filter((id) => id !== undefined && id !== '')
      : [];
  if (named === undefined) {
    const owner = observations.find((each) => each !== primary && asked !== undefined && idsOf(each).includes(asked));
    const observed = owner ? `${owner.cluster} has it` : `no cluster that answers has the id ${asked ?? ''}`;
    return {
      id: asked,
      secondary: owner,
      judged: check(
        'the secondary is in the inventory',
        owner?.cluster,
        owner !== undefined,
        observed,
        'a cluster of the inventory with this id',
        'Only the side of the primary is done; the report says what is left to do on the secondary.',
        'warn',
      ),
    };
  }
  const each = observations.find(({ cluster }) => cluster === named);
  const ids = each && each !== primary ? idsOf(each) : [];
  const id = asked ?? ids.find((one) => primary[kind]?.knownSecondaries?.includes(one ?? '')) ?? ids[0];
  if (ids.length === 0) {
    // One that is gone for good can be revoked by its id; what is to be done on it is left to people.
    const good = asked !== undefined && afterwards === 'nothing';
    const next = 'Give its "id", as known_secondaries of the primary has it, with {"afterwards": "nothing"}.';
    const error = each?.error ?? 'it is the primary, or not readable';
    return {
      id: good ? asked : undefined,
      silent: named,
      judged: check('the secondary answers', named, false, error, 'its ids can be read', next, good ? 'warn' : 'fail'),
    };
  }
  const good = id !== undefined && ids.includes(id);
  return {
    id: good ? id : undefined,
    secondary: each,
    judged: check(
      'the id is that of the secondary',
      named,
      good,
      `${named} has ${ids.join(', ')}`,
      `${id ?? 'an id'} is one of them`,
      'Give the id that the secondary has, or leave it out.',
    ),
  };
}

/** An id that the primary does not know was revoked before, or never was: then only a disconnected secondary is dealt with. */
function idKnown(
  { kind, secondary: named, afterwards }: SecondaryDecommissionInput,
  primary: ClusterObservation,
  id: string,
  secondary: ClusterObservation | undefined,
  known: boolean,
): Check {
  const seen = secondary?.[kind];
  const orphan =
    named !== undefined &&
    seen?.mode === 'secondary' &&
    seen.setId === primary[kind]?.setId &&
    !isConnected(seen) &&
    afterwards !== 'nothing';
  return check(
    'the primary knows the id',
    primary.cluster,
    known,
    `known: ${(primary[kind]?.knownSecondaries ?? []).join(', ') || 'none'}`,
    id,
    orphan
      ? `It was revoked before: only ${named} is dealt with.`
      : 'Read known_secondaries in the status of the primary: only an id in it can be revoked.',
    orphan ? 'warn' : 'fail',
  );
}

/** Never the only connected DR secondary, unless somebody says so and the gate approves it (facts 9.12). */
function anotherStays(
  { kind, acknowledgeLastSecondary }: SecondaryDecommissionInput,
  primary: ClusterObservation,
  id: string,
  heartbeatAgeMs: number,
): Check[] {
  const state = primary[kind];
  if (kind !== 'dr' || !state) return [];
  const others = othersConnected(state, id, heartbeatAgeMs);
  return [
    check(
      'another DR secondary stays connected',
      primary.cluster,
      others.length > 0,
      others.join(', ') || 'no other one is connected',
      'another connected DR secondary',
      'Connect another DR secondary first, or start again with {"acknowledgeLastSecondary": true}.',
      acknowledgeLastSecondary ? 'warn' : 'fail',
    ),
  ];
}

/** What is done on the secondary: its role, and the token or credential that it needs. */
async function judgeAfterwards(
  { deployment, access }: Observed,
  { kind, afterwards, tokenSource }: SecondaryDecommissionInput,
  primary: ClusterAccess,
  observation: ClusterObservation | undefined,
  ownFingerprint: string | undefined,
): Promise<{
  readonly source?: TokenSource;
  readonly checks: readonly Check[];
  readonly warnings?: readonly string[];
}> {
  if (afterwards === 'nothing' || !observation) return { checks: [] };
  const { signal } = currentExecution();
  const next = 'Start again with {"afterwards": "nothing"}, and see what the cluster is used for.';
  const role = hasRole(observation, kind, 'secondary', next);
  const path = `sys/replication/${kind}/secondary/${afterwards === 'disable' ? 'disable' : 'update-primary'}`;
  const secondary = access(observation.cluster);
  if (kind === 'performance') return { checks: [role, ...(await mayCall(secondary, { [path]: ['update'] }, signal))] };
  const tokens = await assessTokenSource({
    deployment,
    secondary,
    observation,
    primary,
    wanted: tokenSource,
    paths: [path],
    ownFingerprint,
    signal,
  });
  return { ...tokens, checks: [role, ...tokens.checks] };
}

async function filterOf(source: ClusterAccess, id: string, signal: AbortSignal): Promise<string | undefined> {
  const token = await source.credential();
  const filter = await source.client.performance.primary.pathsFilter.read(id, { token, signal });
  return filter && describeFilter(filter);
}

function planOf(
  input: SecondaryDecommissionInput,
  { id, known, afterwards, filterLeft }: DecommissionRoute,
  primary: ClusterObservation,
  secondary: ClusterObservation | undefined,
  { silent, warnings: ofTokens = [] }: { readonly silent?: string | undefined; readonly warnings?: readonly string[] },
) {
  const { kind } = input;
  const name = secondary?.cluster ?? silent ?? id;
  const on = identityOf(primary);
  const operations: AllowedOperation[] = [
    ...(known
      ? [
          {
            operation: `${kind}.primary.revoke-secondary` as const,
            on,
            ...(secondary ? { with: identityOf(secondary) } : {}),
            detail: id,
          },
        ]
      : []),
    ...(secondary && afterwards !== 'nothing'
      ? [
          {
            operation: `${kind}.secondary.${afterwards}` as const,
            on: identityOf(secondary),
            ...(afterwards === 'disable' ? { detail: CONNECTION.none } : {}),
          },
        ]
      : []),
  ];
  const warnings = [
    ...(known
      ? [`${name} is cut off from ${primary.cluster} at once, and comes back only with a new activation token.`]
      : []),
    ...(kind === 'dr' && known
      ? [`${name} gets no more writes: it cannot take over without losing what comes after.`]
      : []),
    ...(kind === 'performance' && known
      ? [`Clients of ${name} read what it has now, and their writes to shared data fail.`]
      : []),
    ...(input.acknowledgeLastSecondary && kind === 'dr'
      ? [`${primary.cluster} may have no connected DR secondary afterwards: if it fails then, its data is gone.`]
      : []),
    ...(afterwards === 'disable'
      ? [`${name} ends replication: it can become a secondary again only by being wiped.`]
      : []),
    ...(filterLeft === undefined ? [] : [`The paths filter of ${id} stays on ${primary.cluster}: ${filterLeft}.`]),
    ...ofTokens,
    ...(secondary ? [] : [`Nothing is done on ${name}: it is not in the inventory, or does not answer.`]),
  ];
  return planDocument({
    runbook: 'secondaryDecommission',
    input,
    clusters: [primary, ...(secondary ? [secondary] : [])],
    operations,
    warnings,
    steps: [
      ...(known
        ? [`Revoke ${name} (id ${id}) on ${primary.cluster}`, `See that ${primary.cluster} has no such peer any more`]
        : []),
      ...(afterwards === 'forget-primary'
        ? [`Make ${name} forget its primary; it stays a secondary with its data`]
        : []),
      ...(afterwards === 'disable' ? [`Disable ${kindName(kind)} replication on ${name}`] : []),
    ],
    choices: { kind, id, afterwards, acknowledgeLastSecondary: input.acknowledgeLastSecondary },
  });
}
