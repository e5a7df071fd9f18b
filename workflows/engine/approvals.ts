import type { Assessment, Authority } from '../../src/contracts/activities';
import type { PlanDocument } from '../../src/contracts/plan';
import { APPROVALS_TOO_OLD } from '../../src/contracts/plan';
import type { ChangeWindow } from '../../src/contracts/runbook-inputs';
import { CHECK_FAILED } from '../../src/contracts/run-status';
import type { Finding } from '../../src/contracts/run-facts';
import type { GateName } from '../../src/contracts/gates';
import type { FailureFacts } from './failures';
import { RunStopped, failureFacts, stepFailure } from './failures';
import { passGate } from './gates';
import type { Run } from './run';

/** What a gate is opened with. */
export interface Asked {
  readonly requestedBy?: string | undefined;
  readonly window?: ChangeWindow | undefined;
}

/** Whether an activity refused the approvals only because of their age. New approvals of the same gate help then. */
export function approvalsAreTooOld({ code, about }: FailureFacts): boolean {
  return code === 'NOT_APPROVED' && about === APPROVALS_TOO_OLD;
}

/**
 * The plan of a run, with its approvals. Only the activity that acts decides whether an approval is too old. If it is, the step
 * parks, and `retry` opens the gate again.
 */
export class Approvals {
  /** Gates whose approvals do not count any more, with the reason. */
  readonly #old = new Map<GateName, FailureFacts>();

  constructor(
    private readonly run: Run,
    private readonly asked: Asked,
    private readonly gates: Assessment<unknown>['gates'],
    /** Plan and approvals, for the activities that verify them. */
    public authority: Authority,
  ) {}

  /**
   * Runs what begins something, in the body of a step. If the approvals of its gate were too old at the last try, new ones are
   * asked for first.
   */
  async begin<T>(gate: GateName, carryOut: (authority: Authority) => Promise<T>): Promise<T> {
    const old = this.#old.get(gate);
    if (old) await this.renew(gate, old);
    try {
      return await carryOut(this.authority);
    } catch (error) {
      const failure = failureFacts(error);
      // If it is not known what an earlier try sent, the next try reads before anybody is asked.
      if (failure?.outcomeKnown === true && approvalsAreTooOld(failure)) this.#old.set(gate, failure);
      throw error;
    }
  }

  /** Opens the gate again. What the run holds is kept, and the new approvals are added to the old ones. */
  async renew(gate: GateName, { observed = 'nothing more' }: FailureFacts): Promise<void> {
    const { state } = this.run;
    const { phase } = state;
    // An outage stays one for anybody who looks only at the phase.
    if (phase !== 'outage') state.enterPhase('waiting-for-people');
    await this.further(gate, `the approvals were too old right before the change (${observed})`);
    this.#old.delete(gate);
    if (phase !== 'outage') state.enterPhase(phase);
  }

  /**
   * Opens one more gate over the same plan, such as `force`.
   *
   * @param again - why, if it was met before
   */
  async further(gate: GateName, again?: string): Promise<void> {
    const { plan, approvals } = this.authority;
    const { requestedBy } = this.asked;
    const more = await passGate(this.run, { gate, gates: this.gates, planDigest: plan.digest, requestedBy, again });
    // While clients have no primary, the run does not wait for a clock.
    if (!this.run.state.serviceIsOut)
      await awaitWindow(this.run, this.asked.window, `the changes that gate ${gate} allows were not started`);
    this.authority = { plan, approvals: { ...approvals, [gate]: [...(approvals[gate] ?? []), ...(more[gate] ?? [])] } };
  }
}

/**
 * Nothing is changed before the window begins, and nothing is begun after its end. Checked after everything that may have taken
 * time.
 *
 * @param left - what to report about a run that came too late
 * @returns whether the run waited for the window
 */
export async function awaitWindow(
  run: Run,
  window: ChangeWindow | undefined,
  left = 'nothing was changed',
): Promise<boolean> {
  if (!window) return false;
  const from = window.notBefore === undefined ? 0 : Date.parse(window.notBefore);
  const early = Date.now() < from;
  if (early) {
    const begin = () => run.waitFor(() => false, from - Date.now(), 'the change window begins');
    await run.state.whileWaiting('window', { for: 'window', until: from }, begin);
  }
  if (Date.now() <= Date.parse(window.notAfter)) return early;
  throw run.stop(new RunStopped('the clock', `the change window ended at ${window.notAfter}; ${left}`));
}

/** The plan and the route of an assessment that was not refused. */
export function planned<R>(assessed: Assessment<R>): { readonly plan: PlanDocument; readonly route: R } {
  const { plan, route } = assessed;
  if (!plan || route === undefined)
    throw stepFailure('PRECONDITION_FAILED', 'No plan can be made from these readings.');
  return { plan, route };
}

/** Why the run must not continue, with one finding for each failed check; undefined if every check passes. */
export function refusalOf({ preconditions, plan }: Pick<Assessment<unknown>, 'preconditions' | 'plan'>) {
  const failed = preconditions.filter(({ verdict }) => verdict === 'fail');
  if (failed.length === 0 && plan) return undefined;
  const textOf = ({ name, cluster, observed, needed }: (typeof failed)[number]) =>
    `${name}${cluster ? ` (${cluster})` : ''}: observed ${observed}, needed ${needed}`;
  const failure = stepFailure('PRECONDITION_FAILED', failed.map(textOf).join('; '), {
    observed: failed[0]?.observed,
    needed: failed[0]?.needed,
    next: failed.flatMap(({ next }) => next ?? []).join(' '),
  });
  // One finding for each check: it is the first thing that people ask about a refused run.
  const findings = failed.map((each): Finding => ({
    ...{ severity: 'warning', code: CHECK_FAILED, text: textOf(each) },
    ...(each.next && { next: each.next }),
  }));
  return { failure, findings };
}
