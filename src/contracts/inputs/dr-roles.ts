import { z } from 'zod';
import { controlPayload } from '../payloads';
import { askedForChange, clusterName, tokenSourceChoice } from './common';

/** The input of `drSwitchover`: planned, both sides answer, nothing may be lost. */
export const drSwitchoverInput = z.strictObject({
  ...askedForChange,
  /** The DR secondary that becomes primary. */
  to: clusterName,
  /** The DR primary; read from the service where it is not given, and compared where it is. */
  from: clusterName.optional(),
  /** `required`: one person says go after the last check. `auto`: the plan's approval is enough. */
  go: z.enum(['required', 'auto']).default('required'),
  /** What to do when the secondary cannot be promoted within its budget. */
  onStuck: z.enum(['promote-back', 'park']).default('promote-back'),
  /** The greatest loss at which the switchover goes on; otherwise the old primary, which holds every write, is promoted back. */
  acceptLoss: z.enum(['none', 'bounded']).default('none'),
  tokenSource: tokenSourceChoice.optional(),
  /** Says that the old primary stays out until it is upgraded, where the new primary's version is newer. */
  acknowledgeNewerSecondary: z.boolean().default(false),
});
export type DrSwitchoverInput = z.infer<typeof drSwitchoverInput>;

/** The input of `drFailover`: the primary is gone. */
export const drFailoverInput = z.strictObject({
  ...askedForChange,
  /** The DR secondary that becomes primary; the one furthest ahead is proposed where none is given. */
  to: clusterName.optional(),
  /** The primary that is gone; found by what its secondaries say where it is not given. */
  from: clusterName.optional(),
  /**
   * Further members of the DR set that say nothing and could be the primary too, as far as can be seen: whoever approves
   * attests that they serve nobody.
   */
  alsoGone: z.array(clusterName).max(20).optional(),
  /** Takes the lock over from a run that waits or is parked: that run becomes this failover. */
  takeOver: z.boolean().default(false),
  /** Who takes over: the `runbooks-control-v1` document that `runbook start drFailover --take-over` makes. */
  takeOverDocument: z.union([z.string().max(16_384), controlPayload]).optional(),
  /** How it is made sure that the old primary serves nobody: by the `fence` hook, or attested by the approvers. */
  fencing: z.enum(['auto', 'hook', 'attested']).default('auto'),
  tokenSource: tokenSourceChoice.optional(),
  /** Whether the `force` gate may be opened at all, where the promotion is refused for as long as its budget lasts. */
  offerForce: z.boolean().default(true),
});
export type DrFailoverInput = z.infer<typeof drFailoverInput>;

/** The input of `drRejoin`: a former primary is back after a failover. */
export const drRejoinInput = z.strictObject({
  ...askedForChange,
  /** The former primary. */
  cluster: clusterName,
  /** The primary that serves now; read where it is not given, and compared where it is. */
  primary: clusterName.optional(),
  tokenSource: tokenSourceChoice.optional(),
});
export type DrRejoinInput = z.infer<typeof drRejoinInput>;
