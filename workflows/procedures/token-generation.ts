import { CancellationScope, isCancellation } from '@temporalio/workflow';
import type { GenerationInput, GenerationOutcome, WantedToken } from '../../src/contracts/activities';
import { orphanFinding } from '../../src/contracts/run-status';
import type { CeremonyHandle, EnvelopeVerdict, OwnAttempt } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import type { StepCalls } from '../engine/activity-calls';
import { failureFacts } from '../engine/failures';

/** The activities of a token generation. */
export type GenerationCalls = Pick<StepCalls, 'startGeneration' | 'completeGeneration' | 'settleGeneration'>;

/** What one token generation is for. */
type GenerationRequest = Omit<GenerationInput, 'attempts'>;

type StartInput = Parameters<GenerationCalls['startGeneration']>[0];

type Generated = Extract<GenerationOutcome, { readonly next: 'token' }>;

/** A generation whose end the run does not know. An attempt of it may be in the slot. */
interface OpenGeneration {
  readonly deployment: string;
  readonly cluster: string;
  readonly kind: WantedToken['kind'];
  readonly ceremony: Pick<CeremonyHandle, 'cid' | 'epoch' | 'invitation'>;
  readonly attempt?: OwnAttempt;
  /** Whether its last share may have been given. */
  readonly mayBeSent: boolean;
}

/** Start failures that sent nothing. But a worker that was at work before may have left an attempt in the slot. */
const MAY_BE_OPEN: ReadonlySet<string> = new Set(['WORKER_UNREACHABLE', 'KEY_RECORD_MISSING']);

/**
 * The accepted shares of one epoch, by the numbers of the signals that brought them: each holder's latest one, how many are
 * needed, and which of them clusters rejected together.
 */
export class HeldShares {
  #arrivals: readonly number[] = [];
  /** Of everything that was accepted, even if something else replaced it. */
  readonly #holders = new Map<number, string>();
  readonly #rejected = new Map<string, { readonly sets: readonly (readonly number[])[]; readonly tried: number }>();
  /** The shares that the token generation on each cluster was given. Several clusters are worked on at once. */
  readonly #given = new Map<string, readonly number[]>();
  /** Higher than the threshold once the service rejected some. */
  #needed: number;

  constructor(private readonly threshold = 0) {
    this.#needed = threshold;
  }

  /** The holders whose shares are collected. */
  get held(): readonly string[] {
    return this.#arrivals.flatMap((arrival) => this.#holders.get(arrival) ?? []);
  }

  /** How many are needed before the next token generation. */
  get needed(): number {
    return this.#needed;
  }

  get arrivals(): readonly number[] {
    return this.#arrivals;
  }

