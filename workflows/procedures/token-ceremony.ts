import { generateRootToken, generateToken, INVITE } from '../../src/moves/tokens';
import { CancellationScope, condition } from '@temporalio/workflow';
import type { Authority, WantedToken } from '../../src/contracts/activities';
import { UNFIT_SHARES } from '../../src/contracts/ceremony';
import type { CeremonyHandle, OperationTokenReference } from '../../src/contracts/ceremony';
import type { Waiting } from '../../src/contracts/run-status';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from '../engine/activity-calls';
import { StepFailed } from '../engine/failures';
import type { FailureFacts } from '../engine/failures';
import { LEAVE } from '../engine/parking';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';
import type { CeremonyRequest, Parked } from './collection';
import { KEYS_LOST, PeoplesTokens } from './collection';
import { HeldShares, TokenGenerations, badShareFindings } from './token-generation';

/** What is generated: a token of the run, or one for a person, encrypted to their key and begun only with fresh approvals. */
export interface CeremonyKind {
  readonly kind: 'operation-token' | 'root-token';
  readonly person?: {
    readonly recipientPgpKey: string;
    readonly begin: <T>(carryOut: (authority: Authority) => Promise<T>) => Promise<T>;
  };
  /** How long the record keeps the token for a later run. */
  readonly keepFor?: string | undefined;
}

type Making = ReturnType<TokenGenerations['generate']>;

/**
 * Collects sealed key shares from separate holders, and turns them into tokens for several clusters from one request. Shares
 * stay sealed until enough are collected, and then go to the service in one short token generation per cluster.
 */
export class TokenCeremony extends PeoplesTokens {
  readonly source = 'ceremony';
  readonly #kind: CeremonyKind;
  readonly #generations: TokenGenerations;
  #shares = new HeldShares();
  /** Named in the invitation with the others, but not asked until shares are still missing after a while. */
  #standBy: readonly string[] = [];
  /** Of this epoch, in epoch milliseconds. The keys are destroyed `useForMs` after the shares were first used. */
  #keys:
    | { readonly useForMs: number; readonly collectUntil: number; readonly askStandByAt: number; usedAt?: number }
    | undefined;
  /** What people may decide while shares are collected inside an outage. */
  #parked: Parked = { choices: [LEAVE] };
  #encrypted: string | undefined;

  constructor(run: Run, request: CeremonyRequest, kind: CeremonyKind = { kind: 'operation-token' }) {
    const { keepFor, person } = kind;
    const words = { invite: INVITE, check: 'Check key shares' };
    super(run, request, words, { kind: kind.kind, recipientPgpKey: person?.recipientPgpKey, keepFor });
    this.#kind = kind;
    this.#generations = new TokenGenerations((finding) => this.run.state.finding(finding));
  }

  override lastsFor(ms: number): boolean {
    if (!this.#keys) return false;
    const { usedAt, collectUntil, useForMs } = this.#keys;
    return Date.now() + ms < (usedAt ?? collectUntil) + useForMs;
  }

  /** A token that was made for a person, encrypted to them, even if a stop came at the same time. */
  get encrypted(): string | undefined {
    return this.#encrypted;
  }

  override async collectAgain(): Promise<void> {
    await this.invite();
    await this.collect();
  }

  /** Waits for people, until enough envelopes are collected. */
  async collect(_first?: string, choices?: readonly Choice[]): Promise<void> {
    if (choices) this.#parked = { choices };
    while (!this.complete) {
      const { epoch } = this.required();
      await this.#collectOnce();
      if (this.keysLost !== undefined) await this.inviteAgain(this.keysLost, epoch, choices);
    }
  }

  async generate(
    cluster: string,
    uses: readonly TokenUse[],
    parked: Parked = {},
  ): Promise<OperationTokenReference | undefined> {
    const made = await this.#generateOn(cluster, parked, (make) => make({ kind: 'operation-token', uses }));
    return made?.sealed && { source: 'sealed', cluster, value: made.sealed, entry: made.entry };
  }

  /** The token of the one cluster that was asked for, encrypted to its recipient. */
  async generateForPerson(): Promise<string> {
    const { kind, person } = this.#kind;
    const [target] = this.request.targets;
    if (!person || !target) throw new TypeError('this is no ceremony for a person');
    const { cluster, uses } = target;
    const { recipientPgpKey, begin } = person;
    const made = await this.#generateOn(cluster, {}, (make) =>
      begin(async (authority) => {
        const given = { recipientPgpKey, authority };
        const generated = await make(kind === 'root-token' ? { kind, ...given } : { kind, uses, ...given });
        this.#encrypted = generated.encrypted;
        return generated;
      }),
    );
    if (made?.encrypted === undefined) throw new TypeError('a step that cannot be skipped was skipped');
    return made.encrypted;
  }

