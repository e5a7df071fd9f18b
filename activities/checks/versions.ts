import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import { check, notCheckable } from './check';

/** Orders versions such as `1.21.4+ent`: negative if `a` is older. Build metadata does not count. */
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

/** The service is known to be older than this major version. A version that is not reported is not older. */
export function isBeforeMajor(major: number, version: string | undefined): boolean {
  const reported = /^v?(\d+)\./.exec(version ?? '')?.[1];
  return reported !== undefined && Number(reported) < major;
}

/** Both versions are known, and `a` is older. */
export function isOlder(a: string | undefined, b: string | undefined): boolean {
  return a !== undefined && b !== undefined && compareVersions(a, b) < 0;
}

/** Every version of the service reports itself: only a listener with `redact_version` leaves it out. */
export const NO_VERSION = 'not reported (the listener redacts its version: `redact_version`)';

/** The versions that the nodes of a cluster report. */
function versionsOf({ nodes }: ClusterObservation): readonly string[] {
  return [...new Set(nodes.flatMap(({ version }) => version ?? []))];
}

function versionsText(...clusters: readonly ClusterObservation[]): string {
  return clusters.map((each) => `${each.cluster} ${versionsOf(each).join(', ') || NO_VERSION}`).join('; ');
}

const COMPARE =
  'Compare the versions before you approve: run `vault version` on a node of each, or `vault status` with a token.';

/**
 * No node of a secondary is older than any of the primary that it follows (facts 8.8). If a listener redacts the version,
 * people compare.
 */
export function noneOlder(primary: ClusterObservation, secondary: ClusterObservation): Check {
  const [above, below] = [versionsOf(primary), versionsOf(secondary)];
  const inOrder = below.every((version) => above.every((other) => compareVersions(version, other) >= 0));
  const isRedacted = above.length === 0 || below.length === 0;
  return check('versions in order', secondary.cluster, !isRedacted && inOrder, {
    observed: versionsText(primary, secondary),
    needed: `no node of ${secondary.cluster} older than any node of ${primary.cluster}`,
    ...(isRedacted
      ? { otherwise: 'warn', next: COMPARE }
      : { next: `Upgrade ${secondary.cluster} first: replicating from a newer to an older version is not safe.` }),
  });
}

/** As {@link noneOlder}, for a secondary that gets another primary. */
export function canFollow(primary: ClusterObservation, secondary: ClusterObservation): Check {
  return { ...noneOlder(primary, secondary), name: 'other secondaries can follow' };
}

/** As {@link noneOlder}, and neither cluster is in the middle of an upgrade. */
export function versionsInOrder(primary: ClusterObservation, secondary: ClusterObservation): Check {
  if ([primary, secondary].every((each) => versionsOf(each).length <= 1)) return noneOlder(primary, secondary);
  return check('versions in order', secondary.cluster, false, {
    observed: versionsText(primary, secondary),
    needed: 'one version on all nodes of each cluster',
    next: 'Finish the upgrade first.',
  });
}

/** The lost primary may report no version, or two: only a candidate that is older than all of them is refused. */
export function versionsAfterLoss(from: ClusterObservation, to: ClusterObservation): Check {
  const [mine, more] = versionsOf(to);
  const before = versionsOf(from);
  const newer = before.filter((version) => mine !== undefined && compareVersions(mine, version) < 0);
  return check('versions in order', to.cluster, mine !== undefined && more === undefined && newer.length === 0, {
    observed: versionsText(to, from),
    needed: `one version on all nodes of ${to.cluster}, not older than that of ${from.cluster}`,
    next:
      mine === undefined
        ? COMPARE
        : `Data of a newer version is not safe on an older one: name another DR secondary, or finish the upgrade.`,
    otherwise: newer.length > 0 && newer.length === before.length ? 'fail' : 'warn',
  });
}

/** Older versions have no Merkle check, which verifies tokens and trees, and have defects in update-primary (facts 8.11). */
const SUPPORTED_SINCE = '1.16.0';

/** Older versions ignore `group_by` of a rate-limit quota: each client address would get a request through (facts 13.7). */
const ONE_BUCKET_SINCE = '1.20.0';

/** Whether a quota can refuse every client. A cluster that does not report its version shows it when the quota is read back. */
export function oneBucketVersion(observation: ClusterObservation): Check {
  const versions = versionsOf(observation);
  const name = 'a quota can refuse every client';
  const needed = `version ${ONE_BUCKET_SINCE} of the service or newer`;
  const seen = { observed: versionsText(observation), needed };
  if (versions.length === 0) return notCheckable(name, observation.cluster, seen);
  const good = versions.every((version) => compareVersions(version, ONE_BUCKET_SINCE) >= 0);
  return check(name, observation.cluster, good, {
    ...seen,
    next: 'Quiesce by hook (hooks.quiesce and hooks.release), or start again with {"quiesce": "attested"}.',
  });
}

/** A cluster that takes part in a change; one that does not report its version is left to {@link versionsInOrder}. */
export function supportedVersion(observation: ClusterObservation): Check {
  const versions = versionsOf(observation);
  const good = versions.every((version) => compareVersions(version, SUPPORTED_SINCE) >= 0);
  return check('supported version', observation.cluster, good, {
    observed: versionsText(observation),
    needed: `version ${SUPPORTED_SINCE} of the service or newer`,
    next: `Upgrade ${observation.cluster} first.`,
  });
}
