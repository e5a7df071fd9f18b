import type { CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { inParallel } from './parallel';
import type { Choice } from './parking';
import type { Run } from './run';
import type { TokenCeremony } from './token-ceremony';

/**
 * The tokens for DR operations that one run needs: from the prepared batch token, or made by the ceremony when they are
 * needed, one per cluster. What was made is deleted at the end, on every path.
 */
export class OperationTokens {
  readonly #run: Run;
  readonly #deployment: string;
  readonly #targets: readonly CeremonyTarget[];
  /** Absent where the batch token is the source. */
  readonly ceremony: TokenCeremony | undefined;
  readonly #made = new Map<string, OperationTokenReference>();
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

  /**
   * The token for a cluster; made by one burst the first time, without asking anyone again.
   *
   * @param choices - beside `retry`, where the burst parks
   */
  async of(cluster: string, choices?: readonly Choice[]): Promise<OperationTokenReference> {
    const token = await this.#take(cluster, choices, undefined);
    if (!token) throw new TypeError('a token that cannot be skipped was skipped');
    return token;
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
    if (held) return held;
    const token = await this.ceremony.generate(cluster, this.#usesOn(cluster), { choices, skipEffect });
    if (token) {
      this.#made.set(cluster, token);
      this.#disposed = false;
    }
    return token;
  }

  /** Deletes what was made and proves it; destroys the keys meanwhile, which deletion does not need. */
  async dispose(): Promise<void> {
    await this.ceremony?.stopHandIns();
    await inParallel([this.#delete(), this.ceremony?.close() ?? Promise.resolve()]);
  }

  async #delete(): Promise<void> {
    // Also with none of its own: an earlier run may have left tokens that can be deleted now.
    const tokens = this.#ours();
    const result = await this.#run.skippableStep(
      'Delete the operation tokens',
      'tokens without a lifetime stay alive; the ledger keeps them for the next run',
      (call) => call.deleteOperationTokens({ deployment: this.#deployment, tokens }),
      { note: (done) => done.disposals.map((each) => `${each.cluster}: ${each.state}`).join(', ') },
    );
    this.#run.state.noteFindings(result?.findings);
    this.#made.clear();
    this.#disposed = true;
  }

  /** For a run that ends early: the same, but a failure becomes a finding. */
  async #abandon(): Promise<void> {
    if (!this.#disposed) {
      await this.ceremony?.stopHandIns();
      // Also with none of its own, as at the end of a run that was not stopped.
      const tokens = this.#ours();
      this.#made.clear();
      await this.#run.cleanUp('Delete the operation tokens', async (call) => {
        const { findings } = await call.deleteOperationTokens({ deployment: this.#deployment, tokens });
        this.#run.state.noteFindings(findings);
      });
    }
    await this.ceremony?.abandon();
  }

  /** What was made, and what people handed in beside it. */
  #ours(): OperationTokenReference[] {
    return [...this.#made.values(), ...(this.ceremony?.spare ?? [])];
  }

  #usesOn(cluster: string): readonly TokenUse[] {
    return this.#targets.find((target) => target.cluster === cluster)?.uses ?? [];
  }
}
