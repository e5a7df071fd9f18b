import type { RunbookPlan } from '../contracts/payloads';

type PlanStep = RunbookPlan['steps'][number];

/** A step of a plan as people read it, after its number. */
export function planStepText({ step, note, when }: PlanStep): string {
  return `${step}${when === undefined ? '' : `, if ${when}`}${note === undefined ? '' : `: ${note}`}`;
}

/** The number that a step of the timeline has in the plan that people signed; undefined if the plan does not have it. */
export function planNumber(steps: readonly Pick<PlanStep, 'step'>[], name: string): number | undefined {
  const index = steps.findIndex(({ step }) => step === name);
  return index === -1 ? undefined : index + 1;
}

/** The steps of the plan that a run which has ended did not take, each with the reason, as lines of its timeline. */
export function stepsNotTaken(
  plan: readonly PlanStep[],
  taken: readonly { readonly name: string }[],
  outcome: string | undefined,
): readonly string[] {
  const names = new Set(taken.map(({ name }) => name));
  return plan.flatMap(({ step, when }, index) => {
    if (names.has(step)) return [];
    const why =
      outcome !== 'completed' ? 'not reached' : when === undefined ? 'not needed' : `not needed: only if ${when}`;
    return [`${index + 1}. ${step}: ${why}`];
  });
}

/** A line of a timeline. */
interface Numbered {
  /** The order in which it began; 0: it belongs to no step. */
  readonly number: number;
  /** Its number in the plan. */
  readonly planned?: number | undefined;
  /** There is a plan, which does not have it. */
  readonly unforeseen?: boolean | undefined;
}

/** How a line of a timeline begins: the number that people signed, or a plus for a step that the plan could not foresee. */
export function stepNumber({ number, planned, unforeseen }: Numbered): string {
  if (number === 0) return '';
  return unforeseen === true ? '+ ' : `${planned ?? number}. `;
}
