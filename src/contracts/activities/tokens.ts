import type { CeremonyHandle, Envelope } from '../ceremony';
import type { Finding } from '../run-facts';
import type { OnCluster } from './inputs';
import type { Authority } from './results';

/** What `rootTokenCeremony` follows. */
export interface RootTokenRoute {
  /** Fingerprint of the recipient's OpenPGP key, lower-case hexadecimal. */
  readonly fingerprint: string;
}

/** Root tokens of one cluster (`sys/generate-root`; the same flow as interface section 3). */
export interface TokenActivities {
  /** Makes the keys to which the holders encrypt, and the invitation that names the recipient's key. */
  createRootTokenCeremony(
    input: OnCluster & {
      readonly recipientPgpKey: string;
      readonly runbook: string;
      readonly reason: string;
      readonly requestedBy: string;
      readonly epoch: number;
      readonly cid: string;
      readonly inputDigest: string;
    },
  ): Promise<CeremonyHandle & { readonly fingerprint: string }>;
  /** Runs on the queue of the key home. The token comes encrypted to the recipient: nobody here can read it. */
  generateRootToken(
    input: OnCluster & {
      readonly ceremony: CeremonyHandle;
      readonly recipientPgpKey: string;
      readonly authority: Authority;
      readonly envelopes: readonly Envelope[];
      /** As for `generateOperationToken`. */
      readonly told?: readonly string[];
    },
  ): Promise<{
    /** Base64 of an OpenPGP message to the recipient. */
    readonly encryptedToken: string;
    readonly attempts: number;
    readonly findings: readonly Finding[];
    /** Holders whose share is proven bad. */
    readonly badShares: readonly string[];
    /** What people do to close the ceremony's calls again, where the cluster lets everybody in. */
    readonly closeAfterwards?: readonly string[];
  }>;
}
