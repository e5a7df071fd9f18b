import type { Check } from '../../src/contracts/plan';
import { RunbookError } from '../../src/errors';

interface Observed {
  readonly observed: string;
  readonly needed: string;
  /** What to do and who does it; shown only if the check does not hold. */
  readonly next?: string | undefined;
}

/** One check: what was observed, and what is needed. */
export function check(
  name: string,
  cluster: string | undefined,
  good: boolean,
  { observed, needed, next, otherwise = 'fail' }: Observed & { readonly otherwise?: 'fail' | 'warn' },
): Check {
  return {
    name,
    ...(cluster !== undefined && { cluster }),
    observed,
    needed,
    verdict: good ? 'ok' : otherwise,
    ...(!good && next !== undefined && { next }),
  };
}

/** An error as a point or a finding shows it: its code, and what the answer itself said. */
export function causeOf({ code, answerText }: Pick<RunbookError, 'code' | 'answerText'>): string {
  return answerText === undefined ? code : `${code}, answered "${answerText}"`;
}

/** A fact that cannot be known in advance: it refuses nothing, and the approvers see it. */
export function notCheckable(name: string, cluster: string | undefined, observed: Observed): Check {
  return { ...check(name, cluster, false, observed), verdict: 'not-checkable' };
}

/** The same check when a failure is no reason to refuse: the approvers see a warning. */
export function asWarning(judged: Check, next = judged.next): Check {
  return judged.verdict === 'fail' ? { ...judged, verdict: 'warn', ...(next !== undefined && { next }) } : judged;
}

export function refuses(checks: readonly Check[]): boolean {
  return checks.some(({ verdict }) => verdict === 'fail');
}

/**
 * Applies the checks right before a call: the first one that fails refuses the call.
 *
 * @param consequence - what was not done, such as `east was not demoted`
 * @param retryable - what was read may be temporary, such as the role of a node that restarts
 */
export function demand(checks: readonly Check[], consequence: string, retryable = false): void {
  const failed = checks.find(({ verdict }) => verdict === 'fail');
  if (failed === undefined) return;
  const { name, cluster, observed, needed, next } = failed;
  const where = cluster === undefined ? '' : ` (${cluster})`;
  const message = `${consequence}: "${name}"${where} does not hold.`;
  throw new RunbookError('PRECONDITION_FAILED', message, { cluster, observed, needed, next, retryable });
}
