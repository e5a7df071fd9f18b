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

/** What is approved at the plan gate of `drSwitchover`: its digest binds every dangerous activity to it. */
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
  /** The cool-down after the last change of the primary, and how often it changed lately, do not hold this run back. */
  reason: z.string(),
  /** Who asked, as the start input claims; decides who may not approve. */
  requestedBy: z.string().optional(),
  steps: z.array(z.string()),
});
export type SwitchoverPlan = z.infer<typeof switchoverPlan>;

/** The gates of the inventory: each has a policy of who must approve. */
export const GATE_NAMES = [
  'plan',
  'go',
  'promote',
  'force',
  'unfence',
  'wipe',
  'repoint',
  'filter',
  'revoke',
  'disable',
  'reindex',
  'ceremony',
] as const;
export type GateName = (typeof GATE_NAMES)[number];

/**
 * Every dangerous operation with the gate whose policy must be met before an activity does it. The activities look here
 * and in the inventory, and never take a gate's name from what they are passed.
 */
export const OPERATION_GATES = {
  'dr.primary.demote': 'plan',
  'dr.primary.enable': 'plan',
  'dr.primary.disable': 'disable',
  'dr.primary.revoke-secondary': 'revoke',
  'dr.secondary.promote': 'promote',
  'dr.secondary.promote-force': 'force',
  'dr.secondary.enable': 'wipe',
  'dr.secondary.disable': 'disable',
  'dr.secondary.forget-primary': 'revoke',
  'dr.secondary.reindex': 'reindex',
  'dr.secondary.repoint-by-token': 'repoint',
  // Parts of a failover and of a rejoin that were approved as a whole: nobody is asked again.
  'dr.secondary.repoint-after-promotion': 'promote',
  'dr.secondary.repoint-after-unfence': 'unfence',
  'performance.primary.demote': 'promote',
  'performance.primary.enable': 'plan',
  'performance.primary.disable': 'disable',
  'performance.primary.revoke-secondary': 'revoke',
  'performance.primary.paths-filter': 'filter',
  'performance.secondary.promote': 'promote',
  'performance.secondary.promote-force': 'force',
  'performance.secondary.enable': 'wipe',
  'performance.secondary.disable': 'disable',
  'performance.secondary.forget-primary': 'revoke',
  'performance.secondary.repoint-by-token': 'repoint',
  'performance.secondary.repoint-by-addresses': 'repoint',
  // As above, of either kind of promotion.
  'performance.secondary.repoint-after-promotion': 'promote',
  // A part of an onboarding whose wipe was approved.
  'dr.primary.enable-for-secondary': 'wipe',
  'performance.primary.enable-for-secondary': 'wipe',
  'hook.fence': 'promote',
  'hook.unfence': 'unfence',
  'root-token.generate': 'ceremony',
} as const satisfies Readonly<Record<string, GateName>>;
export type GatedOperation = keyof typeof OPERATION_GATES;

/** What an error is about that refuses approvals for their age alone: new ones of the same gate serve. */
export const APPROVALS_TOO_OLD = 'approvals too old';

const identity = z.strictObject({ cluster: z.string(), clusterId: z.string() });

/** One dangerous operation that the plan allows, bound to the clusters that it is about by their `sys/health` IDs. */
export const allowedOperation = z.strictObject({
  operation: z.enum(Object.keys(OPERATION_GATES) as [GatedOperation, ...GatedOperation[]]),
  on: identity,
  /** The other side where there is one: the primary to follow, the cluster that must not be primary. */
  with: identity.optional(),
  /** The id, filter or option that it is about, in words of the interface. */
  detail: z.string().optional(),
});
export type AllowedOperation = z.infer<typeof allowedOperation>;

/** What is approved at the gates of every other runbook: a plan allows named operations on named clusters, and no more. */
export const runbookPlan = z.strictObject({
  runbook: z.string(),
  deployment: z.string(),
  /** What was read of the clusters that it is about. */
  clusters: z.array(
    z.strictObject({
      cluster: z.string(),
      clusterId: z.string(),
      version: z.string(),
      dr: z.string(),
      performance: z.string(),
    }),
  ),
  operations: z.array(allowedOperation),
  /** What people must know before they approve: what is lost, sent, wiped or cut off. */
  warnings: z.array(z.string()),
  steps: z.array(z.string()),
  /** The choices of the input that change what is done, as they were read. */
  choices: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
  reason: z.string(),
  /** Who asked, as the start input claims; decides who may not approve. */
  requestedBy: z.string().optional(),
});
export type RunbookPlan = z.infer<typeof runbookPlan>;
export type Plan = SwitchoverPlan | RunbookPlan;

/** The plan of a `drSwitchover`; undefined for every other one. */
export function switchoverPlanOf(plan: Plan | undefined): SwitchoverPlan | undefined {
  return plan && 'from' in plan ? plan : undefined;
}

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
