import { dataOf } from './answers';
import type { Fields } from './fields';

/* What the service tells of its own operation beside replication: audit devices, licence, snapshots. Reads only. */

/** One audit device of `sys/audit`. Its options are not read: they may name files and hosts. */
export interface AuditDevice {
  /** Mount path with a slash at its end, such as `file/`. */
  readonly path: string;
  readonly type?: string;
  /** Not replicated to secondaries. */
  readonly local?: boolean;
}

export function readAuditDevices(body: Fields): readonly AuditDevice[] {
  return dataOf(body)
    .entries()
    .map(([path, device]) => ({ path, type: device.filledText('type'), local: device.flag('local') }));
}

/** `sys/license/status`: the licence that the node uses. Times are RFC3339. */
export interface LicenceStatus {
  readonly expirationTime?: string;
  readonly terminationTime?: string;
}

export function readLicenceStatus(body: Fields): LicenceStatus {
  const data = dataOf(body);
  const licence = data.child('autoloaded') ?? data.child('persisted_autoload') ?? data.child('stored') ?? data;
  return {
    expirationTime: licence.filledText('expiration_time'),
    terminationTime: licence.filledText('termination_time'),
  };
}

/** `sys/storage/raft/snapshot-auto/status/:name` (Enterprise, raft storage). Times are RFC3339. */
export interface AutoSnapshotStatus {
  readonly lastSnapshotEnd?: string;
  /** A text of the service; whether there is one is what counts. */
  readonly lastSnapshotError?: string;
  readonly consecutiveErrors?: number;
}

export function readAutoSnapshotStatus(body: Fields): AutoSnapshotStatus {
  const data = dataOf(body);
  return {
    lastSnapshotEnd: data.filledText('last_snapshot_end'),
    lastSnapshotError: data.filledText('last_snapshot_error'),
    consecutiveErrors: data.number('consecutive_errors'),
  };
}
