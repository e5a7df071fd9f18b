import type { Assessment, Authority } from '../../src/contracts/activities';
import { APPROVALS_TOO_OLD } from '../../src/contracts/plan';
import type { GateName } from '../../src/contracts/plan';
import type { Asking } from './approved-plan';
import { approveFurther } from './approved-plan';
import type { FailureFacts } from './failures';
import { failureFacts } from './failures';
import type { Run } from './run';

/** Whether an activity refused approvals for their age alone (decision 36): new ones of the same gate serve. */
export function areTooOld({ code, about }: FailureFacts): boolean {
  return code === 'NOT_APPROVED' && about === APPROVALS_TOO_OLD;
}

/**
 * Plan and approvals of a run. Where an activity judges them too old to begin with, their gate is opened again, so that no
 * run ends for the sake of a date. Never used where nothing may wait for people.
 */
export class RenewedApprovals<R> {
  readonly #run: Run;
  readonly #input: Asking;
  readonly #assessed: Assessment<R>;
  #authority: Authority;

  constructor(
    run: Run,
    input: Asking,
    { assessed, authority }: { readonly assessed: Assessment<R>; readonly authority: Authority },
  ) {
    this.#run = run;
    this.#input = input;
    this.#assessed = assessed;
    this.#authority = authority;
  }

  get authority(): Authority {
    return this.#authority;
  }

  /**
   * Carries out what begins something, and again with new approvals as often as its activity finds them too old.
   *
   * @throws RunStopped where somebody rejects, or nobody approves in time
   */
  async begin<T>(gate: GateName, carryOut: (authority: Authority) => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await carryOut(this.#authority);
      } catch (error) {
        const failure = failureFacts(error);
        if (!failure || !areTooOld(failure)) throw error;
        await this.renew(gate, failure);
      }
    }
  }

  /** Opens the gate again: what the run holds is kept, and the new approvals come beside the old ones. */
  async renew(gate: GateName, { observed, next }: FailureFacts): Promise<void> {
    const { state } = this.#run;
    state.finding({
      severity: 'warning',
      code: 'approval-expired',
      text: `The approvals of gate ${gate} were older than they count right before the change, and nothing was sent; they are asked for again. Observed: ${observed ?? 'nothing more'}.`,
      next,
    });
    const { phase } = state;
    state.enterPhase('waiting-for-people');
    await this.further(gate);
    state.enterPhase(phase);
  }

  /** Opens one gate over the same plan. */
  async further(gate: GateName): Promise<void> {
    const asked = { assessed: this.#assessed, authority: this.#authority };
    this.#authority = await approveFurther(this.#run, this.#input, asked, gate);
  }
}
