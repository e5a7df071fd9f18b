import { z } from 'zod';
import { askedForChange, clusterName, pathsFilter } from './common';

/** The input of `performancePromotion`: a performance secondary becomes the performance primary. */
export const performancePromotionInput = z.strictObject({
  ...askedForChange,
  to: clusterName,
  /** The performance primary; read where it is not given, and compared where it is. */
  from: clusterName.optional(),
  /** `planned`: the old primary answers and is demoted first. `unplanned`: it is gone. */
  mode: z.enum(['planned', 'unplanned']).default('planned'),
  /** How the other secondaries are re-pointed; addresses need no filter to be written again. */
  repoint: z.enum(['token', 'addresses']).default('token'),
  /** Planned: the greatest loss at which the promotion goes on; otherwise the old primary is promoted back. */
  acceptLoss: z.enum(['none', 'bounded']).default('none'),
  /** Unplanned: promotes although a usable DR secondary of the failed primary could be promoted instead. */
  overrideDrSecondary: z.boolean().default(false),
  /** Unplanned: whether the `force` gate may be opened at all. */
  offerForce: z.boolean().default(true),
  /** Re-points the others although a version of the service has a known defect in update-primary (facts 8.11). */
  acknowledgeKnownBugs: z.boolean().default(false),
});
export type PerformancePromotionInput = z.infer<typeof performancePromotionInput>;

/** The input of `filterReconciliation`: the paths filters become what is wanted. */
export const filterReconciliationInput = z.strictObject({
  ...askedForChange,
  /** The performance primary; read where it is not given. */
  primary: clusterName.optional(),
  /** What is wanted, by the name of the secondary; the inventory's `pathsFilters` where nothing is given. */
  filters: z.record(clusterName, z.union([z.literal('none'), pathsFilter])).optional(),
});
export type FilterReconciliationInput = z.infer<typeof filterReconciliationInput>;
