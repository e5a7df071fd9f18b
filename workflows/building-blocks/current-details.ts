import { runbookPlan, switchoverPlan } from '../../src/contracts/plan';
import type { RunStatus, TimelineStep, Waiting } from '../../src/contracts/run-status';

/** Bytes. The server refuses details above 20,000; older steps give way first. */
const MAX_BYTES = 15_000;
const RECEIPTS_SHOWN = 5;
const SUMMARY_SHOWN = 20;

const PHASE_WORDS: Record<RunStatus['phase'], string> = {
  checking: 'reading and checking; nothing is touched',
  'waiting-for-people': 'waiting for people; service is up',
  preparing: 'last checks; service is up',
  working: 'changes are being made; service is up',
  outage: 'OUTAGE: no primary serves clients',
  're-protecting': 'service is back; protection is being restored',
  finishing: 'service is back; cleaning up',
  finished: 'finished',
};

/** What the Web UI shows on the tab User Metadata. No tables: the Web UI runs their columns together. */
export function currentDetails(status: RunStatus, namespace: string): string {
  const lines = [`### ${status.runbook} of ${status.deployment}: ${PHASE_WORDS[status.phase]}`, ''];
  if (status.paused) lines.push('**Paused.**', '');
  if (status.outageSince !== undefined && status.serviceBackAt === undefined) {
    lines.push(`Outage since ${new Date(status.outageSince).toISOString()}`, '');
  }
  for (const waiting of status.waiting) lines.push(...waitingLines(waiting, status, namespace), '');
  for (const finding of status.findings.filter((each) => each.severity !== 'info')) {
    lines.push(`**Finding (${finding.severity})**: ${finding.text}${finding.next ? ` Next: ${finding.next}` : ''}`, '');
  }
  lines.push(...summaryLines(status), ...planLines(status), ...receiptLines(status), '#### Steps', '');
  const head = lines.join('\n');
  const steps = status.steps.map(stepLine);
  while (steps.length > 1 && bytes(`${head}\n${steps.join('\n')}`).length > MAX_BYTES) steps.shift();
  return new TextDecoder().decode(bytes(`${head}\n${steps.join('\n')}`).slice(0, MAX_BYTES));
}

