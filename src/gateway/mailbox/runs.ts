import type { MailboxRun, SentAnswer } from '../../contracts/mailbox';
import type { RunStatus } from '../../contracts/run-status';
import type { SignalName } from '../../contracts/signals';

/** One run of a Workflow ID. */
export interface RunId {
  readonly workflowId: string;
  /** Absent: the newest run. */
  readonly runId?: string | undefined;
}

/** An open run. Without a status no worker answered for it. */
export interface OpenRun extends Omit<MailboxRun, 'namespace'> {
  readonly status?: RunStatus | undefined;
}

/**
 * What the mailbox may do in Temporal.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE`, `NOT_FOUND`
 */
export interface Runs {
  readonly namespace: string;
  open(): Promise<readonly OpenRun[]>;
  /** A run as `runbook status --json` shows it, and its deployment. */
  view(run: RunId): Promise<{ readonly view: object; readonly deployment: string | undefined }>;
  /** Sends a signal once, however often it is asked with this digest, and waits some seconds for the receipt. */
  send(run: Required<RunId>, signal: SignalName, input: object, digest: string): Promise<SentAnswer>;
}
