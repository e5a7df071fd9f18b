import { RunbookError } from '../../src/errors';

/** So many at once of one run, and one more each minute. */
const MOST_AT_ONCE = 30;
const ONE_MORE_MS = 60_000;
const MOST_RUNS = 1_000;

/**
 * Bounds how much one run tells through this worker. Whoever writes to the namespace can start further runs: each is
 * bounded, not all of them together, or a flood of theirs would silence the alarms of the others.
 */
export class NotificationBound {
  readonly #told = new Map<string, { readonly count: number; readonly at: number }>();

  /** @throws RunbookError PRECONDITION_FAILED where this run told too much */
  take(runId: string): void {
    const now = performance.now();
    const before = this.#told.get(runId);
    const freed = before === undefined ? 0 : Math.floor((now - before.at) / ONE_MORE_MS);
    const count = Math.max(0, (before?.count ?? 0) - freed);
    if (count >= MOST_AT_ONCE)
      throw new RunbookError('PRECONDITION_FAILED', 'This run told too much in a short time; nobody was told this.', {
        observed: `${count} notifications`,
        needed: `fewer than ${MOST_AT_ONCE}, of which one is forgotten each minute`,
        next: 'Look at the run itself.',
      });
    // Put anew, so that the first of the map is the one that told nothing for longest.
    this.#told.delete(runId);
    this.#told.set(runId, { count: count + 1, at: before === undefined ? now : before.at + freed * ONE_MORE_MS });
    const [oldest] = this.#told.keys();
    if (this.#told.size > MOST_RUNS && oldest !== undefined) this.#told.delete(oldest);
  }
}
