import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { DrSwitchoverInput, TokenSource } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import type { PrimaryChanges } from '../roles/primary-changes';
import type { SwitchoverFacts } from './switchover-facts';

/** What the rules look at: the old primary, the new one, the others of the DR set. */
export interface SwitchoverWorld {
  readonly input: DrSwitchoverInput;
  readonly deployment: Deployment;
  readonly from: ClusterObservation;
  readonly to: ClusterObservation;
  readonly others: readonly ClusterObservation[];
  readonly performanceSecondaries: readonly ClusterObservation[];
  readonly facts: SwitchoverFacts;
  readonly tokenSource: TokenSource;
  readonly ownFingerprint?: string;
  /** The latest changes of the primary; absent where Temporal cannot tell. */
  readonly changes?: PrimaryChanges | undefined;
  /** Epoch ms. */
  readonly now: number;
}

/** One thing to check: gives one verdict or several. */
export type Rule = (world: SwitchoverWorld) => Precondition | readonly Precondition[];

/** A verdict with what was observed and what is needed; `next` is told where it is not good. */
export function check(
  name: string,
  cluster: string | undefined,
  good: boolean,
  observed: string,
  needed: string,
  next?: string,
  otherwise: 'fail' | 'warn' = 'fail',
): Precondition {
  return {
    name,
    ...(cluster === undefined ? {} : { cluster }),
    observed,
    needed,
    verdict: good ? 'ok' : otherwise,
    ...(good || next === undefined ? {} : { next }),
  };
}
