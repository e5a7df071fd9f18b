import type { CeremonyHandle, OwnAttempt } from '../ceremony';
import type { Finding } from '../run-facts';
import type { TokenUse } from '../runbook-inputs';
import type { Sealed } from '../sealed';
import type { OnCluster } from './inputs';
import type { Authority } from './results';

/** What `rootTokenCeremony` follows. */
export interface RootTokenRoute {
  /** Fingerprint of the recipient's OpenPGP key, lower-case hexadecimal. */
  readonly fingerprint: string;
}

/** The token that is generated, and what it is made for. */
export type WantedToken =
  | { readonly kind: 'operation-token'; readonly uses: readonly TokenUse[] }
  | { readonly kind: 'root-token'; readonly recipientPgpKey: string; readonly authority: Authority };

/** What a token generation needs, in each of its activities. */
export interface GenerationInput extends OnCluster {
  readonly ceremony: CeremonyHandle;
  readonly wanted: WantedToken;
  /** Attempts of this run that did not end, for tokens whose key says nothing of whose attempt it is. */
  readonly attempts: readonly OwnAttempt[];
}

/**
 * How a last share ended. `next-set`: the service rejected these shares. `again`: no token is in hand; where one may exist
 * that nobody holds, the findings say it.
 */
export type GenerationOutcome =
  | {
      readonly next: 'token';
      /** An operation token, sealed for this run. */
      readonly sealed?: Sealed<'operation-token'>;
      /** A root token: base64 of an OpenPGP message to the recipient. */
      readonly encrypted?: string;
      readonly findings: readonly Finding[];
      /** What people do to close the ceremony's calls again, where the cluster lets everybody in. */
      readonly closeAfterwards?: readonly string[];
    }
  | { readonly next: 'next-set' | 'again'; readonly findings: readonly Finding[] };
