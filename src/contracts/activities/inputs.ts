import type { StepContext } from '../run-facts';

/** Members of the inputs of activities. `step` says which step of the run an activity serves. */
export interface StepInput {
  readonly step: StepContext;
}

export interface OnDeployment extends StepInput {
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