  /** Asks for a further share only if the service rejected some, and for all of them if the keys are lost. */
  async #generateOn(
    cluster: string,
    { choices, skipEffect }: Parked,
    carryOut: (make: (wanted: WantedToken) => Making) => Making,
  ): Promise<Awaited<Making> | undefined> {
    const isRoot = this.#kind.kind === 'root-token';
    const name = isRoot ? generateRootToken(cluster) : generateToken(cluster);
    const body = (call: StepCalls) =>
      carryOut((wanted) => {
        if (this.#keys) this.#keys.usedAt ??= Date.now();
        const request = { deployment: this.deployment, cluster, ceremony: this.required(), wanted };
        return this.#generations.generate(call, request, this.#shares);
      });
    this.#parked = { choices: choices ?? [LEAVE] };
    const options = {
      ...(choices && { choices }),
      onFailure: (failure: FailureFacts) => (areUnfit(failure) || KEYS_LOST.has(failure.code) ? 'throw' : 'park'),
    };
    for (;;) {
      const { epoch } = this.required();
      try {
        const made =
          skipEffect === undefined
            ? await this.run.step(name, body, options)
            : await this.run.skippableStep(name, skipEffect, body, options);
        if (!made) return undefined;
        this.run.state.noteFindings(badShareFindings(cluster, made.badShares));
        return made;
      } catch (error) {
        if (!(error instanceof StepFailed)) throw error;
        if (KEYS_LOST.has(error.failure.code)) await this.inviteAgain(error.failure.code, epoch, choices);
        else this.#reportRejected(cluster, error.failure);
        await this.collect(cluster, choices);
      }
    }
  }

  #reportRejected(cluster: string, { message, observed = 'nothing more' }: FailureFacts): void {
    const { state } = this.run;
    if (!this.#shares.askForMore(cluster)) return;
    const { held, needed } = this.#shares;
    const isEverybody = needed > this.required().holders.length;
    const further = isEverybody ? '' : ', or one more holder gives theirs';
    const outage = state.serviceIsOut ? ' No cluster serves clients until then: call them now.' : '';
    // Relevant first while holders are waited for. Nothing of it is left to do once a token was made.
    state.finding({
      severity: 'warning',
      code: 'shares-rejected',
      text: `The collected key shares made no token on ${cluster}. ${message} Observed: ${observed}.`,
      next: `Until a token is made: one of ${held.join(', ')} gives the right share with the same command${further}. The run then tries subsets until the bad share is proven.${outage}`,
    });
  }

  async #collectOnce(): Promise<void> {
    this.#wait();
    let over = false;
    this.#callStandByLater(() => over || this.complete || this.keysLost !== undefined);
    const wanted = {
      ...this.#parked,
      ...({ step: 'Collect key shares in the outage', code: 'SHARES_MISSING' } as const),
      message: 'No cluster is primary, and the token for the next promotion needs key shares again.',
      next: 'The holders give their shares, or choose another option.',
    };
    const notInTime = () => {
      const { held, needed } = this.#shares;
      const missing = this.#missing().join(', ') || 'nobody';
      return `only ${held.length} of ${needed} key shares arrived in time; missing: ${missing}`;
    };
    try {
      await this.waitFor(() => this.complete, wanted, notInTime);
    } finally {
      over = true;
      this.run.state.waitOver('shares');
    }
  }

  override withdraw(): void {
    if (this.handle) this.run.state.waitOver('shares');
    super.withdraw();
  }

  protected override async ending(call: StepCalls): Promise<void> {
    await this.#generations.settle(call);
  }

  protected override invited({ useForMs = Infinity, ...handle }: CeremonyHandle): void {
    const { collectUntil, threshold, standBy = [], holders, epoch } = handle;
    // A holder who was called in before stays called in.
    this.#standBy = epoch === 1 ? standBy : standBy.filter((name) => this.#standBy.includes(name));
    this.#keys = { useForMs, collectUntil, askStandByAt: Date.now() + (handle.inviteStandByAfterMs ?? 0) };
    this.#shares = new HeldShares(threshold);
    const names = holders.filter((name) => !this.#standBy.includes(name));
    this.run.state.fact({ kind: 'holders-asked', epoch, as: 'holder', names, why: 'invited' });
  }

  protected override async check(call: StepCalls, ceremony: CeremonyHandle, arrived: readonly number[]) {
    const held = this.#shares.arrivals;
    const { verdicts } = await call.openEnvelopes({ deployment: this.deployment, ceremony, held, arrived });
    return { verdicts, take: () => this.#shares.take(verdicts) };
  }

  /** Whether enough shares for a token are collected. */
  protected override get complete(): boolean {
    return this.#keys !== undefined && this.#shares.held.length >= this.#shares.needed;
  }

  protected override show(): void {
    if (this.run.state.waiting.has('shares')) this.#wait();
  }

  /** Shows what is waited for, and from whom. */
  #wait(): void {
    const { cid, epoch, collectUntil, notJoined, recovery } = this.required();
    const { held, needed } = this.#shares;
    const aside = this.#missing().filter((name) => this.#standBy.includes(name));
    const waiting: Waiting = {
      ...({ for: 'shares', cid, epoch, held, threshold: needed, until: collectUntil } as const),
      missingHolders: this.#missing().filter((name) => !aside.includes(name)),
      ...(recovery && { recovery }),
      ...(aside.length > 0 && { standBy: { holders: aside, askedFrom: this.#keys?.askStandByAt ?? 0 } }),
      ...(notJoined && { notJoined }),
    };
    this.run.state.wait('shares', waiting);
  }

  /**
   * While shares are missing: asks the stand-by holders when their time has come. Nobody is ever refused because of their place:
   * a stand-by holder may give early.
   *
   * @param over - whether the collection has ended
   */
  #callStandByLater(over: () => boolean): void {
    if (this.#standBy.length === 0) return;
    const leftMs = Math.max(1, (this.#keys?.askStandByAt ?? 0) - Date.now());
    // In parallel with the wait. It costs a timer only if somebody stands by.
    void CancellationScope.nonCancellable(async () => {
      if (!(await condition(over, leftMs, { summary: 'ask the holders who stand by' }))) this.#callStandBy();
    });
  }

  #callStandBy(): void {
    const { state } = this.run;
    const { epoch, inviteStandByAfterMs = 0 } = this.required();
    const names = this.#missing().filter((name) => this.#standBy.includes(name));
    this.#standBy = [];
    if (names.length === 0) return;
    const why = `shares were still missing after ${inMinutes(inviteStandByAfterMs)}`;
    state.fact({ kind: 'holders-asked', epoch, as: 'stand-by', names, why });
    this.show();
    const text = `${state.runbook} now asks the stand-by holders, ${names.join(' and ')}, for a key share: ${why}.`;
    state.notifications.ofWait('shares', 'stand-by-called', text);
  }

  /** Invited, and no share collected yet. */
  #missing(): string[] {
    return this.required().holders.filter((name) => !this.#shares.held.includes(name));
  }
}

function inMinutes(milliseconds: number): string {
  return milliseconds < 60_000 ? `${milliseconds / 1000} s` : `${Math.round(milliseconds / 60_000)} min`;
}

/** Whether the collected shares do not work: a holder corrects theirs, or a further holder gives one. */
function areUnfit({ code, about }: FailureFacts): boolean {
  return code === 'SHARES_REJECTED' || (code === 'SHARES_MISSING' && about === UNFIT_SHARES);
}
