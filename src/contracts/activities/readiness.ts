import type { ClusterObservation } from '../observations';
import type { ReadinessResult } from '../readiness';
import type { OnDeployment } from './inputs';
import type { SiteFacts } from './results';

/** What one check of a deployment gave. */
export interface ReadinessAssessment {
  readonly site: SiteFacts;
  readonly observations: readonly ClusterObservation[];
  readonly readiness: ReadinessResult;
}

/** Whether a switchover and a failover would start now. */
export interface ReadinessActivities {
  /** Reads, judges and compares with the last check; changes nothing. What could not be read is a point that says so. */
  assessReadiness(input: OnDeployment): Promise<ReadinessAssessment>;
}
