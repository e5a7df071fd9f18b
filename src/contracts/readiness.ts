import { z } from 'zod';

/** Which of the two questions a point answers: would a switchover, would a failover start now? */
const about = z.enum(['switchover', 'failover', 'both']);

/**
 * One thing that was looked at. `not-checkable` with another source than `not-checkable` says that it could not be read
 * this time; it is never taken for good.
 */
export const readinessPoint = z.object({
  /** Stable, kebab case; once for each cluster and question. */
  id: z.string(),
  about,
  cluster: z.string().optional(),
  verdict: z.enum(['ok', 'warn', 'fail', 'not-checkable']),
  /**
   * How it is known. `api`: read from the service now. `attested`: people say so, in the inventory. `worker`, `temporal`:
   * read of the worker that ran the check, or of the Temporal server. `not-checkable`: nobody can know it beforehand.
   */
  source: z.enum(['api', 'attested', 'worker', 'temporal', 'not-checkable']),
  observed: z.string(),
  needed: z.string(),
  /** Why the verdict is what it is, where `observed` does not say it. */
  reason: z.string().optional(),
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
  /** 0 to 100: the share of the points that could be known and hold; a warning counts half. */
  score: z.number(),
  /** The last check that this one is compared with; absent where there is none. */
  comparedWith: z.object({ at: z.string(), runId: z.string(), score: z.number() }).optional(),
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
