import type { TokenUse } from './input-members';
import type { RunbookName } from './names';
import type { Attested, Finding, Receipt, RunOutcome, RunPhase } from './run-facts';
import type { DecisionAction } from './signals';
import type { GateName } from './gates';

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
      /** Why a gate that was met before is opened again. */
      readonly again?: string;
    }
  | {
      readonly for: 'shares';
      /** Shares of a recovery key: the cluster unseals itself. */
      readonly recovery?: true;
      readonly cid: string;
      readonly epoch: number;
      readonly held: readonly string[];
      /** Asked, and no share received. */
      readonly missingHolders: readonly string[];
      /** How many shares are needed. Higher than the service's threshold once it rejected some. */
      readonly threshold: number;
      readonly until: number;
      /** Invited, but not asked yet. A share that they give early counts. `askedFrom`: epoch milliseconds. */
      readonly standBy?: { readonly holders: readonly string[]; readonly askedFrom: number };
      /** On the inventory's list, but not invited. */
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
      /** Decided by one person; a second is needed. */
      readonly decidedOnce?: { readonly action: DecisionAction; readonly by: Attested };
    }
  | { readonly for: 'resume'; readonly by: string; readonly reason: string }
  /** The change window has not begun. */
  | { readonly for: 'window'; readonly until: number }
  /** People do something outside the run. An activity watches it meanwhile. */
  | {
      readonly for: 'action';
      readonly what: string;
      readonly instructions: readonly string[];
      /** Commands of people who are asked by name. */
      readonly commands?: readonly NextCommand[];
      /** It may last long after people did their part, so nobody is reminded. */
      readonly toldOnce?: true;
    };

/** A decision on a parked step that was accepted and is being carried out. */
export interface CarryingOut {
  readonly step: string;
  readonly action: DecisionAction;
  readonly by: Attested;
  /** Epoch milliseconds. */
  readonly at: number;
}

type StepState = 'running' | 'done' | 'already' | 'skipped' | 'failed' | 'parked';

/** One line of the timeline. Times are epoch milliseconds of workflow time. */
export interface TimelineStep {
  /** The order in which the steps began. */
  readonly number: number;
  /** Its number in the plan that people signed. */
  readonly planned?: number;
  /** There is a plan, which could not foresee this step. */
  readonly unforeseen?: true;
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
  readonly namespace: string;
  readonly runbook: RunbookName;
  readonly deployment: string;
  readonly workflowId: string;
  readonly runId: string;
  /** As the input says. */
  readonly ticket?: string | undefined;
  readonly incidentKey?: string | undefined;
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
  /** With the time at which they were given, in epoch milliseconds. */
  readonly receipts: readonly (Receipt & { readonly at?: number })[];
  readonly findings: readonly Finding[];
  /** What people still have to do, once the run has ended. */
  readonly leftToDo?: readonly string[];
  /** The newest invitation (JWS), while a ceremony is under way. It is public and contains no secret. */
  readonly invitation?: string;
  /** What the invitation asks for. */
  readonly asked?: Asked;
}

/** What `describe` shows without a worker. Updated at each change of phase. */
export interface RunMemo {
  readonly runbook: string;
  readonly deployment: string;
  readonly phase: RunPhase;
  /** Once the run has ended. The memo then says no more than this: nobody would correct it later. */
  readonly outcome?: RunOutcome;
  readonly step?: string;
  readonly waitingFor?: string;
  readonly carryingOut?: string;
  /** ISO time. */
  readonly outageSince?: string;
}

/** Findings about a token that may exist and that nobody holds. They come before everything else, because each minute counts. */
const ORPHANS: ReadonlySet<string> = new Set(['orphan-token', 'orphan-root-token']);

export function isOrphanAlarm({ code }: Pick<Finding, 'code'>): boolean {
  return ORPHANS.has(code);
}

/** The code of a finding: a token was made, and no record has it. */
export const TOKEN_NOT_IN_RECORD = 'token-not-in-record';

/** The code of a finding: a token cannot be deleted yet, which is normal. A report tells it by the token's state and what is left to do. */
export const TOKEN_KEPT = 'token-kept';

/** The alarm about a token that may exist and that nobody holds. */
export function orphanFinding(kind: 'operation-token' | 'root-token', cluster: string, how: string): Finding {
  if (kind === 'root-token') {
    return {
      severity: 'critical',
      code: 'orphan-root-token',
      text: `A root token of ${cluster} may exist that nobody holds: ${how}.`,
      next: `If you have the encoded answer, give it to the recipient. A root token does not expire. Go through \`auth/token/accessors\` of ${cluster} and revoke by accessor each token with policy root that was created at the time of this run. Check the audit log for its use.`,
    };
  }
  return {
    severity: 'critical',
    code: 'orphan-token',
    text: `An operation token of ${cluster} may exist that nobody holds: ${how}.`,
    next: `An operation token does not expire. Ask the service's vendor how to revoke it, or revoke all of them by disabling and re-enabling DR on ${cluster} when it is safe. Until then, check the audit log for its use. After that, \`operationTokenDisposal\` with \`forget\` removes it from the record.`,
  };
}

/** Code of the findings that say why a run was refused or failed. */
export const CHECK_FAILED = 'check-failed';

/** What people must know before they read whom the run waits for: alarms, critical findings, failed checks, rejected key shares. */
export function urgentFindings({ findings, waiting }: Pick<RunStatus, 'findings' | 'waiting'>): Finding[] {
  const alarms = findings.filter(isOrphanAlarm);
  const critical = findings.filter((each) => each.severity === 'critical' && !isOrphanAlarm(each));
  const holdersAsked = waiting.some((each) => each.for === 'shares');
  const rejected = holdersAsked ? findings.findLast(({ code }) => code === 'shares-rejected') : undefined;
  const refused = findings.filter(({ code }) => code === CHECK_FAILED);
  return [...new Set([...alarms, ...critical, ...refused, ...(rejected ? [rejected] : [])])];
}

/** The critical findings that are among what is left to do. One that was fixed later in the run is reported, but not left. */
export function criticalOpen({ findings, leftToDo }: FindingsAndLeft): readonly Finding[] {
  return findings.filter(
    ({ severity, text }) => severity === 'critical' && leftToDo.some((line) => line.includes(text)),
  );
}

type FindingsAndLeft = Required<Pick<RunStatus, 'findings' | 'leftToDo'>>;

/** The alarms first, whatever came before them. */
export function alarmsFirst<F extends Finding>(findings: readonly F[]): F[] {
  return [...findings.filter(isOrphanAlarm), ...findings.filter((each) => !isOrphanAlarm(each))];
}

/** Something that a person can do next, with the exact command. */
export interface NextCommand {
  readonly who: string;
  readonly command: string;
  /** Set if a key holder stands by: they may give their share, but were not asked directly. */
  readonly as?: 'stand-by';
}

/** What key holders are asked for, and on whose word. The signed invitation says it too, and only that counts for them. */
export interface Asked {
  readonly kind: 'operation-token' | 'root-token' | 'rehearsal';
  /** None in a rehearsal. */
  readonly targets: readonly {
    readonly cluster: string;
    readonly uses: readonly (TokenUse | 'root-token.generate')[];
  }[];
  readonly requestedBy: Attested;
  readonly reason: string;
  /** The token itself is asked for, which people generated with the command line of the service. Never a key share. */
  readonly collects?: 'tokens' | undefined;
}
