import { planStepText, stepNumber } from '../../src/moves/steps';
import { shellLine } from '../../src/contracts/next-commands';
import { planIn } from '../../src/contracts/plan';
import type { OutageSplit, Report } from '../../src/contracts/report';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import { durationText, escapeMarkdown, inCode, inLines, prose } from '../../src/contracts/words';
import { allowedText } from '../../src/moves/operations';
import { inOutage, phaseText, receiptText, statusText, stepText } from '../../src/words/status';
import type { Line, Statement } from '../../src/words/status';

/** Names in Temporal's Web UI that people are told to use. A test compares them with those of the dev server. */
export const WEB_UI = {
  actions: 'More Actions',
  sendSignal: 'Send a Signal',
  signalName: 'Signal name',
  data: 'Data',
  encoding: 'json/plain',
  submit: 'Submit',
  start: 'Start Workflow',
  details: 'User Metadata',
  queries: 'Queries',
} as const;

/**
 * How to send a signal in the Web UI. Tab comes before the button: the field formats the pasted text when it loses focus, the
 * form grows, and a click on the button would miss it and may close the form.
 *
 * @param signal - its name, as Markdown
 * @param what - the text to paste
 */
function sendInWebUi(signal: string, what: string): string {
  const { actions, sendSignal, data, submit } = WEB_UI;
  return `${actions}, ${sendSignal}, ${signal}; paste ${what} into ${data}, press Tab, ${submit}`;
}

/** Bytes. The server refuses details above 20,000. Older steps are left out first. */
const MAX_BYTES = 15_000;
const RECEIPTS_SHOWN = 5;

const PRINTED = 'the line that the command prints with `--print`';
const WITH_THE_PAGE = `With the holder's page: copy the invitation from the tab ${WEB_UI.queries}, query \`invitation\`; send the page's envelope as signal \`share\``;
/** What people do in the Web UI itself. */
const HERE: Partial<Record<Waiting['for'], readonly string[]>> = {
  approval: [sendInWebUi('`approve`', PRINTED)],
  shares: [sendInWebUi('`share`', PRINTED), WITH_THE_PAGE],
  rehearsal: [sendInWebUi('`share`', PRINTED), WITH_THE_PAGE],
  decision: [sendInWebUi('`decide`', PRINTED)],
};

/** What a run cost, as its report has it. */
export type Measured = Pick<Report, 'outage' | 'loss' | 'clientsHeld'>;

/** What the Web UI shows on the tab User Metadata: what people must know and do, the plan while they approve it, the result. No tables and no nested lists, because the Web UI runs them together. */
export function currentDetails(given: RunStatus, measured?: Measured): string {
  const status = inLines(given);
  const { waiting, receipts } = status;
  const parked = waiting.some((each) => each.for === 'decision');
  const outage = inOutage(status);
  const during = outage && status.phase !== 'outage' ? `OUTAGE; ${phaseText(status)}` : phaseText(status);
  const headline = parked ? `PARKED${outage ? ' in the OUTAGE' : ''}` : during;
  const last = receipts.slice(-RECEIPTS_SHOWN).map((each) => `- ${sentence(receiptText(each))}`);
  const here = [...new Set(waiting.flatMap((each) => HERE[each.for] ?? []))];
  const head = [
    `### ${prose(status.runbook)} of ${escapeMarkdown(status.deployment)}: ${prose(headline)}`,
    '',
    ...(measured ? resultLines(status, inLines(measured)) : []),
    ...statusText(status, timeOf).flatMap(paragraphs),
    ...(here.length > 0 ? ['**In the Web UI**', '', ...here.map((each) => `- ${each}`), ''] : []),
    ...(last.length > 0 ? ['#### Last signals', '', ...last, ''] : []),
    ...planLines(status),
    ...['#### Steps', ''],
  ].join('\n');
  let room = MAX_BYTES - bytes(head).length;
  const steps: string[] = [];
  for (const step of status.steps.toReversed()) {
    const line = `\n- ${escapeMarkdown(stepNumber(step))}${sentence(stepText(step))}`;
    room -= bytes(line).length;
    if (room < 0) break;
    steps.unshift(line);
  }
  return new TextDecoder().decode(bytes(`${head}${steps.join('')}`).slice(0, MAX_BYTES));
}

