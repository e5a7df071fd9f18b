import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { describeReplication } from '../observe';
import { kindName } from '../joining/onboarding-read';
import { check } from './check';

/** What a cluster is for a kind of replication, in words; why nothing can be said where it does not answer. */
export function roleText(observation: ClusterObservation | undefined, kind: ReplicationKind): string {
  const seen = observation?.[kind];
  return seen ? describeReplication(seen) : (observation?.error ?? 'not readable');
}

/** One line for several clusters. */
export function rolesOf(observations: readonly ClusterObservation[], kind: ReplicationKind): string {
  return observations.map((each) => `${each.cluster}: ${roleText(each, kind)}`).join('; ');
}

/** A role as it must be read. */
export function hasRole(
  observation: ClusterObservation,
  kind: ReplicationKind,
  mode: 'primary' | 'secondary',
  next: string,
): Check {
  const good = observation[kind]?.mode === mode;
  const name = `${kindName(kind)} ${mode}`;
  return check(name, observation.cluster, good, roleText(observation, kind), mode, next);
}

/** A primary that serves: `idle` is one without an active node. */
export function servesAsPrimary(observation: ClusterObservation, kind: ReplicationKind, next: string): Check {
  const seen = observation[kind];
  const good = seen?.mode === 'primary' && seen.state !== 'idle';
  const name = `${kindName(kind)} primary`;
  return check(name, observation.cluster, good, roleText(observation, kind), 'primary, running', next);
}

/** Exactly one of these clusters is primary. */
export function onePrimary(kind: ReplicationKind, clusters: readonly ClusterObservation[]): Check {
  const primaries = clusters.filter((each) => each[kind]?.mode === 'primary').map(({ cluster }) => cluster);
  return check(
    `one ${kindName(kind)} primary`,
    undefined,
    primaries.length === 1,
    primaries.join(', ') || 'none',
    'exactly one',
    'Find out which one clients write to, and demote the other, before anything else.',
  );
}

/** Two clusters of one replication set, by the ID that both tell. */
export function sameSet(
  kind: ReplicationKind,
  primary: ClusterObservation,
  secondary: ClusterObservation,
  next: string,
): Check {
  const [wanted, has] = [primary[kind]?.setId, secondary[kind]?.setId];
  return check(
    `same ${kindName(kind)} set`,
    secondary.cluster,
    wanted !== undefined && wanted === has,
    has ?? 'none',
    wanted ?? 'the set of the primary',
    next,
  );
}

/** Whether two clusters may belong to one replication set: only two IDs that are told, and differ, say that they do not. */
export function mayBeOneSet(a: string | undefined, b: string | undefined): boolean {
  return !a || !b || a === b;
}
