import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { InputOf, ReplicationKind, TokenSource } from '../../src/contracts/runbook-inputs';
import { identityOf, planDocument } from '../approvals/planning';
import { check } from '../checks/check';
import { anotherStays, hasRole, noDrSecondary, othersConnected, roleText } from '../checks/replication';
import type { TokenAssessment } from '../checks/tokens';
import { CONNECTION, cutOffDetail } from '../ending/replication-end';
import { currentExecution } from '../execution';
import { describeFilter, filterUnder } from '../filters/paths-filters';
import { isAlive, kindName } from '../observe';
import { observe } from './observed';
import type { Observed, PlanInput } from './observed';

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
export async function assessReplicationTeardown(
  request: PlanInput<InputOf<'replicationTeardown'>>,
): Promise<Assessment<TeardownRoute>> {
  const { input } = request;
  const { kind, cluster } = input;
  const observed = await observe(request, [cluster]);
  const { observations } = observed;
  const { heartbeatAgeMs } = observed.deployment.limits;
  const seen = observed.of(cluster);
  const state = seen[kind];
  const role = roleOf(seen, kind);
  const base = observed.base({ disable: role !== 'disabled' });
  const judged = roleChecks(kind, seen);
  if (!state || role === undefined) return { ...base, preconditions: judged };
  const path = `sys/replication/${kind}/${role}/disable`;
  const tokens = kind === 'dr' && role === 'secondary' ? await observed.tokens(cluster, [path]) : undefined;
  const rights = tokens || role === 'disabled' ? [] : await observed.rights(cluster, { [path]: ['update'] });
  const connected = othersConnected(state, '', heartbeatAgeMs).join(', ');
  const cutOff = check('nobody is cut off', cluster, connected === '', {
    observed: connected === '' ? 'nobody is connected' : `connected: ${connected}`,
    needed: 'no connected secondary',
    next: 'Each of them loses its primary for good.',
    otherwise: 'warn',
  });
  const route: TeardownRoute = {
    cluster,
    role,
    tokenSource: tokens?.source,
    cutOff: role === 'primary' ? cutOffBy(input, state.knownSecondaries ?? [], observations) : [],
    knownBy: role === 'secondary' ? knownByOf(input, seen, observations) : undefined,
  };
  // One that nobody knows and that is not connected may be attached again meanwhile: then it is not what was approved.
  const inUse = role === 'secondary' && (route.knownBy !== undefined || isAlive(state, heartbeatAgeMs));
  return {
    ...base,
    preconditions: [...judged, ...(role === 'primary' ? [cutOff] : []), ...(tokens?.checks ?? rights)],
    route,
    plan: teardownPlan(input, route, inUse, observed, tokens?.warnings ?? []),
  };
}

function roleChecks(kind: InputOf<'replicationTeardown'>['kind'], seen: ClusterObservation): Check[] {
  const { cluster } = seen;
  const readable = check(`${kindName(kind)} role readable`, cluster, roleOf(seen, kind) !== undefined, {
    observed: roleText(seen, kind),
    needed: 'primary, secondary or disabled',
    next: `See that ${cluster} is unsealed and has an active node, then start again.`,
  });
  // The performance role of a DR secondary is in its data and comes into force when it is promoted.
  const next = 'End its DR replication, or end the performance replication on its primary.';
  return kind === 'dr' ? [readable] : [readable, noDrSecondary(seen, 'a role of its own', next)];
}

function roleOf(seen: ClusterObservation, kind: ReplicationKind): TeardownRoute['role'] | undefined {
  return (['primary', 'secondary', 'disabled'] as const).find((role) => role === seen[kind]?.mode);
}

/** Every secondary that the primary knows, by name where the inventory has it. */
function cutOffBy(
  { kind, cluster }: InputOf<'replicationTeardown'>,
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
  { kind }: InputOf<'replicationTeardown'>,
  observed: ClusterObservation,
  observations: readonly ClusterObservation[],
): TeardownRoute['knownBy'] {
  const state = observed[kind];
  const ids = [state?.secondaryId, observed.clusterId];
  const [known] = observations.flatMap(({ cluster, [kind]: other }) =>
    other?.mode === 'primary' && other.setId === state?.setId
      ? (other.knownSecondaries ?? []).filter((id) => ids.includes(id)).map((id) => ({ primary: cluster, id }))
      : [],
  );
  return known;
}

