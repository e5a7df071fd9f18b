import { z } from 'zod';
import { CONTROL_ACTIONS, DECISION_ACTIONS } from './signals';

/* What people sign (protocol.md). Schemas: not for workflow code, whose bundle holds no schema library. */

const name = z.string().trim().min(1).max(100);
const comment = z.string().max(500);

/** `runbooks-approval-v1` (protocol.md). Signed as a JWS, or sent as it is where the inventory lets the person claim. */
export const approvalPayload = z.strictObject({
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  gate: z.string(),
  planDigest: z.string(),
  verdict: z.enum(['approve', 'reject']),
  comment: comment.default(''),
  name,
  iat: z.number().int(),
});
export type ApprovalPayload = z.infer<typeof approvalPayload>;

/** `runbooks-decision-v1` (protocol.md). */
export const decisionPayload = z.strictObject({
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  step: z.string(),
  parkingNo: z.number().int().positive(),
  action: z.enum(DECISION_ACTIONS),
  reason: z.string().trim().min(3).max(500),
  name,
  iat: z.number().int(),
});
export type DecisionPayload = z.infer<typeof decisionPayload>;

/** `runbooks-control-v1` (protocol.md): the one argument of `pause`, `resume` and `abort`; `takeOver` brings it in the failover's input. */
export const controlPayload = z.strictObject({
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  action: z.enum(CONTROL_ACTIONS),
  reason: comment.default(''),
  name,
  iat: z.number().int(),
});
export type ControlPayload = z.infer<typeof controlPayload>;
