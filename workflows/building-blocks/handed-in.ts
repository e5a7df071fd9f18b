import { CancellationScope, condition } from '@temporalio/workflow';
import type { EncodedTokenVerdict } from '../../src/contracts/activities';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import type { InboxItem } from '../../src/contracts/signals';
import { stepCalls } from './activity-calls';
import type { StepCalls } from './activity-calls';
import { notLookedAt, receiveTokenVerdicts } from './encoded-tokens';
import { failureFacts } from './failures';
import type { Run } from './run';

/** What looking at handed-in tokens gave. `value`: what is kept of one that counts. */
export interface TakenTokens<T> {
  readonly verdicts: readonly (EncodedTokenVerdict & { readonly value?: T | undefined })[];
  readonly findings: readonly Finding[];
}

export type TakeTokens<T> = (
  call: StepCalls,
  ceremony: CeremonyHandle,
  arrived: readonly number[],
) => Promise<TakenTokens<T>>;

interface Item<T> {
  readonly cluster: string;
  readonly value: T;
  /** When it was looked at, epoch milliseconds. */
  readonly at: number;
}

/**
 * Encoded tokens that people hand in while a ceremony has its keys, and that were not used yet.
 *
 * @typeParam T - what is kept of a token: sealed, or encrypted to somebody else
 */
export class HandedIn<T> {
  readonly #run: Run;
  readonly #take: TakeTokens<T>;
  /** Called with the code of a failure for which nothing could be looked at. */
  readonly #onFailure: (code: string) => void;
  #ceremony: CeremonyHandle | undefined;
  #listens = false;
  #looking = 0;
  #looks = 0;
  #items: readonly Item<T>[] = [];

  constructor(run: Run, take: TakeTokens<T>, onFailure: (code: string) => void = () => undefined) {
    this.#run = run;
    this.#take = take;
    this.#onFailure = onFailure;
  }

  /** What was handed in and not used. */
  get left(): readonly Item<T>[] {
    return this.#items;
  }

  /**
   * Whether what was handed in until now was looked at. What comes later does not count: a stream of it puts nothing off.
   *
   * @returns undefined where nothing waits for a look
   */
  untilLookedAt(): (() => boolean) | undefined {
    // What waits is taken together, by the next look; where somebody else listens, or nobody, it is not ours.
    const holds = () => this.#run.signals.holds('submitEncodedToken');
    const waits = this.#listens && holds() ? 1 : 0;
    if (this.#looking + waits === 0) return undefined;
    const looks = this.#looks + this.#looking + waits;
    return () => this.#looks >= looks || (this.#looking === 0 && !holds());
  }

  of(cluster: string): T | undefined {
    return this.#items.find((each) => each.cluster === cluster)?.value;
  }

  /** @returns when it was looked at, epoch milliseconds; undefined for one that nobody handed in */
  use(value: T): number | undefined {
    const used = this.#items.find((each) => each.value === value);
    this.#items = this.#items.filter((each) => each !== used);
    return used?.at;
  }

  /** From now on the keys of this round open what is handed in. */
  listen(ceremony: CeremonyHandle): void {
    this.#ceremony = ceremony;
    this.#listens = true;
    this.#run.signals.on('submitEncodedToken', (items) => this.#receive(items));
  }

  stop(): void {
    this.#listens = false;
    this.#run.signals.on('submitEncodedToken', undefined);
  }

  /**
   * As {@link stop}, once everything that was handed in until now was looked at: from then on nothing more comes. A look
   * that began meanwhile is waited for, and no other begins.
   */
  async finish(): Promise<void> {
    await CancellationScope.nonCancellable(async () => {
      const lookedAt = this.untilLookedAt();
      if (lookedAt) await condition(lookedAt);
      this.stop();
      await condition(() => this.#looking === 0);
    });
  }

  /** What was taken so far does not count. */
  forget(): void {
    this.#items = [];
  }

  async #receive(items: readonly InboxItem[]): Promise<void> {
    const { state } = this.#run;
    const arrived = items.map(({ arrival }) => arrival);
    if (!this.#ceremony) return;
    this.#looking += 1;
    try {
      const name = 'Take an encoded token';
      const call = stepCalls(name, () => state.sideContext(name));
      const { verdicts, findings } = await this.#take(call, this.#ceremony, arrived);
      receiveTokenVerdicts(state, verdicts);
      state.noteFindings(findings);
      for (const { cluster, value } of verdicts)
        if (cluster !== undefined && value !== undefined)
          this.#items = [...this.#items, { cluster, value, at: Date.now() }];
    } catch (error) {
      const failure = failureFacts(error);
      if (!failure) throw error;
      this.#onFailure(failure.code);
      const text = `could not be looked at now (${failure.code}); hand it in again`;
      receiveTokenVerdicts(state, notLookedAt(arrived, 'not-checked', text));
    } finally {
      this.#looking -= 1;
      this.#looks += 1;
    }
  }
}

/** Sealed operation tokens, as the activity gives them. */
export async function takeOperationTokens(
  call: StepCalls,
  deployment: string,
  ceremony: CeremonyHandle,
  arrived: readonly number[],
) {
  const { verdicts, findings } = await call.takeEncodedToken({ deployment, ceremony, arrived });
  return { verdicts: verdicts.map(({ token, ...verdict }) => ({ ...verdict, value: token })), findings };
}

/** Root tokens that are encrypted to their recipient, as the activity gives them. */
export async function takeRootTokens(
  call: StepCalls,
  on: { readonly deployment: string; readonly cluster: string; readonly recipientPgpKey: string },
  ceremony: CeremonyHandle,
  arrived: readonly number[],
) {
  const { verdicts, findings } = await call.takeEncodedRootToken({ ...on, ceremony, arrived });
  return {
    verdicts: verdicts.map(({ encryptedToken, ...verdict }) => ({ ...verdict, value: encryptedToken })),
    findings,
  };
}

/** Routing needs the handle alone. */
export function withoutFingerprint(handle: CeremonyHandle & { readonly fingerprint?: string }): CeremonyHandle {
  const { fingerprint: _fingerprint, ...rest } = handle;
  return rest;
}
