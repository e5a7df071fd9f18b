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
