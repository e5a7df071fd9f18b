import type { Attested } from '../../src/contracts/run-facts';
import type { DecisionAction, InboxItem } from '../../src/contracts/signals';
import { checks } from './activity-calls';
import type { StepCalls } from './activity-calls';
import type { FailureFacts } from './failures';
import type { RunState } from './run-state';
import { giveReceipts } from './verdicts';
import { escapeUntrusted } from '../../src/contracts/words';

/** One thing that people may decide, and what it does. */
export interface Choice {
  readonly action: DecisionAction;
  readonly effect: string;
  /** It counts once a second, different person decides the same. */
  readonly needsTwo?: boolean;
}

export const RETRY: Choice = { action: 'retry', effect: 'run the step again; it reads the state before it acts' };
export const ABORT: Choice = {
  action: 'abort',
  effect: 'end the run here; completed changes stay, clean-ups run, and the report lists what is left to do',
};

/** Inside an outage there is no harmless end. */
export const LEAVE: Choice = {
  action: 'leave',
  effect: 'end the run now; NO cluster is primary and a person must promote one manually',
};

type OnFailure = 'throw' | ((failure: FailureFacts) => 'throw' | 'park');

/** Options of a step. */
export interface StepOptions {
  /** Choices besides `retry`, if the step parks. Default: the choice that ends the run. */
  readonly choices?: readonly Choice[] | undefined;
  /** What a retry does here. Default: {@link RETRY}. */
  readonly retryEffect?: string | undefined;
  /** `throw`: the runbook handles the failure itself, and the step ends as failed. Default: it parks. */
  readonly onFailure?: OnFailure;
  /** Key of the line that skipping the step adds to what is left to do. */
  readonly leftAs?: string;
  /**
   * Reads until the state that the step is for is there. If the step parked because its time was over, this looks on, and
   * the step goes on by itself once it is there.
   */
  readonly arrives?: (call: StepCalls) => Promise<unknown>;
  /** Skipping counts only once a second, different person decides it too. */
  readonly skipNeedsTwo?: boolean;
}

/** What a person decided. */
export interface Decision {
  readonly action: DecisionAction;
  readonly by: Attested;
  readonly reason: string;
  /** The run that the decision names. For a run that was reset, that is the one before the reset. */
  readonly rid: string;
}

interface ParkedStep {
  readonly step: string;
  readonly parkingNo: number;
  readonly choices: readonly Choice[];
  /** What was decided, and waits for a second person. */
  first?: Decision;
  decision?: Decision;
  /** Updates what is shown as waited for. */
  show?: () => void;
}

type CheckedDecision = Awaited<ReturnType<typeof checks.checkDecisions>>['verdicts'][number];

/** The steps that wait for an operator's decision. Several may wait at once, each under its own number. */
export class Parking {
  readonly #parked: ParkedStep[] = [];
  #count = 0;

  constructor(private readonly state: RunState) {}

  /**
   * Shows what failed and what each choice does, and waits.
   *
   * @returns undefined if `waitFor` ended before a decision arrived
   */
  async park(
    step: string,
    failure: FailureFacts,
    choices: readonly Choice[],
    waitFor: (ready: () => boolean) => Promise<boolean>,
  ): Promise<Decision | undefined> {
    const parked: ParkedStep = { step, parkingNo: ++this.#count, choices };
    this.#parked.push(parked);
    const key = `parked:${parked.parkingNo}`;
    const { parkingNo } = parked;
    const { code, message, observed, needed, next } = failure;
    this.state.fact({ kind: 'parked', step, parkingNo, code, message });
    parked.show = () =>
      this.state.wait(key, {
        ...{ for: 'decision', step, parkingNo, code, message, observed, needed, next, choices },
        decidedOnce: parked.first && { action: parked.first.action, by: parked.first.by },
      });
    parked.show();
    try {
      await waitFor(() => parked.decision !== undefined);
    } finally {
      this.#parked.splice(this.#parked.indexOf(parked), 1);
      this.state.waitOver(key);
      if (!parked.decision) this.state.fact({ kind: 'unparked', parkingNo });
    }
    const { decision } = parked;
    if (!decision) return undefined;
    const { action, by, reason } = decision;
    this.state.fact({ kind: 'decided', step, parkingNo, action, by, reason });
    return decision;
  }

  /** Checks decisions as they arrive. Each must name this run, a parked step, its parking number and one of its choices. */
  async decide(items: readonly InboxItem[]): Promise<void> {
    const { deployment } = this.state;
    const parked = this.#parked
      .filter((each) => each.decision === undefined)
      .map(({ step, parkingNo, choices }) => ({ step, parkingNo, choices: choices.map(({ action }) => action) }));
    const check = (arrived: readonly number[]) => checks.checkDecisions({ deployment, parked, arrived });
    await giveReceipts(this.state, 'decide', items, check, (verdict) => this.#withSecond(verdict));
  }

  /** Applies a decision and words its receipt. Some choices count only once a second person makes them too. */
  #withSecond(verdict: CheckedDecision): CheckedDecision {
    const { accepted, decision, by } = verdict;
    if (!accepted || !decision || !by) return verdict;
    const parked = this.#parked.find((each) => each.step === decision.step && each.parkingNo === decision.parkingNo);
    if (!parked || parked.decision)
      return { ...verdict, accepted: false, code: 'not-parked', text: 'this parking was already decided' };
    const { action, reason, rid } = decision;
    const needsTwo = parked.choices.some((choice) => choice.action === action && choice.needsTwo === true);
    const { first } = parked;
    if (!needsTwo) {
      parked.decision = { action, by, reason, rid };
      return verdict;
    }
    if (first?.action !== action) {
      parked.first = { action, by, reason, rid };
      parked.show?.();
      return { ...verdict, code: 'second-needed', text: `${verdict.text}: waits for a second person` };
    }
    if (first.by.name === by.name) {
      const text = `${escapeUntrusted(by.name)} already decided this: a second, different person is needed`;
      return { ...verdict, accepted: false, code: 'same-person', text };
    }
    const other = `${escapeUntrusted(first.by.name)}, ${first.by.how}: ${escapeUntrusted(first.reason)}`;
    parked.decision = { action, by, reason: `${reason} (with ${other})`, rid };
    return verdict;
  }
}
