import { allowedAt, operationText } from '../moves/operations';
import { planStepText } from '../moves/steps';
import type { PlanDocument, RunbookPlan } from '../contracts/plan';
import { runbookPlan } from '../contracts/payloads';
import type { ReadinessPoint } from '../contracts/readiness';
import {
  counted,
  pointName,
  redFirst,
  inLines,
  jsonIn,
  jsonText,
  oneLine,
  escapeUntrusted,
  terminalText,
  unmarked,
} from '../contracts/words';
import type { Report } from '../contracts/report';
import type { Finding } from '../contracts/run-facts';
import { columns } from './text';

/**
 * What an approver sees before the prompt: the plan in plain words, beginning with who requested it and what it allows.
 * A plan of unknown shape is shown as its raw text.
 */
export function approvalLines({ text, digest: given }: PlanDocument, gate: string): string[] {
  const content = inLines(jsonIn(text));
  const digest = oneLine(given);
  const plan = runbookPlan.safeParse(content);
  if (plan.success)
    return contentLines(
      plan.data,
      `Gate "${gate}" of ${plan.data.runbook}, deployment ${plan.data.deployment}, plan ${digest}`,
      gate,
    );
  return [
    `Gate "${gate}", plan ${digest}:`,
    `  Its text: ${content === undefined ? oneLine(text) : jsonText(content)}`,
  ];
}

/** @param gate - the gate that is open; undefined: every gate of the plan */
function contentLines(plan: RunbookPlan, heading: string, gate?: string): string[] {
  const { clusters, operations, warnings, steps, choices, requestedBy } = plan;
  const gates = gate === undefined ? [...new Set(operations.map((each) => each.gate))] : [gate];
  // The person who starts a run can name anybody.
  const requester =
    requestedBy === undefined ? 'not named' : `${escapeUntrusted(requestedBy)}, as claimed at the start; unverified`;
  return [
    heading,
    `  Requested by: ${requester}`,
    `  Reason: ${escapeUntrusted(plan.reason)}`,
    ...(plan.inventory === undefined ? [] : [`  Inventory: ${plan.inventory}`]),
    ...gates.flatMap((each) => allowedLines(each, plan)),
    ...warnings.flatMap((warning) => terminalText(`IMPORTANT: ${warning}`, '  ')),
    ...columns(
      clusters.map(({ cluster, clusterId, version, dr, performance }) => [
        ...[`  ${cluster}`, `DR ${dr}, performance ${performance}`, version, clusterId],
      ]),
    ),
    ...Object.entries(choices).map(([name, choice]) => `  ${name}: ${choice}`),
    '  Steps',
    ...steps.flatMap((step, index) => terminalText(`${index + 1}. ${planStepText(step)}`, '    ')),
  ];
}

/** What an approval of one gate allows: nothing that another gate opens. */
function allowedLines(gate: string, plan: RunbookPlan): string[] {
  const allowed = allowedAt(gate, plan);
  if (allowed.length === 0) return [`  Approving gate "${gate}" allows no change by itself`];
  return [
    `  Approving gate "${gate}" allows this run to do only the following`,
    ...allowed.flatMap((each) => terminalText(`- ${operationText(each, plan)}`, '    ')),
  ];
}

/** Findings of the run, apart from the plan: anybody who can write to the namespace can forge them. */
export function unsignedLines(findings: readonly Finding[]): string[] {
  const shown = findings.filter(({ severity }) => severity !== 'info');
  if (shown.length === 0) return [];
  return [
    'The run also reports the following. It is not part of the plan, not signed, and not covered by your approval:',
    ...shown.flatMap(({ severity, text }) => terminalText(`${severity}: ${text}`, '  ')),
  ];
}

/** A plan as `runbook plan` prints it. */
export function planLines(report: Pick<Report, 'plan' | 'preconditions'>): string[] {
  const plan = inLines(report.plan);
  const failed = inLines(report.preconditions).flatMap(({ verdict, name, cluster }) =>
    verdict === 'fail' ? [`${name}${cluster === undefined ? '' : ` (${cluster})`}`] : [],
  );
  const refused = `A run would be refused: ${counted(failed.length, 'precondition')} failed (${unmarked(failed.join('; '))}).`;
  return [
    'Preconditions',
    ...pointLines(report.preconditions.map(({ name, ...check }) => ({ id: name, ...check }))),
    ...(plan === undefined
      ? []
      : ['', ...contentLines(plan.content, `Plan of ${plan.content.runbook}, digest ${plan.digest}`)]),
    '',
    `${failed.length === 0 ? 'No precondition failed.' : refused} Nothing was changed.`,
  ];
}

/** One thing that was checked: a precondition of a plan, a point of readiness, a finding of `doctor`. */
export type Point = Pick<ReadinessPoint, 'id' | 'cluster' | 'verdict' | 'observed'> &
  Partial<Pick<ReadinessPoint, 'about' | 'needed' | 'next'>>;

const INDENT = ' '.repeat(10);

/** Points as lines, failures first and in detail; a point that holds takes one line. */
export function pointLines(points: readonly Point[]): string[] {
  return together(redFirst(inLines(points))).flatMap((point) => {
    const { verdict, about = 'both', observed, needed, next } = point;
    const mark = (verdict === 'not-checkable' ? '?' : verdict).padEnd(4);
    const title = `  ${mark}  ${pointName(point)}${about === 'both' ? '' : `, for a ${about}`}`;
    if (verdict === 'ok') return [`${title}: ${unmarked(observed)}`];
    return [
      title,
      `${INDENT}observed: ${unmarked(observed)}`,
      ...(needed === undefined ? [] : [`${INDENT}needed:   ${unmarked(needed)}`]),
      ...(next === undefined ? [] : terminalText(`next: ${next}`, INDENT)),
    ];
  });
}

/** Merges points that are the same for several clusters, people or sets. */
function together(points: readonly Point[]): Point[] {
  const same = new Map<string, Point>();
  for (const each of points) {
    const [id = each.id, name] = each.cluster === undefined ? each.id.split('.') : [];
    const { cluster = name, ...rest } = { ...each, id };
    const key = JSON.stringify([rest.id, rest.verdict, rest.about, rest.observed, rest.needed, rest.next]);
    const clusters = [same.get(key)?.cluster, cluster].filter((each) => each !== undefined);
    same.set(key, { ...rest, ...(clusters.length > 0 && { cluster: clusters.join(', ') }) });
  }
  return [...same.values()];
}
