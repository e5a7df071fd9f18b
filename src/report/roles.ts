import type { ClusterObservation, ReplicationObservation } from '../contracts/observations';
import { directionOf } from '../contracts/plan';
import type { RunbookPlan } from '../contracts/plan';
import type { Report } from '../contracts/report';
import type { ReplicationKind } from '../contracts/runbook-inputs';

/* Which cluster has which role and follows which one, before and after a run: only what the run read. */

/** What is known of the role of a cluster in one kind of replication. */
export type Role = 'primary' | 'secondary' | 'none' | 'not read';

export interface ClusterRoles {
  readonly cluster: string;
  readonly dr: Role;
  readonly performance: Role;
  /** What people must know beside the roles, shortest first. */
  readonly notes: readonly string[];
  /** Whether a role differs from the one before. */
  readonly isChanged: boolean;
}

/** A secondary and the primary that it follows, by the set that both report. */
export interface Link {
  readonly kind: ReplicationKind;
  readonly primary: string;
  readonly secondary: string;
  readonly streams: boolean;
}

/** The deployment as read at one time. */
export interface Roles {
  readonly when: 'before' | 'after' | 'unchanged';
  /** Epoch milliseconds. */
  readonly readAt: number;
  readonly clusters: readonly ClusterRoles[];
  readonly links: readonly Link[];
}

const KINDS: readonly ReplicationKind[] = ['dr', 'performance'];

function roleIn(replication: ReplicationObservation | undefined): Role {
  if (!replication) return 'not read';
  const { mode } = replication;
  return mode === 'primary' || mode === 'secondary' ? mode : 'none';
}

/** The name of a role: `DR primary`. */
export function roleName(kind: ReplicationKind, role: Role): string {
  const name = kind === 'dr' ? 'DR' : 'performance';
  return role === 'none' ? `without ${name} role` : `${name} ${role}`;
}

const isStreaming = ({ state, connectionState }: ReplicationObservation) =>
  state === 'stream-wals' && (connectionState === undefined || connectionState === 'ready');

/** Links of one kind. Two clusters of one set that both report to be primary are both followed, as far as is known. */
function linksIn(kind: ReplicationKind, observations: readonly ClusterObservation[]): Link[] {
  return observations.flatMap(({ cluster: secondary, [kind]: replication }) => {
    if (replication?.mode !== 'secondary' || replication.setId === undefined) return [];
    return observations
      .filter(({ [kind]: other }) => other?.mode === 'primary' && other.setId === replication.setId)
      .map(({ cluster: primary }) => ({ kind, primary, secondary, streams: isStreaming(replication) }));
  });
}

/** What is worth knowing of a secondary that does not stream, or whose primary was not read. */
function noteOf(kind: ReplicationKind, { cluster, [kind]: replication }: ClusterObservation, links: readonly Link[]) {
  if (replication?.mode !== 'secondary') return [];
  const name = kind === 'dr' ? 'DR' : 'performance';
  const { state, connectionState = 'ready' } = replication;
  if (connectionState !== 'ready') return [`${name}: not connected`];
  if (state !== 'stream-wals') return [`${name}: ${state ?? 'state not read'}`];
  const known = links.some((link) => link.kind === kind && link.secondary === cluster);
  return known ? [] : [`its ${name} primary was not read`];
}

function clusterRoles(
  observation: ClusterObservation,
  links: readonly Link[],
  earlierOnes: readonly ClusterObservation[],
  lost: string | undefined,
): ClusterRoles {
  const { cluster, reachable } = observation;
  const earlier = earlierOnes.find((each) => each.cluster === cluster);
  const changes = KINDS.flatMap((kind) => {
    const [was, is] = [roleIn(earlier?.[kind]), roleIn(observation[kind])];
    return earlier && was !== is && was !== 'not read' && is !== 'not read' ? [{ kind, was }] : [];
  });
  // A new primary takes both roles over: what it had before says enough.
  const known = changes.filter(({ was }) => was !== 'none');
  const before = (known.length > 0 ? known : changes).map(({ kind, was }) => `was ${roleName(kind, was)}`);
  const gone = cluster === lost ? ['the primary that is gone'] : [];
  return {
    ...{ cluster, dr: roleIn(observation.dr), performance: roleIn(observation.performance) },
    notes: [
      ...(reachable ? [] : ['did not answer']),
      ...gone,
      ...before,
      ...KINDS.flatMap((kind) => noteOf(kind, observation, links)),
    ],
    isChanged: changes.length > 0,
  };
}

