import type { ClusterObservation } from './observations';
import type { ChangeWindow } from './inputs/common';
import type { Check, RunbookPlan } from './plan';
import type { Attestation, Attested, Finding, Receipt, RunOutcome } from './run-facts';
import type { SignalName } from './signals';

/** One step as the run knows it. Times are ISO strings with milliseconds. */
export interface ReportStep {
  readonly number: number;
  readonly name: string;
  readonly attempt: number;
  readonly activities: readonly {
    readonly type: string;
    readonly cluster?: string;
    readonly startedAt: string;
    readonly endedAt?: string;
    /** Attempts that Temporal made. */
    readonly tries: number;
    readonly outcome: 'done' | 'already' | 'not-done' | 'failed' | 'running' | 'cancelled' | 'not-ordered';
    /** What was observed, or the error's code and message. */
    readonly observed?: string;
  }[];
  readonly startedAt: string;
  readonly endedAt?: string;
  /** `not-ordered`: the run ended before Temporal took the order. */
  readonly outcome: 'done' | 'already' | 'skipped' | 'failed' | 'running' | 'not-ordered';
}

/** How long clients had no primary, and where the time went. All durations in milliseconds. */
export interface OutageSplit {
  readonly startedAt: string;
  readonly endedAt?: string;
  /** Why it is counted from there, where that is not the demotion of this run. */
  readonly startedBecause?: string;
  /** `probe`: the first success through the clients' address. `service-ready`: the new primary served a write. */
  readonly endedBy?: 'probe' | 'service-ready';
  readonly serviceReadyAt?: string;
  readonly probeAt?: string;
  readonly totalMs?: number;
  /** Spent in calls to the service and in waiting for its state. */
  readonly serviceMs?: number;
  /** Spent between activities: Temporal and the worker. */
  readonly machineMs?: number;
  /** Spent waiting for people; the target is 0. */
  readonly peopleMs?: number;
}

/** What a runbook found out that is for finding out; JSON, and never a secret. */
export type RunbookFindings = Readonly<Record<string, unknown>>;

/** What a run did, as the run itself knows it. */
export interface Report {
  readonly schema: 'replication-runbooks/report/v1';
  readonly runbook: string;
  readonly namespace: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly deployment?: string;
  /** `running`, `terminated` and the like where the run itself did not say. */
  readonly outcome: RunOutcome | 'running' | 'failed' | 'terminated' | 'cancelled' | 'timed-out';
  readonly reason?: string;
  readonly requestedBy?: Attested;
  readonly ticket?: string;
  readonly window?: ChangeWindow;
  /** Every member of the input, with defaults; absent where the input is not one of this runbook. */
  readonly asked?: Readonly<Record<string, unknown>>;
  /** A failover took the run over: from then on it was one. */
  readonly takenOver?: { readonly at: string; readonly by: string; readonly reason: string };
  readonly startedAt: string;
  readonly endedAt?: string;
  /** Events of the history when the report was made. */
  readonly asOfEvent: number;
  readonly plan?: { readonly digest: string; readonly content: RunbookPlan };
  readonly preconditions: readonly Check[];
  readonly steps: readonly ReportStep[];
  readonly gates: readonly {
    readonly gate: string;
    readonly planDigest: string;
    readonly openedAt: string;
    readonly closedAt?: string;
    readonly state: string;
    readonly by: readonly Attested[];
  }[];
  readonly parkings: readonly {
    readonly step: string;
    readonly parkingNo: number;
    readonly at: string;
    readonly code: string;
    readonly message: string;
    readonly decision?: {
      readonly action: string;
      readonly by: Attested;
      readonly reason: string;
      readonly at: string;
    };
  }[];
  /** Who was asked for a key share and when, who declined, who gave; absent where nobody was asked. */
  readonly holders?: readonly {
    readonly name: string;
    readonly epoch: number;
    readonly as: 'holder' | 'stand-by';
    /** Absent where he answered without being asked. */
    readonly askedAt?: string;
    readonly why?: string;
    readonly declined?: { readonly at: string; readonly how: Attestation; readonly text: string };
    /** The last share that was accepted. */
    readonly gave?: { readonly at: string; readonly how: Attestation };
  }[];
  readonly receipts: readonly (Receipt & { readonly at: string })[];
  /** The signals that came, up to 1,000: never their content, and no name that is not ours. */
  readonly signals: readonly {
    readonly signal: SignalName | 'unknown';
    /** Counts the signals of this name in this run, from 1. */
    readonly arrival: number;
    readonly at: string;
    /** Whether the run looked at it and said what became of it. */
    readonly answered: boolean;
  }[];
  readonly controls: readonly {
    readonly control: string;
    readonly by: string;
    readonly reason: string;
    readonly at: string;
  }[];
  readonly findings: readonly (Finding & { readonly at: string })[];
  readonly outage?: OutageSplit;
  readonly loss?: {
    /** `unknown`: the old primary was gone, and no sample bounds what it had written. */
    readonly loss: 'none' | 'bounded' | 'unknown';
    readonly why: string;
    readonly boundWalEntries?: string;
    readonly oldPrimaryRoot?: string;
    readonly newPrimaryRoot?: string;
  };
  /** From the demotion until the first DR secondary streams again. */
  readonly withoutDrProtection?: { readonly from: string; readonly to?: string; readonly totalMs?: number };
  /** Paths filters as they were read before and written by this run. `none`: there was none. */
  readonly filters: readonly {
    readonly id: string;
    readonly secondary?: string;
    readonly before?: string;
    readonly after?: string;
  }[];
  readonly tokens: readonly { readonly cluster: string; readonly state: string; readonly text: string }[];
  readonly finalState: readonly ClusterObservation[];
  /** What the runbook found out, such as the points of `readiness`. */
  readonly result?: RunbookFindings;
  /** What people still have to do, and how. */
  readonly leftToDo: readonly string[];
  /** Events of the history, as counted. */
  readonly historyEvents: number;
}
