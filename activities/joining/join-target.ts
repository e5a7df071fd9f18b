import type { ClusterAccess } from '../clusters';
import type {
  Authority,
  BetweenClusters,
  ExpectedFilter,
  OfKind,
  SecondaryToken,
} from '../../src/contracts/activities';

/** A secondary that is about to follow a primary. */
export interface JoinInput extends BetweenClusters, OfKind, SecondaryToken {
  /** From a plan that lets this secondary follow this primary. */
  readonly authority: Authority;
  /** Required for kind `performance`: the filter that the primary must have under the id of the secondary. */
  readonly expected?: ExpectedFilter;
  readonly form?: 'auto' | 'public-key' | 'wrapped';
  /** An earlier try, which people decided to repeat, may have sent the call. */
  readonly calledBefore?: boolean;
}

/** A join by the present cluster ID of the secondary: the id of its token and of its filter. */
export interface JoinTarget {
  readonly input: JoinInput;
  /** The call that uses the activation token. */
  readonly use: 'update-primary' | 'enable';
  readonly source: ClusterAccess;
  readonly target: ClusterAccess;
  readonly clusterId: string;
}