function teardownPlan(
  input: InputOf<'replicationTeardown'>,
  { cluster, role, cutOff, knownBy }: TeardownRoute,
  inUse: boolean,
  { of, observations }: Observed,
  ofTokens: readonly string[],
) {
  const { kind } = input;
  const seen = of(cluster);
  const details = {
    primary: [cutOffDetail(cutOff.map(({ id }) => id))],
    secondary: [CONNECTION.none, ...(inUse ? [CONNECTION.any] : [])],
    disabled: [],
  };
  const on = identityOf(seen);
  const nameOf = ({ id, cluster: name }: CutOff) => (name === undefined ? `the secondary ${id}` : `${name} (id ${id})`);
  const other = kind === 'dr' ? 'performance' : 'dr';
  const otherMode = seen[other]?.mode;
  const named = observations.filter(
    (each) => each.clusterId !== undefined && cutOff.some((one) => one.cluster === each.cluster),
  );
  return planDocument({
    runbook: 'replicationTeardown',
    input,
    clusters: [seen, ...named],
    operations:
      role === 'disabled' ? [] : details[role].map((detail) => ({ operation: `${kind}.${role}.disable`, on, detail })),
    warnings: [
      ...cutOff.map(
        (each) =>
          `${nameOf(each)} is cut off for good: it can follow a primary again only by being wiped and onboarded anew.`,
      ),
      role === 'primary' &&
        kind === 'dr' &&
        `${cluster} has no DR secondary afterwards: if it fails then, its data is gone.`,
      kind === 'performance' &&
        cutOff.length > 0 &&
        'Clients of the performance secondaries read what these have now; their writes to shared data fail.',
      role === 'secondary' &&
        `${cluster} can become a ${kindName(kind)} secondary again only by being wiped and onboarded anew.`,
      knownBy && `${knownBy.primary} goes on knowing ${cluster} by the id ${knownBy.id} until it is revoked.`,
      role !== 'disabled' &&
        (otherMode === 'primary' || otherMode === 'secondary') &&
        `The ${kindName(other)} replication of ${cluster} (${otherMode}) stays as it is.`,
      ...ofTokens,
    ],
    steps: [
      role !== 'disabled' && `Disable ${kindName(kind)} replication on ${cluster}, which is its ${role}`,
      `See on every node of ${cluster} that it is disabled`,
    ],
    choices: { kind, role },
  });
}

/** What `secondaryDecommission` follows. */
export interface DecommissionRoute {
  readonly primary: string;
  /** The id by which the primary knows the secondary. */
  readonly id: string;
  /** The cluster of the inventory that has this id and answers; absent where there is none. */
  readonly secondary?: string;
  readonly afterwards: InputOf<'secondaryDecommission'>['afterwards'];
  /** Where the operation token for the DR secondary comes from; absent where none is needed. */
  readonly tokenSource?: TokenSource;
  /** The paths filter that stays on the primary under this id, in words. */
  readonly filterLeft?: string;
}

/** A secondary is cut off for good (facts 8.7, 9.12). */
export async function assessSecondaryDecommission(
  request: PlanInput<InputOf<'secondaryDecommission'>>,
): Promise<Assessment<DecommissionRoute>> {
  const { input } = request;
  const { kind, afterwards } = input;
  const observed = await observe(request, [input.primary, input.secondary]);
  const base = observed.base({ revoke: true, disable: afterwards === 'disable' });
  const primary = observed.of(input.primary);
  const role = hasRole(primary, kind, 'primary', 'A secondary is revoked on the primary that it follows.');
  if (role.verdict === 'fail') return { ...base, preconditions: [role] };
  const found = identify(input, primary, observed.observations);
  const { id, secondary } = found;
  if (id === undefined) return { ...base, preconditions: [role, found.judged] };
  const { heartbeatAgeMs } = observed.deployment.limits;
  const revoke = { [`sys/replication/${kind}/primary/revoke-secondary`]: ['update'] };
  const onSecondary = await judgeAfterwards(observed, input, secondary);
  const route: DecommissionRoute = {
    primary: primary.cluster,
    id,
    secondary: secondary?.cluster,
    afterwards: secondary ? afterwards : 'nothing',
    tokenSource: onSecondary.source,
    filterLeft: kind === 'performance' ? await filterOf(observed, primary.cluster, id) : undefined,
  };
  return {
    ...base,
    preconditions: [
      role,
      found.judged,
      idKnown(input, primary, id),
      ...(kind === 'dr' ? [anotherStays(primary, id, heartbeatAgeMs, input.acknowledgeLastSecondary)] : []),
      ...(await observed.rights(primary.cluster, revoke)),
      ...(onSecondary.checks ?? []),
    ],
    route,
    plan: decommissionPlan(input, route, primary, secondary, onSecondary.warnings ?? []),
  };
}

