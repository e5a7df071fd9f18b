import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { asWarning, check } from './check';

/** Orders versions such as `1.21.4+ent`: negative where `a` is older. Build metadata does not count. */
export function compareVersions(a: string, b: string): number {
  const parts = (version: string) =>
    (version.replace(/^v/, '').split(/[+-]/)[0] ?? '').split('.').map((part) => Number.parseInt(part, 10) || 0);
  const [left, right] = [parts(a), parts(b)];
  for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
    const difference = (left[index] ?? 0) - (right[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** The major version of the service, such as 2 for `2.0.3+ent`; 0 where it is not known. */
export function majorVersion(version: string | undefined): number {
  return Number(/^v?(\d+)\./.exec(version ?? '')?.[1] ?? 0);
}

/** The versions that the nodes of a cluster tell. */
export function versionsOf({ nodes }: ClusterObservation): readonly string[] {
  return [...new Set(nodes.flatMap(({ version }) => version ?? []))];
}

export function versionsText(...clusters: readonly ClusterObservation[]): string {
  return clusters.map((each) => `${each.cluster} ${versionsOf(each).join(', ') || 'not told'}`).join('; ');
}

/** No node of a secondary is older than any of the primary that it follows (facts 8.8). */
export function noneOlder(primary: ClusterObservation, secondary: ClusterObservation): Check {
  const [above, below] = [versionsOf(primary), versionsOf(secondary)];
  const inOrder = below.every((version) => above.every((other) => compareVersions(version, other) >= 0));
  return check('versions in order', secondary.cluster, above.length > 0 && below.length > 0 && inOrder, {
    observed: versionsText(primary, secondary),
    needed: `no node of ${secondary.cluster} older than any of ${primary.cluster}`,
    next: `Upgrade ${secondary.cluster} first: replicating from newer to older is not safe.`,
  });
}

/** As {@link noneOlder}, and neither cluster is in the middle of an upgrade. */
export function versionsInOrder(primary: ClusterObservation, secondary: ClusterObservation): Check {
  if ([primary, secondary].every((each) => versionsOf(each).length === 1)) return noneOlder(primary, secondary);
  return check('versions in order', secondary.cluster, false, {
    observed: versionsText(primary, secondary),
    needed: 'one version on all nodes of each cluster',
    next: 'Finish the upgrade first.',
  });
}

/** What an operator is about to do when a defect matters. */
export type Concern =
  | 'update-primary by token'
  | 'update-primary by addresses'
  | 'secondary enable'
  | 'merkle trees'
  | 'operation tokens'
  | 'role changes';

/** A defect of some versions of the service (facts 8.11, 11). */
interface KnownBug {
  /** Stable, kebab case. */
  readonly id: string;
  readonly text: string;
  /** The first version that has it, where not every older one does. */
  readonly since?: string;
  /** First fixed version of each line, such as `1.13.5`, the oldest first. Older lines have it, newer ones do not. */
  readonly fixedIn: readonly string[];
  readonly concerns: readonly Concern[];
  /** Where only one kind of replication is concerned. */
  readonly kind?: ReplicationKind;
}

const KNOWN_BUGS: readonly KnownBug[] = [
  {
    id: 'update-primary-data-loss',
    text: 'update-primary with a token can corrupt the Merkle tree of a performance secondary and drop mounts under allow filters.',
    fixedIn: ['1.11.12', '1.12.9', '1.13.5', '1.14.1'],
    concerns: ['update-primary by token'],
    kind: 'performance',
  },
  {
    id: 'update-primary-addresses-panic',
    text: 'update-primary with update_primary_addrs can end the process of the server.',
    since: '1.13.3',
    fixedIn: ['1.13.5', '1.14.1'],
    concerns: ['update-primary by addresses'],
  },
  {
    id: 'merkle-diff-atomicity',
    text: 'The comparison of Merkle trees is not atomic: a secondary that joins anew can stay out of stream-wals.',
    fixedIn: ['1.13.6', '1.14.2'],
    concerns: ['update-primary by token', 'secondary enable', 'merkle trees'],
  },
  {
    id: 'operation-token-command-line',
    text: 'The command line of the service generates DR operation tokens that do not work.',
    since: '0.9.5',
    fixedIn: ['0.9.7'],
    concerns: ['operation tokens'],
    kind: 'dr',
  },
  {
    id: 'consul-storage-enable-panic',
    text: 'With Consul storage, enabling a secondary can, rarely, end the process of the server.',
    fixedIn: ['2.0.0'],
    concerns: ['secondary enable'],
  },
  {
    id: 'seal-rewrap-on-role-change',
    text: 'With enable_multiseal every role change wraps all entries again in the background, which slows failovers down.',
    fixedIn: ['1.21.0'],
    concerns: ['role changes'],
  },
  {
    id: 'seal-wrap-quorum-loss',
    text: 'A cluster with seal wrap can lose its quorum.',
    since: '1.19.0',
    fixedIn: ['1.19.19', '1.20.13', '1.21.8', '2.0.3'],
    concerns: ['role changes'],
  },
];

/** By the fix of its own line; a line without one has the defect where it is older than every fix. */
function affects({ since = '', fixedIn }: KnownBug, version: string): boolean {
  const line = (each: string) => each.replace(/^v/, '').split('.').slice(0, 2).join('.');
  const fixed = fixedIn.find((each) => line(each) === line(version)) ?? fixedIn[0] ?? version;
  return compareVersions(version, since) >= 0 && compareVersions(version, fixed) < 0;
}

/**
 * The defects that a version of the service is known to have. An empty list says that none of this table is known, and
 * never that there is none.
 *
 * @param version - such as `1.13.4+ent`
 */
export function knownBugs(version: string): readonly KnownBug[] {
  if (!/^v?\d+\.\d+/.test(version)) return [];
  return KNOWN_BUGS.filter((bug) => affects(bug, version));
}

/** The defects of these versions that concern what is done with these kinds of replication, and where they are fixed. */
export function defectsOf(
  versions: readonly string[],
  concerned: readonly Concern[],
  kinds: readonly ReplicationKind[],
): { readonly text: string; readonly fixed: string } {
  const concerns = (bug: KnownBug) =>
    bug.concerns.some((each) => concerned.includes(each)) && (bug.kind === undefined || kinds.includes(bug.kind));
  const found = [...new Set(versions.flatMap((version) => knownBugs(version)))].filter(concerns);
  const told = found.map(({ id, text }) => `${id}: ${text}`).join(' ') || 'none known';
  return {
    text: `${versions.join(', ') || 'version not told'}: ${told}`,
    fixed: [...new Set(found.flatMap(({ fixedIn }) => fixedIn))].join(', '),
  };
}

/** Defects of the service that what is planned would run into; acknowledged, they are shown only. */
export function noKnownDefect(
  observation: ClusterObservation,
  kind: ReplicationKind,
  concern: Concern,
  acknowledged: boolean,
): Check {
  const { cluster } = observation;
  const { text, fixed } = defectsOf(versionsOf(observation), [concern], [kind]);
  const judged = check(`no known defect in ${concern}`, cluster, fixed === '', {
    observed: text,
    needed: `a version without it${fixed === '' ? '' : ` (fixed in ${fixed})`}`,
    next: `Upgrade ${cluster}, or start again with {"acknowledgeKnownBugs": true}.`,
  });
  return acknowledged ? asWarning(judged, 'It was acknowledged.') : judged;
}
