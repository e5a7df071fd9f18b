import type { PointVerdict, ReadinessAbout, ReadinessPoint, ReadinessSource } from '../../src/contracts/readiness';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import { isRunbookError } from '../../src/errors';
import { redact } from '../../src/keys';

/** One thing to look at, before it was looked at. */
export interface Question {
  /** Stable, kebab case. */
  readonly id: string;
  readonly cluster?: string;
  readonly source: ReadinessSource;
  readonly needed: string;
  /** Who can do what, where the answer is not good. */
  readonly next?: string;
}

/** One verdict for both, or one for each; a question left out is not concerned. */
export type Verdicts =
  PointVerdict | { readonly switchover?: PointVerdict | undefined; readonly failover?: PointVerdict | undefined };

/** The points of one question. Two where switchover and failover are judged differently. Pure. */
export function judged(
  question: Question,
  verdicts: Verdicts,
  observed: string,
  more: { readonly reason?: string | undefined; readonly next?: string; readonly source?: ReadinessSource } = {},
): ReadinessPoint[] {
  const { switchover, failover } =
    typeof verdicts === 'string' ? { switchover: verdicts, failover: verdicts } : verdicts;
  const make = (about: ReadinessAbout, verdict: PointVerdict): ReadinessPoint => {
    const next = more.next ?? question.next;
    return {
      id: question.id,
      about,
      ...(question.cluster === undefined ? {} : { cluster: question.cluster }),
      verdict,
      source: more.source ?? question.source,
      observed: redact(observed),
      needed: question.needed,
      ...(more.reason === undefined ? {} : { reason: redact(more.reason) }),
      // Of what is not known nobody can say what to do about it.
      ...((verdict === 'fail' || verdict === 'warn') && next !== undefined ? { next } : {}),
    };
  };
  if (switchover !== undefined && switchover === failover) return [make('both', switchover)];
  return [
    ...(switchover === undefined ? [] : [make('switchover', switchover)]),
    ...(failover === undefined ? [] : [make('failover', failover)]),
  ];
}

/** `ok` where it holds, else the given verdicts; what is concerned by none of them is concerned by neither. */
export function holds(
  question: Question,
  good: boolean,
  otherwise: Verdicts,
  observed: string,
  more: { readonly reason?: string | undefined; readonly next?: string; readonly source?: ReadinessSource } = {},
): ReadinessPoint[] {
  if (!good) return judged(question, otherwise, observed, more);
  const concerned =
    typeof otherwise === 'string'
      ? 'ok'
      : {
          switchover: otherwise.switchover && ('ok' as const),
          failover: otherwise.failover && ('ok' as const),
        };
  return judged(question, concerned, observed, { ...more, reason: undefined });
}

/** A check of a plan as a question of readiness. */
export function questionOf(id: string, { cluster, needed, next }: Check, source: ReadinessSource = 'api'): Question {
  return { id, source, needed, ...(cluster === undefined ? {} : { cluster }), ...(next === undefined ? {} : { next }) };
}

/** The points of a check that plans make too: what a defect means for the two questions is said here. */
export function pointOf(id: string, check: Check, otherwise: Verdicts, reason?: string): ReadinessPoint[] {
  return holds(questionOf(id, check), check.verdict === 'ok', otherwise, check.observed, { reason });
}

/** As {@link pointOf}, of a cluster that may not have been read. */
export function pointOfView(
  { observation }: { readonly observation: Pick<ClusterObservation, 'reachable' | 'error'> },
  id: string,
  check: Check,
  otherwise: Verdicts,
): ReadinessPoint[] {
  if (observation.reachable) return pointOf(id, check, otherwise);
  return unread(questionOf(id, check), observation.error ?? 'no answer');
}

/** It cannot be known beforehand at all. Counts neither for nor against. */
export function notCheckable(question: Question, reason: string): ReadinessPoint[] {
  return judged(question, 'not-checkable', 'not checkable', { reason, source: 'not-checkable' });
}

/** It could be known, and was not this time: never taken for good. */
export function unread(question: Question, code: string, reason?: string): ReadinessPoint[] {
  // The points about the nodes tell the error in full; here its code is enough.
  const short = /^[A-Z][A-Z_]+(?=: )/.exec(code)?.[0] ?? code;
  return judged(question, 'not-checkable', `could not be read: ${short}`, reason === undefined ? {} : { reason });
}

/** What an error may be told as: a code of the family, or the name of a defect; never its text. */
export function codeOf(error: unknown): string {
  if (isRunbookError(error)) return error.code;
  return `INTERNAL (${error instanceof Error ? error.name : 'unknown'})`;
}
