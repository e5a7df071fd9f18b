import type { CeremonyHandle } from '../ceremony';
import type { Finding } from '../run-facts';
import type { Sealed } from '../sealed';
import type { Authority } from './results';
import type { OnCluster, OnDeployment } from './inputs';

/** What a generation attempt ends in. */
export type GenerationKind = 'operation-token' | 'root-token';

/** Our generation attempt in the slot of a cluster, as the holders must see it. Nothing of it is secret. */
export interface DirectAttempt {
  readonly kind: GenerationKind;
  readonly nonce: string;
  /** Of the OpenPGP key to which the service encrypts the token: lower-case hexadecimal. */
  readonly fingerprint: string;
  /** Key shares that count so far, and that are needed. */
  readonly progress: number;
  readonly required: number;
  /** Address of the inventory whose node is active. */
  readonly address: string;
  /** SHA-256 of the CA file, hexadecimal; empty where the roots of the system are used. */
  readonly caSha256: string;
  /** From version 2.0 of the service the calls need a token too. */
  readonly needsToken: boolean;
  /** When the service was last seen to show it, ms since 1970. */
  readonly seenAt: number;
  /** Once the last share is in, so long nobody is alarmed for want of the token. */
  readonly handInMs: number;
}

/** `not-done`: the cluster has no slot for this now, such as one that is not a DR secondary yet. */
export type DirectAttemptStarted =
  | ({
      readonly outcome: 'done' | 'already';
      readonly findings: readonly Finding[];
      /** From version 2.0: whether the calls are open to everybody now, and how people close them. */
      readonly breakGlass?: { readonly open: boolean; readonly close: readonly string[] };
    } & DirectAttempt)
  | { readonly outcome: 'not-done'; readonly observed: string };

/**
 * What was seen of an attempt that holders give their shares to. `rejected`: the progress fell back at the threshold.
 * `gone`: the slot is free. `foreign`: somebody else's attempt is in it. `reappeared`: another attempt of ours, with the
 * key of this ceremony. `unchanged`: nothing, for as long as the activity looked.
 */
export interface DirectAttemptSeen {
  readonly seen: 'progress' | 'rejected' | 'gone' | 'foreign' | 'reappeared' | 'unchanged';
  readonly nonce: string;
  readonly progress: number;
  readonly required: number;
  /** Address of the node that is active now. */
  readonly address: string;
  readonly observed: string;
  /**
   * When our attempt was last seen in the slot, ms since 1970: what happened to it since is not known. Later by the time in
   * which it was seen that no node leads: nothing happened to it then.
   */
  readonly seenAt: number;
  /** When this was seen. */
  readonly lookedAt: number;
}

/** `not-done`: our attempt is not seen to be gone, and the ledger keeps its entry. */
export type DirectEnded = 'done' | 'already' | 'not-done';

/** What became of one encoded token that was handed in. `accepted` counts. */
export interface EncodedTokenVerdict {
  readonly arrival: number;
  readonly code: string;
  readonly text: string;
  /** Absent where the signal names none of this ceremony. */
  readonly cluster?: string;
  /** The signal's event, where that is to be purged: it holds a token in plain text. */
  readonly eventId?: number;
}

/** Shares that holders enter in the service themselves, and encrypted tokens that people hand in (interface section 3). */
export interface DirectSharesActivities {
  /** Starts an attempt with the key of the ceremony, which was proven to encrypt; finds ours where it is there already. */
  startDirectAttempt(input: OnCluster & { readonly ceremony: CeremonyHandle }): Promise<DirectAttemptStarted>;
  /** The same for a root token: with the recipient's key, and under the authority of an approved plan. */
  startDirectRootAttempt(
    input: OnCluster & {
      readonly ceremony: CeremonyHandle;
      readonly recipientPgpKey: string;
      readonly authority: Authority;
    },
  ): Promise<DirectAttemptStarted>;
  /** Looks at the slot until it shows something else than what is passed. Reads only. */
  followDirectAttempt(
    input: OnCluster &
      Pick<DirectAttempt, 'kind' | 'nonce' | 'fingerprint' | 'progress' | 'address' | 'seenAt'> & {
        /** Of earlier attempts of this ceremony on this cluster. */
        readonly earlier: readonly string[];
        readonly budgetMs: number;
      },
  ): Promise<DirectAttemptSeen>;
  /**
   * Frees the slot from our attempt, and sees that it is gone. Where a token may have come of it that nobody handed in, the
   * ledger keeps that, and a finding tells it. Needs no keys: `ceremony` says only on which worker the ledger is.
   */
  endDirectAttempt(
    input: OnCluster &
      Pick<DirectAttempt, 'kind'> & {
        readonly cid: string;
        /** The signed invitation: the worker takes from it, verified, which key an attempt of this run has. */
        readonly invitation: string;
        /** Of the attempts of this ceremony on this cluster that the run saw. */
        readonly nonces: readonly string[];
        /** Absent where its worker cannot be reached: any worker frees the slot then. */
        readonly ceremony?: CeremonyHandle | undefined;
        /** Why a token may exist that nobody handed in; absent where none can. */
        readonly mayExist?: string | undefined;
        /** The same, where our attempt is not in the slot any more. */
        readonly ifGone?: string | undefined;
      },
  ): Promise<{
    readonly outcome: DirectEnded;
    readonly observed: string;
    readonly findings: readonly Finding[];
  }>;
  /**
   * Reads the numbered signals where they arrived, decrypts with the key of this very ceremony, checks the form of a
   * token, seals it for its cluster and uses, and settles what the ledger knew of it.
   */
  takeEncodedToken(
    input: OnDeployment & { readonly ceremony: CeremonyHandle; readonly arrived: readonly number[] },
  ): Promise<{
    readonly verdicts: readonly (EncodedTokenVerdict & { readonly token?: Sealed<'operation-token'> })[];
    readonly findings: readonly Finding[];
  }>;
  /** Takes a root token that is encrypted to its recipient alone: nobody here can read it. */
  takeEncodedRootToken(
    input: OnCluster & {
      readonly ceremony: CeremonyHandle;
      readonly recipientPgpKey: string;
      readonly arrived: readonly number[];
    },
  ): Promise<{
    readonly verdicts: readonly (EncodedTokenVerdict & { readonly encryptedToken?: string })[];
    readonly findings: readonly Finding[];
  }>;
  /** While no ceremony is under way: everything is refused, and a token in plain text is still noticed. */
  checkUnaskedTokens(input: { readonly deployment: string; readonly arrived: readonly number[] }): Promise<{
    readonly verdicts: readonly EncodedTokenVerdict[];
  }>;
}
