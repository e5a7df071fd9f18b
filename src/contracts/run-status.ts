import type { Asked } from './asked';
import type { RunbookName } from './names';
import type { NextCommand } from './next-commands';
import type { GateName } from './plan';
import type { Attested, Finding, Receipt, RunOutcome, RunPhase } from './run-facts';
import type { DecisionAction } from './signals';

/** What a run waits for, and the exact command for each missing person. */
export type Waiting =
  | {
      readonly for: 'approval';
      readonly gate: GateName;
      readonly planDigest: string;
      readonly missing: readonly string[];
      readonly approved: readonly Attested[];
      /** Absent while clients have no primary: no clock ends the wait then. */
      readonly until?: number;
      /** Why a gate that was met before is asked for again. */
      readonly again?: string;
    }
  | {
      readonly for: 'shares';
      /** Shares of a recovery key: the cluster unseals itself. */
      readonly recovery?: true;
      readonly cid: string;
      readonly epoch: number;
      readonly held: readonly string[];
      /** Asked, and not in hand. */
      readonly missingHolders: readonly string[];
      /** Shares that are needed: more than the service's threshold once it rejected some. */
      readonly threshold: number;
      readonly until: number;
      /** Invited, and not asked yet; a share that they give early counts. `askedFrom`: epoch milliseconds. */
      readonly standBy?: { readonly holders: readonly string[]; readonly askedFrom: number };
      /** On the inventory's list, and not invited. */
      readonly notJoined?: readonly string[];
    }
  /** People answer a rehearsal: no key share is asked for. */
  | {
      readonly for: 'rehearsal';
      readonly epoch: number;
      readonly answered: readonly string[];
      readonly missing: readonly string[];
      readonly until: number;
    }
  | {
      readonly for: 'decision';
      readonly step: string;
      readonly parkingNo: number;
      readonly code: string;
      readonly message: string;
      readonly observed?: string;
      readonly needed?: string;
      readonly next?: string;
      readonly choices: readonly {
        readonly action: DecisionAction;
        readonly effect: string;
        /** It counts when a second, different person decides the same. */
        readonly needsTwo?: boolean;
      }[];
      /** Decided by one person, where a second is needed. */
      readonly decidedOnce?: { readonly action: DecisionAction; readonly by: Attested };
    }
  | { readonly for: 'resume'; readonly by: string; readonly reason: string }
  /** The change window has not begun. */
  | { readonly for: 'window'; readonly until: number }
  /** People do something outside of the run, which an activity watches meanwhile. */
  | {
      readonly for: 'action';
      readonly what: string;
      readonly instructions: readonly string[];
      /** Of those who are asked by name. */
      readonly commands?: readonly NextCommand[];
      /** It may last for long after people did their part: nobody is reminded. */
      readonly toldOnce?: true;
    };

/** What people decided on a parked step: accepted, and under way. */
export interface CarryingOut {
  readonly step: string;
  readonly action: DecisionAction;
  readonly by: Attested;
  /** Epoch milliseconds. */
  readonly at: number;
}

export type StepState = 'running' | 'done' | 'already' | 'skipped' | 'failed' | 'parked';

/** One line of the timeline. Times are epoch milliseconds of workflow time. */
export interface TimelineStep {
  readonly number: number;
  readonly name: string;
  readonly state: StepState;
  readonly attempt: number;
  readonly startedAt: number;
  readonly endedAt?: number;
  /** What was observed, in a few words. */
  readonly note?: string;
}

/** The answer of the `status` query. */
export interface RunStatus {
  readonly runbook: RunbookName;
  readonly deployment: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly phase: RunPhase;
  readonly outcome?: RunOutcome;
  readonly paused: boolean;
  readonly planDigest?: string;
  readonly planText?: string;
  readonly outageSince?: number;
  readonly serviceBackAt?: number;
  readonly waiting: readonly Waiting[];
  readonly carryingOut?: readonly CarryingOut[];
  readonly steps: readonly TimelineStep[];
  /** With when they were given, epoch milliseconds. */
  readonly receipts: readonly (Receipt & { readonly at?: number })[];
  readonly findings: readonly Finding[];
  /** What people still have to do, once the run has ended. */
  readonly leftToDo?: readonly string[];
  /** What a run that finds something out has found so far, the worst first: Markdown, one item each. */
  readonly summary?: readonly string[];
  /** The newest invitation (JWS), where a ceremony is under way. Public: it holds no secret. */
  readonly invitation?: string;
  /** What it asks for. */
  readonly asked?: Asked;
}

/** What describe shows without a worker: upserted at each change of phase. */
export interface RunMemo {
  readonly runbook: string;
  readonly deployment: string;
  readonly phase: RunPhase;
  readonly step?: string;
  readonly waitingFor?: string;
  readonly carryingOut?: string;
  /** ISO time. */
  readonly outageSince?: string;
}
