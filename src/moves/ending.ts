import { nextCommandOf } from '../contracts/next-commands';
import type { ReplicationKind } from '../contracts/runbook-inputs';
import { kindName, statusPath } from './kinds';
import type { Change } from './move';

/* A replication role ends. No data is wiped. */

export const verifyGone = (secondary: string) => `Verify that ${secondary} is gone`;
export const forgetPrimary = (secondary: string) => `Make ${secondary} forget its primary`;
export const disable = (kind: ReplicationKind, cluster: string) =>
  `Disable ${kindName(kind)} replication on ${cluster}`;
export const verifyDisabled = (cluster: string) => `Verify on every node of ${cluster} that it is disabled`;

/** The primary no longer accepts the secondary with this id. */
export function revocation(kind: ReplicationKind, secondary: string, primary: string, id: string): Change {
  return {
    step: `Revoke ${secondary} on ${primary}`,
    note: `its id there is ${id}`,
    ifUnknown: `${secondary} on ${primary} may have been revoked. Read known_secondaries in ${statusPath(kind)} of ${primary}. If the id ${id} is missing, ${secondary} is cut off: disable its replication with replicationTeardown, or connect it again with secondaryRepointing.`,
  };
}

/** A secondary that was revoked stays a secondary, without a primary. */
export function forgetting(kind: ReplicationKind, secondary: string): Change {
  return {
    step: `Make ${secondary} forget its primary`,
    note: 'it stays a secondary with its data',
    ifUnknown: `The ${kindName(kind)} primary of ${secondary} may have been removed from its configuration. Read its ${statusPath(kind)}. If it has no primary any more, secondaryRepointing connects it again without a wipe.`,
  };
}

/** One kind of replication ends on a cluster. */
export function disabling(kind: ReplicationKind, role: 'primary' | 'secondary', cluster: string): Change {
  const cost =
    role === 'primary'
      ? 'its secondaries are cut off for good, and keep looking for it'
      : 'it can become a secondary again only after a wipe, and its primary may still list its id';
  return {
    step: `Disable ${kindName(kind)} replication on ${cluster}`,
    note: `it is ${kindName(kind)} ${role}`,
    ifUnknown: `${cluster} may have been disabled as ${kindName(kind)} ${role}. Read its ${statusPath(kind)}. If it is disabled, ${cost}.`,
  };
}

/** The command that ends a role, as Markdown code. */
export function teardownCommand(deployment: string, kind: ReplicationKind, cluster: string): string {
  const reason = `${cluster} should have no ${kindName(kind)} replication`;
  return `\`${nextCommandOf.start('replicationTeardown', { deployment, kind, cluster, reason })}\``;
}
