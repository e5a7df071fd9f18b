import { DESTROY_KEYS } from '../../src/moves/tokens';
import { uuid4 } from '@temporalio/workflow';
import type {
  CeremonyHandle,
  CeremonyTarget,
  EnvelopeVerdict,
  OperationTokenReference,
} from '../../src/contracts/ceremony';
import { plainSecretIn } from '../../src/contracts/plain-shares';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { InboxItem } from '../../src/contracts/signals';
import type { StepCalls } from '../engine/activity-calls';
import { activities } from '../engine/activity-calls';
import { OutageDecision, RunStopped, failureFacts } from '../engine/failures';
import type { Choice } from '../engine/parking';
import { ABORT, LEAVE } from '../engine/parking';
import type { Run } from '../engine/run';
import { receiveVerdicts } from '../engine/verdicts';

/** Codes after which the keys cannot be used any more. */
export const KEYS_LOST: ReadonlySet<string> = new Set(['WORKER_UNREACHABLE', 'KEY_RECORD_MISSING']);

/** The verdict on what was checked while its epoch ended. */
const ANOTHER_ROUND = { code: 'wrong-epoch', text: ENVELOPE_VERDICTS['wrong-epoch'] };

/** Names of the steps of a collection, and what people give to it. */
interface CollectionWords {
  readonly invite: string;
  readonly check: string;
  readonly gives?: 'token';
}

/**
 * Collects what people seal to keys that were made for the collection: an invitation, answers that are checked and opened on
 * the host that has the keys, and the keys destroyed. Another invitation begins a new epoch, with new keys.
 */
export abstract class Collection {
  protected handle: CeremonyHandle | undefined;
  /** Code of the failure that showed that the keys are gone. */
  protected keysLost: string | undefined;
  /** Whether the keys are destroyed, or about to be. */
  protected closed = false;
  /** The fingerprint that tells our generation attempt from another's, even when the keys are gone. */
  fingerprint: string | undefined;
  readonly #cid = uuid4();

  constructor(
    protected readonly run: Run,
    protected readonly deployment: string,
    private readonly words: CollectionWords,
  ) {}

  /** Makes the keys and the signed invitation of one epoch. */
  protected abstract create(
    call: StepCalls,
    round: { readonly epoch: number; readonly cid: string },
  ): Promise<CeremonyHandle>;

  /** Checks what arrived, on the host that has the keys. `take` keeps what counts, if its epoch is still the current one. */
  protected abstract check(
    call: StepCalls,
    ceremony: CeremonyHandle,
    arrived: readonly number[],
  ): Promise<{ readonly verdicts: readonly EnvelopeVerdict[]; readonly take: () => void }>;

  /** Updates what is shown as waited for, if it is waited for. */
  protected show(): void {
    return;
  }

  /** Called after an invitation. */
  protected invited(_ceremony: CeremonyHandle): void {
    return;
  }

  /** Called before the keys are destroyed. */
  protected async ending(_call: StepCalls): Promise<void> {
    return Promise.resolve();
  }

  /** Whether nothing more is needed from the keys while people answer. */
  protected get complete(): boolean {
    return false;
  }

