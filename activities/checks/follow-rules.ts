import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Concern } from './known-bugs';
import { knownBugs } from './known-bugs';
import { describeReplication } from '../observe';
import { kindName } from '../joining/onboarding-read';
import { check } from './switchover-rule';
import { compareVersions } from './versions';

/** A cluster that is to take part in a change: it answers with one active node, and none of its nodes is sealed. */
export function takesPart(observation: ClusterObservation): Precondition[] {
  const { cluster, nodes } = observation;
  return [
    check(
      'one active node',
      cluster,
      observation.reachable,
      observation.activeNode ?? observation.error ?? 'none',
      'the nodes agree on one active node',
      `Look at the nodes of ${cluster}.`,
    ),
    check(
      'every node is unsealed',
      cluster,
      nodes.every((node) => node.sealed !== true && node.initialized !== false),
      nodes
        .map(
          ({ address, sealed }) => `${address} ${sealed === undefined ? 'not read' : sealed ? 'sealed' : 'unsealed'}`,
        )
        .join('; '),
      'every node is initialised and unsealed',
      `Unseal the nodes of ${cluster} with the primary's key shares.`,
    ),
  ];
}

/** A role as it must be read. */
export function hasRole(
  observation: ClusterObservation,
  kind: ReplicationKind,
  mode: 'primary' | 'secondary',
  next: string,
): Precondition {
  const seen = observation[kind];
  return check(
    `${kindName(kind)} ${mode}`,
    observation.cluster,
    seen?.mode === mode,
    observation.reachable ? describeReplication(seen) : (observation.error ?? 'not readable'),
    mode,
    next,
  );
}

/** The versions that the nodes of a cluster tell. */
export function versionsOf({ nodes }: ClusterObservation): readonly string[] {
  return [...new Set(nodes.flatMap(({ version }) => version ?? []))];
}

/** A secondary must not be older than the primary that it follows (facts 8.8). */
export function mayFollow(primary: ClusterObservation, secondary: ClusterObservation): Precondition {
  const [above, below] = [versionsOf(primary), versionsOf(secondary)];
  const told = `${primary.cluster} ${above.join(', ') || 'not told'}; ${secondary.cluster} ${below.join(', ') || 'not told'}`;
  const oneEach = above.length === 1 && below.length === 1;
  return check(
    'versions in order',
    secondary.cluster,
    oneEach && compareVersions(below[0] ?? '', above[0] ?? '') >= 0,
    told,
    `one version on all nodes of each, and ${secondary.cluster} not older than ${primary.cluster}`,
    oneEach
      ? `Upgrade ${secondary.cluster} first: replicating from newer to older is not safe.`
      : 'Finish the upgrade first.',
  );
}

/** Defects of the service that what is planned would run into; acknowledged, they are shown only. */
export function withoutKnownBugs(
  observations: readonly ClusterObservation[],
  kind: ReplicationKind,
  concern: Concern,
  acknowledged: boolean,
): Precondition[] {
  return observations.map((observation) => {
    const found = versionsOf(observation)
      .flatMap((version) => knownBugs(version))
      .filter(({ concerns, kind: only }) => concerns.includes(concern) && (only === undefined || only === kind));
    return check(
      `no known defect in ${concern}`,
      observation.cluster,
      found.length === 0,
      found.length === 0
        ? `${versionsOf(observation).join(', ') || 'version not told'}: none known`
        : `${versionsOf(observation).join(', ')}: ${found.map(({ id, text }) => `${id}: ${text}`).join(' ')}`,
      `a version without it${found.length === 0 ? '' : ` (fixed in ${[...new Set(found.flatMap(({ fixedIn }) => fixedIn))].join(', ')})`}`,
      acknowledged
        ? 'It was acknowledged.'
        : `Upgrade ${observation.cluster}, or start again with {"acknowledgeKnownBugs": true}.`,
      acknowledged ? 'warn' : 'fail',
    );
  });
}

/** Whether two clusters may belong to one replication set: only two IDs that are told, and differ, say that they do not. */
export function mayBeOneSet(a: string | undefined, b: string | undefined): boolean {
  return !a || !b || a === b;
}

/** At most one primary of the set of `primary`, as far as clusters answer. */
export function onlyPrimary(
  kind: ReplicationKind,
  primary: ClusterObservation,
  observations: readonly ClusterObservation[],
): Precondition[] {
  const setId = primary[kind]?.setId;
  const others = observations.filter(
    (each) => each !== primary && each[kind]?.mode === 'primary' && mayBeOneSet(each[kind].setId, setId),
  );
  return [
    check(
      `one ${kindName(kind)} primary`,
      undefined,
      others.length === 0,
      [primary, ...others].map(({ cluster }) => cluster).join(', '),
      `${primary.cluster} alone`,
      'Find out which one clients write to, and demote the other, before anything else.',
    ),
  ];
}
