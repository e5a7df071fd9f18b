import type { Assessment, Authority } from '../../src/contracts/activities';
import type { GateName, PlanDocument } from '../../src/contracts/plan';
import { APPROVALS_TOO_OLD } from '../../src/contracts/plan';
import type { ChangeWindow } from '../../src/contracts/runbook-inputs';
import { CHECK_FAILED } from '../../src/contracts/run-status';
import type { Finding } from '../../src/contracts/run-facts';
import type { FailureFacts } from './failures';
import { RunStopped, failureFacts, stepFailure } from './failures';
import { passGate } from './gates';
import type { Run } from './run';

/** What a gate is opened for. */
export interface Asked {
  readonly requestedBy?: string | undefined;
  readonly window?: ChangeWindow | undefined;
}

/** Whether an activity refused approvals for their age alone: new ones of the same gate serve. */
export function areTooOld({ code, about }: FailureFacts): boolean {
  return code === 'NOT_APPROVED' && about === APPROVALS_TOO_OLD;
}

/**
 * The plan of a run with what people approved of it. How old an approval may be is judged by the activity that acts, and
 * by nobody else: where it finds them too old its step parks, and `retry` asks their gate again.
 */
export class Approvals {
  /** Why the approvals of a gate count no more. */
  readonly #old = new Map<GateName, FailureFacts>();

  constructor(
    private readonly run: Run,
    private readonly asked: Asked,
    private readonly gates: Assessment<unknown>['gates'],
    /** Plan and approvals, for the activities that verify them. */
    public authority: Authority,
  ) {}

  /**
   * Carries out what begins something, in the body of a step. Where the approvals of its gate were too old at the last
   * try, they are asked for first.
   */
  async begin<T>(gate: GateName, carryOut: (authority: Authority) => Promise<T>): Promise<T> {
    const old = this.#old.get(gate);
    if (old) await this.renew(gate, old);
    try {
      return await carryOut(this.authority);
    } catch (error) {
      const failure = failureFacts(error);
      // Where it is not known what an earlier try sent, the next one looks before anybody is asked.
      if (failure?.outcomeKnown === true && areTooOld(failure)) this.#old.set(gate, failure);
      throw error;
    }
  }

  /** Opens the gate again: what the run holds is kept, and the new approvals come beside the old ones. */
  async renew(gate: GateName, { observed = 'nothing more' }: FailureFacts): Promise<void> {
    const { state } = this.run;
    const { phase } = state;
    // For whoever looks at the phase alone an outage stays one.
    if (phase !== 'outage') state.enterPhase('waiting-for-people');
    await this.further(gate, `the approvals were too old right before the change (${observed})`);
    this.#old.delete(gate);
    if (phase !== 'outage') state.enterPhase(phase);
  }

  /**
   * Opens one more gate over the same plan, such as `force`.
   *
   * @param again - why, where it was met before
   */
  async further(gate: GateName, again?: string): Promise<void> {
    const { plan, approvals } = this.authority;
    const { requestedBy } = this.asked;
    const more = await passGate(this.run, { gate, gates: this.gates, planDigest: plan.digest, requestedBy, again });
    // Clients without a primary wait for no clock.
    if (!this.run.state.serviceIsOut)
      await awaitWindow(this.run, this.asked.window, `what gate ${gate} allows was not begun`);
    this.authority = { plan, approvals: [...approvals, ...more] };
  }
}

/**
 * Nothing is changed before the window begins, and nothing is begun after its end: looked at after everything that may
 * have taken its time.
 *
 * @param left - what is told of a run that came too late
 * @returns whether the window was waited for
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
    const begin = () => run.waitFor(() => false, from - Date.now());
    await run.state.whileWaiting('window', { for: 'window', until: from }, begin);
  }
  if (Date.now() <= Date.parse(window.notAfter)) return early;
  throw run.stop(new RunStopped('the clock', `the change window ended at ${window.notAfter}; ${left}`));
}

/** The plan and the route of an assessment that was not refused. */
export function planned<R>(assessed: Assessment<R>): { readonly plan: PlanDocument; readonly route: R } {
  const { plan, route } = assessed;
  if (!plan || route === undefined) throw stepFailure('PRECONDITION_FAILED', 'No plan can be made of what was read.');
  return { plan, route };
}

/** Why the run must not go on, and each check that stands against it; undefined where everything holds. */
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
  // One each: it is the first thing that people ask of a run that was refused.
  const findings = failed.map((each): Finding => ({
    ...{ severity: 'warning', code: CHECK_FAILED, text: textOf(each) },
    ...(each.next && { next: each.next }),
  }));
  return { failure, findings };
}
