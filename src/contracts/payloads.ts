import { z } from 'zod';
import { GATE_NAMES } from './gates';
import { ENDPOINT_GATES, mayCover } from './operations';
import type { Endpoint } from './operations';
import type { DeepReadonly } from './run-facts';
import { CONTROL_ACTIONS, DECISION_ACTIONS } from './signals';

/* What people approve, and what they sign (protocol.md). Schemas: not for workflow code, whose bundle has no schema library. */

/** One thing that must be true before anything is changed. */
export const check = z.object({
  name: z.string(),
  cluster: z.string().optional(),
  observed: z.string(),
  needed: z.string(),
  /** `fail` refuses the run; `warn` is shown to the approvers; `not-checkable` says why it cannot be known beforehand. */
  verdict: z.enum(['ok', 'fail', 'warn', 'not-checkable']),
  /** Who can do what, if the verdict is not `ok`. */
  next: z.string().optional(),
});
export type Check = DeepReadonly<z.infer<typeof check>>;

const identity = z.strictObject({ cluster: z.string(), clusterId: z.string() });

/** One dangerous operation that the plan allows, bound to its clusters by their `sys/health` IDs. */
const allowedOperation = z
  .strictObject({
    kind: z.enum(['dr', 'performance']).optional(),
    endpoint: z.enum(Object.keys(ENDPOINT_GATES) as [Endpoint, ...Endpoint[]]),
    /** The gate whose approvals it needs. */
    gate: z.enum(GATE_NAMES),
    on: identity,
    /** The other cluster, if there is one: the primary to follow, or the cluster that must not be primary. */
    with: identity.optional(),
    /** The id, filter or option that it is about, in terms of the interface. */
    detail: z.string().optional(),
  })
  .refine(mayCover, 'a gate that cannot cover the endpoint');
export type AllowedOperation = DeepReadonly<z.infer<typeof allowedOperation>>;

/** What people approve: a plan allows named operations on named clusters, and no more. */
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
  /** What the run does, in this order: the steps of its timeline have these names. */
  steps: z.array(
    z.strictObject({
      step: z.string(),
      /** What people should know about it. */
      note: z.string().optional(),
      /** The run takes it only if this holds. */
      when: z.string().optional(),
    }),
  ),
  /** The choices of the input that change what is done, as they were read. */
  choices: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
  /** Digest of what the inventory says about people, gates, clusters and hooks. */
  inventory: z.string().optional(),
  reason: z.string(),
  /** Who requested the run, as the start input claims. Decides who may not approve. */
  requestedBy: z.string().optional(),
});
export type RunbookPlan = DeepReadonly<z.infer<typeof runbookPlan>>;

/* What people sign (protocol.md): as a JWS, or sent unsigned if the inventory allows the person to claim. */

const ofRun = { ns: z.string(), wid: z.string(), rid: z.string() };
const byPerson = { name: z.string().trim().min(1).max(100), iat: z.number().int() };
const comment = z.string().max(500).default('');

/** `runbooks-approval-v1`. */
export const approvalPayload = z.strictObject({
  ...ofRun,
  gate: z.string(),
  planDigest: z.string(),
  verdict: z.enum(['approve', 'reject']),
  comment,
  ...byPerson,
});
export type ApprovalPayload = z.infer<typeof approvalPayload>;

/** `runbooks-decision-v1`. */
export const decisionPayload = z.strictObject({
  ...ofRun,
  step: z.string(),
  parkingNo: z.number().int().positive(),
  action: z.enum(DECISION_ACTIONS),
  reason: z.string().trim().min(3).max(500),
  ...byPerson,
});
export type DecisionPayload = z.infer<typeof decisionPayload>;

/** `runbooks-control-v1`: the one argument of `pause`, `resume` and `abort`; `takeOver` puts it into the failover's input. */
export const controlPayload = z.strictObject({
  ...ofRun,
  action: z.enum(CONTROL_ACTIONS),
  reason: comment,
  /** For `takeOver` only, and required there: the digest of the failover's input. */
  inputDigest: z.string().max(64).optional(),
  ...byPerson,
});
export type ControlPayload = z.infer<typeof controlPayload>;
