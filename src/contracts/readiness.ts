import { z } from 'zod';

/** Which of the two questions a point answers: would a switchover, would a failover start now? */
export const readinessAbout = z.enum(['switchover', 'failover', 'both']);
export type ReadinessAbout = z.infer<typeof readinessAbout>;

/**
 * How a point is known. `api`: read from the service now. `attested`: people say so, in the inventory. `worker`,
 * `temporal`: read of the worker that ran the check, or of the Temporal server. `not-checkable`: nobody can know it
 * beforehand.
 */
export const readinessSource = z.enum(['api', 'attested', 'worker', 'temporal', 'not-checkable']);
export type ReadinessSource = z.infer<typeof readinessSource>;

/**
 * One thing that was looked at. `not-checkable` with another source than `not-checkable` says that it could not be read
 * this time; it is never taken for good.
 */
export const readinessPoint = z.object({
  /** Stable, kebab case; once for each cluster and question. */
  id: z.string(),
  about: readinessAbout,
  cluster: z.string().optional(),
  verdict: z.enum(['ok', 'warn', 'fail', 'not-checkable']),
  source: readinessSource,
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

/** What one DR secondary is good for. */
export const readinessCandidate = z.object({
  drSet: z.string(),
  cluster: z.string(),
  switchover: readinessVerdict,
  failover: readinessVerdict,
});
export type ReadinessCandidate = z.infer<typeof readinessCandidate>;

/** A point whose verdict is another one than at the last check. */
export const readinessChange = z.object({
  change: z.enum(['worse', 'better']),
  id: z.string(),
  about: readinessAbout,
  cluster: z.string().optional(),
  before: readinessPoint.shape.verdict,
  now: readinessPoint.shape.verdict,
});
export type ReadinessChange = z.infer<typeof readinessChange>;

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
  candidates: z.array(readinessCandidate),
  changes: z.array(readinessChange),
  /** Red points first. */
  points: z.array(readinessPoint),
});
export type ReadinessResult = z.infer<typeof readinessResult>;
