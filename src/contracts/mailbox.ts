import type { GateName } from './gates';
import type { Attested, Receipt } from './run-facts';
import type { Waiting } from './run-status';

/* What the gateway's mailbox answers (docs/mailbox.md). Nothing here is trusted: plans and invitations prove themselves. */

/** A run, as the mailbox names it. */
export interface MailboxRun {
  readonly workflowId: string;
  readonly runId: string;
  readonly namespace: string;
  readonly deployment: string;
  readonly runbook: string;
  readonly phase: string;
  /** ISO time. */
  readonly startedAt: string;
  /** As the plan or the invitation says. Absent before either exists. */
  readonly requestedBy?: string;
  readonly reason?: string;
}

type ParkedStep = Extract<Waiting, { readonly for: 'decision' }>;

/** What waits for one person. */
export type WaitingItem = MailboxRun &
  (
    | {
        readonly kind: 'approval';
        readonly gate: GateName;
        readonly planDigest: string;
        /** The JSON text with this digest. Compute the digest of the text that is shown. */
        readonly plan: string;
        readonly approvals: readonly Attested[];
        readonly missing: readonly string[];
        /** ISO time at which the gate closes. */
        readonly until?: string;
      }
    | {
        readonly kind: 'share' | 'token' | 'rehearsal';
        readonly holder: string;
        /** The invitation (JWS), as `runbook invitation` prints it. */
        readonly invitation: string;
        readonly until?: string;
        /** Asked only from then on: ISO time. A share that is given before counts. */
        readonly askedFrom?: string;
      }
    | ({
        readonly kind: 'decision';
        readonly failure: Pick<ParkedStep, 'code' | 'message' | 'observed' | 'needed' | 'next'>;
      } & Pick<ParkedStep, 'step' | 'parkingNo' | 'choices' | 'decidedOnce'>)
  );

/** The answer to `GET /v1/waiting`. */
export interface WaitingAnswer {
  readonly schema: 'runbooks/waiting/v1';
  /** ISO time of the gateway. */
  readonly at: string;
  /** Who asked. */
  readonly person: string;
  readonly items: readonly WaitingItem[];
  /** Open runs that this person may abort, pause or resume. */
  readonly runs: readonly MailboxRun[];
  /** Open runs for which no worker answers: they may wait for this person too. */
  readonly unreachable: readonly { readonly workflowId: string; readonly runId: string }[];
}

/** The answer to a document that was passed on. Absent `receipt`: recorded, and not checked yet. */
export interface SentAnswer {
  readonly sent: true;
  readonly arrival?: number;
  readonly receipt?: Receipt;
}

/** The answer to a request that is refused or failed. */
export interface MailboxError {
  readonly error: {
    /** A code of docs/errors.md. */
    readonly code: string;
    readonly message: string;
    readonly observed?: string;
    readonly needed?: string;
    readonly next?: string;
  };
}
