import { runbookPlan } from '../contracts/plan-schema';
import type { PlanDocument, RunbookPlan } from '../contracts/plan';
import type { Report } from '../contracts/report';
import type { Finding } from '../contracts/run-facts';
import { pointLines } from './points';
import { columns, inLines, jsonText, oneLine, escapeUntrusted, terminalText, unmarked } from './text';

/**
 * What an approver sees before the question: the plan in plain words, who asked and what is allowed first; its text as it is
 * where it has no known shape.
 */
export function approvalLines({ text, digest: given }: PlanDocument, gate: string): string[] {
  const content = inLines(parsed(text));
  const digest = oneLine(given);
  const plan = runbookPlan.safeParse(content);
  if (plan.success) return gateLines(plan.data, digest, gate);
  return [
    `Gate "${gate}", plan ${digest}:`,
    `  Its text: ${content === undefined ? oneLine(text) : jsonText(content)}`,
  ];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function gateLines(plan: RunbookPlan, digest: string, gate: string): string[] {
  const { clusters, operations, warnings, steps, choices, requestedBy } = plan;
  // The start of a run may name anybody.
  const requester =
    requestedBy === undefined
      ? 'nobody is named'
      : `${escapeUntrusted(requestedBy)}, as the start of the run says, unverified`;
  return [
    `Gate "${gate}" of ${plan.runbook}, deployment ${plan.deployment}, plan ${digest}`,
    `  Requested by: ${requester}`,
    `  Reason: ${escapeUntrusted(plan.reason)}`,
    ...(plan.inventory === undefined ? [] : [`  Inventory: ${plan.inventory}`]),
    '  What the approval allows, and nothing else',
    ...operations.map(
      ({ operation, on, with: other, detail }) =>
        `    ${operation} on ${on.cluster}${other ? ` with ${other.cluster}` : ''}${detail === undefined ? '' : ` (${detail})`}`,
    ),
    ...warnings.flatMap((warning) => terminalText(`KNOW THIS: ${warning}`, '  ')),
    ...columns(
      clusters.map(({ cluster, clusterId, version, dr, performance }) => [
        ...[`  ${cluster}`, `DR ${dr}, performance ${performance}`],
        ...[version, clusterId],
      ]),
    ),
    ...Object.entries(choices).map(([name, choice]) => `  ${name}: ${choice}`),
    '  Steps',
    ...numbered(steps, '    '),
  ];
}

function numbered(steps: readonly string[], indent: string): string[] {
  return steps.flatMap((step, index) => terminalText(`${index + 1}. ${step}`, indent));
}

/** What the run found, apart from the plan: anybody who writes to the namespace can make it say anything. */
export function unsignedLines(findings: readonly Finding[]): string[] {
  const told = findings.filter(({ severity }) => severity !== 'info');
  if (told.length === 0) return [];
  return [
    'Not part of the plan, signed by nobody, and not covered by your approval. The run says:',
    ...told.flatMap(({ severity, text }) => terminalText(`${severity}: ${text}`, '  ')),
  ];
}

/** A plan as `runbook plan` prints it. */
export function planLines(report: Pick<Report, 'plan' | 'preconditions'>): string[] {
  const plan = inLines(report.plan);
  const failed = inLines(report.preconditions).flatMap(({ verdict, name, cluster }) =>
    verdict === 'fail' ? [`${name}${cluster === undefined ? '' : ` (${cluster})`}`] : [],
  );
  const stand = `${failed.length} precondition${failed.length === 1 ? ' stands' : 's stand'}`;
  const against = `A run would be refused: ${stand} against it (${unmarked(failed.join('; '))}).`;
  return [
    'Preconditions',
    ...pointLines(report.preconditions.map(({ name, ...check }) => ({ id: name, ...check }))),
    ...(plan === undefined ? [] : ['', ...contentLines(plan.content, plan.digest)]),
    '',
    `${failed.length === 0 ? 'Nothing stands against it.' : against} Nothing was changed.`,
  ];
}

function contentLines({ runbook, clusters, warnings, steps, inventory }: RunbookPlan, digest: string): string[] {
  return [
    `Plan of ${runbook}, digest ${digest}`,
    ...(inventory === undefined ? [] : [`  of inventory ${inventory}`]),
    ...clusters.map(
      ({ cluster, version, dr, performance }) => `  ${cluster} (${version}): DR ${dr}, performance ${performance}`,
    ),
    ...warnings.flatMap((warning) => terminalText(`Know this: ${warning}`, '  ')),
    ...numbered(steps, '  '),
  ];
}
