import type { PlanDocument, RunbookPlan } from '../contracts/plan';
import type { ReadinessPoint } from '../contracts/readiness';
import {
  counted,
  pointName,
  redFirst,
  inLines,
  jsonIn,
  jsonText,
  oneLine,
  terminalText,
  unmarked,
} from '../contracts/words';
import type { Report } from '../contracts/report';
import type { Finding } from '../contracts/run-facts';
import { gateTitle, planText, readPlan, UNSIGNED_FINDINGS, unsignedFindings } from '../words/plan';
import { columns } from './text';

/**
 * What an approver sees before the prompt: the plan in plain words, beginning with who requested it and what it allows.
 * A plan of unknown shape is shown as its raw text.
 */
export function approvalLines({ text, digest: given }: PlanDocument, gate: string): string[] {
  const digest = oneLine(given);
  const plan = readPlan(text);
  if (plan !== undefined) return contentLines(plan, `${gateTitle(gate, plan)}, plan ${digest}`, gate);
  const content = inLines(jsonIn(text));
  return [
    `${gateTitle(gate, plan)}, plan ${digest}:`,
    `  Its text: ${content === undefined ? oneLine(text) : jsonText(content)}`,
  ];
}

/** @param gate - the gate that is open; undefined: every gate of the plan */
function contentLines(plan: RunbookPlan, heading: string, gate?: string): string[] {
  const { requestedBy, reason, inventory, allowed, warnings, clusters, choices, steps } = planText(plan, gate);
  return [
    heading,
    `  Requested by: ${requestedBy}`,
    `  Reason: ${reason}`,
    ...(inventory === undefined ? [] : [`  Inventory: ${inventory}`]),
    ...allowed.flatMap(({ title, operations }) => [
      `  ${title}`,
      ...operations.flatMap((operation) => terminalText(`- ${operation}`, '    ')),
    ]),
    ...warnings.flatMap((warning) => terminalText(warning, '  ')),
    ...columns(clusters.map(([cluster = '', ...facts]) => [`  ${cluster}`, ...facts])),
    ...choices.map((choice) => `  ${choice}`),
    '  Steps',
    ...steps.flatMap((step, index) => terminalText(`${index + 1}. ${step}`, '    ')),
  ];
}

/** Findings of the run, apart from the plan: anybody who can write to the namespace can forge them. */
export function unsignedLines(findings: readonly Finding[]): string[] {
  const shown = unsignedFindings(findings);
  return shown.length === 0 ? [] : [UNSIGNED_FINDINGS, ...shown.flatMap((text) => terminalText(text, '  '))];
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