  /**
   * Makes keys and invitation. Envelopes are accepted from here on.
   *
   * @param choices - what people may decide if that parks, inside an outage
   */
  async invite(choices?: readonly Choice[]): Promise<void> {
    const epoch = (this.handle?.epoch ?? 0) + 1;
    const { invite } = this.words;
    const name = epoch === 1 ? invite : `${invite} again (epoch ${epoch})`;
    const create = (call: StepCalls) => this.create(call, { epoch, cid: this.#cid });
    const handle = await this.run.step(name, create, { choices });
    this.handle = handle;
    this.fingerprint = handle.fingerprint;
    this.keysLost = undefined;
    this.closed = false;
    this.run.state.invitation = handle.invitation;
    this.run.signals.on('share', (items) => this.#receive(items));
    this.invited(handle);
  }

  /** Destroys the keys, so that recorded envelopes cannot be opened any more. */
  async close(): Promise<void> {
    const effect = 'the sweeper of the worker destroys them when the invitation has expired';
    await this.#end((destroy) => this.run.skippableStep(DESTROY_KEYS, effect, destroy));
  }

  /** As {@link close}, for a run that ends early: a failure becomes a finding and never holds the lock. */
  async abandon(): Promise<void> {
    await this.#end((destroy) => this.run.cleanUp(DESTROY_KEYS, destroy));
  }

  /** Stops asking at once, whatever answers. The keys are destroyed at the end of the run. */
  withdraw(): void {
    this.closed = true;
    if (!this.handle) return;
    this.run.signals.on('share', undefined);
    this.run.state.invitation = undefined;
  }

  async #end(carryOut: (destroy: (call: StepCalls) => Promise<void>) => Promise<unknown>): Promise<void> {
    const ceremony = this.handle;
    this.withdraw();
    if (!ceremony) return;
    await carryOut(async (call) => {
      await this.ending(call);
      await call.destroyCeremonyKeys({ ceremony });
    });
    // Not earlier: if the run is stopped meanwhile, its clean-up destroys them.
    this.handle = undefined;
  }

  async #receive(items: readonly InboxItem[]): Promise<void> {
    const ceremony = this.required();
    const { state } = this.run;
    const { check, gives } = this.words;
    try {
      const arrived = items.map(({ arrival }) => arrival);
      const { verdicts, take } = await state.besideSteps(check, () => this.check(activities, ceremony, arrived));
      // What the keys of an earlier epoch opened cannot be used with those of this one.
      const past = this.#isPast(ceremony);
      const known = verdicts.map((each) => (past && each.code === 'accepted' ? { ...each, ...ANOTHER_ROUND } : each));
      receiveVerdicts(state, known, gives);
      if (past || this.closed) return;
      this.keysLost = undefined;
      take();
    } catch (error) {
      const failure = failureFacts(error);
      if (!failure) throw error;
      receiveVerdicts(state, this.#unchecked(items, ceremony, failure.code), gives);
    }
    if (!this.closed) this.show();
  }

  /** If enough is collected, the token generation finds out for itself whether the keys are there. */
  #unchecked(items: readonly InboxItem[], ceremony: CeremonyHandle, code: string): EnvelopeVerdict[] {
    const past = this.#isPast(ceremony);
    const lost = KEYS_LOST.has(code) && !past && !this.complete;
    if (lost) this.keysLost = code;
    const verdict = lost
      ? { code: 'keys-gone', text: 'refused: the keys of this invitation are gone, so it does not count' }
      : { code: 'not-checked', text: `could not be checked now (${code}); send it again` };
    return items.map(({ arrival, input }) => {
      const plain = plainSecretIn(input);
      if (plain) return { arrival, code: plain, text: ENVELOPE_VERDICTS[plain] };
      return { arrival, ...(past ? ANOTHER_ROUND : verdict) };
    });
  }

  /** Whether people were asked again meanwhile. */
  #isPast({ epoch }: CeremonyHandle): boolean {
    return this.handle !== undefined && this.handle.epoch !== epoch;
  }

  protected required(): CeremonyHandle {
    if (!this.handle) throw new TypeError('nobody was asked yet');
    return this.handle;
  }

  /** How long people can still answer, in ms. */
  protected get leftMs(): number {
    return Math.max(1000, this.required().collectUntil - Date.now());
  }
}

/** A sealed token opens for 24 h. A token older than this is kept only to delete it, and another one is made. */
export const USED_FOR_MS = 23 * 3_600_000;
/** People are asked again if less than this is left to answer. */
const ANSWERING_LEFT_MS = 60_000;

