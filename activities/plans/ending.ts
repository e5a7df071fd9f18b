import { disabling, forgetting, revocation, verifyDisabled, verifyGone } from '../../src/moves/ending';
import { finalReading, readingAfterWait, secondReading } from '../../src/moves/every-run';
import type { Listed, Move, Named } from '../../src/moves/move';
import { asking, disposing, obtaining } from '../../src/moves/tokens';
import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { InputOf, ReplicationKind, TokenSource } from '../../src/contracts/runbook-inputs';
import { orElse } from '../../src/errors';
import { operationsOf } from '../approvals/planning';
import { check } from '../checks/check';
import {
  anotherSecondaryStays,
  hasRole,
  noDrSecondary,
  othersConnected,
  ownerOf,
  roleText,
} from '../checks/replication';
import { CONNECTION, cutOffDetail } from '../ending/replication-end';
import { describeFilter, filterUnder } from '../filters/paths-filters';
import { isAlive, kindName } from '../observe';
import { observe } from './observed';
import type { PlanInput } from './observed';

/** A secondary that loses its primary for good. */
interface CutOff {
  readonly id: string;
  /** Its name in the inventory, if known. */
  readonly cluster?: string;
}

/** What `replicationTeardown` follows. */
export interface TeardownRoute {
  readonly cluster: string;
  /** The role that ends. `disabled`: there is nothing to end. */
  readonly role: 'primary' | 'secondary' | 'disabled';
  readonly tokenSource?: TokenSource;
  /** For a primary: every secondary that it knows. */
  readonly cutOff: readonly CutOff[];
  /** For a secondary: the primary that still knows it, and by which id. */
  readonly knownBy?: { readonly primary: string; readonly id: string };
}

