import { claimToken, DELETE_TOKENS, verifyToken } from '../../src/moves/tokens';
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

/** Codes for a batch token that cannot be read, or has ended in the record: nothing was sent with it. */
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

/** The tokens of a run, and the key shares that make more of them. A failover that takes the run over continues with them. */
export function tokensHeldBy(run: Run): OperationTokens | undefined {
  return TOKENS.get(run);
}

/**
 * The tokens for DR operations that one run needs, one per cluster: the prepared batch token, or tokens that the ceremony makes
 * when they are needed, or that people provide. What was made is deleted at the end, on every path.
 */
export class OperationTokens {
  #ceremony: PeoplesTokens | undefined;
  /** Tokens that the record keeps for this run, by cluster. */
  readonly #kept: Map<string, KeptToken>;
  #authority: Authority | undefined;
  readonly #made = new Map<string, Made>();
  /** Tokens that are too old to be used, and still alive. */
  #old: OperationTokenReference[] = [];
  /** Nothing was made since the tokens in the record were deleted. */
  #disposed = false;

  /** @param askInstead - asks the key holders, if a cluster refuses the batch token or a kept one */
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

  /** Absent if the batch token is the source. */
  get ceremony(): PeoplesTokens | undefined {
    return this.#ceremony;
  }

  /** What people approved: a token that the record keeps is given only to that plan. */
  authorize(authority: Authority): void {
    this.#authority = authority;
  }

  /**
   * Whether a batch token or a kept token was refused with certainty, or a batch token is not available any more, and the key
   * holders can be asked instead.
   */
  canReplace(cluster: string, { code, outcomeKnown }: FailureFacts): boolean {
    const isKept = this.#kept.has(cluster);
    if (!outcomeKnown || (this.#ceremony && !isKept)) return false;
    // A kept token that does not open here may be alive: its step says how to open it again.
    return code === 'PERMISSION_DENIED' || (!isKept && NOT_IN_HAND.includes(code));
  }

  /**
   * Stops using a token for which {@link canReplace} is true, and asks the key holders instead. Waits for them.
   *
   * @param choices - what people may decide meanwhile, inside an outage
   * @returns whether another token is available now
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
        ? 'Nothing was changed with it.'
        : 'Nothing was changed with it. Check its policy and its rotation afterwards.',
    });
    this.#made.delete(cluster);
    const before = this.#ceremony;
    this.#ceremony = undefined;
    const people = this.askInstead();
    if (before) {
      // Clients may be out, so nobody waits for the host of those keys, which may be dead. The end of the run does the rest.
      const abandoned = before.abandon().catch(() => undefined);
      this.run.onEnd(async () => {
        await abandoned;
        await before.abandon();
      });
    }
    await people.ready(choices);
    // Not before they are invited: people may choose to promote back there, which continues without them.
    this.#ceremony = people;
    await people.collect(cluster, choices);
    return people;
  }

  /** Claims a token that the record keeps for this run; undefined if it keeps none any more, and the key holders were asked. */
  async #takeKept(
    { cluster, entry }: KeptToken,
    choices: readonly Choice[] | undefined,
  ): Promise<OperationTokenReference | undefined> {
    const authority = this.#authority;
    if (!authority) throw new TypeError('nobody approved this run yet');
    const isGone = ({ code, outcomeKnown }: FailureFacts) => outcomeKnown && code === 'PRECONDITION_FAILED';
    try {
      const { token: value } = await this.run.step(
        claimToken(cluster),
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

  /** Whether its cluster accepts a kept token: another generation, or people, may have ended it. */
  async #keptIsAlive(cluster: string, token: OperationTokenReference): Promise<boolean> {
    const { state, text } = await this.run.step(verifyToken(cluster), (call) =>
      call.probeProvidedToken({ deployment: this.deployment, cluster, token }),
    );
    if (state === 'refused') await this.#askHolders(cluster, text);
    return state !== 'refused';
  }

  /** Whether a token for these uses is available without asking anyone. */
  covers(target: CeremonyTarget): boolean {
    return this.#kept.has(target.cluster) || (this.ceremony?.covers(target) ?? this.#kept.size === 0);
  }

  /** Whether the tokens that were not made yet stay available for this long, in ms, without asking anyone again. */
  lastsFor(ms: number): boolean {
    return this.ceremony?.lastsFor(ms) ?? true;
  }

  /**
   * The token for a cluster. The first call generates it, without asking anyone again. Call this again right before each use:
   * another token is made if the earlier one may not open any more.
   *
   * @param choices - besides `retry`, if the generation parks
   */
  async of(cluster: string, choices?: readonly Choice[]): Promise<OperationTokenReference> {
    const token = await this.#take(cluster, choices, undefined);
    if (!token) throw new TypeError('a token that cannot be skipped was skipped');
    return token;
  }

  /** As {@link of}, and the cluster accepts it: what people provide is proven by a read, until one is accepted. */
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
    // Holders who were asked for other clusters were not asked for the one whose kept token is too old.
    const asked = this.#kept.has(cluster) ? undefined : this.#ceremony;
    const people = asked ?? (await this.#askHolders(cluster, 'it is too old', choices));
    // For holders whose shares nobody has waited for yet.
    if (people.source === 'ceremony') await people.collect(cluster, choices);
    const token = await people.generate(cluster, this.#usesOn(cluster), { choices, skipEffect });
    if (!token) return undefined;
    if (held) this.#old.push(held.token);
    return this.#madeNow(cluster, token);
  }

  /** Deletes the tokens and proves it. Destroys the keys meanwhile, because deletion does not need them. */
  async dispose(): Promise<void> {
    await inParallel([this.#delete(), this.ceremony?.close()]);
  }

  async #delete(): Promise<void> {
    // Also with no token of its own: an earlier run may have left tokens that can be deleted now.
    const tokens = this.#ours();
    await this.run.skippableStep(
      DELETE_TOKENS,
      'tokens that do not expire stay valid; the record keeps them for the next run',
      (call) => call.deleteOperationTokens({ deployment: this.deployment, tokens }),
    );
    this.#forget();
    this.#disposed = true;
  }

  /** For a run that ends early: the same, but a failure becomes a finding. */
  async #abandon(): Promise<void> {
    if (!this.#disposed) {
      // Also with no token of its own, as at the end of a run that was not stopped.
      const tokens = this.#ours();
      this.#forget();
      await this.run.cleanUp(DELETE_TOKENS, async (call) => {
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
