import { z } from 'zod';
import { clusterName, deploymentName } from './names';

const reason = z.string().trim().min(3).max(500);
const requestedBy = z.string().trim().min(1).max(100);

/** Where the token for DR operations comes from (design: token source). */
export const tokenSourceChoice = z.enum(['auto', 'batch', 'ceremony']);
export type TokenSourceChoice = z.infer<typeof tokenSourceChoice>;

/** What `secondary/promote` and the other DR operations are, as sealed tokens and invitations name them. */
export const tokenUse = z.enum([
  'dr.promote',
  'dr.update-primary',
  'dr.disable',
  'dr.reindex',
  'dr.merkle-check',
  'dr.operation-token.delete',
]);
export type TokenUse = z.infer<typeof tokenUse>;

/** The input of `drSwitchover`: planned, both sides answer, nothing may be lost. */
export const drSwitchoverInput = z.strictObject({
  /** A deployment of the inventory. */
  deployment: deploymentName,
  /** The DR secondary that becomes primary. */
  to: clusterName,
  /** The DR primary; read from the service where it is not given, and compared where it is. */
  from: clusterName.optional(),
  reason,
  /** Who asks. A claim, shown as such, unless authentication is on. */
  requestedBy: requestedBy.optional(),
  /** Only reads, and returns the plan. Takes no lock. */
  dryRun: z.boolean().default(false),
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

/** The input of `operationTokenCeremony`: one operation token for one cluster, as a run of its own. */
export const operationTokenCeremonyInput = z.strictObject({
  deployment: deploymentName,
  cluster: clusterName,
  uses: z.array(tokenUse).min(1),
  reason,
  requestedBy: requestedBy.optional(),
  dryRun: z.boolean().default(false),
});
export type OperationTokenCeremonyInput = z.infer<typeof operationTokenCeremonyInput>;

/** The schema of each runbook's one input object. */
export const RUNBOOK_INPUTS = {
  drSwitchover: drSwitchoverInput,
  operationTokenCeremony: operationTokenCeremonyInput,
} as const;
