import type { Attested } from './run-facts';
import type { TokenUse } from './input-members';

/** Kinds of secrets that may pass through Temporal, sealed. */
export type SealedKind = 'operation-token' | 'batch-token';

declare const sealedBrand: unique symbol;

/**
 * A secret as it passes through Temporal: a JWE that only the workers' keyring opens, bound to one run, one cluster and a list of
 * uses (protocol: "Sealed value"). It has its own type so that it is never taken for a readable string.
 */
export type Sealed<K extends SealedKind = SealedKind> = string & { readonly [sealedBrand]: K };

/** How a person exports a key to receive a token: without the signatures of others and without pictures, which can be long. */
export const EXPORT_KEY = '`gpg --export-options export-minimal,no-export-attributes --export KEY | base64 -w0`';

/** Where an activity finds the token for a DR operation: sealed in the run, or the prepared batch token of the inventory. */
export type OperationTokenReference =
  | {
      readonly source: 'sealed';
      readonly cluster: string;
      readonly value: Sealed<'operation-token'>;
      /** The number of the attempt that made it, which is the number of its entry in the record. */
      readonly entry?: string | undefined;
    }
  | { readonly source: 'batch'; readonly cluster: string };

/** A cluster on which the run will need a token, and for what. */
export interface CeremonyTarget {
  readonly cluster: string;
  readonly uses: readonly TokenUse[];
}

/** What the workflow keeps of a ceremony. The keys stay on the host that made them. */
export interface CeremonyHandle {
  readonly cid: string;
  readonly epoch: number;
  /** Routes every activity that needs the keys. */
  readonly keyHome: string;
  /** The signed invitation (JWS), for the holders. */
  readonly invitation: string;
  /** Of the OpenPGP key that tells a generation attempt of this epoch from another's. */
  readonly fingerprint?: string;
  readonly holders: readonly string[];
  /** Key shares that the service requires. */
  readonly threshold: number;
  /** The cluster unseals itself: holders have shares of its recovery key. */
  readonly recovery?: true;
  /** Epoch milliseconds: until when shares are collected. */
  readonly collectUntil: number;
  /** How long the keys live from the first use of the shares, ms. */
  readonly useForMs?: number;
  /**
   * The stand-by holders: named in the invitation with the others, and asked only after a while. This and the following members
   * only serve to show who is asked.
   */
  readonly standBy?: readonly string[];
  readonly inviteStandByAfterMs?: number;
  /** On the inventory's list, but not invited. */
  readonly notJoined?: readonly string[];
}

/**
 * A generation attempt of this run that was given all key shares but the last. Its nonce is shown nowhere: the service reports it
 * beside the fingerprint of our key, and it is read from there when it is needed.
 */
export interface OwnAttempt {
  /** Of the entry among the generated tokens, if a token comes of it. */
  readonly id: string;
  /** As {@link attemptMark}. */
  readonly mark: string;
  /** SHA-256 of the nonce, base64url. */
  readonly nonceDigest: string;
  /** Arrival numbers of the shares, in the order in which they are given. */
  readonly set: readonly number[];
}

/** The result of checking an envelope. `code` is a receipt code; `accepted` counts. */
export interface EnvelopeVerdict {
  readonly arrival: number;
  readonly code: string;
  readonly text: string;
  readonly holder?: Attested;
  /** The signal's event, if it has to be purged because it contains a key share in plain text. */
  readonly eventId?: number;
}

/** What `SHARES_MISSING` is about if shares that were accepted one by one do not fit together. */
export const UNFIT_SHARES = 'unfit shares';

/** How people refer to a generation attempt: the beginning of its nonce. The complete nonce is shown nowhere. */
export function attemptMark(nonce: string): string {
  return /^[0-9a-f]{8}/i.exec(nonce)?.[0].toLowerCase() ?? 'without-nonce';
}

const KEEP_UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };
/** The maximum time that the record keeps a token for a later run, in ms. */
const LONGEST_KEEP_MS = 7 * 86_400_000;

/** `keepFor` in ms; undefined if it is not a duration of at most 7 days. */
export function keepForMs(text: string): number | undefined {
  const [, count, unit = ''] = /^([1-9]\d{0,4})([mhd])$/.exec(text) ?? [];
  const ms = Number(count) * (KEEP_UNITS[unit] ?? Number.NaN);
  return ms <= LONGEST_KEEP_MS ? ms : undefined;
}

/** An operation token that a ceremony made for a later run: sealed in the deployment's record, and claimed once. */
export interface KeptToken {
  readonly cluster: string;
  /** Of the record. */
  readonly entry: string;
  /** As text for the plan: since when, by which run, from whose key shares, until when. */
  readonly text: string;
}