/** How an ended run went, and where its report is. */
function resultLines({ workflowId, runId }: RunStatus, { outage, loss, clientsHeld }: Measured): string[] {
  const facts = [
    ['Outage', outage && outageText(outage)],
    ['Data loss', loss && `${loss.loss === 'none' ? 'none' : lossText(loss)}: ${loss.why}`],
    ['Clients paused', clientsHeld && durationOrOpen(clientsHeld.totalMs)],
  ] as const;
  const report = shellLine('runbook', 'report', workflowId, '--run-id', runId);
  return [
    ...facts.flatMap(([name, text]) => (text === undefined ? [] : [`**${name}**: ${prose(text)}`, ''])),
    `**Report**: ${inCode(report)}, or the result of this run`,
    '',
  ];
}

const durationOrOpen = (ms: number | undefined) => (ms === undefined ? 'no end known' : durationText(ms));

function outageText({ totalMs, atLeast, serviceMs = 0, machineMs = 0, peopleMs = 0 }: OutageSplit): string {
  if (totalMs === undefined) return 'no end known';
  const split = `service ${durationText(serviceMs)}, machine ${durationText(machineMs)}, people ${durationText(peopleMs)}`;
  return `${atLeast === true ? 'at least ' : ''}${durationText(totalMs)} (${split})`;
}

function lossText({ loss, boundWalEntries: bound }: NonNullable<Measured['loss']>): string {
  return bound === undefined ? loss : `at most ${bound} WAL entries`;
}

/** The plan as people sign it, while they are asked to. */
function planLines({ planText, planDigest, waiting }: RunStatus): string[] {
  const asked = waiting.find((each) => each.for === 'approval');
  const plan = planText === undefined ? undefined : planIn(planText);
  if (asked === undefined || asked.planDigest !== planDigest || plan === undefined) return [];
  const { clusters, warnings, steps, choices, reason, requestedBy } = inLines(plan);
  const { title, operations } = inLines(allowedText(asked.gate, plan));
  const list = (items: readonly string[]) => items.map((each) => `- ${prose(each)}`);
  return [
    '#### The plan that approvers sign',
    '',
    `**Digest**: ${inCode(planDigest ?? '')}. What is shown here proves no digest: \`runbook approve\` and the saved pages compute it.`,
    '',
    `**Reason**: ${escapeMarkdown(reason)}. **Requested by**: ${escapeMarkdown(requestedBy ?? 'not named')}, as claimed at the start; unverified`,
    '',
    ...(warnings.length > 0 ? ['**Warnings**', '', ...list(warnings), ''] : []),
    `**${prose(title)}**`,
    '',
    ...list(operations),
    '',
    '**Steps of the plan**',
    '',
    ...steps.map((step, index) => `${index + 1}. ${prose(planStepText(step))}`),
    '',
    '**Clusters and choices**',
    '',
    ...list(
      clusters.map(
        ({ cluster, dr, performance, version, clusterId }) =>
          `${cluster}: DR ${dr}, performance ${performance}, version ${version}, cluster ID ${clusterId}`,
      ),
    ),
    ...list(Object.entries(choices).map(([name, choice]) => `${name}: ${choice}`)),
    '',
  ];
}

function sentence({ title, text }: Statement): string {
  return `**${prose(title)}**${prose(text)}`;
}

/** One list item each. If some lines have others below them: paragraphs and lists, never a nested list. */
function paragraphs(statement: Statement): string[] {
  const { lines } = statement;
  const words = ({ text, command }: Line) => `${prose(text)}${command ? `: ${inCode(command)}` : ''}`;
  if (lines.length === 0) return [sentence(statement), ''];
  if (!lines.some(({ below }) => below))
    return [sentence(statement), '', ...lines.map((line) => `- ${words(line)}`), ''];
  const shown = lines.flatMap((line) =>
    line.below ? [`${words(line)}:`, '', ...line.below.map((each) => `- ${words(each)}`), ''] : [words(line), ''],
  );
  return [sentence(statement), '', ...shown];
}

/** To the second, because people compare it with a clock. */
function timeOf(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
