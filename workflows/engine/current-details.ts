import { stepNumber } from '../../src/moves/steps';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import { escapeMarkdown, inCode, inLines, prose } from '../../src/contracts/words';
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

/** What the Web UI shows on the tab User Metadata. No tables and no nested lists, because the Web UI runs them together. */
export function currentDetails(given: RunStatus): string {
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
    ...statusText(status, timeOf).flatMap(paragraphs),
    ...(here.length > 0 ? ['**In the Web UI**', '', ...here.map((each) => `- ${each}`), ''] : []),
    ...(last.length > 0 ? ['#### Last signals', '', ...last, ''] : []),
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
