import type { CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from '../engine/activity-calls';
import { OutageDecision, RunStopped } from '../engine/failures';
import type { Choice } from '../engine/parking';
import { ABORT, LEAVE } from '../engine/parking';
import type { Run } from '../engine/run';
import { Collection } from './collection';

/** A sealed token opens for 24 h. An older one than this is kept for its deletion alone, and another one is made. */
export const USED_FOR_MS = 23 * 3_600_000;
/** People are asked anew where less than this is left to answer. */
const ANSWERING_LEFT_MS = 60_000;

/** Who asks people for tokens, and for what. */
export interface CeremonyRequest {
  readonly deployment: string;
  readonly runbook: string;
  readonly reason: string;
  readonly requestedBy: string;
  /** Every cluster on which the run will need a token, so that everybody is asked once. */
  readonly targets: readonly CeremonyTarget[];
  readonly inputDigest: string;
}

/** What people may decide where a token is waited for, or generated. */
export interface Parked {
  /** Beside `retry`. */
  readonly choices?: readonly Choice[] | undefined;
  /** People may skip it; says what skipping leaves behind. */
  readonly skipEffect?: string | undefined;
}

/** What is waited for, and what is said where people may go another way. */
interface Wanted extends Parked {
  readonly step: string;
  readonly code: 'SHARES_MISSING' | 'TOKEN_MISSING';
  readonly message: string;
  readonly next: string;
}

/** A way from people to operation tokens, for several clusters from one ask. */
export abstract class PeoplesTokens extends Collection {
  abstract readonly source: 'ceremony' | 'provided';
  #inviting: Promise<void> | undefined;

  constructor(
    run: Run,
    protected readonly request: CeremonyRequest,
    words: ConstructorParameters<typeof Collection>[2],
    /** Beside what was requested. */
    private readonly asks: Pick<
      Parameters<StepCalls['createCeremony']>[0],
      'kind' | 'collects' | 'recipientPgpKey' | 'keepFor'
    >,
  ) {
    super(run, request.deployment, words);
    const { requestedBy, reason } = request;
    const { kind = 'operation-token', collects } = asks;
    run.state.asked = {
      ...{ kind, reason, ...(collects && { collects }) },
      requestedBy: { name: requestedBy, how: 'claimed' },
      targets: request.targets.map(({ cluster, uses }) => ({
        cluster,
        uses: kind === 'root-token' ? ['root-token.generate'] : uses,
      })),
    };
  }

  /** Waits for what is needed first. */
  abstract collect(first?: string): Promise<void>;

  /**
   * The operation token of one cluster.
   *
   * @param parked - choices beside `retry` where it parks; with `skipEffect` people may skip it
   * @returns undefined where it was skipped
   */
  abstract generate(
    cluster: string,
    uses: readonly TokenUse[],
    parked?: Parked,
  ): Promise<OperationTokenReference | undefined>;

  /** Whether people were asked for this, so that nobody has to be asked again. */
  covers({ cluster, uses }: CeremonyTarget): boolean {
    const target = this.request.targets.find((each) => each.cluster === cluster);
    return !this.closed && target !== undefined && uses.every((use) => target.uses.includes(use));
  }

  /** Whether a token that was given is still the one to use. */
  isCurrent(_token: OperationTokenReference): boolean {
    return true;
  }

  /** Whether its cluster takes the token in hand. */
  takes(_cluster: string): Promise<boolean> {
    return Promise.resolve(true);
  }

  /** Whether further tokens can be had for so long without asking anyone to give what they gave already, ms. */
  lastsFor(_ms: number): boolean {
    return true;
  }

  /** Invites, unless an earlier part of the run did and people can still answer. */
  async ready(): Promise<void> {
    const { handle, keysLost } = this;
    if (!handle) return this.invite();
    const isOpen = keysLost === undefined && Date.now() < handle.collectUntil - ANSWERING_LEFT_MS;
    if (!this.complete && !isOpen) await this.inviteAgain(keysLost ?? 'EXPIRED', handle.epoch);
  }

  /** For those who gave already too. */
  async collectAnew(): Promise<void> {
    await this.collect();
  }

  /** A new epoch; branches that find the same keys lost share it, so that nobody is asked twice. */
  protected async inviteAgain(code: string, lostEpoch: number): Promise<void> {
    if (this.required().epoch !== lostEpoch) return;
    this.#inviting ??= (async () => {
      const text = `The keys of epoch ${lostEpoch} cannot be used any more (${code}); those who were asked are asked again.`;
      this.run.state.finding({ severity: 'warning', code: 'ceremony-keys-lost', text });
      await this.invite();
    })();
    try {
      await this.#inviting;
    } finally {
      this.#inviting = undefined;
    }
  }

  protected override create(call: StepCalls, round: { readonly epoch: number; readonly cid: string }) {
    return call.createCeremony({ ...this.request, ...this.asks, ...round });
  }

  /**
   * Waits for people. Inside an outage, or where they may skip it, the clock never ends this wait, and they may go another
   * way. Where the time to answer is over the keys count as lost, so that people are asked anew: while no cluster serves.
   *
   * @param notInTime - what to say where the clock ends the run
   * @returns whether it was skipped
   * @throws RunStopped, or OutageDecision inside an outage
   */
  protected async waitFor(done: () => boolean, wanted: Wanted, notInTime: () => string): Promise<boolean> {
    const { run } = this;
    const isOver = () => done() || this.keysLost !== undefined;
    if (run.inOutage || wanted.skipEffect !== undefined) return this.#waitOrDecide(isOver, wanted);
    if (await run.waitFor(isOver, this.leftMs)) return false;
    // A failover is in the outage from its beginning: no clock ends it.
    if (!run.state.serviceIsOut) throw run.stop(new RunStopped('the clock', notInTime()));
    this.keysLost = 'EXPIRED';
    return false;
  }

  async #waitOrDecide(isOver: () => boolean, { step, code, message, next, choices, skipEffect }: Wanted) {
    const { run } = this;
    const skip: readonly Choice[] = skipEffect === undefined ? [] : [{ action: 'skip', effect: skipEffect }];
    const ways = [...skip, ...(choices ?? [run.inOutage ? LEAVE : ABORT])];
    const failure = { code, message, next, outcomeKnown: true };
    const decision = await run.decisionWhile(step, failure, ways, isOver, this.leftMs);
    if (!decision && !isOver()) this.keysLost = 'EXPIRED';
    if (!decision || decision.action === 'retry') return false;
    const { action, by, reason } = decision;
    if (action === 'skip') {
      run.state.left.add(`"${step}" was skipped: ${skipEffect ?? ''}.`);
      return true;
    }
    if (action === 'abort') throw run.stop(new RunStopped(by.name, reason));
    throw new OutageDecision(action === 'promote-secondary' || action === 'promote-back' ? action : 'leave');
  }
}
