import { runbookPlan } from '../contracts/payloads';
import type { RunbookPlan } from '../contracts/plan';
import type { Finding } from '../contracts/run-facts';
import type { RunStatus } from '../contracts/run-status';
import { escapeUntrusted, inLines, jsonIn } from '../contracts/words';
import { allowedText } from '../moves/operations';
import type { Allowed } from '../moves/operations';
import { planStepText } from '../moves/steps';

/*
 * A plan as text, in one place: the command line and the approver's page show the same words and numbers, each in its own form.
 * Not for workflow code, whose bundle has no schema library.
 */

/** A plan in the words of its approvers. Each text is one line; warnings and steps are texts of ours, with commands in backticks. */
export interface PlanText {
  readonly requestedBy: string;
  readonly reason: string;
  readonly inventory: string | undefined;
  /** What people must know before they approve. */
  readonly warnings: readonly string[];
  /** What an approval allows, and nothing that another gate opens: as sentences, for each gate that is shown. */
  readonly allowed: readonly Allowed[];
  /** One row for each cluster: name, roles, version, ID. */
  readonly clusters: readonly (readonly string[])[];
  readonly choices: readonly string[];
  /** Without their numbers. */
  readonly steps: readonly string[];
}

export const UNSIGNED_FINDINGS =
  'The run also reports the following. It is not part of the plan, not signed, and not covered by your approval:';

/** The plan in a text that people sign; undefined if its shape is unknown here. */
export function readPlan(text: string): RunbookPlan | undefined {
  return runbookPlan.safeParse(inLines(jsonIn(text))).data;
}

/** What is approved: the gate, the runbook and the deployment. */
export function gateTitle(gate: string, plan: RunbookPlan | undefined): string {
  const of = plan === undefined ? '' : ` of ${plan.runbook}, deployment ${plan.deployment}`;
  return `Gate "${gate}"${of}`;
}

/**
 * A plan that {@link readPlan} gave, in words.
 *
 * @param gate - the gate that is open; undefined: every gate of the plan
 */
export function planText(plan: RunbookPlan, gate?: string): PlanText {
  const gates = gate === undefined ? [...new Set(plan.operations.map((each) => each.gate))] : [gate];
  const { clusters, warnings, steps, choices, requestedBy, reason, inventory } = plan;
  return {
    // The person who starts a run can name anybody.
    requestedBy:
      requestedBy === undefined ? 'not named' : `${escapeUntrusted(requestedBy)}, as claimed at the start; unverified`,
    reason: escapeUntrusted(reason),
    inventory,
    warnings: warnings.map((warning) => `IMPORTANT: ${warning}`),
    allowed: gates.map((each) => allowedText(each, plan)),
    clusters: clusters.map(({ cluster, clusterId, version, dr, performance }) => [
      ...[cluster, `DR ${dr}, performance ${performance}`, version, clusterId],
    ]),
    choices: Object.entries(choices).map(([name, choice]) => `${name}: ${choice}`),
    steps: steps.map(planStepText),
  };
}

/** Findings that approvers are told: they are apart from the plan, because anybody who can write to the namespace can forge them. */
export function unsignedFindings(findings: readonly Pick<Finding, 'severity' | 'text'>[]): string[] {
  return findings.flatMap(({ severity, text }) => (severity === 'info' ? [] : [`${severity}: ${text}`]));
}

/** What a person must know who states something about a gate that the run does not ask for. */
export function notAskedWarnings({ waiting }: Pick<RunStatus, 'waiting'>, gate: string): string[] {
  if (waiting.some((each) => each.for === 'approval' && each.gate === gate)) return [];
  return [
    `IMPORTANT: the run does not ask for gate "${gate}" now. Your statement counts from now on, and is checked as soon as the run asks.`,
  ];
}

/**
 * What a person must know who approves a gate and is not among those who may: said before the plan and the passphrase. Only
 * said, because who may approve can have changed since the gate was opened.
 */
export function noRightWarnings({ waiting }: Pick<RunStatus, 'waiting'>, gate: string, name: string): string[] {
  const open = waiting.flatMap((each) => (each.for === 'approval' && each.gate === gate ? [each] : []));
  return open.flatMap(({ missing, approved }) => {
    const listed = missing.flatMap((text) => /^\d+(?: more)? of (.+)$/.exec(text)?.[1]?.split(', ') ?? []);
    if (listed.length === 0 || listed.includes(name)) return [];
    const why = approved.some((each) => each.name === name)
      ? 'has approved it already'
      : 'was not among the people who may approve it when it was opened';
    return [
      `IMPORTANT: ${escapeUntrusted(name)} ${why}. Gate "${gate}" waits for ${escapeUntrusted(missing.join('; '))}.`,
    ];
  });
}
