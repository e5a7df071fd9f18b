import { CommanderError } from 'commander';
import type { ApplicationFailure } from '@temporalio/common';
import { errnoOf, RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import type { ReadinessPoint, ReadinessResult } from '../contracts/readiness';
import type { Report } from '../contracts/report';
import { criticalOpen } from '../contracts/run-status';
import { redact } from '../secret';
import type { CliContext } from './context';
import { jsonText, terminalText } from '../contracts/words';

/** Exit codes of the `runbook` command. `docs/cli.md` documents the same table. */
export const EXIT = {
  /** The command did what was asked. */
  ok: 0,
  /** A server, a file or a run failed. */
  failed: 1,
  /** The command line is wrong; nothing was attempted. */
  usage: 2,
  /** Refused before anything was changed: wrong input, a precondition, a held lock, a document that does not verify. */
  refused: 3,
  /** Not finished: sent but not confirmed yet, nobody answers, or the timeout expired. */
  pending: 4,
  /** The named run, deployment or file does not exist. */
  notFound: 5,
  /** The run ended, but not as requested: aborted or rolled back. */
  otherEnd: 6,
  /** Ready, with warnings (`readiness`, `doctor`, `inventory check --live`, `schedules`). */
  warned: 7,
  /** The run did what was asked, and something critical is left to do. */
  critical: 8,
  /** Ended by the person, with Ctrl-C. */
  ended: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Every error code whose exit code is not "failed". */
const EXIT_OF_ERROR: Readonly<Partial<Record<ErrorCode, ExitCode>>> = {
  INVALID_INPUT: EXIT.refused,
  PLAIN_TEXT_SHARE: EXIT.refused,
  UNKNOWN_RUNBOOK: EXIT.refused,
  INVENTORY_INVALID: EXIT.refused,
  RUN_TIMEOUT_SET: EXIT.refused,
  LOCK_HELD: EXIT.refused,
  PRECONDITION_FAILED: EXIT.refused,
  NOT_APPROVED: EXIT.refused,
  DOCUMENT_INVALID: EXIT.refused,
  KEY_STORAGE_REFUSED: EXIT.refused,
  REQUEST_REFUSED: EXIT.refused,
  SEAL_KEY_MISSING: EXIT.refused,
  UNKNOWN_DEPLOYMENT: EXIT.notFound,
  UNKNOWN_CLUSTER: EXIT.notFound,
  NOT_FOUND: EXIT.notFound,
  REPORT_UNAVAILABLE: EXIT.pending,
  REQUEST_CANCELLED: EXIT.ended,
};

/** The exit code of an error. For a failed run, the failure that ended it supplies the error code. */
export function exitCodeOf(error: unknown): ExitCode {
  const codes: Readonly<Record<string, ExitCode>> = EXIT_OF_ERROR;
  const { code } = reportOfError(error);
  return (Object.hasOwn(codes, code) ? codes[code] : undefined) ?? EXIT.failed;
}

/** The exit code of a run's outcome. A caller that checks only the exit code must not miss critical findings. */
export function exitCodeOfRun(report: Pick<Report, 'outcome' | 'findings' | 'leftToDo'>): ExitCode {
  const { outcome } = report;
  if (outcome === 'completed' || outcome === 'planned' || outcome === 'handed-over')
    return criticalOpen(report).length > 0 ? EXIT.critical : EXIT.ok;
  if (outcome === 'refused') return EXIT.refused;
  if (outcome === 'aborted' || outcome === 'rolled-back') return EXIT.otherEnd;
  return outcome === 'running' ? EXIT.pending : EXIT.failed;
}

/** The exit code of verdicts, from readiness or from points. */
export function exitCodeOfVerdicts(verdicts: readonly Verdict[]): ExitCode {
  if (verdicts.some((each) => each === 'fail' || each === 'not-ready')) return EXIT.refused;
  return verdicts.some((each) => each === 'warn' || each === 'ready-with-warnings') ? EXIT.warned : EXIT.ok;
}
type Verdict = ReadinessResult['switchover'] | ReadinessPoint['verdict'];

const DETAILS = ['observed', 'needed', 'next'] as const;

/** An error as it is shown to people and programs. */
interface ErrorReport extends Partial<Readonly<Record<(typeof DETAILS)[number], string | undefined>>> {
  readonly code: string;
  readonly message: string;
}

/** Any error as code, message, observed, needed and next. Texts from other programs are redacted. */
function reportOfError(error: unknown): ErrorReport {
  if (error instanceof RunbookError) {
    const { code, message, observed, needed, next } = error;
    return { code, message, observed, needed, next };
  }
  if (isNoRun(error))
    return {
      code: 'NOT_FOUND',
      message: 'There is no run with this Workflow ID.',
      next: '"runbook list" shows the runs of this namespace.',
    };
  const refused = refusalIn(error);
  if (refused)
    return {
      code: 'TEMPORAL_UNAVAILABLE',
      message: 'The Temporal server denies a request of this command.',
      observed: redact(refused.details) || 'no reason given',
      needed: 'permission to do this in the namespace',
      next: 'If the command starts or sends something, first check with "runbook list" whether it did. Then run it where you have this permission, or ask your Temporal administrators for it.',
    };
  const system = systemReport(error);
  if (system) return system;
  const failure = applicationFailure(error);
  if (failure === undefined)
    return { code: 'INTERNAL', message: redact(error instanceof Error ? error.message : String(error)) };
  const details: unknown = failure.details?.[0];
  const members = typeof details === 'object' && details !== null ? Object.entries(details) : [];
  const texts = members.flatMap(([name, value]: [string, unknown]) =>
    DETAILS.some((each) => each === name) && typeof value === 'string' ? [[name, redact(value)] as const] : [],
  );
  return { code: failure.type ?? 'INTERNAL', message: redact(failure.message), ...Object.fromEntries(texts) };
}

/**
 * Whether the server reports that a run or a namespace does not exist. Matches the name and the number: importing the
 * error classes would load the Temporal packages.
 */
export function isNoRun(error: unknown): boolean {
  return error instanceof Error && (error.name === 'WorkflowNotFoundError' || error.message.startsWith('5 NOT_FOUND'));
}

/** The server's error if it denies this client a request (gRPC PERMISSION_DENIED or UNAUTHENTICATED), found below the client's own error. */
export function refusalIn(error: unknown): { readonly details: string } | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, details } = error as { code?: unknown; details?: unknown };
  return (code === 7 || code === 16) && typeof details === 'string' ? { details } : refusalIn(error.cause);
}

