import type { Attested } from './run-facts';
import type { TokenUse } from './runbook-inputs';
import type { Sealed } from './sealed';

/** Where an activity finds the token for a DR operation: sealed in the run, or the prepared batch token of the inventory. */
export type OperationTokenReference =
  | { readonly source: 'sealed'; readonly cluster: string; readonly value: Sealed<'operation-token'> }
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
  readonly holders: readonly string[];
  /** Key shares that the service requires. */
  readonly threshold: number;
  /** Epoch milliseconds: until when shares are collected. */
  readonly collectUntil: number;
}

/** An envelope as it arrived: a JWS string, or the plain object of a holder without a signing key. */
export type Envelope = string | Readonly<Record<string, unknown>>;

/** What checking an envelope gave. `code` is a receipt code; `accepted` counts. */
export interface EnvelopeVerdict {
  readonly arrival: number;
  readonly code: string;
  readonly text: string;
  readonly holder?: Attested;
  readonly seq?: number;
  readonly digest?: string;
  /** The signal's event, where that is to be purged: it holds a key share in plain text. */
  readonly eventId?: number;
}
