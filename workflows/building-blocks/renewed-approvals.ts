import type { Assessment, Authority } from '../../src/contracts/activities';
import { APPROVALS_TOO_OLD } from '../../src/contracts/plan';
import type { GateName } from '../../src/contracts/plan';
import type { Asking } from './approved-plan';
import { approveFurther } from './approved-plan';
import type { FailureFacts } from './failures';
import { StepFailed, failureFacts } from './failures';
import type { Run } from './run';

/** Whether an activity refused approvals for their age alone (decision 36): new ones of the same gate serve. */
export function areTooOld({ code, about }: FailureFacts): boolean {
  return code === 'NOT_APPROVED' && about === APPROVALS_TOO_OLD;
}

/** Why a gate is opened again, in words. */
export function tooOldBefore(observed: string): string {
  return `the approvals were too old right before the change (${observed})`;
}

/** Whether it was refused for that with nothing sent. */
export function notBegunForAge(failure: FailureFacts): boolean {
  return failure.outcomeKnown && areTooOld(failure);
}

/** What begins an outage was not begun, because its approvals are too old: everything is as before. */
export class NotBegun extends Error {
  constructor(readonly failure: FailureFacts) {
    super(failure.message);
    this.name = 'NotBegun';
  }
}

/** @throws NotBegun where the error says that; else the error */
export function asNotBegun(error: unknown): never {
  throw error instanceof StepFailed && notBegunForAge(error.failure) ? new NotBegun(error.failure) : error;
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
   * Carries out what begins something, and again with new approvals as often as its activity finds them too old. Where it
   * is not known what an earlier try sent, that comes first: an operator looks, and a retry asks for approvals.
   *
   * @throws RunStopped where somebody rejects, or nobody approves in time
   */
  async begin<T>(gate: GateName, carryOut: (authority: Authority) => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await carryOut(this.#authority);
      } catch (error) {
        const failure = failureFacts(error);
        if (!failure || !notBegunForAge(failure)) throw error;
        await this.renew(gate, failure);
      }
    }
  }

  /** Opens the gate again: what the run holds is kept, and the new approvals come beside the old ones. */
  async renew(gate: GateName, { observed = 'nothing more', next, outcomeKnown }: FailureFacts): Promise<void> {
    const { state } = this.#run;
    const sent = outcomeKnown ? 'nothing was sent' : 'what an earlier try sent is looked at first';
    state.finding({
      severity: 'warning',
      code: 'approval-expired',
      text: `The approvals of gate ${gate} were older than they count right before the change; ${sent}. They are asked for again. Observed: ${observed}.`,
      next,
    });
    const { phase } = state;
    // For whoever looks at the phase alone an outage stays one.
    if (phase !== 'outage') state.enterPhase('waiting-for-people');
    await this.further(gate, tooOldBefore(observed));
    if (phase !== 'outage') state.enterPhase(phase);
  }

  /**
   * Opens one gate over the same plan.
   *
   * @param again - why, where it was met before
   */
  async further(gate: GateName, again?: string): Promise<void> {
    const asked = { assessed: this.#assessed, authority: this.#authority };
    this.#authority = await approveFurther(this.#run, this.#input, asked, gate, again);
  }
}
