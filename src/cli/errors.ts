import { CommanderError } from 'commander';
import type { ApplicationFailure } from '@temporalio/common';
import { RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import type { ReadinessPoint, ReadinessResult } from '../contracts/readiness';
import type { Report } from '../contracts/report';
import { criticalOpen } from '../contracts/run-status';
import { redact } from '../secret';
import type { CliContext } from './context';
import { jsonText, terminalText } from '../contracts/words';

/** Exit codes of the `runbook` command. `docs/cli.md` is the same table for people. */
export const EXIT = {
  /** What was asked for is done. */
  ok: 0,
  /** It failed: a server, a file or a run did not do what it should. */
  failed: 1,
  /** The command line is wrong; nothing was tried. */
  usage: 2,
  /** Refused before anything was changed: wrong input, a precondition, a held lock, a document that does not verify. */
  refused: 3,
  /** Not finished: sent but not confirmed yet, nobody answers, or the time given to wait is over. */
  pending: 4,
  /** The run, deployment or file that was named does not exist. */
  notFound: 5,
  /** The run ended, but not as asked for: aborted or rolled back. */
  otherEnd: 6,
  /** `readiness`: ready, with warnings. */
  warned: 7,
  /** The run did what it was asked for, and something critical is left to do. */
  critical: 8,
  /** Ended by the person, with Ctrl-C. */
  ended: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Every code that does not simply mean "failed". */
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
  SEAL_KEY_MISSING: EXIT.refused,
  UNKNOWN_DEPLOYMENT: EXIT.notFound,
  UNKNOWN_CLUSTER: EXIT.notFound,
  NOT_FOUND: EXIT.notFound,
  REPORT_UNAVAILABLE: EXIT.pending,
  REQUEST_CANCELLED: EXIT.ended,
};

/** The exit code that belongs to an error; a run that failed tells its code by the failure that it ended with. */
export function exitCodeOf(error: unknown): ExitCode {
  const codes: Readonly<Record<string, ExitCode>> = EXIT_OF_ERROR;
  const { code } = reportOfError(error);
  return (Object.hasOwn(codes, code) ? codes[code] : undefined) ?? EXIT.failed;
}

/** The exit code that belongs to the end of a run. Who looks at it alone must not miss what is critical. */
export function exitCodeOfRun(report: Pick<Report, 'outcome' | 'findings' | 'leftToDo'>): ExitCode {
  const { outcome } = report;
  if (outcome === 'completed' || outcome === 'planned' || outcome === 'handed-over')
    return criticalOpen(report).length > 0 ? EXIT.critical : EXIT.ok;
  if (outcome === 'refused') return EXIT.refused;
  if (outcome === 'aborted' || outcome === 'rolled-back') return EXIT.otherEnd;
  return outcome === 'running' ? EXIT.pending : EXIT.failed;
}

/** The exit code of verdicts, of readiness or of points: what could not be read is never taken for good. */
export function exitCodeOfVerdicts(verdicts: readonly Verdict[]): ExitCode {
  if (verdicts.some((each) => each === 'fail' || each === 'not-ready')) return EXIT.refused;
  return verdicts.some((each) => each === 'warn' || each === 'ready-with-warnings') ? EXIT.warned : EXIT.ok;
}
type Verdict = ReadinessResult['switchover'] | ReadinessPoint['verdict'];

const DETAILS = ['observed', 'needed', 'next'] as const;

/** What people and programs are told of an error. */
interface ErrorReport extends Partial<Readonly<Record<(typeof DETAILS)[number], string | undefined>>> {
  readonly code: string;
  readonly message: string;
}

/** Any error in our words: code, message, observed, needed, next. Texts of others are redacted. */
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
      message: 'The Temporal server refuses a call of this command.',
      observed: redact(refused.details) || 'no reason given',
      needed: 'the right to do this in the namespace',
      next: 'Where the command begins or sends something, look first with "runbook list" whether it did. Then give it where you have that right; else ask whoever runs Temporal for it.',
    };
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

/** What the server says of a run or a namespace that it does not know, by name and number: the classes would load its packages. */
export function isNoRun(error: unknown): boolean {
  return error instanceof Error && (error.name === 'WorkflowNotFoundError' || error.message.startsWith('5 NOT_FOUND'));
}

/** What the server says where it gives this client no right: PERMISSION_DENIED and UNAUTHENTICATED of gRPC, under the client's words. */
export function refusalIn(error: unknown): { readonly details: string } | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, details } = error as { code?: unknown; details?: unknown };
  return (code === 7 || code === 16) && typeof details === 'string' ? { details } : refusalIn(error.cause);
}

/** The failure that a run or an activity ended with, at the bottom of the chain of causes. */
function applicationFailure(error: unknown): ApplicationFailure | undefined {
  if (!(error instanceof Error)) return undefined;
  // By its name: its class would load the packages of Temporal for every error.
  return error.name === 'ApplicationFailure' ? (error as ApplicationFailure) : applicationFailure(error.cause);
}

/** Writes an error to standard error: as lines for people, or as one JSON object. A stack only with `--debug`. */
export function printError(context: CliContext, error: unknown, { json = false, debug = false } = {}): void {
  if (error instanceof CommanderError) return;
  const report = reportOfError(error);
  for (const line of json ? [jsonText({ error: report })] : errorLines(report)) context.err(line);
  if (!debug || !(error instanceof Error)) return;
  // Indented further than anything that we say: what an error quotes is no line of ours.
  for (const line of redact(error.stack ?? 'no stack').split('\n')) context.err(`        ${line}`);
}

/** An error as people read it. */
export function errorLines(report: ErrorReport): string[] {
  return [
    ...terminalText(`Error ${report.code}: ${report.message}`),
    ...DETAILS.flatMap((name) => (report[name] === undefined ? [] : terminalText(`${name}: ${report[name]}`, '  '))),
  ];
}
