import { z } from 'zod';
import { clusterObservation } from './observations';
import { readinessPoint, readinessResult } from './readiness';
import type { DeepReadonly } from './run-facts';

/** The result of `deploymentStatus`: a deployment as the workers read it at one time. Times are ISO strings. */
export const deploymentStatus = z.object({
  schema: z.literal('replication-runbooks/deployment-status/v1'),
  deployment: z.string(),
  at: z.string(),
  clusters: z.array(clusterObservation),
  /** DR sets of the inventory that do not have exactly one primary. */
  problems: z.array(readinessPoint.pick({ observed: true, needed: true, next: true })),
  /** From the record of the deployment. */
  record: z.discriminatedUnion('read', [
    z.object({ read: z.literal(false), why: z.string() }),
    z.object({
      read: z.literal(true),
      /** Absent if no run has changed the primary yet. */
      primaryChange: z
        .object({ runbook: z.string(), runId: z.string(), cluster: z.string(), at: z.string() })
        .optional(),
      /** The last check; absent if there was none. */
      readiness: readinessResult.pick({ at: true, switchover: true, failover: true }).optional(),
      /** What earlier runs left in the record. */
      left: z.array(z.string()),
    }),
  ]),
});
export type DeploymentStatus = DeepReadonly<z.infer<typeof deploymentStatus>>;
