import { planIn } from '../../src/contracts/plan';
import type { RunbookPlan } from '../../src/contracts/plan';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import { inCode, inLines, jsonText, prose, escapeMarkdown } from '../../src/contracts/words';
import { inOutage, phaseText, receiptText, statusText, stepText } from '../../src/words/status';
import type { Line, Statement } from '../../src/words/status';

/** What the Web UI of Temporal calls the things that people are told to use there; a test compares it with the dev server's. */
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
 * How a signal is sent there. Tab comes before the button: the field formats what was pasted when it is left, the form
 * grows, and a click on the button would miss it and may close the form.
 *
 * @param signal - its name, as Markdown
 * @param what - what is pasted
 */
function sendInWebUi(signal: string, what: string): string {
  const { actions, sendSignal, data, submit } = WEB_UI;
  return `${actions}, ${sendSignal}, ${signal}; paste ${what} into ${data}, press Tab, ${submit}`;
}

/** Bytes. The server refuses details above 20,000; older steps give way first. */
const MAX_BYTES = 15_000;
const RECEIPTS_SHOWN = 5;
const SUMMARY_SHOWN = 20;

const PRINTED = 'the line that the command prints with `--print`';
const WITH_THE_PAGE = `With the holder's page: copy the invitation from the tab ${WEB_UI.queries}, query \`invitation\`; send the page's envelope as signal \`share\``;
/** What people do in the Web UI itself. */
const HERE: Partial<Record<Waiting['for'], readonly string[]>> = {
  approval: [sendInWebUi('`approve`', PRINTED)],
  shares: [sendInWebUi('`share`', PRINTED), WITH_THE_PAGE],
  rehearsal: [sendInWebUi('`share`', PRINTED), WITH_THE_PAGE],
  decision: [sendInWebUi('`decide`', PRINTED)],
};

/** What the Web UI shows on the tab User Metadata. No tables, no lists inside of lists: the Web UI runs them together. */
export function currentDetails(given: RunStatus, namespace: string): string {
  const status = inLines(given);
  const { waiting, receipts } = status;
  const parked = waiting.some((each) => each.for === 'decision');
  const outage = inOutage(status);
  const during = outage && status.phase !== 'outage' ? `OUTAGE; ${phaseText(status)}` : phaseText(status);
  const headline = parked ? `PARKED${outage ? ' in the OUTAGE' : ''}` : during;
  const last = receipts.slice(-RECEIPTS_SHOWN).map((each) => `- ${sentence(receiptText(each))}`);
  const here = [...new Set(waiting.flatMap((each) => HERE[each.for] ?? []))];
  const lines = [
    `### ${prose(status.runbook)} of ${escapeMarkdown(status.deployment)}: ${prose(headline)}`,
    '',
    ...statusText(status, timeOf).flatMap(paragraphs),
    ...(here.length > 0 ? ['**In the Web UI**', '', ...here.map((each) => `- ${each}`), ''] : []),
    ...summaryLines(status),
    ...planLines(status),
    ...(last.length > 0 ? ['#### Last signals', '', ...last, ''] : []),
    ...['#### Steps', ''],
  ];
  const head = lines.join('\n');
  const tail = byHandLines(status, namespace).join('\n');
  const steps = status.steps.map((step) => `${step.number}. ${sentence(stepText(step))}`);
  const sizes = steps.map((step) => bytes(step).length + 1);
  let size = bytes(`${head}\n${tail}`).length + sizes.reduce((sum, each) => sum + each, 0);
  let first = 0;
  for (; first < steps.length - 1 && size > MAX_BYTES; first += 1) size -= sizes[first] ?? 0;
  const whole = `${head}\n${steps.slice(first).join('\n')}\n${tail}`;
  return new TextDecoder().decode(bytes(whole).slice(0, MAX_BYTES));
}

function sentence({ title, text }: Statement): string {
  return `**${prose(title)}**${prose(text)}`;
}

/** A list item each; where some lines have others below them, paragraphs and lists, never a list inside of a list. */
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

/** To the second: a person compares it with a clock. */
function timeOf(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
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
function planLines({ planText, waiting }: RunStatus): string[] {
  const plan = waiting.some((each) => each.for === 'approval') ? planIn(planText ?? '') : undefined;
  if (!plan) return [];
  try {
    return linesOf(inLines(plan));
  } catch {
    // What an activity gave is not trusted to be a plan: an error here would fail every task of the run.
    return [];
  }
}

function linesOf({ clusters, warnings, steps, choices, reason }: RunbookPlan): string[] {
  return [
    '#### The plan',
    '',
    `- Reason: ${escapeMarkdown(reason)}`,
    ...clusters.map(
      ({ cluster, version, dr, performance }) =>
        `- **${escapeMarkdown(cluster)}** (${escapeMarkdown(version)}): DR ${prose(dr)}, performance ${prose(performance)}`,
    ),
    ...Object.entries(choices).map(([name, choice]) => `- ${prose(name)}: ${prose(String(choice))}`),
    ...warnings.map((warning) => `- **Know this**: ${prose(warning)}`),
    '',
    'It will:',
    '',
    ...steps.map((step, index) => `${index + 1}. ${prose(step)}`),
    '',
  ];
}

/** One member a line: the Web UI does not break long lines. */
function pasted(value: Readonly<Record<string, unknown>>): string[] {
  return ['```json', jsonText(value, 2), '```'];
}

/** What a person writes into the form who need not sign; most inventories know nobody of that kind. */
function byHandLines(status: RunStatus, namespace: string): string[] {
  const run = { ns: namespace, wid: status.workflowId, rid: status.runId };
  const objects = status.waiting.flatMap((waiting): Readonly<Record<string, unknown>>[] => {
    if (waiting.for === 'approval') {
      const { gate, planDigest } = waiting;
      return [{ ...run, gate, planDigest, verdict: 'approve', comment: '', name: 'YOUR-NAME', iat: 0 }];
    }
    if (waiting.for !== 'decision') return [];
    const { step, parkingNo, choices } = waiting;
    return [
      { ...run, step, parkingNo, action: choices[0]?.action ?? 'retry', reason: 'WHY', name: 'YOUR-NAME', iat: 0 },
    ];
  });
  if (objects.length === 0 || status.plainDocuments !== true) return [];
  return [
    '',
    '#### By hand',
    '',
    'Only for those who need not sign, by the inventory:',
    '',
    ...objects.flatMap(pasted),
  ];
}
