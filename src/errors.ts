/**
 * The one error family of the project. `code` is stable: it is the ApplicationFailure type that reaches Temporal, and
 * people and programs branch on it. Messages are for people, are redacted, and may change.
 */

import type { Finding } from './contracts/run-facts';

interface ErrorCodeFacts {
  /** What happened, in one sentence. */
  readonly summary: string;
  /** Whether a retry can help. If the outcome is unknown, read the state first. */
  readonly retryable: boolean;
  /** True if the call certainly had no effect, or if its effect is known. */
  readonly outcomeKnown: boolean;
}

const facts = (summary: string, retryable = false, outcomeKnown = true): ErrorCodeFacts => ({
  summary,
  retryable,
  outcomeKnown,
});

/** Every code with its defaults. `docs/errors.md` is the same table for people; a test keeps the two in sync. */
export const ERROR_CODES = {
  // Input and set-up
  INVALID_INPUT: facts('A field of the input is missing or invalid; nothing was changed.'),
  PLAIN_TEXT_SHARE: facts('The input appears to contain a key share or a token in plain text; it was refused.'),
  UNKNOWN_RUNBOOK: facts('There is no runbook with this name.'),
  UNKNOWN_DEPLOYMENT: facts('The inventory has no deployment with this name.'),
  UNKNOWN_CLUSTER: facts('The deployment has no cluster with this name.'),
  INVENTORY_INVALID: facts('The inventory file has mistakes.'),
  CREDENTIAL_UNAVAILABLE: facts('A credential could not be read from its source.', true),
  TEMPORAL_UNAVAILABLE: facts(
    'No Temporal server could be reached, found, built or started, or the server refuses this client.',
  ),
  RECORD_UNAVAILABLE: facts("The deployment's record could not be read or written.", true),
  RUN_TIMEOUT_SET: facts(
    'The run was started with a timeout, retry policy or cron schedule, which would skip cleanup.',
  ),
  LOCK_HELD: facts('Another run holds the lock on this deployment.'),
  RUN_WAS_RESET: facts('The run was reset; a person must acknowledge the reset before the run changes anything.'),
  PRECONDITION_FAILED: facts('An observed value is not the required value; the change was not attempted.'),
  NOT_APPROVED: facts('The signed approvals do not satisfy the policy of the gate.'),
  // The service answered
  BAD_REQUEST: facts('The service refused the request (400).'),
  PERMISSION_DENIED: facts('The service refused the credential (403).'),
  NOT_FOUND: facts('The service has no such path, or the object does not exist (404).'),
  METHOD_NOT_ALLOWED: facts('The service does not support the operation on this path (405).'),
  TOO_LARGE: facts('The request or its token header is too large (413, 431).'),
  STATE_NOT_PRESENT: facts('The node lags behind the state that the request requires (412).', true),
  RATE_LIMITED: facts('The service is rate limiting requests (429).', true),
  SERVICE_ERROR: facts('The service failed with an internal error (500, 501, 502).', true, false),
  SERVICE_UNAVAILABLE: facts('The service is sealed, is restarting, or has no active node (503).', true),
  SERVICE_SEALED: facts('The node is sealed.', true),
  NOT_CAUGHT_UP: facts('The DR secondary has not caught up with its primary (503 on promote).', true),
  AUDIT_DEVICE_BLOCKED: facts(
    'Every authenticated call fails although health is good; an audit device may be blocked.',
    true,
    false,
  ),
  UNEXPECTED_STATUS: facts('The service returned a status that the interface does not define.', false, false),
  RESPONSE_INVALID: facts('The response does not have the form that the interface defines.', false, false),
  // The service did not answer
  UNREACHABLE: facts('No connection to the node could be established; the request was not sent.', true),
  CONNECTION_LOST: facts('The connection broke after the request was sent.', true, false),
  REQUEST_TIMEOUT: facts('No response arrived within the timeout.', true, false),
  REQUEST_CANCELLED: facts('The caller cancelled the request.', false, false),
  TLS_FAILED: facts('The TLS certificate was not accepted.'),
  INSECURE_ADDRESS: facts('Plain HTTP is allowed on loopback addresses only.'),
  REDIRECT_REFUSED: facts('Every node that was asked redirects; redirects are not followed.', true),
  NO_ACTIVE_NODE: facts(
    'None of the listed nodes is the only active one. A leader that they name but the inventory does not list is reported, and never used.',
    true,
  ),
  // The outcome of a call
  OUTCOME_UNKNOWN: facts(
    'The response was lost, and the state does not show yet whether the call took effect.',
    true,
    false,
  ),
  CONFIRMATION_TIMEOUT: facts(
    'The call was accepted, but the expected state did not appear within the time limit.',
    true,
  ),
  HOOK_FAILED: facts('A hook of the inventory reported failure, or did not finish in time.', false, false),
  STATE_DIVERGED: facts('The observed state contradicts what the runbook did; a person must investigate.'),
  // Documents, secrets and the ceremony
  DOCUMENT_INVALID: facts('A signed document does not verify.'),
  SEALED_VALUE_INVALID: facts('A sealed value cannot be opened here, or is bound to something else.'),
  SEAL_KEY_MISSING: facts('RUNBOOKS_SEAL_KEYS_FILE is missing or has no usable entry.'),
  KEY_RECORD_MISSING: facts('The key record of this ceremony is not on this host, has expired, or was destroyed.'),
  KEY_STORAGE_REFUSED: facts(
    'The key directory is not safe from other users of its host, or it is not memory-backed and disk storage was not requested.',
  ),
  SHARES_MISSING: facts('Fewer verified key shares are available than the service requires.'),
  SHARES_REJECTED: facts('The service rejected the key shares when the threshold was reached.'),
  ATTEMPT_FOREIGN: facts('A generation attempt that may not be ours occupies the single slot.'),
  ATTEMPT_LOST: facts('Our generation attempt is gone.', true),
  CEREMONY_CLOSED: facts('No available credential gives access to the ceremony calls of the cluster.'),
  TOKEN_ORPHANED: facts('A token may exist that nobody holds.', false, false),
  REPORT_UNAVAILABLE: facts('The run cannot return its report now.', true),
  TOKEN_SOURCE_UNAVAILABLE: facts('No operation token is available from the chosen source.'),
  // The gateway's mailbox
  REQUEST_REFUSED: facts('The gateway refused a signed request because of its key, name, time or form.'),
  GATEWAY_UNAVAILABLE: facts('The gateway could not be reached, or is too busy to answer.', true, false),
  INTERNAL: facts('A defect in this program.', false, false),
} as const satisfies Record<string, ErrorCodeFacts>;

