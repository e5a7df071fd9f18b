import { CHANGES_PRIMARY } from './names';
import type { RunbookPlan } from './payloads';
import { jsonIn } from './words';

export type { AllowedOperation, Check, RunbookPlan } from './payloads';

/** The subject of an error that refuses approvals only because of their age. New approvals of the same gate help then. */
export const APPROVALS_TOO_OLD = 'approvals too old';

/** A plan as approvers see it: the text whose digest they sign, byte for byte. */
export interface PlanDocument {
  /** JSON text of the plan. */
  readonly text: string;
  /** base64url(SHA-256(text)). */
  readonly digest: string;
}

/** Reads the text of a plan; undefined if it is none. Only checks its shape: code that relies on it parses it with its schema. */
export function planIn(text: string): RunbookPlan | undefined {
  const plan = jsonIn(text) as Partial<RunbookPlan> | null | undefined;
  const lists = [plan?.clusters, plan?.operations, plan?.warnings, plan?.steps];
  if (!plan?.choices || !lists.every(Array.isArray)) return undefined;
  // A plan of an earlier format has texts as steps.
  const isCurrent = plan.steps?.every((each) => typeof (each as { step?: unknown } | null)?.step === 'string');
  return isCurrent ? (plan as RunbookPlan) : undefined;
}

/** From which cluster to which a plan moves the role of the primary, as far as it says. */
export function directionOf({ runbook, operations }: Pick<RunbookPlan, 'runbook' | 'operations'>) {
  if (!CHANGES_PRIMARY.has(runbook)) return undefined;
  const demotion = operations.find(({ endpoint, with: other }) => endpoint === 'primary/demote' && other);
  if (demotion) return { from: demotion.on.cluster, to: demotion.with?.cluster };
  const promotion = operations.find(({ endpoint }) => endpoint === 'secondary/promote');
  return promotion && { from: promotion.with?.cluster, to: promotion.on.cluster };
}