/** What each error of the system about a file or a port means, and what helps. */
const SYSTEM_ERRORS: Readonly<Record<string, readonly [what: string, next: string]>> = {
  ENOENT: ['does not exist', 'Correct the path, or create the file or the folder that is missing.'],
  ENOTDIR: ['has a file in the place of a folder', 'Correct the path.'],
  EEXIST: ['has a file in the place of a folder', 'Correct the path.'],
  EISDIR: ['is a folder, not a file', 'Correct the path.'],
  EACCES: ['may not be used by this user', 'Correct the path or its permissions, or run the command as another user.'],
  EPERM: ['may not be used by this user', 'Correct the path or its permissions, or run the command as another user.'],
  EROFS: ['is on a file system that cannot be written', 'Choose another path.'],
  ENOSPC: ['is on a file system that is full', 'Free some space, or choose another path.'],
  ENAMETOOLONG: ['has a name that is too long', 'Choose a shorter path.'],
  ELOOP: ['has links that lead back to themselves', 'Correct the path.'],
  EADDRINUSE: ['is taken by another program', 'End that program, or choose another port.'],
  EADDRNOTAVAIL: ['is not an address of this machine', 'Choose an address of this machine, such as 127.0.0.1.'],
};

/** A person's mistake in a path or a port that no code expected: not a defect of this program. */
function systemReport(error: unknown): ErrorReport | undefined {
  const code = errnoOf(error)?.replace(/^ERR_FS_/, '');
  const known = code === undefined || !Object.hasOwn(SYSTEM_ERRORS, code) ? undefined : SYSTEM_ERRORS[code];
  if (code === undefined || known === undefined) return undefined;
  const { path, address, port, info } = error as Partial<Readonly<Record<string, unknown>>>;
  const place = [path, (info as { path?: unknown } | undefined)?.path, address].find(
    (each) => typeof each === 'string',
  );
  // A file is written beside its place first, with a number at its end.
  const named = place?.replace(/\.\d{6,}$/, '') ?? 'A path of this command';
  return {
    code: code === 'ENOENT' ? 'NOT_FOUND' : 'INVALID_INPUT',
    message: `${redact(named)}${typeof port === 'number' ? `:${port}` : ''} ${known[0]} (${code}).`,
    next: `${known[1]} Then run the same command again.`,
  };
}

/** The failure that ended a run or an activity, at the bottom of the chain of causes. */
function applicationFailure(error: unknown): ApplicationFailure | undefined {
  if (!(error instanceof Error)) return undefined;
  // Matched by name: importing its class would load the Temporal packages for every error.
  return error.name === 'ApplicationFailure' ? (error as ApplicationFailure) : applicationFailure(error.cause);
}

/** Writes an error to standard error, as lines for people or as one JSON object. Prints the stack only with `--debug`. */
export function printError(context: CliContext, error: unknown, { json = false, debug = false } = {}): void {
  if (error instanceof CommanderError) return;
  const report = reportOfError(error);
  for (const line of json ? [jsonText({ error: report })] : errorLines(report)) context.err(line);
  if (!debug || !(error instanceof Error)) return;
  // Indented further than our own lines, so that text quoted by an error cannot pass for one of them.
  for (const line of redact(error.stack ?? 'no stack trace').split('\n')) context.err(`        ${line}`);
}

/** An error as lines for people. */
export function errorLines(report: ErrorReport): string[] {
  return [
    ...terminalText(`Error ${report.code}: ${report.message}`),
    ...DETAILS.flatMap((name) => (report[name] === undefined ? [] : terminalText(`${name}: ${report[name]}`, '  '))),
  ];
}
