import type { CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenSource, TokenUse } from '../../src/contracts/runbook-inputs';
import type { Parked } from './share-collection';

/** Who asks the key holders for operation tokens, and for what. */
export interface CeremonyRequest {
  readonly deployment: string;
  readonly runbook: string;
  readonly reason: string;
  readonly requestedBy: string;
  /** Every cluster on which the run will need a token, so that each holder is asked once. */
  readonly targets: readonly CeremonyTarget[];
  readonly inputDigest: string;
}

/** A way from people to operation tokens, for several clusters from one ask. */
export interface TokenCeremony {
  readonly source: Exclude<TokenSource, 'batch'>;
  /** The fingerprint that tells our generation attempt from another's. */
  readonly fingerprint: string | undefined;
  /** Whether the holders were asked for this, so that nobody has to be asked again. */
  covers(target: CeremonyTarget): boolean;
  /** Invites the holders, unless an earlier part of the run did and they can still answer. */
  ready(): Promise<void>;
  /**
   * Waits for what people must give before anything is changed.
   *
   * @param first - the cluster whose token is needed first; the first target where it is not said
   */
  collect(first?: string): Promise<void>;
  /** Whether further tokens can be had for so long without asking anyone to give a share that he gave already, ms. */
  lastsFor(ms: number): boolean;
  /** Invites the holders anew, and waits as {@link collect}. Tokens that were made stay. */
  collectAnew(): Promise<void>;
  /**
   * The token of one cluster.
   *
   * @param parked - choices beside `retry` where it parks; with `skipEffect` people may skip it
   * @returns undefined where it was skipped
   */
  generate(cluster: string, uses: readonly TokenUse[], parked?: Parked): Promise<OperationTokenReference | undefined>;
  /** Whether a token that was given is still the one to use: people may have given another one since. */
  isCurrent(token: OperationTokenReference): boolean;
  /** Whether the cluster takes the token in hand, looked up right now; what it refuses is used no more. */
  takes(cluster: string): Promise<boolean>;
  /** Destroys the keys. */
  close(): Promise<void>;
  /** As {@link close}, for a run that ends early. */
  abandon(): Promise<void>;
}
