import type { ErrorCode } from '../errors';
import type { ReadinessResult } from '../contracts/readiness';
import { reportOfError } from './print-error';

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
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const REFUSALS: readonly ErrorCode[] = [
  'INVALID_INPUT',
  'PLAIN_TEXT_SHARE',
  'UNKNOWN_RUNBOOK',
  'INVENTORY_INVALID',
  'RUN_TIMEOUT_SET',
  'LOCK_HELD',
  'PRECONDITION_FAILED',
  'NOT_APPROVED',
  'DOCUMENT_INVALID',
  'KEY_STORAGE_REFUSED',
  'SEAL_KEY_MISSING',
];
const NOT_FOUND: readonly ErrorCode[] = ['UNKNOWN_DEPLOYMENT', 'UNKNOWN_CLUSTER', 'NOT_FOUND'];

/** The exit code that belongs to an error. */
export function exitCodeOf(error: unknown): ExitCode {
  // A run that failed tells its code by the failure that it ended with.
  const { code } = reportOfError(error);
  if (code === 'REPORT_UNAVAILABLE') return EXIT.pending;
  if (NOT_FOUND.some((each) => each === code)) return EXIT.notFound;
  return REFUSALS.some((each) => each === code) ? EXIT.refused : EXIT.failed;
}

/** The exit code that belongs to the outcome of a run. */
export function exitCodeOfOutcome(outcome: string): ExitCode {
  if (outcome === 'completed' || outcome === 'planned' || outcome === 'handed-over') return EXIT.ok;
  if (outcome === 'refused') return EXIT.refused;
  if (outcome === 'aborted' || outcome === 'rolled-back') return EXIT.otherEnd;
  return outcome === 'running' ? EXIT.pending : EXIT.failed;
}

/** The exit code that belongs to what a readiness check found: for one of its questions, or for both. */
export function exitCodeOfReadiness(
  result: Pick<ReadinessResult, 'switchover' | 'failover'>,
  about?: 'switchover' | 'failover',
): ExitCode {
  const verdicts = about === undefined ? [result.switchover, result.failover] : [result[about]];
  if (verdicts.includes('not-ready')) return EXIT.refused;
  return verdicts.includes('ready-with-warnings') ? EXIT.warned : EXIT.ok;
}
