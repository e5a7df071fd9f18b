import { CancellationScope } from '@temporalio/workflow';
import type { DirectAttempt, DirectAttemptSeen } from '../../src/contracts/activities';
import { stepCalls } from './activity-calls';
import { failureFacts } from './failures';
import type { Run } from './run';

/** One look ends after this time at the latest and begins anew. */
const LOOK_MS = 5 * 3_600_000;

/** An attempt of ours, on a cluster. */
export interface WatchedAttempt {
  readonly deployment: string;
  readonly cluster: string;
  readonly attempt: DirectAttempt;
  /** Nonces of earlier attempts of this ceremony on this cluster; new ones are added. */
  readonly nonces: Set<string>;
}

/**
 * Looks at an attempt while people give their shares to it, in the background: progress, shares that were rejected, an
 * old attempt of ours that came back. Ends where the attempt is gone or somebody else's is in its place.
 */
export class DirectWatch {
  readonly #run: Run;
  readonly #deployment: string;
  readonly #cluster: string;
  readonly #scope = new CancellationScope({ cancellable: true });
  readonly #changed: (attempt: DirectAttempt) => void;
  readonly #nonces: Set<string>;
  attempt: DirectAttempt;
  /** How the attempt ended, once it did. */
  ended: DirectAttemptSeen | undefined;
  /** Thrown by what looked: a defect. */
  #defect: unknown;
  #stopped = false;

  constructor(
    run: Run,
    { deployment, cluster, attempt, nonces }: WatchedAttempt,
    changed: (attempt: DirectAttempt) => void,
  ) {
    this.#run = run;
    this.#deployment = deployment;
    this.#cluster = cluster;
    this.attempt = attempt;
    this.#nonces = nonces.add(attempt.nonce);
    this.#changed = changed;
    void this.#scope
      .run(() => this.#look())
      .catch((error: unknown) => {
        if (!this.#stopped) this.#defect = error;
      });
  }

  /** Whether the main part must look at it. */
  get needsAttention(): boolean {
    return this.ended !== undefined || this.#defect !== undefined;
  }

  throwDefect(): void {
    if (this.#defect === undefined) return;
    throw this.#defect instanceof Error ? this.#defect : new TypeError('the attempt cannot be followed');
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#scope.cancel();
  }

  async #look(): Promise<void> {
    const name = `Key shares entered on ${this.#cluster}`;
    const call = stepCalls(name, () => this.#run.state.sideContext(name));
    while (!this.#stopped) {
      const { kind, nonce, fingerprint, progress, address, seenAt } = this.attempt;
      let seen: DirectAttemptSeen;
      try {
        seen = await call.followDirectAttempt({
          ...{
            deployment: this.#deployment,
            cluster: this.#cluster,
            kind,
            nonce,
            fingerprint,
            progress,
            address,
            seenAt,
          },
          earlier: [...this.#nonces],
          budgetMs: LOOK_MS,
        });
      } catch (error) {
        const failure = failureFacts(error);
        if (!failure || this.#stopped) throw error;
        this.#finding(
          'progress-not-followed',
          `The attempt on ${this.#cluster} cannot be followed (${failure.code}); the encoded token is taken all the same.`,
        );
        return;
      }
      if (this.#stopped) return;
      if (seen.seen === 'gone' || seen.seen === 'foreign') {
        this.ended = seen;
        return;
      }
      this.#tell(seen);
    }
  }

  #tell(seen: DirectAttemptSeen): void {
    const cluster = this.#cluster;
    if (seen.seen === 'rejected') {
      this.#finding(
        'shares-rejected',
        `${cluster} rejected the key shares at the threshold: at least one is not of its key. None counts any more.`,
        'Every holder enters his share again, with the same nonce; who gave it with a typing error corrects it, or another holder takes his place.',
      );
    } else if (seen.seen === 'reappeared') {
      this.#nonces.add(seen.nonce);
      this.#finding(
        'attempt-reappeared',
        `An earlier attempt of this run is back on ${cluster}, as it happens when a former leader leads again: ${seen.progress} of ${seen.required} key shares count in it, and those given to the other attempt are lost.`,
        `The nonce is ${seen.nonce} from now on. A share that counts already is refused as a duplicate, which does no harm.`,
      );
    }
    const { seenAt } = seen;
    this.attempt = { ...this.attempt, seenAt };
    if (seen.seen === 'unchanged') return;
    const { nonce, progress, required, address } = seen;
    this.attempt = { ...this.attempt, nonce, progress, required, address };
    this.#changed(this.attempt);
  }

  #finding(code: string, text: string, next?: string): void {
    this.#run.state.finding({ severity: 'warning', code, text, ...(next === undefined ? {} : { next }) });
  }
}
