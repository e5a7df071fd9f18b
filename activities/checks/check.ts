import type { Check } from '../../src/contracts/plan';

/** What was observed against what is needed; `next` is told only where it does not hold. */
export function check(
  name: string,
  cluster: string | undefined,
  good: boolean,
  observed: string,
  needed: string,
  next?: string,
  otherwise: 'fail' | 'warn' = 'fail',
): Check {
  return {
    name,
    ...(cluster === undefined ? {} : { cluster }),
    observed,
    needed,
    verdict: good ? 'ok' : otherwise,
    ...(good || next === undefined ? {} : { next }),
  };
}

/** What cannot be known beforehand: nobody is held back by it, and the approvers see it. */
export function notCheckable(
  name: string,
  cluster: string | undefined,
  observed: string,
  needed: string,
  next?: string,
): Check {
  return { ...check(name, cluster, false, observed, needed, next), verdict: 'not-checkable' };
}

/** The same check where a defect is no reason to refuse: the approvers see it. */
export function asWarning(judged: Check, next = judged.next): Check {
  return judged.verdict === 'fail' ? { ...judged, verdict: 'warn', ...(next !== undefined && { next }) } : judged;
}

export function refuses(checks: readonly Check[]): boolean {
  return checks.some(({ verdict }) => verdict === 'fail');
}