/** Asks people for tokens. */
export interface CeremonyRequest {
  readonly deployment: string;
  readonly runbook: string;
  readonly reason: string;
  readonly requestedBy: string;
  /** Every cluster on which the run will need a token, so that everybody is asked once. */
  readonly targets: readonly CeremonyTarget[];
  readonly inputDigest: string;
}

/** What people may decide while a token is waited for or generated. */
export interface Parked {
  /** Besides `retry`. */
  readonly choices?: readonly Choice[] | undefined;
  /** If set, people may skip it. Says what skipping leaves behind. */
  readonly skipEffect?: string | undefined;
}

/** What is waited for, and what is shown if people may decide something else. */
interface Wanted extends Parked {
  readonly step: string;
  readonly code: 'SHARES_MISSING' | 'TOKEN_MISSING';
  readonly message: string;
  readonly next: string;
}

/** How people's answers become operation tokens, for several clusters from one request. */
export abstract class PeoplesTokens extends Collection {
  abstract readonly source: 'ceremony' | 'provided';
  #inviting: Promise<void> | undefined;

  constructor(
    run: Run,
    protected readonly request: CeremonyRequest,
    words: ConstructorParameters<typeof Collection>[2],
    /** Besides what was requested. */
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

  /**
   * Waits for what is needed first.
   *
   * @param choices - what people may decide meanwhile, inside an outage
   */
  abstract collect(first?: string, choices?: readonly Choice[]): Promise<void>;

  /**
   * The operation token of one cluster.
   *
   * @param parked - choices besides `retry` if it parks; with `skipEffect` people may skip it
   * @returns undefined if it was skipped
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

  /** Whether its cluster accepts the available token. */
  takes(_cluster: string): Promise<boolean> {
    return Promise.resolve(true);
  }

  /** Whether further tokens stay available for this long, in ms, without asking anyone for what they already gave. */
  lastsFor(_ms: number): boolean {
    return true;
  }

  /** Invites, unless an earlier part of the run did and people can still answer. */
  async ready(choices?: readonly Choice[]): Promise<void> {
    const { handle, keysLost } = this;
    if (!handle || this.closed) return this.invite(choices);
    const isOpen = keysLost === undefined && Date.now() < handle.collectUntil - ANSWERING_LEFT_MS;
    if (!this.complete && !isOpen) await this.inviteAgain(keysLost ?? 'EXPIRED', handle.epoch, choices);
  }

  /** Collects again, also from people who already gave. */
  async collectAgain(): Promise<void> {
    await this.collect();
  }

  /** A new epoch. Branches that find the same keys lost share it, so that nobody is asked twice. */
  protected async inviteAgain(code: string, lostEpoch: number, choices?: readonly Choice[]): Promise<void> {
    if (this.required().epoch !== lostEpoch) return;
    this.#inviting ??= (async () => {
      const text = `The keys of epoch ${lostEpoch} cannot be used any more (${code}). The people who were asked are asked again.`;
      this.run.state.finding({ severity: 'warning', code: 'ceremony-keys-lost', text });
      await this.invite(choices);
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
   * Waits for people. Inside an outage, or if they may skip it, the clock never ends this wait, and they may decide on another
   * choice. If the time to answer ends while no cluster serves, the keys count as lost, so that people are asked again.
   *
   * @param notInTime - what to report if the clock ends the run
   * @returns whether it was skipped
   * @throws RunStopped, or OutageDecision inside an outage
   */
  protected async waitFor(done: () => boolean, wanted: Wanted, notInTime: () => string): Promise<boolean> {
    const { run } = this;
    const isOver = () => done() || this.keysLost !== undefined;
    if (run.inOutage || wanted.skipEffect !== undefined) return this.#waitOrDecide(isOver, wanted);
    run.state.fact({ kind: 'asked', asked: true });
    const came = await run
      .waitFor(isOver, this.leftMs, 'the time of the people who are asked ends')
      .finally(() => run.state.fact({ kind: 'asked', asked: false }));
    if (came) return false;
    // A failover is in the outage from its beginning, so no clock ends it.
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