/** A stable error code. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** What an error may carry besides its message. No member may hold a secret. */
interface RunbookErrorOptions {
  readonly retryable?: boolean | undefined;
  readonly outcomeKnown?: boolean | undefined;
  readonly httpStatus?: number | undefined;
  /** Milliseconds to wait before the next try, from `Retry-After`. */
  readonly retryAfterMs?: number | undefined;
  readonly cluster?: string | undefined;
  /** What the answer itself said: redacted, on one line and short. For people only: nothing branches on it. */
  readonly answerText?: string | undefined;
  /** The exact subject of the error, in the words that a decision uses for it. */
  readonly about?: string | undefined;
  /** What people must know besides the error, such as a token that nobody holds. Never holds a secret. */
  readonly findings?: readonly Finding[] | undefined;
  /** What was observed. */
  readonly observed?: string | undefined;
  /** What was needed. */
  readonly needed?: string | undefined;
  /** What to do next, and who does it. */
  readonly next?: string | undefined;
  readonly cause?: unknown;
}

/** The base class of every error that this project throws on purpose. */
export class RunbookError extends Error {
  readonly retryable: boolean;
  readonly outcomeKnown: boolean;
  readonly httpStatus: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly cluster: string | undefined;
  readonly answerText: string | undefined;
  readonly about: string | undefined;
  readonly findings: readonly Finding[];
  readonly observed: string | undefined;
  readonly needed: string | undefined;
  readonly next: string | undefined;

  constructor(
    readonly code: ErrorCode,
    message: string,
    options: RunbookErrorOptions = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'RunbookError';
    this.retryable = options.retryable ?? ERROR_CODES[code].retryable;
    this.outcomeKnown = options.outcomeKnown ?? ERROR_CODES[code].outcomeKnown;
    this.httpStatus = options.httpStatus;
    this.retryAfterMs = options.retryAfterMs;
    this.cluster = options.cluster;
    this.answerText = options.answerText;
    this.about = options.about;
    this.findings = options.findings ?? [];
    this.observed = options.observed;
    this.needed = options.needed;
    this.next = options.next;
  }

  /** The same error with some of its members changed. */
  with(changed: RunbookErrorOptions & { readonly message?: string }): RunbookError {
    return new RunbookError(this.code, changed.message ?? this.message, { ...this, cause: this.cause, ...changed });
  }
}

/** Whether `error` is of this family and, if `code` is given, has that code. */
export function isRunbookError(error: unknown, code?: ErrorCode): error is RunbookError {
  return error instanceof RunbookError && (code === undefined || error.code === code);
}

/**
 * For `.catch`: turns an error of this family, such as a refusal by the service, into a value. Rethrows any other
 * error, and every error after the caller was cancelled, because then nothing is known.
 */
export function orElse<T>(signal: AbortSignal, value: (error: RunbookError) => T): (error: unknown) => T {
  return (error) => {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return value(error);
  };
}

/** The code of a system error, such as `ENOENT`; undefined for other errors. */
export function errnoOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
