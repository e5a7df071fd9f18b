import type { DecisionAction, SignalName } from './signals';

/** Whom the server saw send a signal. Two are the same person only where type and name are. */
export interface Principal {
  /** What vouches for the name: `jwt` for the `sub` of a token. */
  readonly type: string;
  readonly name: string;
}

/** How it is known who said something. `claimed` is shown as UNVERIFIED everywhere. */
export type Attestation = 'signed' | 'principal' | 'claimed';

export interface Attested {
  readonly name: string;
  readonly how: Attestation;
}

export type FindingSeverity = 'info' | 'warning' | 'critical';

/** Something that a person must know after the run. Never holds a secret. */
export interface Finding {
  readonly severity: FindingSeverity;
  /** Stable code, kebab case. */
  readonly code: string;
  readonly text: string;
  /** Who can do what next. */
  readonly next?: string;
}

/** What became of one signal. */
export interface Receipt {
  readonly signal: SignalName | 'unknown';
  /** Counts the signals of this name in this run, from 1. */
  readonly arrival: number;
  readonly verdict: 'accepted' | 'refused';
  readonly code: string;
  readonly text: string;
  readonly from?: Attested;
  /** Further signals of the same name and batch that were refused for the same reason. */
  readonly alsoFor?: readonly number[];
}

export type RunPhase =
  'checking' | 'waiting-for-people' | 'preparing' | 'working' | 'outage' | 're-protecting' | 'finishing' | 'finished';

/** How a run ended. */
export type RunOutcome = 'completed' | 'planned' | 'refused' | 'aborted' | 'rolled-back' | 'handed-over';

/** A fact that the workflow learned, kept for the report. `at` is epoch milliseconds of workflow time. */
export type RunFact = { readonly at: number } & (
  | ({ readonly kind: 'receipt' } & Receipt)
  | ({ readonly kind: 'finding' } & Finding)
  | { readonly kind: 'phase'; readonly phase: RunPhase }
  | {
      readonly kind: 'gate';
      readonly gate: string;
      readonly state: 'opened' | 'approved' | 'rejected' | 'expired' | 'not-needed';
      readonly planDigest: string;
      readonly by: readonly Attested[];
    }
  | {
      readonly kind: 'parked';
      readonly step: string;
      readonly parkingNo: number;
      readonly code: string;
      readonly message: string;
      readonly choices: readonly DecisionAction[];
    }
  | {
      readonly kind: 'decided';
      readonly step: string;
      readonly parkingNo: number;
      readonly action: DecisionAction;
      readonly by: Attested;
      readonly reason: string;
    }
  /** Clients had no primary from then on, although this run demoted none. `since` is epoch milliseconds. */
  | { readonly kind: 'outage-began'; readonly since: number; readonly why: string }
  /** What was lost, where no comparison of both sides can tell. */
  | {
      readonly kind: 'loss';
      readonly loss: 'none' | 'bounded' | 'unknown';
      readonly boundWalEntries?: string;
      readonly why: string;
    }
  /** Asked for key shares in this epoch, and why now. Who answered or declined is in the receipts. */
  | {
      readonly kind: 'holders-asked';
      readonly epoch: number;
      readonly as: 'holder' | 'stand-by';
      readonly names: readonly string[];
      readonly why: string;
    }
  | {
      readonly kind: 'step-ended';
      readonly step: string;
      readonly number: number;
      readonly attempt: number;
      readonly startedAt: number;
      readonly outcome: 'done' | 'already' | 'skipped' | 'failed';
    }
  | {
      readonly kind: 'control';
      readonly control: 'pause' | 'resume' | 'abort' | 'cancel' | 'take-over';
      /** A pause that begins only before the step of this name. */
      readonly before?: string;
      readonly by: string;
      readonly reason: string;
    }
);

/** Says which step of the run an activity serves. Every activity input carries it as `step`. */
export interface StepContext {
  /** The step's name, as the timeline and the report show it. */
  readonly name: string;
  /** The order in which steps began, from 1. */
  readonly number: number;
  /** 1, and one more for each retry that an operator decided on. */
  readonly attempt: number;
  /** `workflowInfo().originalExecutionRunId`: differs from the activity's own Run ID after a reset. */
  readonly originalRunId: string;
  /** The Run ID that an operator's decision acknowledged after a reset. */
  readonly acknowledgedRunId?: string;
}
