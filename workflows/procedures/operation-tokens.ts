import type { Authority } from '../../src/contracts/activities';
import type { CeremonyTarget, KeptToken, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { FailureFacts } from '../engine/failures';
import { StepFailed, inParallel } from '../engine/failures';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';
import type { CeremonyRequest, PeoplesTokens } from './collection';
import { USED_FOR_MS } from './collection';
import { ProvidedTokens } from './provided-tokens';
import { TokenCeremony } from './token-ceremony';

/** How it ends where the batch token cannot be read, or has ended in the record: nothing was sent with it. */
const NOT_IN_HAND = ['SEALED_VALUE_INVALID', 'CREDENTIAL_UNAVAILABLE', 'TOKEN_SOURCE_UNAVAILABLE'];

/** Asks people for operation tokens: for key shares that make them, or for the tokens themselves. */
export function tokensFromPeople(run: Run, source: PeoplesTokens['source'], request: CeremonyRequest): PeoplesTokens {
  return source === 'provided' ? new ProvidedTokens(run, request) : new TokenCeremony(run, request);
}

interface Made {
  readonly token: OperationTokenReference;
  /** Epoch milliseconds. */
  readonly at: number;
}

const TOKENS = new WeakMap<Run, OperationTokens>();

/** The tokens of a run, and the key shares that make more of them: a failover that takes the run over goes on with them. */
export function tokensHeldBy(run: Run): OperationTokens | undefined {
  return TOKENS.get(run);
}

/**
 * The tokens for DR operations that one run needs: from the prepared batch token, or made by the ceremony when they are
 * needed, or provided by people, one per cluster. What was made is deleted at the end, on every path.
 */
export class OperationTokens {
  #ceremony: PeoplesTokens | undefined;
  /** Those that the record keeps for this run, by cluster. */
  readonly #kept: Map<string, KeptToken>;
  #authority: Authority | undefined;
  readonly #made = new Map<string, Made>();
  /** Grown too old to be used, and still alive. */
  #old: OperationTokenReference[] = [];
  /** Nothing was made since the record was worked through. */
  #disposed = false;

  /** @param askInstead - asks the key holders, where a cluster refuses the batch token or a kept one */
  constructor(
    private readonly run: Run,
    private readonly deployment: string,
    private readonly targets: readonly CeremonyTarget[],
    ceremony: PeoplesTokens | undefined,
    private readonly askInstead: () => PeoplesTokens,
    kept: readonly KeptToken[],
  ) {
    this.#ceremony = ceremony;
    this.#kept = new Map(kept.map((each) => [each.cluster, each]));
    TOKENS.set(run, this);
    run.onEnd(() => this.#abandon());
  }

  /** Absent where the batch token is the source. */
  get ceremony(): PeoplesTokens | undefined {
    return this.#ceremony;
  }

  /** What people approved: a token that the record keeps is given to it alone. */
  authorise(authority: Authority): void {
    this.#authority = authority;
  }

  /**
   * Whether a batch token, or one that the record kept, was refused for certain, or a batch token cannot be had any more,
   * and the key holders can be asked instead.
   */
  canReplace(cluster: string, { code, outcomeKnown }: FailureFacts): boolean {
    const isKept = this.#kept.has(cluster);
    if (!outcomeKnown || (this.#ceremony && !isKept)) return false;
    // A kept token that does not open here may be alive: its step says how it opens again.
    return code === 'PERMISSION_DENIED' || (!isKept && NOT_IN_HAND.includes(code));
  }

  /**
   * What was proven of a token that {@link canReplace} does not hold: it is used no more. The key holders are waited for.
   *
   * @param choices - what people may decide meanwhile, inside an outage
   * @returns whether another token can be had now
   */
  async replaceRefused(cluster: string, failure: FailureFacts, choices?: readonly Choice[]): Promise<boolean> {
    if (!this.canReplace(cluster, failure)) return false;
    await this.#askHolders(cluster, failure.message, choices);
    return true;
  }

  async #askHolders(cluster: string, why: string, choices?: readonly Choice[]): Promise<PeoplesTokens> {
    const kept = this.#kept.delete(cluster);
    this.run.state.finding({
      severity: 'warning',
      code: kept ? 'kept-token-refused' : 'batch-token-refused',
      text: `${kept ? `The operation token of ${cluster} that the record kept cannot be used` : `The batch token of ${cluster} cannot be used`}: ${why.replace(/\.$/, '')}. The key holders are asked instead.`,
      next: kept
        ? 'Nothing was changed by it.'
        : 'Nothing was changed by it. Look at its policy and its rotation afterwards.',
    });
    this.#made.delete(cluster);
    const before = this.#ceremony;
    this.#ceremony = undefined;
    const people = this.askInstead();
    if (before) {
      // Nobody waits for the host of those keys, which may be dead: clients may be out. What is left of it, the end does.
      const abandoned = before.abandon().catch(() => undefined);
      this.run.onEnd(async () => {
        await abandoned;
        await before.abandon();
      });
    }
    await people.ready(choices);
    // Not before they are invited: people may choose the way back there, which goes on without them.
    this.#ceremony = people;
    await people.collect(cluster, choices);
    return people;
  }

  /** Takes a token that the record keeps for this run; undefined where it does not, and the key holders were asked. */
  async #takeKept(
    { cluster, entry }: KeptToken,
    choices: readonly Choice[] | undefined,
  ): Promise<OperationTokenReference | undefined> {
    const authority = this.#authority;
    if (!authority) throw new TypeError('nobody approved this run yet');
    const isGone = ({ code, outcomeKnown }: FailureFacts) => outcomeKnown && code === 'PRECONDITION_FAILED';
    try {
      const { token: value } = await this.run.step(
        `Claim the kept operation token of ${cluster}`,
        (call) => call.takeKeptToken({ deployment: this.deployment, cluster, entry, authority }),
        {
          ...(choices && { choices }),
          onFailure: (failure) => (isGone(failure) ? 'throw' : 'park'),
        },
      );
      return this.#madeNow(cluster, { source: 'sealed', cluster, value });
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error;
      const { message, observed } = error.failure;
      await this.#askHolders(cluster, observed === undefined ? message : `${message} Observed: ${observed}`, choices);
      return undefined;
    }
  }

  #madeNow(cluster: string, token: OperationTokenReference): OperationTokenReference {
    this.#made.set(cluster, { token, at: Date.now() });
    this.#disposed = false;
    return token;
  }

  /** Whether its cluster takes a kept token: another generation, or people, may have ended it. */
  async #keptIsAlive(cluster: string, token: OperationTokenReference): Promise<boolean> {
    const { state, text } = await this.run.step(`Verify the operation token of ${cluster}`, (call) =>
      call.probeProvidedToken({ deployment: this.deployment, cluster, token }),
    );
    if (state === 'refused') await this.#askHolders(cluster, text);
    return state !== 'refused';
  }

  /** Whether a token for these uses can be had without asking anyone. */
  covers(target: CeremonyTarget): boolean {
    return this.#kept.has(target.cluster) || (this.ceremony?.covers(target) ?? this.#kept.size === 0);
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
      const token = await this.of(cluster);
      const kept = this.#kept.has(cluster) && this.#keptIsAlive(cluster, token);
      if (kept ? await kept : !this.ceremony || (await this.ceremony.takes(cluster))) return;
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
    const held = this.#made.get(cluster);
    const isCurrent = held && Date.now() - held.at < USED_FOR_MS && (this.#ceremony?.isCurrent(held.token) ?? true);
    if (isCurrent) return held.token;
    const kept = held ? undefined : this.#kept.get(cluster);
    const taken = kept && (await this.#takeKept(kept, choices));
    if (taken) return taken;
    if (!this.#ceremony && this.#kept.size === 0) return { source: 'batch', cluster };
    // Who was asked for other clusters was not asked for the one whose kept token grew too old.
    const asked = this.#kept.has(cluster) ? undefined : this.#ceremony;
    const people = asked ?? (await this.#askHolders(cluster, 'it is too old', choices));
    // Those of whom nobody waited for the shares yet.
    if (people.source === 'ceremony') await people.collect(cluster, choices);
    const token = await people.generate(cluster, this.#usesOn(cluster), { choices, skipEffect });
    if (!token) return undefined;
    if (held) this.#old.push(held.token);
    return this.#madeNow(cluster, token);
  }

  /** Deletes what was made and proves it; destroys the keys meanwhile, which deletion does not need. */
  async dispose(): Promise<void> {
    await inParallel([this.#delete(), this.ceremony?.close()]);
  }

  async #delete(): Promise<void> {
    // Also with none of its own: an earlier run may have left tokens that can be deleted now.
    const tokens = this.#ours();
    await this.run.skippableStep(
      'Delete the operation tokens',
      'tokens without a lifetime stay alive; the record keeps them for the next run',
      (call) => call.deleteOperationTokens({ deployment: this.deployment, tokens }),
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
      await this.run.cleanUp('Delete the operation tokens', async (call) => {
        await call.deleteOperationTokens({ deployment: this.deployment, tokens });
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
    return this.targets.find((target) => target.cluster === cluster)?.uses ?? [];
  }
}
