import type { CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { inParallel } from '../engine/parallel';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';
import type { TokenCeremony } from './token-ceremony';

/** A sealed token opens for 24 h. An older one than this is kept for its deletion alone, and another one is made. */
const USED_FOR_MS = 23 * 3_600_000;

interface Made {
  readonly token: OperationTokenReference;
  /** Epoch milliseconds. */
  readonly at: number;
}

/**
 * The tokens for DR operations that one run needs: from the prepared batch token, or made by the ceremony when they are
 * needed, or provided by people, one per cluster. What was made is deleted at the end, on every path.
 */
export class OperationTokens {
  readonly #run: Run;
  readonly #deployment: string;
  readonly #targets: readonly CeremonyTarget[];
  /** Absent where the batch token is the source. */
  readonly ceremony: TokenCeremony | undefined;
  readonly #made = new Map<string, Made>();
  /** Grown too old to be used, and still alive. */
  #old: OperationTokenReference[] = [];
  /** Nothing was made since the ledger was worked through. */
  #disposed = false;

  constructor(run: Run, deployment: string, targets: readonly CeremonyTarget[], ceremony: TokenCeremony | undefined) {
    this.#run = run;
    this.#deployment = deployment;
    this.#targets = targets;
    this.ceremony = ceremony;
    run.tokens = this;
    run.onEnd(() => this.#abandon());
  }

  /** Whether a token for these uses can be had without asking anyone. */
  covers(target: CeremonyTarget): boolean {
    return this.ceremony === undefined || this.ceremony.covers(target);
  }

  /** Whether the tokens that were not made yet can be had for so long without asking anyone again, ms. */
  lastsFor(ms: number): boolean {
    return this.ceremony?.lastsFor(ms) ?? true;
  }

  /**
   * The token for a cluster; made by one burst the first time, without asking anyone again. Called anew right before each
   * use: another one is made where what was made may not open any more.
   *
   * @param choices - beside `retry`, where the burst parks
   */
  async of(cluster: string, choices?: readonly Choice[]): Promise<OperationTokenReference> {
    const token = await this.#take(cluster, choices, undefined);
    if (!token) throw new TypeError('a token that cannot be skipped was skipped');
    return token;
  }

  /** As {@link of}, and the cluster takes it: what people provided is proven by a read, until one is taken. */
  async proven(cluster: string): Promise<void> {
    for (;;) {
      await this.of(cluster);
      if (!this.ceremony || (await this.ceremony.takes(cluster))) return;
      this.#made.delete(cluster);
    }
  }

  /** As {@link of}, but people may skip it; `undefined` then. `effect` says what skipping leaves behind. */
  async ofUnlessSkipped(cluster: string, effect: string): Promise<OperationTokenReference | undefined> {
    return this.#take(cluster, undefined, effect);
  }

  async #take(
    cluster: string,
    choices: readonly Choice[] | undefined,
    skipEffect: string | undefined,
  ): Promise<OperationTokenReference | undefined> {
    if (!this.ceremony) return { source: 'batch', cluster };
    const held = this.#made.get(cluster);
    if (held && Date.now() - held.at < USED_FOR_MS && this.ceremony.isCurrent(held.token)) return held.token;
    const token = await this.ceremony.generate(cluster, this.#usesOn(cluster), { choices, skipEffect });
    if (!token) return undefined;
    if (held) this.#old.push(held.token);
    this.#made.set(cluster, { token, at: Date.now() });
    this.#disposed = false;
    return token;
  }

  /** Deletes what was made and proves it; destroys the keys meanwhile, which deletion does not need. */
  async dispose(): Promise<void> {
    await inParallel([this.#delete(), this.ceremony?.close() ?? Promise.resolve()]);
  }

  async #delete(): Promise<void> {
    // Also with none of its own: an earlier run may have left tokens that can be deleted now.
    const tokens = this.#ours();
    await this.#run.skippableStep(
      'Delete the operation tokens',
      'tokens without a lifetime stay alive; the ledger keeps them for the next run',
      (call) => call.deleteOperationTokens({ deployment: this.#deployment, tokens }),
      { note: (done) => done.disposals.map((each) => `${each.cluster}: ${each.state}`).join(', ') },
    );
    this.#forget();
    this.#disposed = true;
  }

  /** For a run that ends early: the same, but a failure becomes a finding. */
  async #abandon(): Promise<void> {
    if (!this.#disposed) {
      // Also with none of its own, as at the end of a run that was not stopped.
      const tokens = this.#ours();
      this.#forget();
      await this.#run.cleanUp('Delete the operation tokens', async (call) => {
        await call.deleteOperationTokens({ deployment: this.#deployment, tokens });
      });
    }
    await this.ceremony?.abandon();
  }

  #ours(): OperationTokenReference[] {
    return [...this.#old, ...[...this.#made.values()].map(({ token }) => token)];
  }

  #forget(): void {
    this.#made.clear();
    this.#old = [];
  }

  #usesOn(cluster: string): readonly TokenUse[] {
    return this.#targets.find((target) => target.cluster === cluster)?.uses ?? [];
  }
}
