import type { ReplicationKind } from '../contracts/runbook-inputs';

/** The kind of replication as text. */
export function kindName(kind: ReplicationKind): string {
  return kind === 'dr' ? 'DR' : 'performance';
}

/** The endpoint that reports the role of a cluster. */
export function statusPath(kind: ReplicationKind): string {
  return `sys/replication/${kind}/status`;
}
