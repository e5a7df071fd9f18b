import { isCancellation } from '@temporalio/workflow';
import type { GenerationInput, GenerationOutcome, WantedToken } from '../../src/contracts/activities';
import { orphanFinding } from '../../src/contracts/alarms';
import type { CeremonyHandle, OwnAttempt } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import type { StepCalls } from '../engine/activity-calls';
import { failureFacts } from '../engine/failures';
import type { HeldShares } from './held-shares';

/** The activities of a token generation. */
export type GenerationCalls = Pick<StepCalls, 'startGeneration' | 'completeGeneration' | 'settleGeneration'>;

/** What one token generation is for. */
type GenerationRequest = Omit<GenerationInput, 'attempts'>;

type Generated = Extract<GenerationOutcome, { readonly next: 'token' }>;

/** A generation whose end the run does not know: an attempt of it may be in the slot. */
interface OpenGeneration {
  readonly deployment: string;
  readonly cluster: string;
  readonly kind: WantedToken['kind'];
  readonly ceremony: Pick<CeremonyHandle, 'cid' | 'epoch' | 'invitation'>;
  readonly attempt?: OwnAttempt;
  /** Whether its last share may have been given. */
  readonly mayBeSent: boolean;
}

/** Failures of a start after which an attempt of it may be in the slot: who was at work said nothing, or has no keys now. */
const MAY_BE_OPEN: ReadonlySet<string> = new Set([
  'ACTIVITY_TIMEOUT',
  'WORKER_UNREACHABLE',
  'KEY_RECORD_MISSING',
  'INTERNAL',
]);

/**
 * Turns shares into tokens, each in two activities: all shares but the last; then the last one, whose scheduling in the
 * history is the note that a token may exist. Where that activity does not say how it ended, reads find it out.
 */
export class TokenGenerations {
  readonly #open = new Map<string, OpenGeneration>();
  readonly #attempts: OwnAttempt[] = [];
  readonly #alarm: (finding: Finding) => void;

  /** @param alarm - told where no worker can find out what a last share did: what activities find is told by them */
  constructor(alarm: (finding: Finding) => void) {
    this.#alarm = alarm;
  }

  /**
   * One token from the shares in hand. Sets that the service rejects are followed by others; a lost attempt is started
   * again with the same shares.
   *
   * @throws what the activities throw: SHARES_REJECTED, SHARES_MISSING, ATTEMPT_FOREIGN, ATTEMPT_LOST
   */
  async generate(
    call: GenerationCalls,
    request: GenerationRequest,
    shares: HeldShares,
  ): Promise<Generated & { readonly attempts: number; readonly badShares: readonly string[] }> {
    const { cluster } = request;
    let attempts = 0;
    for (let lost = 0; ;) {
      await this.#settleEarlierEpochs(call, request);
      const started = await this.#start(call, request, {
        ...shares.rejectedBy(cluster),
        shares: shares.arrivals,
        lost,
      });
      const set = 'attempt' in started ? started.attempt.set : [];
      attempts += 'attempt' in started ? started.attempts : 1;
      const outcome = 'attempt' in started ? await this.#complete(call, request, started.attempt) : started;
      if (outcome.next === 'token') return { ...outcome, attempts, badShares: shares.provenBad(cluster, set) };
      if (outcome.next === 'next-set') shares.reject(cluster, set);
      lost = outcome.next === 'again' ? lost + 1 : 0;
    }
  }

  /** Ends what this run began and did not end: at the end of its ceremony. */
  async settle(call: GenerationCalls): Promise<void> {
    for (const open of [...this.#open.values()]) await this.#settleOne(call, open);
  }

  async #start(
    call: GenerationCalls,
    request: GenerationRequest,
    more: Omit<Parameters<GenerationCalls['startGeneration']>[0], keyof GenerationInput>,
  ): ReturnType<GenerationCalls['startGeneration']> {
    this.#begin(request, { mayBeSent: false });
    try {
      const started = await call.startGeneration({ ...request, attempts: this.#attempts, ...more });
      if (!('attempt' in started)) this.#end(request);
      return started;
    } catch (error) {
      // The activity frees the slot itself, where it can.
      const failure = failureFacts(error);
      if (failure && !MAY_BE_OPEN.has(failure.code)) this.#end(request);
      throw error;
    }
  }

  async #complete(call: GenerationCalls, request: GenerationRequest, attempt: OwnAttempt): Promise<GenerationOutcome> {
    const attempts = [...this.#attempts, attempt];
    this.#attempts.push(attempt);
    this.#begin(request, { attempt, mayBeSent: true });
    try {
      const outcome = await call.completeGeneration({ ...request, attempt, attempts });
      this.#end(request);
      return outcome;
    } catch (error) {
      const failure = failureFacts(error);
      // The run does not cancel it: a cancellation is that of a worker which stopped.
      if (!failure && !isCancellation(error)) throw error;
      const open = this.#begin(request, { attempt, mayBeSent: failure?.outcomeKnown !== true });
      const outcome = await this.#settleOne(call, open);
      if (outcome.next === 'token' || open.mayBeSent) return outcome;
      // Nothing was sent: why is what people must know.
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

  /** With new keys an attempt of ours in the slot would be taken for another's. */
  async #settleEarlierEpochs(call: GenerationCalls, { cluster, ceremony }: GenerationRequest): Promise<void> {
    for (const open of [...this.#open.values()])
      if (open.cluster === cluster && open.ceremony.epoch !== ceremony.epoch) await this.#settleOne(call, open);
  }

  /** Any worker finds it out. Where none does, the alarm is all that is left. */
  async #settleOne(call: GenerationCalls, open: OpenGeneration): Promise<GenerationOutcome> {
    const { deployment, cluster, kind, ceremony, attempt, mayBeSent } = open;
    try {
      const outcome = await call.settleGeneration({ deployment, cluster, ceremony, attempt, mayBeSent });
      this.#open.delete(keyOf(open));
      return outcome;
    } catch (error) {
      if (!failureFacts(error)) throw error;
      // What is told is not told again; the slot is looked at once more at the end.
      this.#open.set(keyOf(open), { ...open, mayBeSent: false });
      if (mayBeSent && attempt) {
        const how = `attempt ${attempt.mark}: no worker could find out what the last share did`;
        this.#alarm(orphanFinding(kind, cluster, how));
      }
      return { next: 'again', findings: [] };
    }
  }
}

function keyOf({ cluster, ceremony }: Pick<OpenGeneration, 'cluster' | 'ceremony'>): string {
  return `${cluster} ${ceremony.epoch}`;
}

/** What is told of shares that are proven bad. */
export function badShareFindings(cluster: string, holders: readonly string[]): Finding[] {
  return holders.map((holder) => ({
    severity: 'warning',
    code: 'bad-share',
    text: `The key share of ${holder} is not one of ${cluster}'s: proven by sets that differ in it alone (unless holders whose shares worked altered theirs together).`,
    next: `${holder} looks for the right share before the next event.`,
  }));
}
