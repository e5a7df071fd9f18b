import type { OperationTokenReference } from '../ceremony';
import type { ReplicationKind } from '../runbook-inputs';

/** Members of the inputs of activities. */
export interface OnDeployment {
  readonly deployment: string;
}

export interface OnCluster extends OnDeployment {
  readonly cluster: string;
}

/** A primary and one of its secondaries. */
export interface BetweenClusters extends OnDeployment {
  readonly primary: string;
  readonly secondary: string;
}

export interface OfKind {
  readonly kind: ReplicationKind;
}

/** What a secondary of kind `dr` takes nothing without: there it is demanded at the activity's border. */
export interface SecondaryToken {
  readonly token?: OperationTokenReference | undefined;
}