/** A replication role ends: which clusters that cuts off, and what it costs later (facts 2.4, 2.10). */
export async function assessReplicationTeardown(
  request: PlanInput<'replicationTeardown'>,
): Promise<Assessment<TeardownRoute>> {
  const { input } = request;
  const { kind, cluster } = input;
  const observed = await observe('replicationTeardown', request, [cluster]);
  const { observations } = observed;
  const { heartbeatAgeMs } = observed.deployment.limits;
  const seen = observed.of(cluster);
  const state = seen[kind];
  const role = roleOf(seen, kind);
  const base = observed.base(role !== 'disabled' && 'disable');
  const judged = roleChecks(kind, seen);
  if (!state || role === undefined) return { ...base, preconditions: judged };
  const path = `sys/replication/${kind}/${role}/disable`;
  const tokens = kind === 'dr' && role === 'secondary' ? await observed.tokens(cluster, [path]) : undefined;
  const connected = othersConnected(state, '', heartbeatAgeMs).join(', ');
  const cutOff = check('no secondary is cut off', cluster, connected === '', {
    observed: connected === '' ? 'no secondary is connected' : `connected: ${connected}`,
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
  // A secondary that nobody knows and that is not connected may be attached again by then: that was not approved.
  const inUse = role === 'secondary' && (route.knownBy !== undefined || isAlive(state, heartbeatAgeMs));
  const details = {
    primary: [cutOffDetail(route.cutOff.map(({ id }) => id))],
    secondary: [CONNECTION.none, ...(inUse ? [CONNECTION.any] : [])],
  };
  const endpoints = { primary: 'primary/disable', secondary: 'secondary/disable' } as const;
  const needs = { source: tokens?.source, recovery: seen.seal?.recovery, clusters: [cluster] };
  const moves: Listed<Move> = [
    ...asking(needs),
    readingAfterWait,
    ...obtaining(needs, cluster),
    role !== 'disabled' && {
      ...disabling(kind, role, cluster),
      operations: details[role].map((detail) => ({
        ...({ kind, endpoint: endpoints[role], gate: 'disable' } as const),
        ...{ on: seen, detail },
      })),
    },
    { step: verifyDisabled(cluster) },
    ...disposing(needs),
    finalReading,
  ];
  const isNamed = (each: ClusterObservation) =>
    each.clusterId !== undefined && route.cutOff.some((one) => one.cluster === each.cluster);
  return {
    ...base,
    preconditions: [
      ...judged,
      ...(role === 'primary' ? [cutOff] : []),
      ...(tokens?.checks ?? (await observed.rights(operationsOf(moves)))),
    ],
    route,
    plan: observed.plan({
      clusters: [seen, ...observations.filter(isNamed)],
      moves,
      warnings: [...teardownWarnings(input, route, seen), ...(tokens?.warnings ?? [])],
      choices: { kind, role },
    }),
  };
}

function roleChecks(kind: InputOf<'replicationTeardown'>['kind'], seen: ClusterObservation): Check[] {
  const { cluster } = seen;
  const readable = check(`${kindName(kind)} role readable`, cluster, roleOf(seen, kind) !== undefined, {
    observed: roleText(seen, kind),
    needed: 'primary, secondary or disabled',
    next: `Make sure that ${cluster} is unsealed and has an active node, then start again.`,
  });
  // The performance role of a DR secondary is in its data and takes effect when it is promoted.
  const next = 'End its DR replication, or end the performance replication on its primary.';
  return kind === 'dr' ? [readable] : [readable, noDrSecondary(seen, 'its own performance role', next)];
}

function roleOf(seen: ClusterObservation, kind: ReplicationKind): TeardownRoute['role'] | undefined {
  return (['primary', 'secondary', 'disabled'] as const).find((role) => role === seen[kind]?.mode);
}

/** Every secondary that the primary knows, by name if the inventory has it. */
function cutOffBy(
  { kind, cluster }: InputOf<'replicationTeardown'>,
  ids: readonly string[],
  observations: readonly ClusterObservation[],
): CutOff[] {
  const others = observations.filter((each) => each.cluster !== cluster);
  return [...ids].sort().map((id) => ({ id, cluster: ownerOf(id, kind, others)?.cluster }));
}

/** The primary that still knows a secondary whose replication ends. */
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

function teardownWarnings(
  { kind, cluster }: InputOf<'replicationTeardown'>,
  { role, cutOff, knownBy }: TeardownRoute,
  seen: ClusterObservation,
) {
  const nameOf = ({ id, cluster: name }: CutOff) => (name === undefined ? `the secondary ${id}` : `${name} (id ${id})`);
  const other = kind === 'dr' ? 'performance' : 'dr';
  const otherMode = seen[other]?.mode;
  return [
    ...cutOff.map(
      (each) =>
        `${nameOf(each)} is cut off for good: it can follow a primary again only after it is wiped and onboarded again.`,
    ),
    role === 'primary' &&
      kind === 'dr' &&
      `${cluster} has no DR secondary afterwards: if it fails then, its data is gone.`,
    kind === 'performance' &&
      cutOff.length > 0 &&
      'Clients of the performance secondaries keep reading the data that these have now; their writes to shared data fail.',
    role === 'secondary' &&
      `${cluster} can become a ${kindName(kind)} secondary again only after it is wiped and onboarded again.`,
    knownBy && `${knownBy.primary} still lists ${cluster} under the id ${knownBy.id} until that id is revoked.`,
    role !== 'disabled' &&
      (otherMode === 'primary' || otherMode === 'secondary') &&
      `The ${kindName(other)} replication of ${cluster} (${otherMode}) stays unchanged.`,
  ];
}

/** What `secondaryDecommission` follows. */
export interface DecommissionRoute {
  readonly primary: string;
  /** The id under which the primary lists the secondary. */
  readonly id: string;
  /** The cluster of the inventory that has this id and answers; absent if there is none. */
  readonly secondary?: string;
  readonly afterwards: InputOf<'secondaryDecommission'>['afterwards'];
  /** Where the operation token for the DR secondary comes from; absent if none is needed. */
  readonly tokenSource?: TokenSource;
  /** The paths filter that stays on the primary under this id, as text. */
  readonly filterLeft?: string;
}

/** A secondary is cut off for good (facts 8.7, 9.12). */
export async function assessSecondaryDecommission(
  request: PlanInput<'secondaryDecommission'>,
): Promise<Assessment<DecommissionRoute>> {
  const { input } = request;
  const { kind, acknowledgeLastSecondary } = input;
  const observed = await observe('secondaryDecommission', request, [input.primary, input.secondary]);
  const base = observed.base('revoke', input.afterwards === 'disable' && 'disable');
  const primary = observed.of(input.primary);
  const role = hasRole(primary, kind, 'primary', 'A secondary is revoked on the primary that it follows.');
  if (role.verdict === 'fail') return { ...base, preconditions: [role] };
  const { id, secondary, judged } = identify(input, primary, observed.observations);
  if (id === undefined) return { ...base, preconditions: [role, judged] };
  const afterwards = secondary ? input.afterwards : 'nothing';
  const path = `sys/replication/dr/secondary/${afterwards === 'disable' ? 'disable' : 'update-primary'}`;
  const acts = secondary !== undefined && afterwards !== 'nothing';
  const tokens = acts && kind === 'dr' ? await observed.tokens(secondary.cluster, [path]) : undefined;
  const { access, signal } = observed;
  const filterLeft =
    kind === 'performance'
      ? await filterUnder(access(primary.cluster), id, signal).then(
          (filter) => filter && describeFilter(filter),
          orElse(signal, ({ code }) => `not readable (${code}), if there is one`),
        )
      : undefined;
  const route: DecommissionRoute = {
    primary: primary.cluster,
    id,
    secondary: secondary?.cluster,
    afterwards,
    tokenSource: tokens?.source,
    filterLeft,
  };
  const moves = decommissionMoves(input, route, { primary, secondary });
  const next = 'Start again with {"afterwards": "nothing"}, and find out what the cluster is used for.';
  return {
    ...base,
    preconditions: [
      role,
      judged,
      idKnown(input, primary, id),
      ...(kind === 'dr'
        ? [anotherSecondaryStays(primary, id, observed.deployment.limits.heartbeatAgeMs, acknowledgeLastSecondary)]
        : []),
      ...(acts ? [hasRole(secondary, kind, 'secondary', next)] : []),
      ...(await observed.rights(operationsOf(moves))),
      ...(tokens?.checks ?? []),
    ],
    route,
    plan: observed.plan({
      clusters: [primary, ...(secondary ? [secondary] : [])],
      moves,
      warnings: decommissionWarnings(input, route, tokens?.warnings ?? []),
      choices: { kind, id, afterwards, acknowledgeLastSecondary },
    }),
  };
}

/** Finds the id that is meant, and the cluster of the inventory that answers and has it. */
function identify(
  { kind, id: asked, secondary: named }: InputOf<'secondaryDecommission'>,
  primary: ClusterObservation,
  observations: readonly ClusterObservation[],
) {
  const idsOf = (each: ClusterObservation) =>
    each !== primary && each.reachable && each.clusterId !== undefined
      ? [each[kind]?.secondaryId, each.clusterId].flatMap((id) => id || [])
      : [];
  const secondary = observations.find((each) =>
    asked === undefined ? each.cluster === named : idsOf(each).includes(asked),
  );
  const ids = secondary ? idsOf(secondary) : [];
  const id = asked ?? ids.find((each) => primary[kind]?.knownSecondaries?.includes(each)) ?? ids[0];
  if (named !== undefined) {
    const judged = check('the secondary answers', named, id !== undefined, {
      observed: id ?? secondary?.error ?? 'it is the primary, or not readable',
      needed: 'a cluster whose ids can be read',
      next: 'Give its "id" instead, as listed in known_secondaries of the primary. People must then handle the secondary themselves.',
    });
    return { id, secondary, judged };
  }
  const judged = check('the secondary is in the inventory', secondary?.cluster, secondary !== undefined, {
    observed: secondary ? `${secondary.cluster} has it` : `no cluster that answers has the id ${id ?? ''}`,
    needed: 'a cluster of the inventory with this id',
    next: 'The run changes only the primary; the report says what is left to do on the secondary.',
    otherwise: 'warn',
  });
  return { id, secondary, judged };
}

/** A revoked id is no longer listed, and neither is a mistyped one. */
function idKnown({ kind }: InputOf<'secondaryDecommission'>, primary: ClusterObservation, id: string): Check {
  const known = primary[kind]?.knownSecondaries ?? [];
  return check('the primary lists the id', primary.cluster, known.includes(id), {
    observed: `known: ${known.join(', ') || 'none'}`,
    needed: id,
    next: 'Read known_secondaries in the status of the primary: only an id in it can be revoked. To end the role of a secondary that was revoked before, start replicationTeardown.',
  });
}

function decommissionMoves(
  { kind }: InputOf<'secondaryDecommission'>,
  { primary, id, secondary: cluster, afterwards, tokenSource: source }: DecommissionRoute,
  on: { readonly primary: Named; readonly secondary: ClusterObservation | undefined },
): Listed<Move> {
  const name = cluster ?? id;
  const recovery = on.secondary?.seal?.recovery;
  const tokens = { source, recovery, clusters: cluster === undefined ? [] : [cluster] };
  const ended: Listed<Move> =
    cluster === undefined || on.secondary === undefined || afterwards === 'nothing'
      ? []
      : afterwards === 'forget-primary'
        ? [
            {
              ...forgetting(kind, cluster),
              operations: [{ kind, endpoint: 'secondary/update-primary', gate: 'revoke', on: on.secondary }],
            },
          ]
        : [
            {
              ...disabling(kind, 'secondary', cluster),
              operations: [
                {
                  ...({ kind, endpoint: 'secondary/disable', gate: 'disable' } as const),
                  ...{ on: on.secondary, detail: CONNECTION.none },
                },
              ],
            },
            { step: verifyDisabled(cluster) },
          ];
  return [
    ...asking(tokens),
    secondReading,
    ...(cluster === undefined ? [] : obtaining(tokens, cluster)),
    {
      ...revocation(kind, name, primary, id),
      operations: [
        {
          ...({ kind, endpoint: 'primary/revoke-secondary', gate: 'revoke', on: on.primary } as const),
          ...{ with: on.secondary, detail: id },
        },
      ],
    },
    { step: verifyGone(name) },
    ...ended,
    ...disposing(tokens),
    finalReading,
  ];
}

function decommissionWarnings(
  { kind, secondary: named, acknowledgeLastSecondary }: InputOf<'secondaryDecommission'>,
  { primary, id, secondary, afterwards, filterLeft }: DecommissionRoute,
  ofTokens: readonly string[],
) {
  const name = secondary ?? named ?? id;
  return [
    `${name} is cut off from ${primary} immediately, and can come back only with a new activation token.`,
    kind === 'dr'
      ? `${name} receives no more writes: it cannot take over without losing later ones.`
      : `Clients of ${name} keep reading the data that it has now, and their writes to shared data fail.`,
    acknowledgeLastSecondary &&
      kind === 'dr' &&
      `${primary} may have no connected DR secondary afterwards: if it fails then, its data is gone.`,
    afterwards === 'disable' && `Replication of ${name} ends: it can become a secondary again only after it is wiped.`,
    filterLeft !== undefined && `The paths filter of ${id} stays on ${primary}: ${filterLeft}.`,
    ...ofTokens,
    !secondary && `Nothing is done on ${name}: it is not in the inventory, or does not answer.`,
  ];
}
