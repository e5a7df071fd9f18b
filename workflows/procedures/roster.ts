import { CancellationScope, condition } from '@temporalio/workflow';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import type { Waiting } from '../../src/contracts/run-status';
import type { Run } from '../engine/run';
import type { HeldShares } from './held-shares';

/**
 * Who is asked for a key share in one epoch. Stand-by holders are named in the invitation with the others, and asked when
 * shares are missing after a while. Nobody is ever refused because of his place in it: who stands by may give early.
 */
export class Roster {
  readonly #run: Run;
  readonly #ceremony: CeremonyHandle;
  readonly #shares: HeldShares;
  /** Who stands by and is not asked yet. */
  #standBy: readonly string[];
  readonly #askStandByAt: number;

  /** @param before - the roster of the epoch before: who was called in stays called in */
  constructor(run: Run, ceremony: CeremonyHandle, shares: HeldShares, before: Roster | undefined) {
    this.#run = run;
    this.#ceremony = ceremony;
    this.#shares = shares;
    const { standBy = [], inviteStandByAfterMs = 0, holders, epoch } = ceremony;
    this.#standBy = before ? standBy.filter((name) => before.#standBy.includes(name)) : standBy;
    this.#askStandByAt = Date.now() + inviteStandByAfterMs;
    const names = holders.filter((name) => !this.#standBy.includes(name));
    run.state.fact({ kind: 'holders-asked', epoch, as: 'holder', names, why: 'invited' });
  }

  /** Shows what is waited for, and from whom. */
  show(): void {
    const { cid, epoch, collectUntil, notJoined, recovery } = this.#ceremony;
    const { held, needed } = this.#shares;
    const aside = this.#missing().filter((name) => this.#standBy.includes(name));
    const waiting: Waiting = {
      ...({ for: 'shares', cid, epoch, held, threshold: needed, until: collectUntil } as const),
      missingHolders: this.#missing().filter((name) => !aside.includes(name)),
      ...(recovery && { recovery }),
      ...(aside.length > 0 && { standBy: { holders: aside, askedFrom: this.#askStandByAt } }),
      ...(notJoined && { notJoined }),
    };
    this.#run.state.wait('shares', waiting);
  }

  /** What to say where the time to collect ended. */
  notInTime(): string {
    const { held, needed } = this.#shares;
    const missing = this.#missing().join(', ') || 'nobody';
    return `only ${held.length} of ${needed} key shares came in time; not yet: ${missing}`;
  }

  /**
   * While shares are missing: asks who stands by when their time has come.
   *
   * @param over - whether the collecting has ended
   */
  watch(over: () => boolean): void {
    if (this.#standBy.length === 0) return;
    // Beside the wait: it costs a timer only where somebody stands by.
    void CancellationScope.nonCancellable(async () => {
      const ended = await condition(over, Math.max(1, this.#askStandByAt - Date.now()));
      if (!ended) this.#callStandBy();
    });
  }

  #callStandBy(): void {
    const { state } = this.#run;
    const names = this.#missing().filter((name) => this.#standBy.includes(name));
    this.#standBy = [];
    if (names.length === 0) return;
    const why = `shares were still missing after ${inMinutes(this.#ceremony.inviteStandByAfterMs ?? 0)}`;
    state.fact({ kind: 'holders-asked', epoch: this.#ceremony.epoch, as: 'stand-by', names, why });
    if (state.waiting.has('shares')) this.show();
    const text = `${state.runbook} now asks who stands by, ${names.join(' and ')}, for a key share: ${why}.`;
    state.notifications.ofWait('shares', 'stand-by-called', text);
  }

  /** Invited, and not in hand. */
  #missing(): string[] {
    return this.#ceremony.holders.filter((name) => !this.#shares.held.includes(name));
  }
}

function inMinutes(milliseconds: number): string {
  return milliseconds < 60_000 ? `${milliseconds / 1000} s` : `${Math.round(milliseconds / 60_000)} min`;
}