/**
 * The deployment before and after the run, or once if the run changed no role; none if it read no cluster. A run that did not
 * read the clusters after its last change shows only what was before.
 */
export function rolesOf(report: Report): readonly Roles[] {
  const { initialState, finalState, finalRoles, plan } = report;
  const before = initialState ?? finalState;
  if (finalRoles === undefined || before.length === 0) return [];
  // Clusters keep their places, so that two pictures can be compared.
  const ordered = inOrder(before);
  const at = (
    when: Roles['when'],
    observations: readonly ClusterObservation[],
    earlier = [] as typeof before,
  ): Roles => {
    const known = new Map(observations.map((each) => [each.cluster, each]));
    const sorted = [...new Set([...ordered, ...known.keys()])].flatMap((name) => known.get(name) ?? []);
    const direction = plan && when !== 'after' ? directionOf(plan.content) : undefined;
    const unread = observations.find(({ cluster, reachable }) => cluster === direction?.from && !reachable);
    const read = KINDS.flatMap((kind) => linksIn(kind, observations));
    const links = unread && plan ? [...read, ...lostLinks(plan.content, unread.cluster, observations, read)] : read;
    return {
      ...{ when, readAt: Math.max(...observations.map((each) => each.at)), links },
      clusters: sorted.map((each) => clusterRoles(each, links, earlier, unread?.cluster)),
    };
  };
  if (finalRoles === 'unchanged') return [at('unchanged', finalState)];
  const first = [at('before', before)];
  return finalRoles === 'read-after-changes' && initialState
    ? [...first, at('after', finalState, initialState)]
    : first;
}

/** The primary that is gone cannot say whom it served; the approved plan says it for the cluster that takes over. */
function lostLinks(
  plan: RunbookPlan,
  primary: string,
  observations: readonly ClusterObservation[],
  read: readonly Link[],
): Link[] {
  const kind = plan.runbook === 'performancePromotion' ? 'performance' : 'dr';
  const secondary = directionOf(plan)?.to;
  const candidate = observations.find(({ cluster }) => cluster === secondary);
  const isKnown = read.some((link) => link.kind === kind && link.secondary === secondary);
  if (secondary === undefined || candidate?.[kind]?.mode !== 'secondary' || isKnown) return [];
  return [{ kind, primary, secondary, streams: false }];
}

/** Each primary before its secondaries, and the primary of the performance secondaries first. */
function inOrder(observations: readonly ClusterObservation[]): readonly string[] {
  const links = KINDS.flatMap((kind) => linksIn(kind, observations));
  const order = new Set<string>();
  const add = (cluster: string): void => {
    if (order.has(cluster)) return;
    order.add(cluster);
    for (const { primary, secondary } of links) if (primary === cluster) add(secondary);
  };
  const isFollower = (cluster: string) => links.some(({ secondary }) => secondary === cluster);
  const roots = observations.filter(({ cluster }) => !isFollower(cluster));
  const follows = (cluster: string) => links.filter(({ primary }) => primary === cluster).length;
  for (const { cluster } of roots.toSorted((one, other) => follows(other.cluster) - follows(one.cluster))) add(cluster);
  for (const { cluster } of observations) add(cluster);
  return [...order];
}

/** The roles of one cluster as words: `DR primary, performance secondary of europe`. */
export function rolesText({ cluster, dr, performance, notes }: ClusterRoles, links: readonly Link[]): string {
  const of = (kind: ReplicationKind, role: Role) => {
    const primaries = links.filter((link) => link.kind === kind && link.secondary === cluster);
    const followed = primaries.length === 0 ? '' : ` of ${primaries.map(({ primary }) => primary).join(' and ')}`;
    return `${roleName(kind, role)}${followed}`;
  };
  const known = (
    [
      ['dr', dr],
      ['performance', performance],
    ] as const
  ).filter(([, role]) => role !== 'none');
  const words =
    known.every(([, role]) => role === 'not read') && known.length === 2
      ? ['roles not read']
      : known.map(([kind, role]) => of(kind, role));
  return [...(words.length === 0 ? ['no replication'] : words), ...notes].join(', ');
}
