import type { Check } from '../../src/contracts/plan';
import type { PointVerdict, ReadinessPoint } from '../../src/contracts/readiness';
import { isRunbookError } from '../../src/errors';
import { redact } from '../../src/keys';

/** What one point of readiness asks. */
export interface Question {
  /** Stable, kebab case. */
  readonly id: string;
  readonly cluster?: string | undefined;
  /** How the answer is known; `api` where nothing is said. */
  readonly source?: ReadinessPoint['source'];
  readonly needed: string;
  /** Who can do what, where the answer is not good. */
  readonly next?: string | undefined;
}

/** One verdict for switchover and failover, or one for each; what is left out is not concerned. */
export type Verdicts =
  PointVerdict | { readonly switchover?: PointVerdict | undefined; readonly failover?: PointVerdict | undefined };

/** A question with what an answer to it means. */
export interface Asked<T = void> extends Question {
  readonly judge: (found: T) => Answer | readonly Answer[];
}

/** What an answer means. Reason, source and next stand before those of the question. */
export interface Answer {
  readonly verdicts: Verdicts;
  readonly observed: string;
  readonly reason?: string | undefined;
  readonly next?: string | undefined;
  readonly source?: ReadinessPoint['source'];
}

type More = Omit<Answer, 'verdicts' | 'observed'>;

export function answer(verdicts: Verdicts, observed: string, more: More = {}): Answer {
  return { verdicts, observed, ...more };
}

/** `ok` where it holds, else the given verdicts; what is concerned by none of them is concerned by neither. */
export function holds(good: boolean, otherwise: Verdicts, observed: string, more: More = {}): Answer {
  if (!good) return { verdicts: otherwise, observed, ...more };
  const { switchover, failover } = eachOf(otherwise);
  const verdicts: Verdicts =
    typeof otherwise === 'string' ? 'ok' : { switchover: switchover && 'ok', failover: failover && 'ok' };
  return { verdicts, observed, ...more, reason: undefined };
}

/** It cannot be known beforehand at all. Counts neither for nor against. */
export function unknowable(reason: string): Answer {
  return { verdicts: 'not-checkable', observed: 'not checkable', reason, source: 'not-checkable' };
}

/** It could be known, and was not this time: never taken for good. */
export function unread(code: string): Answer {
  // The points about the nodes tell the error in full; here its code is enough.
  const short = /^[A-Z][A-Z_]+(?=: )/.exec(code)?.[0] ?? code;
  return { verdicts: 'not-checkable', observed: `could not be read: ${short}` };
}

/** A check that plans make too; `notRead` says why it could not be made. */
export function checked(id: string, check: Check, otherwise: Verdicts, notRead?: string): ReadinessPoint[] {
  const { verdict, observed } = check;
  const answered = notRead === undefined ? holds(verdict === 'ok', otherwise, observed) : unread(notRead);
  return pointsOf({ id, ...check }, answered);
}

/** The points of questions whose facts are at hand. */
export function judged(...asked: readonly Asked[]): ReadinessPoint[] {
  return asked.flatMap((each) => [each.judge()].flat().flatMap((answered) => pointsOf(each, answered)));
}

/** The points of one question: two where switchover and failover are judged differently. */
export function pointsOf(question: Question, { verdicts, observed, reason, next, source }: Answer): ReadinessPoint[] {
  const { switchover, failover } = eachOf(verdicts);
  const todo = next ?? question.next;
  const make = (about: ReadinessPoint['about'], verdict: PointVerdict): ReadinessPoint => ({
    id: question.id,
    about,
    ...(question.cluster !== undefined && { cluster: question.cluster }),
    verdict,
    source: source ?? question.source ?? 'api',
    observed: redact(observed),
    needed: question.needed,
    ...(reason !== undefined && { reason: redact(reason) }),
    // Of what is not known nobody can say what to do about it.
    ...((verdict === 'fail' || verdict === 'warn') && todo !== undefined && { next: todo }),
  });
  if (switchover !== undefined && switchover === failover) return [make('both', switchover)];
  return [
    ...(switchover === undefined ? [] : [make('switchover', switchover)]),
    ...(failover === undefined ? [] : [make('failover', failover)]),
  ];
}

function eachOf(verdicts: Verdicts): Exclude<Verdicts, PointVerdict> {
  return typeof verdicts === 'string' ? { switchover: verdicts, failover: verdicts } : verdicts;
}

/** What one reading may take, ms. All of them run at the same time. */
const POINT_MS = 8_000;

/** Why something was not read, in words that may be told. */
export class NotRead extends Error {}

/** @throws {NotRead} of what takes too long, also where `read` does not heed its signal; what `read` throws; the reason of the caller's signal */
export async function within<T>(
  signal: AbortSignal,
  read: (signal: AbortSignal) => Promise<T>,
  limitMs: number = POINT_MS,
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

/**
 * The points of questions that one reading answers, begun here or under way. One that fails or takes too long gives
 * `not-checkable` points with the code of the error: never nothing, and never `ok`.
 */
export async function readPoints<T>(
  signal: AbortSignal,
  read: Promise<T> | ((signal: AbortSignal) => Promise<T>),
  ...asked: readonly Asked<T>[]
): Promise<ReadinessPoint[]> {
  const reading = typeof read === 'function' ? within(signal, read) : read;
  // Nobody may ask anything of it.
  reading.catch(() => undefined);
  const points = asked.map(async (each) => {
    try {
      const found = await reading;
      return judged({ ...each, judge: () => each.judge(found) });
    } catch (error) {
      if (signal.aborted) throw error;
      return pointsOf(each, unread(codeOf(error)));
    }
  });
  return (await Promise.all(points)).flat();
}

/** What an error may be told as: a code of the family, or the name of a defect; never its text. */
export function codeOf(error: unknown): string {
  if (error instanceof NotRead) return error.message;
  if (isRunbookError(error)) return error.code;
  return `INTERNAL (${error instanceof Error ? error.name : 'unknown'})`;
}