/** As many as fit beside the rest; the last line says how many do not. */
function summaryLines({ summary = [] }: RunStatus): string[] {
  if (summary.length === 0) return [];
  const shown = summary.slice(0, SUMMARY_SHOWN).map((line) => `- ${line}`);
  const more = summary.length - shown.length;
  return [...shown, ...(more > 0 ? [`- and ${more} more: see the result`] : []), ''];
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** What approvers approve, while a gate waits for them. */
function planLines(status: RunStatus): string[] {
  if (!status.planText || !status.waiting.some((waiting) => waiting.for === 'approval')) return [];
  const content = parsedJson(status.planText);
  const parsed = switchoverPlan.safeParse(content);
  if (!parsed.success) return runbookPlanLines(content);
  const { from, to, reason, tokenSource, acceptLoss, onStuck, steps } = parsed.data;
  return [
    '#### The plan',
    '',
    `- **${from.cluster}** (${from.version}) becomes DR secondary, **${to.cluster}** (${to.version}) becomes DR primary`,
    `- Reason: ${reason}`,
    `- Operation tokens from: ${tokenSource}. Accepted loss: ${acceptLoss}. When stuck: ${onStuck}`,
    ...steps.map((step) => `- ${step}`),
    '',
  ];
}

function runbookPlanLines(content: unknown): string[] {
  const parsed = runbookPlan.safeParse(content);
  if (!parsed.success) return [];
  const { clusters, warnings, steps, choices, reason } = parsed.data;
  return [
    '#### The plan',
    '',
    `- Reason: ${reason}`,
    ...clusters.map(
      ({ cluster, version, dr, performance }) => `- **${cluster}** (${version}): DR ${dr}, performance ${performance}`,
    ),
    ...Object.entries(choices).map(([name, choice]) => `- ${name}: ${choice}`),
    ...warnings.map((warning) => `- **Know this**: ${warning}`),
    ...steps.map((step) => `- ${step}`),
    '',
  ];
}

/** What an activity gave is not trusted to be JSON: an error here would fail every task of the run. */
function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The last answers to what people sent: whoever sends a signal from here sees what became of it. */
function receiptLines({ receipts }: RunStatus): string[] {
  if (receipts.length === 0) return [];
  const last = receipts.slice(-RECEIPTS_SHOWN).map(({ signal, arrival, verdict, text, from }) => {
    const who = from ? ` from ${from.name} (${from.how === 'claimed' ? 'UNVERIFIED' : from.how})` : '';
    return `- ${signal} ${arrival}${who}: **${verdict}**, ${text}`;
  });
  return ['#### Last signals', '', ...last, ''];
}

/** One member a line: the Web UI does not break long lines. */
function pasted(value: Readonly<Record<string, unknown>>): string[] {
  return ['```json', JSON.stringify(value, undefined, 2), '```'];
}

function stepLine(step: TimelineStep): string {
  const took = step.endedAt === undefined ? '' : ` (${((step.endedAt - step.startedAt) / 1000).toFixed(1)} s)`;
  const again = step.attempt > 1 ? `, attempt ${step.attempt}` : '';
  return `${step.number}. **${step.name}**: ${step.state}${again}${took}${step.note ? `. ${step.note}` : ''}`;
}

function waitingLines(waiting: Waiting, status: RunStatus, namespace: string): string[] {
  switch (waiting.for) {
    case 'approval':
      return [
        `**Waits for approval of gate \`${waiting.gate}\`** until ${new Date(waiting.until).toISOString()}. Missing: ${waiting.missing.join('; ')}`,
        '',
        `- By command: \`runbook approve ${status.workflowId} --gate ${waiting.gate} --name YOUR-NAME\``,
        '- Here: More Actions, Send a Signal, `approve`: what that command prints with `--print`; or, where the inventory lets you claim, this object with your name:',
        '',
        ...pasted({
          ns: namespace,
          wid: status.workflowId,
          rid: status.runId,
          gate: waiting.gate,
          planDigest: waiting.planDigest,
          verdict: 'approve',
          comment: '',
          name: 'YOUR-NAME',
          iat: 0,
        }),
      ];
    case 'shares':
      return [
        `**Waits for ${waiting.threshold} key shares.** In hand: ${waiting.held.join(', ') || 'none'}. Not yet: ${waiting.missingHolders.join(', ') || 'nobody'}.`,
        '',
        `- Each holder: \`runbook share ${status.workflowId} --holder YOUR-NAME\` (add \`--print\` for an object to paste as signal \`share\`)`,
      ];
    case 'decision':
      return [
        `**Parked at "${waiting.step}"** (${waiting.code}): ${waiting.message}`,
        '',
        ...(waiting.observed ? [`- Observed: ${waiting.observed}`] : []),
        ...(waiting.needed ? [`- Needed: ${waiting.needed}`] : []),
        ...(waiting.next ? [`- Next: ${waiting.next}`] : []),
        ...(waiting.decidedOnce
          ? [
              `- **${waiting.decidedOnce.by.name} decided \`${waiting.decidedOnce.action}\`: a second person is needed**`,
            ]
          : []),
        ...waiting.choices.map(
          (choice) =>
            `- \`${choice.action}\`: ${choice.effect}. \`runbook decide ${status.workflowId} --step "${waiting.step}" --action ${choice.action} --reason WHY --name YOUR-NAME\``,
        ),
        '- Here: signal `decide`: what that command prints with `--print`; or, where the inventory lets you claim, this object with your name and reason:',
        '',
        ...pasted({
          ns: namespace,
          wid: status.workflowId,
          rid: status.runId,
          step: waiting.step,
          parkingNo: waiting.parkingNo,
          action: waiting.choices[0]?.action ?? 'retry',
          reason: 'WHY',
          name: 'YOUR-NAME',
          iat: 0,
        }),
      ];
    case 'window':
      return [`**Approved; waits for its change window**, which begins ${new Date(waiting.until).toISOString()}.`];
    case 'action':
      return [
        `**Waits until people have done this: ${waiting.what}**`,
        '',
        ...waiting.instructions.map((each) => `- ${each}`),
      ];
    case 'resume':
      return [`**Paused** by ${waiting.by}: ${waiting.reason}. \`runbook resume ${status.workflowId} --by YOUR-NAME\``];
  }
}
