import { z } from 'zod';

/** The question that a point answers: would a switchover, would a failover start now? */
const about = z.enum(['switchover', 'failover', 'both']);

/** One thing that was checked: a check that a plan makes too, or one of readiness alone. */
export const readinessPoint = z.object({
  /** Stable, kebab case; once for each cluster and question. For a check of a plan: its name. */
  id: z.string(),
  about,
  cluster: z.string().optional(),
  /** `not-checkable`: nobody can know it beforehand, and it counts neither way. */
  verdict: z.enum(['ok', 'warn', 'fail', 'not-checkable']),
  /** It could be known, but was not read this time. Never taken as passed. */
  unread: z.literal(true).optional(),
  observed: z.string(),
  needed: z.string(),
  /** Who can do what, if the verdict is `fail` or `warn`. */
  next: z.string().optional(),
});
export type ReadinessPoint = z.infer<typeof readinessPoint>;
export type PointVerdict = ReadinessPoint['verdict'];

export const readinessVerdict = z.enum(['ready', 'ready-with-warnings', 'not-ready']);
export type ReadinessVerdict = z.infer<typeof readinessVerdict>;

/** The result of `readiness`. Times are ISO strings. */
export const readinessResult = z.object({
  schema: z.literal('replication-runbooks/readiness/v1'),
  deployment: z.string(),
  at: z.string(),
  switchover: readinessVerdict,
  failover: readinessVerdict,
  /** What each DR secondary could be used for. */
  candidates: z.array(
    z.object({ drSet: z.string(), cluster: z.string(), switchover: readinessVerdict, failover: readinessVerdict }),
  ),
  /** Points whose verdict changed since the last check. */
  changes: z.array(
    readinessPoint.pick({ id: true, about: true, cluster: true }).extend({
      change: z.enum(['worse', 'better']),
      before: readinessPoint.shape.verdict,
      now: readinessPoint.shape.verdict,
    }),
  ),
  /** Red points first. */
  points: z.array(readinessPoint),
  /** When the workers' tokens expire that nothing renews, as far as a primary said so. */
  credentials: z.array(z.object({ cluster: z.string(), expiresAt: z.string() })).optional(),
});
export type ReadinessResult = z.infer<typeof readinessResult>;
