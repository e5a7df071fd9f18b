import { z } from 'zod';
import { asked, clusterName, tokenUse } from './common';

/** The input of `operationTokenCeremony`: one operation token for one cluster, as a run of its own. */
export const operationTokenCeremonyInput = z.strictObject({
  ...asked,
  cluster: clusterName,
  uses: z.array(tokenUse).min(1),
});
export type OperationTokenCeremonyInput = z.infer<typeof operationTokenCeremonyInput>;

/** The input of `operationTokenDisposal`: the tokens of the ledger are deleted, and proven to be refused. */
export const operationTokenDisposalInput = z.strictObject({
  ...asked,
  /** Only the tokens of this cluster; of every cluster of the deployment where none is given. */
  cluster: clusterName.optional(),
});
export type OperationTokenDisposalInput = z.infer<typeof operationTokenDisposalInput>;

/** The input of `rootTokenCeremony`: a root token of one cluster from the holders' key shares (`sys/generate-root`). */
export const rootTokenCeremonyInput = z.strictObject({
  ...asked,
  cluster: clusterName,
  /** The PGP public key (base64 of the binary key) of the person who gets the token: only that person can read it. */
  recipientPgpKey: z.string().trim().min(1).max(20_000),
});
export type RootTokenCeremonyInput = z.infer<typeof rootTokenCeremonyInput>;

/**
 * The input of `ceremonyRehearsal`: every holder goes the whole way once with a value that means nothing. It touches no
 * service.
 */
export const ceremonyRehearsalInput = z.strictObject({
  ...asked,
  /** Only these people; every holder and stand-by holder where none is named. */
  holders: z.array(z.string().trim().min(1).max(100)).min(1).optional(),
  /** How long the run waits for them, such as `2d`. */
  collectFor: z
    .string()
    .regex(/^([1-9]\d{0,3}[smh]|([1-9]|[12]\d|30)d)$/, 'a duration such as 30m, 12h or 2d, of 30 days at most')
    .default('1d'),
});
export type CeremonyRehearsalInput = z.infer<typeof ceremonyRehearsalInput>;

/** The input of `batchTokenRotation`: a new batch token for DR operations, made on the primary and put where it is kept. */
export const batchTokenRotationInput = z.strictObject({
  ...asked,
  /** The DR set whose primary makes the token; needed where the deployment has several. */
  drSet: z.string().trim().min(1).optional(),
  /** `due`: only where less than half of the present token's life is left, or it is of no use. For Schedules. */
  when: z.enum(['now', 'due']).default('now'),
  /** Makes the policy and the token role where they are absent; what is there is never changed. */
  createRoleAndPolicy: z.boolean().default(false),
});
export type BatchTokenRotationInput = z.infer<typeof batchTokenRotationInput>;
