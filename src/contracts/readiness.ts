import { z } from 'zod';

/** Which of the two questions a point answers: would a switchover, would a failover start now? */
const about = z.enum(['switchover', 'failover', 'both']);

/** One thing that was looked at: a check that a plan makes too, or one of readiness alone. */
export const readinessPoint = z.object({
  /** Stable, kebab case; once for each cluster and question. Of a check of a plan its name. */
  id: z.string(),
  about,
  cluster: z.string().optional(),
  /** `not-checkable`: nobody can know it beforehand, which counts neither way; see `unread`. */
  verdict: z.enum(['ok', 'warn', 'fail', 'not-checkable']),
  /** It could be known, and was not read this time: never taken for good. */
  unread: z.literal(true).optional(),
  observed: z.string(),
  needed: z.string(),
  /** Who can do what, where the verdict is `fail` or `warn`. */
  next: z.string().optional(),
});
export type ReadinessPoint = z.infer<typeof readinessPoint>;
export type PointVerdict = ReadinessPoint['verdict'];

export const readinessVerdict = z.enum(['ready', 'ready-with-warnings', 'not-ready']);
export type ReadinessVerdict = z.infer<typeof readinessVerdict>;

/** What `readiness` gives as its result. Times are ISO strings. */
export const readinessResult = z.object({
  schema: z.literal('replication-runbooks/readiness/v1'),
  deployment: z.string(),
  at: z.string(),
  switchover: readinessVerdict,
  failover: readinessVerdict,
  /** What each DR secondary is good for. */
  candidates: z.array(
    z.object({ drSet: z.string(), cluster: z.string(), switchover: readinessVerdict, failover: readinessVerdict }),
  ),
  /** Points whose verdict is another one than at the last check. */
  changes: z.array(
    readinessPoint.pick({ id: true, about: true, cluster: true }).extend({
      change: z.enum(['worse', 'better']),
      before: readinessPoint.shape.verdict,
      now: readinessPoint.shape.verdict,
    }),
  ),
  /** Red points first. */
  points: z.array(readinessPoint),
});
export type ReadinessResult = z.infer<typeof readinessResult>;
