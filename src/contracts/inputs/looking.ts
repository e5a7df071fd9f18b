import { z } from 'zod';
import { asked, askedForChange, clusterName, deploymentName, tokenSourceChoice } from './common';

/** The input of `drReindex`: the Merkle tree of a DR secondary is made anew. */
export const drReindexInput = z.strictObject({
  ...askedForChange,
  cluster: clusterName,
  /** Only compares, and repairs what differs. */
  diff: z.boolean().default(false),
  /** Reindexes although a reindex is not needed, or is under way. */
  force: z.boolean().default(false),
  /** Skips the flush of the tree to storage: faster, and never to be interrupted. */
  skipFlush: z.boolean().default(false),
  tokenSource: tokenSourceChoice.optional(),
});
export type DrReindexInput = z.infer<typeof drReindexInput>;

/** The input of `merkleCheck`: whether the Merkle tree of a DR secondary is sound. */
export const merkleCheckInput = z.strictObject({
  ...asked,
  cluster: clusterName,
  tokenSource: tokenSourceChoice.optional(),
});
export type MerkleCheckInput = z.infer<typeof merkleCheckInput>;

/** The input of `walSampler`: records WAL indexes, lag and canary age. Meant for a Temporal Schedule. */
export const walSamplerInput = z
  .strictObject({
    deployment: deploymentName,
    /** How many samples one run takes. */
    samples: z.int().min(1).max(1_000).default(12),
    /** Seconds between two samples. */
    everySeconds: z.number().min(0.1).max(3_600).default(5),
  })
  .refine(({ samples, everySeconds }) => samples * everySeconds <= 18_000, {
    path: ['samples'],
    message: 'all samples of a run must fit into 5 hours; a Schedule starts the next run',
  });
export type WalSamplerInput = z.infer<typeof walSamplerInput>;

/** The input of `readiness`: whether a switchover and a failover would start now. Meant for a Temporal Schedule too. */
export const readinessInput = z.strictObject({ deployment: deploymentName });
export type ReadinessInput = z.infer<typeof readinessInput>;
