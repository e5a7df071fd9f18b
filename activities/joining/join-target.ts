import type { ClusterAccess } from '../clusters';
import type { JoinInput } from './join-by-token';

/** A join by the present cluster ID of the secondary: the id of its token and of its filter. */
export interface JoinTarget {
  readonly input: JoinInput;
  /** The call that uses the activation token. */
  readonly use: 'update-primary' | 'enable';
  readonly source: ClusterAccess;
  readonly target: ClusterAccess;
  readonly clusterId: string;
}
