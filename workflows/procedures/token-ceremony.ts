import { CancellationScope } from '@temporalio/workflow';
import type { Authority, WantedToken } from '../../src/contracts/activities';
import { UNFIT_SHARES } from '../../src/contracts/ceremony';
import type { CeremonyHandle, CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from '../engine/activity-calls';
import { RunStopped, StepFailed } from '../engine/failures';
import type { FailureFacts } from '../engine/failures';
import type { Choice } from '../engine/parking';
import { LEAVE } from '../engine/parking';
import type { Run } from '../engine/run';
import type { Parked } from './collection';
import { Collection, KEYS_LOST, areAsked } from './collection';
import { HeldShares } from './held-shares';
import { Roster } from './roster';
import { TokenGenerations, badShareFindings } from './token-generation';
import type { GenerationCalls } from './token-generation';

/** Who asks the key holders for tokens, and for what. */
export interface CeremonyRequest {
  readonly deployment: string;
  readonly runbook: string;
  readonly reason: string;
  readonly requestedBy: string;
  /** Every cluster on which the run will need a token, so that each holder is asked once. */
  readonly targets: readonly CeremonyTarget[];
  readonly inputDigest: string;
}

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

/** Shares are asked for anew where less than this is left to collect the missing ones. */
const COLLECTING_LEFT_MS = 60_000;

/**
 * Collects sealed key shares from separate holders, and turns them into tokens for several clusters from one ask. Shares
 * stay sealed until enough are in hand, and then go to the service in one short token generation per cluster.
 */
export class TokenCeremony extends Collection {
  readonly source = 'ceremony';
  readonly #request: CeremonyRequest;
  readonly #kind: CeremonyKind;
  readonly #generations: TokenGenerations;
  #shares = new HeldShares();
  #roster: Roster | undefined;
  /** Of this epoch, in epoch milliseconds: the keys are destroyed so long after the shares were used first. */
  #keys: { readonly useForMs: number; readonly collectUntil: number; usedAt?: number } | undefined;
  /** What people may decide while shares are collected inside an outage. */
  #waysOut: readonly Choice[] = [LEAVE];
  #encrypted: string | undefined;

  constructor(run: Run, request: CeremonyRequest, kind: CeremonyKind = { kind: 'operation-token' }) {
    super(run, request.deployment, {
      invite: 'Invite the key holders',
      check: 'Check key shares',
      destroy: 'Destroy the ceremony keys',
      destroySkipped: 'the sweeper of the worker destroys them when the invitation has expired',
    });
    this.#request = request;
    this.#kind = kind;
    this.#generations = new TokenGenerations((finding) => this.run.state.finding(finding));
  }

  /** Whether the holders were asked for this, so that nobody has to be asked again. */
  covers(target: CeremonyTarget): boolean {
    return !this.closed && areAsked(this.#request.targets, target);
  }

  /** Whether further tokens can be had for so long without asking anyone to give a share that he gave already, ms. */
  lastsFor(ms: number): boolean {
    if (!this.#keys) return false;
    const { usedAt, collectUntil, useForMs } = this.#keys;
    return Date.now() + ms < (usedAt ?? collectUntil) + useForMs;
  }

  isCurrent(): boolean {
    return true;
  }

  /** Its token was made a moment ago, for this very cluster. */
  takes(_cluster: string): Promise<boolean> {
    return Promise.resolve(true);
  }

  /** A token that was made for a person, encrypted to them: also where a stop came with it. */
  get encrypted(): string | undefined {
    return this.#encrypted;
  }

  /** Invites the holders, unless an earlier part of the run did and they can still answer. */
  async ready(): Promise<void> {
    const { handle } = this;
    if (handle && (this.complete || Date.now() < handle.collectUntil - COLLECTING_LEFT_MS)) return;
    await this.invite();
  }

  async collectAnew(): Promise<void> {
    await this.invite();
    await this.collect();
  }

  /** Waits until enough envelopes are in hand. People are waited for here. */
  async collect(): Promise<void> {
    while (!this.complete) {
      const { epoch } = this.required();
      await this.#collectOnce();
      if (this.keysLost !== undefined) await this.#askAgain(this.keysLost, epoch);
    }
  }

  /**
   * The operation token of one cluster.
   *
   * @param parked - choices beside `retry` where it parks; with `skipEffect` people may skip it
   * @returns undefined where it was skipped
   */
  async generate(
    cluster: string,
    uses: readonly TokenUse[],
    parked: Parked = {},
  ): Promise<OperationTokenReference | undefined> {
    const name = `Generate operation token on ${cluster}`;
    const made = await this.#generateOn(name, cluster, parked, (call) =>
      this.#attempt(call, cluster, { kind: 'operation-token', uses }),
    );
    return made?.sealed && { source: 'sealed', cluster, value: made.sealed };
  }

  /** The token of the one cluster that was asked about, encrypted to its recipient. */
  async generateForPerson(): Promise<string> {
    const { kind, person } = this.#kind;
    const [target] = this.#request.targets;
    if (!person || !target) throw new TypeError('this is no ceremony for a person');
    const { cluster, uses } = target;
    const { recipientPgpKey, begin } = person;
    const name = `Generate ${kind === 'root-token' ? 'root' : 'operation'} token on ${cluster}`;
    const made = await this.#generateOn(name, cluster, {}, (call) =>
      begin(async (authority) => {
        const given = { recipientPgpKey, authority };
        const wanted: WantedToken = kind === 'root-token' ? { kind, ...given } : { kind, uses, ...given };
        const generated = await this.#attempt(call, cluster, wanted);
        this.#encrypted = generated.encrypted;
        return generated;
      }),
    );
    if (made?.encrypted === undefined) throw new TypeError('a step that cannot be skipped was skipped');
    return made.encrypted;
  }

  /** Asks for a further share only where the service rejected some, and for all of them where the keys are lost. */
  async #generateOn(
    name: string,
    cluster: string,
    { choices, skipEffect }: Parked,
    body: (call: StepCalls) => ReturnType<TokenGenerations['generate']>,
  ): Promise<Awaited<ReturnType<TokenGenerations['generate']>> | undefined> {
    this.#waysOut = choices ?? [LEAVE];
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
        if (KEYS_LOST.has(error.failure.code)) await this.#askAgain(error.failure.code, epoch);
        else this.#tellRejected(cluster, error.failure);
        await this.collect();
      }
    }
  }

  #attempt(call: StepCalls, cluster: string, wanted: WantedToken): ReturnType<TokenGenerations['generate']> {
    if (this.#keys) this.#keys.usedAt ??= Date.now();
    const request = { deployment: this.deployment, cluster, ceremony: this.required(), wanted };
    return this.#generations.generate(unstoppable(call), request, this.#shares);
  }

  #tellRejected(cluster: string, { message, observed = 'nothing more' }: FailureFacts): void {
    const { state } = this.run;
    this.#shares.askForMore();
    const { held, needed } = this.#shares;
    const isEverybody = needed > this.required().holders.length;
    const further = isEverybody ? 'everybody who is asked gave already' : 'or one more holder gives his';
    const outage = state.serviceIsOut ? ' No cluster serves clients until then: call them now.' : '';
    state.finding({
      severity: state.serviceIsOut ? 'critical' : 'warning',
      code: 'shares-rejected',
      text: `The key shares in hand made no token on ${cluster}. ${message} Observed: ${observed}.`,
      next: `One of ${held.join(', ')} corrects his share by the same command, ${further}: subsets are then tried until the bad one is proven.${outage}`,
    });
  }

  async #collectOnce(): Promise<void> {
    this.#roster?.show();
    const done = () => this.complete || this.keysLost !== undefined;
    let over = false;
    this.#roster?.watch(() => over || done());
    try {
      const { run } = this;
      if (run.inOutage) {
        await this.waitOrDecide(done, {
          ...({ step: 'Collect key shares in the outage', code: 'SHARES_MISSING', choices: this.#waysOut } as const),
          message: 'No cluster is primary, and the token for the next promotion needs key shares again.',
          next: 'The holders give their shares; or decide for another way.',
        }).finally(() => run.state.waitOver('shares'));
        return;
      }
      const inTime = await run.waitFor(done, this.leftMs);
      run.state.waitOver('shares');
      if (inTime) return;
      // A failover is in the outage from its beginning: no clock ends it, and the holders are asked with new keys.
      if (run.state.serviceIsOut) this.keysLost = 'EXPIRED';
      else throw run.stop(new RunStopped('the clock', this.#roster?.notInTime() ?? ''));
    } finally {
      over = true;
    }
  }

  #askAgain(code: string, epoch: number): Promise<void> {
    return this.inviteAgain(
      `The keys of epoch ${epoch} cannot be used any more (${code}); the holders are asked again.`,
      epoch,
    );
  }

  override async abandon(): Promise<void> {
    if (this.handle) this.run.state.waitOver('shares');
    await super.abandon();
  }

  protected override async ending(call: StepCalls): Promise<void> {
    await this.#generations.settle(call);
  }

  protected override async create(call: StepCalls, round: { readonly epoch: number; readonly cid: string }) {
    const { kind, person, keepFor } = this.#kind;
    const recipientPgpKey = person?.recipientPgpKey;
    return call.createCeremony({ kind, recipientPgpKey, keepFor, ...this.#request, ...round });
  }

  protected override invited(handle: CeremonyHandle): void {
    this.#keys = { useForMs: handle.useForMs ?? Infinity, collectUntil: handle.collectUntil };
    this.#shares = new HeldShares(handle.threshold);
    this.#roster = new Roster(this.run, handle, this.#shares, this.#roster);
  }

  protected override async check(call: StepCalls, ceremony: CeremonyHandle, arrived: readonly number[]) {
    const held = this.#shares.arrivals;
    const { verdicts } = await call.openEnvelopes({ deployment: this.deployment, ceremony, held, arrived });
    return { verdicts, take: () => this.#shares.take(verdicts) };
  }

  /** Whether the shares in hand are enough for a token. */
  protected override get complete(): boolean {
    return this.#roster !== undefined && this.#shares.held.length >= this.#shares.needed;
  }

  /** What was being checked when the run was stopped comes after the end of the ceremony. */
  protected override show(): void {
    if (this.handle && this.run.state.waiting.has('shares')) this.#roster?.show();
  }
}

/** Nothing stops the last share, nor what finds out whether there is a token. */
function unstoppable(call: StepCalls): GenerationCalls {
  return {
    startGeneration: (input) => call.startGeneration(input),
    completeGeneration: (input) => CancellationScope.nonCancellable(() => call.completeGeneration(input)),
    settleGeneration: (input) => CancellationScope.nonCancellable(() => call.settleGeneration(input)),
  };
}

/** Whether the shares in hand do not do: a holder corrects his, or a further one gives. */
function areUnfit({ code, about }: FailureFacts): boolean {
  return code === 'SHARES_REJECTED' || (code === 'SHARES_MISSING' && about === UNFIT_SHARES);
}
