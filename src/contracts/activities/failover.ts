import type { WalIndex } from '../observations';
import type { Finding } from '../run-facts';
import type { TokenSource } from '../runbook-inputs';

/** What is known beforehand of what a failover loses. Changes by itself: never in a plan. */
export interface FailoverLoss {
  /** `none` only where the old primary was demoted, answers, and has the same Merkle root. */
  readonly loss: 'none' | 'bounded' | 'unknown';
  readonly why: string;
  /** WAL entries, decimal, that the old primary had told of and the new one has not received. */
  readonly boundWalEntries?: WalIndex;
}

/** What the workflow follows, and what people are shown beside the plan. */
export interface FailoverRoute {
  /** The primary that is gone. */
  readonly from: string;
  readonly to: string;
  /** Other DR secondaries of the set that answer: they get an activation token from the new primary. */
  readonly otherDrSecondaries: readonly string[];
  /** Those that do not: people re-point them later. */
  readonly silentDrSecondaries: readonly string[];
  readonly performanceSecondaries: readonly string[];
  readonly tokenSource: TokenSource;
  /** `attested`: whoever approves gate `promote` says so. */
  readonly fencing: 'hook' | 'attested';
  readonly hooks: { readonly traffic: boolean; readonly probe: boolean; readonly release: boolean };
  /** When a secondary heard the primary last, epoch ms of the worker; absent where none tells it. */
  readonly lastHeardAt?: number;
  readonly loss: FailoverLoss;
  /** What approvers must know beside the plan. */
  readonly findings: readonly Finding[];
}