/** Which id is meant, and which cluster of the inventory has it. */
function identify(
  { kind, id: asked, secondary: named }: InputOf<'secondaryDecommission'>,
  primary: ClusterObservation,
  observations: readonly ClusterObservation[],
) {
  const idsOf = (each: ClusterObservation) =>
    each !== primary && each.reachable && each.clusterId !== undefined
      ? [each[kind]?.secondaryId, each.clusterId].filter((id) => id !== undefined && id !== '')
      : [];
  if (named === undefined) {
    const owner = observations.find((each) => asked !== undefined && idsOf(each).includes(asked));
    const judged = check('the secondary is in the inventory', owner?.cluster, owner !== undefined, {
      observed: owner ? `${owner.cluster} has it` : `no cluster that answers has the id ${asked ?? ''}`,
      needed: 'a cluster of the inventory with this id',
      next: 'Only the side of the primary is done; the report says what is left to do on the secondary.',
      otherwise: 'warn',
    });
    return { id: asked, secondary: owner, judged };
  }
  const secondary = observations.find(({ cluster }) => cluster === named);
  const ids = secondary ? idsOf(secondary) : [];
  if (ids.length === 0) {
    const judged = check('the secondary answers', named, false, {
      observed: secondary?.error ?? 'it is the primary, or not readable',
      needed: 'its ids can be read',
      next: 'Give its "id" alone, as known_secondaries of the primary has it: then what is to be done on it is left to people.',
    });
    return { id: undefined, secondary: undefined, judged };
  }
  const id = asked ?? ids.find((one) => primary[kind]?.knownSecondaries?.includes(one ?? '')) ?? ids[0];
  const good = id !== undefined && ids.includes(id);
  const judged = check('the id is that of the secondary', named, good, {
    observed: `${named} has ${ids.join(', ')}`,
    needed: `${id ?? 'an id'} is one of them`,
    next: 'Give the id that the secondary has, or leave it out.',
  });
  // It answers: its ids were read.
  return { id: good ? id : undefined, secondary, judged };
}

/** One that was revoked before is in no list any more, and neither is a mistyped one. */
function idKnown({ kind }: InputOf<'secondaryDecommission'>, primary: ClusterObservation, id: string): Check {
  const known = primary[kind]?.knownSecondaries ?? [];
  return check('the primary knows the id', primary.cluster, known.includes(id), {
    observed: `known: ${known.join(', ') || 'none'}`,
    needed: id,
    next: 'Read known_secondaries in the status of the primary: only an id in it can be revoked. The role of a secondary that was revoked before ends by replicationTeardown.',
  });
}

/** What is done on the secondary: its role, and the token or credential that it needs. */
async function judgeAfterwards(
  { rights, tokens }: Observed,
  { kind, afterwards }: InputOf<'secondaryDecommission'>,
  secondary: ClusterObservation | undefined,
): Promise<Partial<TokenAssessment>> {
  if (afterwards === 'nothing' || !secondary) return {};
  const next = 'Start again with {"afterwards": "nothing"}, and see what the cluster is used for.';
  const role = hasRole(secondary, kind, 'secondary', next);
  const path = `sys/replication/${kind}/secondary/${afterwards === 'disable' ? 'disable' : 'update-primary'}`;
  if (kind === 'performance') return { checks: [role, ...(await rights(secondary.cluster, { [path]: ['update'] }))] };
  const found = await tokens(secondary.cluster, [path]);
  return { ...found, checks: [role, ...found.checks] };
}

async function filterOf({ access }: Observed, primary: string, id: string): Promise<string | undefined> {
  const filter = await filterUnder(access(primary), id, currentExecution().signal);
  return filter && describeFilter(filter);
}

function decommissionPlan(
  input: InputOf<'secondaryDecommission'>,
  { id, afterwards, filterLeft }: DecommissionRoute,
  primary: ClusterObservation,
  secondary: ClusterObservation | undefined,
  ofTokens: readonly string[],
) {
  const { kind, acknowledgeLastSecondary } = input;
  const name = secondary?.cluster ?? input.secondary ?? id;
  const target = secondary && identityOf(secondary);
  return planDocument({
    runbook: 'secondaryDecommission',
    input,
    clusters: [primary, ...(secondary ? [secondary] : [])],
    operations: [
      {
        operation: `${kind}.primary.revoke-secondary`,
        on: identityOf(primary),
        ...(target && { with: target }),
        detail: id,
      },
      target &&
        afterwards !== 'nothing' && {
          operation: `${kind}.secondary.${afterwards}`,
          on: target,
          ...(afterwards === 'disable' && { detail: CONNECTION.none }),
        },
    ],
    warnings: [
      `${name} is cut off from ${primary.cluster} at once, and comes back only with a new activation token.`,
      kind === 'dr'
        ? `${name} gets no more writes: it cannot take over without losing what comes after.`
        : `Clients of ${name} read what it has now, and their writes to shared data fail.`,
      acknowledgeLastSecondary &&
        kind === 'dr' &&
        `${primary.cluster} may have no connected DR secondary afterwards: if it fails then, its data is gone.`,
      afterwards === 'disable' && `${name} ends replication: it can become a secondary again only by being wiped.`,
      filterLeft !== undefined && `The paths filter of ${id} stays on ${primary.cluster}: ${filterLeft}.`,
      ...ofTokens,
      !secondary && `Nothing is done on ${name}: it is not in the inventory, or does not answer.`,
    ],
    steps: [
      `Revoke ${name} (id ${id}) on ${primary.cluster}`,
      `See that ${primary.cluster} has no such peer any more`,
      afterwards === 'forget-primary' && `Make ${name} forget its primary; it stays a secondary with its data`,
      afterwards === 'disable' && `Disable ${kindName(kind)} replication on ${name}`,
    ],
    choices: { kind, id, afterwards, acknowledgeLastSecondary },
  });
}
