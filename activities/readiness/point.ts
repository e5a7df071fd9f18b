import type { Check } from '../../src/contracts/plan';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import { isRunbookError } from '../../src/errors';
import { redact } from '../../src/keys';
import { asWarning, notCheckable } from '../checks/check';
import type { Part } from './topology';

export const QUESTIONS = ['switchover', 'failover'] as const;
type Question = (typeof QUESTIONS)[number];

/** A check with the question that it concerns: both where it names none. */
export type Judged = Check & Partial<Pick<ReadinessPoint, 'unread'>> & { readonly about?: Question };

/** The same checks for one question alone. */
export function concerning(about: Question, checks: readonly Judged[]): Judged[] {
  return checks.map((each) => ({ ...each, about }));
}

/** What a defect of a cluster stops, by its part. The primary of a failover is gone anyway. */
export function stops(part: Part, judged: Check): Judged {
  if (part === 'other') return asWarning(judged);
  return part === 'secondary' ? judged : { ...judged, about: 'switchover' };
}

const BADNESS: Readonly<Record<Check['verdict'], number>> = { ok: 0, 'not-checkable': 1, warn: 2, fail: 3 };

export function isWorse(verdict: Check['verdict'], before: Check['verdict']): boolean {
  return BADNESS[verdict] > BADNESS[before];
}

/**
 * The points of checks. Several plans make the same check of one cluster: the worst counts. A point whose verdict is the same
 * for both questions is told once.
 */
export function pointsOf(judged: readonly Judged[]): ReadinessPoint[] {
  const worst = new Map<string, ReadinessPoint>();
  for (const each of judged) {
    for (const about of each.about === undefined ? QUESTIONS : [each.about]) {
      const point = pointOf(each, about);
      const known = worst.get(keyOf(point));
      if (known === undefined || isWorse(point.verdict, known.verdict)) worst.set(keyOf(point), point);
    }
  }
  return [...worst.values()].flatMap((point) => {
    const [twin] = QUESTIONS.flatMap((about) =>
      about === point.about ? [] : (worst.get(keyOf({ ...point, about })) ?? []),
    );
    if (twin?.verdict !== point.verdict) return [point];
    return point.about === 'switchover' ? [{ ...point, about: 'both' }] : [];
  });
}

function keyOf({ id, cluster, about }: Pick<ReadinessPoint, 'id' | 'cluster' | 'about'>): string {
  return `${id} ${cluster ?? ''} ${about}`;
}

function pointOf({ name, observed, ...judged }: Judged, about: Question): ReadinessPoint {
  const id = name.toLowerCase().replaceAll(/[^a-z0-9.]+/g, '-');
  return { id, ...judged, about, observed: redact(observed) };
}

/** What one reading may take, ms. All of them run at the same time. */
const READING_MS = 8_000;

/** Why something was not read, in words that may be told. */
export class NotRead extends Error {}

/** @throws {NotRead} of what takes too long, also where `read` does not heed its signal; what `read` throws; the reason of the caller's signal */
export async function within<T>(
  signal: AbortSignal,
  read: (signal: AbortSignal) => Promise<T>,
  limitMs: number = READING_MS,
): Promise<T> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
  const tooSlow = new NotRead(`no answer within ${limitMs / 1_000} s`);
  const ended = new Promise<never>((_, reject) => {
    limited.addEventListener('abort', () => reject(tooSlow), { once: true });
  });
  try {
    return await Promise.race([read(limited), ended]);
  } catch (error) {
    signal.throwIfAborted();
    throw limited.aborted ? tooSlow : error;
  }
}

/** It could be known, and was not this time: never taken for good. */
export function unread({ name, cluster, needed }: Asked, why: string): Judged {
  // The checks of the nodes tell the error in full; here its code is enough.
  const short = /^[A-Z][A-Z_]+(?=: )/.exec(why)?.[0] ?? why;
  return { ...notCheckable(name, cluster, { observed: `could not be read: ${short}`, needed }), unread: true };
}

type Asked = Pick<Check, 'name' | 'cluster' | 'needed'>;

/** What one reading shows. One that fails or takes too long is a check that says so with the code of the error: never nothing, and never `ok`. */
export async function readChecks(
  signal: AbortSignal,
  asked: Asked,
  read: (signal: AbortSignal) => Promise<Judged | readonly Judged[]>,
): Promise<Judged[]> {
  try {
    return [await within(signal, read)].flat();
  } catch (error) {
    if (signal.aborted) throw error;
    return [unread(asked, codeOf(error))];
  }
}

/** What an error may be told as: a code of the family, or the name of a defect; never its text. */
export function codeOf(error: unknown): string {
  if (error instanceof NotRead) return error.message;
  if (isRunbookError(error)) return error.code;
  return `INTERNAL (${error instanceof Error ? error.name : 'unknown'})`;
}