  /** Keeps what was accepted. */
  take(verdicts: readonly EnvelopeVerdict[]): void {
    for (const { arrival, code, holder } of verdicts) {
      if (code !== 'accepted' || !holder) continue;
      const ofOthers = this.#arrivals.filter((each) => this.#holders.get(each) !== holder.name);
      // A corrected share replaces the old one and makes a rejected set worth another try.
      if (ofOthers.length < this.#arrivals.length)
        this.#needed = Math.max(this.threshold, Math.min(this.#needed, this.#arrivals.length));
      this.#arrivals = [...ofOthers, arrival];
      this.#holders.set(arrival, holder.name);
      for (const [cluster, rejected] of this.#rejected) this.#rejected.set(cluster, { ...rejected, tried: 0 });
    }
  }

  /** What a token generation on a cluster is given now, and what that cluster rejected of it. */
  toGive(cluster: string) {
    this.#given.set(cluster, this.#arrivals);
    const { sets: rejected, tried } = this.#rejectedBy(cluster);
    return { shares: this.#arrivals, rejected, tried };
  }

  /** A cluster rejected these shares together. */
  reject(cluster: string, set: readonly number[]): void {
    const { sets, tried } = this.#rejectedBy(cluster);
    this.#rejected.set(cluster, { sets: [...sets, set], tried: tried + 1 });
  }

  #rejectedBy(cluster: string) {
    return this.#rejected.get(cluster) ?? { sets: [], tried: 0 };
  }

  /**
   * Holders whose share is proven to be bad once a set worked: in a rejected set, theirs is the only share outside the set that
   * worked. One bad share alone can never be in a set that works. Two can, if their holders made them so that they cancel out;
   * then the proof accuses the holder who was tried with one of them. The finding says so.
   */
  provenBad(cluster: string, good: readonly number[]): readonly string[] {
    const bad = new Set<string>();
    for (const set of this.#rejectedBy(cluster).sets) {
      const [only, ...more] = set.filter((arrival) => !good.includes(arrival));
      const holder = more.length === 0 && only !== undefined ? this.#holders.get(only) : undefined;
      if (holder !== undefined) bad.add(holder);
    }
    return [...bad];
  }

  /**
   * No set of the shares that the generation on a cluster had works. One more share, or a corrected one, makes another try worth
   * it.
   *
   * @returns false if one arrived meanwhile
   */
  askForMore(cluster: string): boolean {
    const given = this.#given.get(cluster) ?? this.#arrivals;
    const isNew = this.#arrivals.some((arrival) => !given.includes(arrival));
    this.#needed = Math.max(this.threshold, this.#arrivals.length + (isNew ? 0 : 1));
    return !isNew;
  }
}

/**
 * Turns shares into tokens, each in two activities: all shares but the last, and then the last one. That the second activity is
 * in the history records that a token may exist. If it does not say how it ended, reads find that out.
 */
export class TokenGenerations {
  readonly #open = new Map<string, OpenGeneration>();
  readonly #attempts: OwnAttempt[] = [];

  /** @param alarm - called if no worker can find out what a last share did; activities report their own findings */
  constructor(private readonly alarm: (finding: Finding) => void) {}

  /**
   * One token from the collected shares. If the service rejects a set, the next one is tried. A lost attempt is started again
   * with the same shares.
   *
   * @throws what the activities throw: SHARES_REJECTED, SHARES_MISSING, ATTEMPT_FOREIGN, ATTEMPT_LOST
   */
  async generate(
    call: GenerationCalls,
    request: GenerationRequest,
    shares: HeldShares,
  ): Promise<Generated & { readonly entry: string | undefined; readonly badShares: readonly string[] }> {
    const { cluster } = request;
    for (let lost = 0; ;) {
      await this.#settleEarlierEpochs(call, request);
      const input = { ...request, ...shares.toGive(cluster), attempts: this.#attempts, lost };
      const started = await this.#start(call, input);
      const { set, id: entry } = 'attempt' in started ? started.attempt : { set: [], id: undefined };
      const outcome = 'attempt' in started ? await this.#complete(call, request, started.attempt) : started;
      if (outcome.next === 'token') return { ...outcome, entry, badShares: shares.provenBad(cluster, set) };
      if (outcome.next === 'next-set') shares.reject(cluster, set);
      lost = outcome.next === 'again' ? lost + 1 : 0;
    }
  }

  /** Ends what this run began and did not end, at the end of its ceremony. */
  async settle(call: GenerationCalls): Promise<void> {
    for (const open of [...this.#open.values()]) await this.#settleOne(call, open);
  }

  async #start(call: GenerationCalls, input: StartInput): ReturnType<GenerationCalls['startGeneration']> {
    const wasOpen = this.#open.has(keyOf(input));
    this.#begin(input, { mayBeSent: false });
    try {
      const started = await call.startGeneration(input);
      if (!('attempt' in started)) this.#end(input);
      return started;
    } catch (error) {
      // The activity frees the slot itself, and reports if it could not. It reports nothing about an attempt that an earlier start left.
      const failure = failureFacts(error);
      if (!wasOpen && failure?.outcomeKnown === true && !MAY_BE_OPEN.has(failure.code)) this.#end(input);
      throw error;
    }
  }

  async #complete(call: GenerationCalls, request: GenerationRequest, attempt: OwnAttempt): Promise<GenerationOutcome> {
    const attempts = [...this.#attempts, attempt];
    this.#attempts.push(attempt);
    this.#begin(request, { attempt, mayBeSent: true });
    try {
      // Nothing stops the last share, or the reads that find out whether there is a token.
      const outcome = await CancellationScope.nonCancellable(() =>
        call.completeGeneration({ ...request, attempt, attempts }),
      );
      this.#end(request);
      return outcome;
    } catch (error) {
      const failure = failureFacts(error);
      // The run does not cancel it, so a cancellation comes from a worker that stopped.
      if (!failure && !isCancellation(error)) throw error;
      const open = this.#begin(request, { attempt, mayBeSent: failure?.outcomeKnown !== true });
      const outcome = await this.#settleOne(call, open);
      if (outcome.next === 'token' || open.mayBeSent) return outcome;
      // Nothing was sent, so people must know why.
      throw error;
    }
  }

  #begin(
    { deployment, cluster, ceremony, wanted: { kind } }: GenerationRequest,
    state: Pick<OpenGeneration, 'attempt' | 'mayBeSent'>,
  ): OpenGeneration {
    const { cid, epoch, invitation } = ceremony;
    const open = { deployment, cluster, kind, ceremony: { cid, epoch, invitation }, ...state };
    this.#open.set(keyOf(open), open);
    return open;
  }

  #end(request: GenerationRequest): void {
    this.#open.delete(keyOf(request));
  }

  /** With new keys, an attempt of ours in the slot would be taken for somebody else's. */
  async #settleEarlierEpochs(call: GenerationCalls, { cluster, ceremony }: GenerationRequest): Promise<void> {
    for (const open of [...this.#open.values()])
      if (open.cluster === cluster && open.ceremony.epoch !== ceremony.epoch) await this.#settleOne(call, open);
  }

  /** Any worker can find it out. If none does, only the alarm is left. */
  async #settleOne(call: GenerationCalls, open: OpenGeneration): Promise<GenerationOutcome> {
    const { deployment, cluster, kind, ceremony, attempt, mayBeSent } = open;
    try {
      const about = { deployment, cluster, ceremony, attempt, mayBeSent };
      const outcome = await CancellationScope.nonCancellable(() => call.settleGeneration(about));
      this.#open.delete(keyOf(open));
      return outcome;
    } catch (error) {
      if (!failureFacts(error)) throw error;
      // What was reported is not reported again. The slot is checked once more at the end.
      this.#open.set(keyOf(open), { ...open, mayBeSent: false });
      if (mayBeSent && attempt) {
        const how = `attempt ${attempt.mark}: no worker could find out what the last share did`;
        this.alarm(orphanFinding(kind, cluster, how));
      }
      return { next: 'again', findings: [] };
    }
  }
}

function keyOf({ cluster, ceremony }: Pick<OpenGeneration, 'cluster' | 'ceremony'>): string {
  return `${cluster} ${ceremony.epoch}`;
}

/** The findings about shares that are proven bad. */
export function badShareFindings(cluster: string, holders: readonly string[]): Finding[] {
  return holders.map((holder) => ({
    severity: 'warning',
    code: 'bad-share',
    text: `The key share of ${holder} does not belong to ${cluster}, unless holders whose shares worked altered theirs together: it is the only share of a rejected set that is not in the set that worked.`,
    next: `Ask ${holder} to find the right share before it is needed again.`,
  }));
}
