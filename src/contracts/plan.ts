import { z } from 'zod';
import type { ClusterObservation } from './observations';

/** `fail` refuses the run; `warn` is shown to the approvers; `not-checkable` says why it cannot be known beforehand. */
export type PreconditionVerdict = 'ok' | 'fail' | 'warn' | 'not-checkable';

/** One thing that must hold before anything is changed. */
export interface Precondition {
  readonly name: string;
  readonly cluster?: string;
  readonly observed: string;
  readonly needed: string;
  readonly verdict: PreconditionVerdict;
  /** Who can do what, where the verdict is not `ok`. */
  readonly next?: string;
}

/** What is approved at the plan gate: its digest binds every dangerous activity to it. */
export const switchoverPlan = z.strictObject({
  runbook: z.literal('drSwitchover'),
  deployment: z.string(),
  /** Cluster names and `sys/health` cluster IDs, as read. */
  from: z.object({ cluster: z.string(), clusterId: z.string(), version: z.string() }),
  to: z.object({ cluster: z.string(), clusterId: z.string(), version: z.string() }),
  /** Other DR secondaries of the same set, which get a new activation token from the new primary. */
  otherDrSecondaries: z.array(z.object({ cluster: z.string(), clusterId: z.string() })),
  /** Performance secondaries of the primary, which must follow. `id` is the one that the primary knows them by. */
  performanceSecondaries: z.array(z.object({ cluster: z.string(), clusterId: z.string(), id: z.string() })),
  /** Whether the old primary rejoins as DR secondary; false where its version is older than the new primary's. */
  rejoin: z.boolean(),
  tokenSource: z.enum(['batch', 'ceremony']),
  go: z.enum(['required', 'auto']),
  onStuck: z.enum(['promote-back', 'park']),
  acceptLoss: z.enum(['none', 'bounded']),
  reason: z.string(),
  /** Who asked, as the start input claims; decides who may not approve. */
  requestedBy: z.string().optional(),
  steps: z.array(z.string()),
});
export type SwitchoverPlan = z.infer<typeof switchoverPlan>;

/** A plan as approvers see it: the text whose digest they sign, byte for byte. */
export interface PlanDocument {
  /** JSON text of the plan. */
  readonly text: string;
  /** base64url(SHA-256(text)). */
  readonly digest: string;
}

/** The answer of the activity that reads the deployment and judges it. */
export interface SwitchoverAssessment {
  readonly observations: readonly ClusterObservation[];
  readonly preconditions: readonly Precondition[];
  /** Absent where a precondition fails so early that no plan can be made. */
  readonly plan?: PlanDocument;
}
