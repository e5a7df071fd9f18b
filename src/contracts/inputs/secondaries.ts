import { z } from 'zod';
import {
  activationForm,
  asked,
  askedForChange,
  clusterName,
  pathsFilter,
  replicationKind,
  tokenSourceChoice,
} from './common';

/** The input of `drSecondaryOnboarding`: a cluster without replication becomes DR secondary. It is wiped. */
export const drSecondaryOnboardingInput = z.strictObject({
  ...askedForChange,
  primary: clusterName,
  /** The cluster that is wiped. */
  secondary: clusterName,
  form: activationForm.default('auto'),
});
export type DrSecondaryOnboardingInput = z.infer<typeof drSecondaryOnboardingInput>;

/** The input of `performanceSecondaryOnboarding`. The cluster is wiped. */
export const performanceSecondaryOnboardingInput = z.strictObject({
  ...askedForChange,
  primary: clusterName,
  /** The cluster that is wiped. */
  secondary: clusterName,
  form: activationForm.default('auto'),
  /** What it must not or may only see: `inventory` takes what the inventory wants, `none` sends everything. */
  filter: z.union([z.enum(['inventory', 'none']), pathsFilter]).default('inventory'),
});
export type PerformanceSecondaryOnboardingInput = z.infer<typeof performanceSecondaryOnboardingInput>;

/** The input of `secondaryRepointing`: a secondary follows another primary. */
export const secondaryRepointingInput = z.strictObject({
  ...askedForChange,
  kind: replicationKind,
  /** The primary that it follows from now on. */
  primary: clusterName,
  secondary: clusterName,
  /** DR: by token only. Performance: addresses are lighter, a token works always. */
  form: z.enum(['token', 'addresses']).default('token'),
  tokenSource: tokenSourceChoice.optional(),
  /** Re-points although the service's version has a known defect in update-primary (facts 8.11). */
  acknowledgeKnownBugs: z.boolean().default(false),
});
export type SecondaryRepointingInput = z.infer<typeof secondaryRepointingInput>;

/** The input of `secondaryDecommission`: a secondary is cut off for good. */
export const secondaryDecommissionInput = z
  .strictObject({
    ...askedForChange,
    kind: replicationKind,
    primary: clusterName,
    /** The secondary, where the inventory knows it. */
    secondary: clusterName.optional(),
    /** The id by which the primary knows it; read where only `secondary` is given. */
    id: z.string().trim().min(1).max(200).optional(),
    /** What happens on the secondary once it is revoked. */
    afterwards: z.enum(['forget-primary', 'disable', 'nothing']).default('forget-primary'),
    tokenSource: tokenSourceChoice.optional(),
    /** Revokes it although it is the only connected DR secondary. */
    acknowledgeLastSecondary: z.boolean().default(false),
  })
  .refine(({ secondary, id }) => secondary !== undefined || id !== undefined, {
    message: 'one of "secondary" and "id" is needed',
    path: ['secondary'],
  });
export type SecondaryDecommissionInput = z.infer<typeof secondaryDecommissionInput>;

/** The input of `primaryEnablement`: a cluster without replication becomes primary. Nothing is wiped. */
export const primaryEnablementInput = z.strictObject({ ...asked, kind: replicationKind, cluster: clusterName });
export type PrimaryEnablementInput = z.infer<typeof primaryEnablementInput>;

/** The input of `replicationTeardown`: replication ends on a primary or a secondary. */
export const replicationTeardownInput = z.strictObject({
  ...askedForChange,
  kind: replicationKind,
  cluster: clusterName,
  tokenSource: tokenSourceChoice.optional(),
});
export type ReplicationTeardownInput = z.infer<typeof replicationTeardownInput>;
