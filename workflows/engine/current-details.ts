import { urgentFindings } from '../../src/contracts/alarms';
import { askedNow } from '../../src/contracts/asked';
import { askedAgain, untilWhen } from '../../src/contracts/gate-words';
import { commandsFor } from '../../src/contracts/next-commands';
import { planIn } from '../../src/contracts/plan';
import type { RunbookPlan } from '../../src/contracts/plan';
import type { Attested, Finding } from '../../src/contracts/run-facts';
import type { RunStatus, TimelineStep, Waiting } from '../../src/contracts/run-status';
import type { ShareLine } from '../../src/contracts/share-words';
import { shareLines, sharesStillNeeded } from '../../src/contracts/share-words';
import { WEB_UI, sendInWebUi } from '../../src/contracts/web-ui';
import { inCode, inLines, jsonText, prose, proseSaid } from '../../src/contracts/words';

/** Bytes. The server refuses details above 20,000; older steps give way first. */
const MAX_BYTES = 15_000;
const RECEIPTS_SHOWN = 5;
const SUMMARY_SHOWN = 20;

const PHASE_WORDS: Record<RunStatus['phase'], string> = {
  checking: 'reading and checking; nothing is touched',
  'waiting-for-people': 'waiting for people',
  preparing: 'last checks',
  working: 'changes are being made',
  outage: 'OUTAGE: no primary serves clients',
  're-protecting': 'service is back; protection is being restored',
  finishing: 'service is back; cleaning up',
  finished: 'finished',
};
const PRINTED = 'the line that the command prints with `--print`';
const WITH_THE_PAGE = `With the holder's page: copy the invitation from the tab ${WEB_UI.queries}, query \`invitation\`; send the page's envelope as signal \`share\``;
/** Phases of which only the run itself knows whether clients are served. */
const SERVICE_IS_UP: ReadonlySet<RunStatus['phase']> = new Set(['waiting-for-people', 'preparing', 'working']);

/** What the Web UI shows on the tab User Metadata. No tables, no lists inside of lists: the Web UI runs them together. */
export function currentDetails(given: RunStatus, namespace: string): string {
  const status = inLines(given);
  const lines = [`### ${prose(status.runbook)} of ${proseSaid(status.deployment)}: ${headline(status)}`, ''];
  const urgent = urgentFindings(status);
  for (const finding of urgent) lines.push(findingLine(finding), '');
  if (status.paused) lines.push('**Paused.**', '');
  if (inOutage(status)) lines.push(`**OUTAGE** since ${timeOf(status.outageSince)}: no primary serves clients.`, '');
  const parked = status.waiting.filter((each) => each.for === 'decision');
  for (const waiting of parked) lines.push(...waitingLines(waiting, status), '');
  lines.push(...askedLines(status));
  for (const waiting of status.waiting)
    if (waiting.for !== 'decision') lines.push(...waitingLines(waiting, status), '');
  for (const left of status.leftToDo ?? []) lines.push(`**Left to do**: ${prose(left)}`, '');
  const found = (['critical', 'warning'] as const).flatMap((severity) =>
    status.findings.filter((finding) => finding.severity === severity),
  );
  for (const finding of found) if (!urgent.includes(finding)) lines.push(findingLine(finding), '');
  lines.push(...summaryLines(status), ...planLines(status), ...receiptLines(status), '#### Steps', '');
  const head = lines.join('\n');
  const tail = byHandLines(status, namespace).join('\n');
  const steps = status.steps.map(stepLine);
  const sizes = steps.map((step) => bytes(step).length + 1);
  let size = bytes(`${head}\n${tail}`).length + sizes.reduce((sum, each) => sum + each, 0);
  let first = 0;
  for (; first < steps.length - 1 && size > MAX_BYTES; first += 1) size -= sizes[first] ?? 0;
  const whole = `${head}\n${steps.slice(first).join('\n')}\n${tail}`;
  return new TextDecoder().decode(bytes(whole).slice(0, MAX_BYTES));
}

function findingLine({ severity, text, next }: Finding): string {
  const whole = /[.!?]$/.test(text) ? text : `${text}.`;
  return `**${severity === 'critical' ? 'CRITICAL' : 'Warning'}**: ${prose(whole)}${next ? ` Next: ${prose(next)}` : ''}`;
}

/** At first sight, while key holders are waited for. */
function askedLines(status: RunStatus): string[] {
  const lines = askedNow(status).map((each) => `- ${prose(each)}`);
  return lines.length === 0 ? [] : ['**What key holders are asked for**', '', ...lines, ''];
}

function headline(status: RunStatus): string {
  const { phase, outcome, waiting } = status;
  if (waiting.some((each) => each.for === 'decision')) return `PARKED${inOutage(status) ? ' in the OUTAGE' : ''}`;
  if (phase === 'finished') return outcome === undefined ? 'finished' : `finished, ${outcome}`;
  if (phase !== 'outage' && inOutage(status)) return `OUTAGE; ${PHASE_WORDS[phase]}`;
  // A rehearsal looks at no cluster: it does not know.
  const isUp = SERVICE_IS_UP.has(phase) && status.runbook !== 'ceremonyRehearsal';
  return `${PHASE_WORDS[phase]}${isUp ? '; service is up' : ''}`;
}

function inOutage(status: RunStatus): status is RunStatus & { readonly outageSince: number } {
  return status.outageSince !== undefined && status.serviceBackAt === undefined;
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
    `- Reason: ${proseSaid(reason)}`,
    ...clusters.map(
      ({ cluster, version, dr, performance }) =>
        `- **${proseSaid(cluster)}** (${proseSaid(version)}): DR ${prose(dr)}, performance ${prose(performance)}`,
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

/** The last answers to what people sent: whoever sends a signal from here sees what became of it. */
function receiptLines({ receipts }: RunStatus): string[] {
  if (receipts.length === 0) return [];
  const last = receipts.slice(-RECEIPTS_SHOWN).map(({ signal, arrival, verdict, text, from }) => {
    const who = from ? ` from ${named(from)}` : '';
    const why = text.startsWith(`${verdict}: `) ? text.slice(verdict.length + 2) : text;
    return `- ${prose(signal)} ${arrival}${who}: **${verdict}**${why === verdict ? '' : `, ${prose(why)}`}`;
  });
  return ['#### Last signals', '', ...last, ''];
}

function named({ name, how }: Attested): string {
  return `${proseSaid(name)} (${how === 'claimed' ? 'UNVERIFIED' : how})`;
}

function names(list: readonly string[], none = 'nobody'): string {
  return proseSaid(list.join(', ')) || none;
}

/** One member a line: the Web UI does not break long lines. */
function pasted(value: Readonly<Record<string, unknown>>): string[] {
  return ['```json', jsonText(value, 2), '```'];
}

function stepLine(step: TimelineStep): string {
  const took = step.endedAt === undefined ? '' : ` (${((step.endedAt - step.startedAt) / 1000).toFixed(1)} s)`;
  const again = step.attempt > 1 ? `, attempt ${step.attempt}` : '';
  return `${step.number}. **${prose(step.name)}**: ${step.state}${again}${took}${step.note ? `. ${prose(step.note)}` : ''}`;
}

function waitingLines(waiting: Waiting, { workflowId }: RunStatus): string[] {
  const commands = commandsFor(workflowId, waiting).map(({ command }) => inCode(command));
  switch (waiting.for) {
    case 'approval':
      return [
        `**Waits for approval of gate \`${waiting.gate}\`** ${untilWhen(waiting, timeOf)}. Missing: ${prose(waiting.missing.join('; '))}${prose(askedAgain(waiting))}`,
        '',
        ...commands.map((each) => `- By command: ${each}`),
        `- Here: ${sendInWebUi('`approve`', PRINTED)}`,
      ];
    case 'shares':
      return [
        `**Waits for ${sharesStillNeeded(waiting)}** until ${timeOf(waiting.until)}. In hand: ${names(waiting.held, 'none')}. Not yet: ${names(waiting.missingHolders)}.`,
        '',
        ...shareItems(shareLines(workflowId, waiting, timeOf)),
        `Here: ${sendInWebUi('`share` or `decline`', PRINTED)}`,
        '',
        WITH_THE_PAGE,
      ];
    case 'rehearsal':
      return [
        `**REHEARSAL: no key share is asked for.** Waits until ${timeOf(waiting.until)}. Answered: ${names(waiting.answered)}. Not yet: ${names(waiting.missing)}.${waiting.declined ? ` Declined: ${names(waiting.declined.map(({ by }) => by.name))}.` : ''}`,
        '',
        ...(waiting.declined ?? []).map(
          ({ by, reason }) =>
            `- ${proseSaid(by.name)} declined${by.how === 'claimed' ? ' (UNVERIFIED)' : ''}: ${proseSaid(reason)}`,
        ),
        ...waiting.missing.map((holder, index) => `- ${proseSaid(holder)}, by command: ${commands[index] ?? ''}`),
        `- Here: ${sendInWebUi('`share`', PRINTED)}`,
        `- ${WITH_THE_PAGE}`,
      ];
    case 'decision':
      return [
        `**Parked at "${prose(waiting.step)}"** (${prose(waiting.code)}): ${prose(waiting.message)}`,
        '',
        ...(waiting.decidedOnce
          ? [
              `- **${proseSaid(waiting.decidedOnce.by.name)} decided \`${waiting.decidedOnce.action}\`: a second person is needed**`,
            ]
          : []),
        ...(waiting.observed ? [`- Observed: ${prose(waiting.observed)}`] : []),
        ...(waiting.needed ? [`- Needed: ${prose(waiting.needed)}`] : []),
        ...(waiting.next ? [`- Next: ${prose(waiting.next)}`] : []),
        ...waiting.choices.map(
          ({ action, effect }, index) => `- \`${action}\`: ${prose(effect)}. ${commands[index] ?? ''}`,
        ),
        `- Here: ${sendInWebUi('`decide`', PRINTED)}`,
      ];
    case 'window':
      return [`**Approved; waits for its change window**, which begins ${timeOf(waiting.until)}.`];
    case 'action':
      return [
        `**Waits until people have done this: ${prose(waiting.what)}**`,
        '',
        ...waiting.instructions.map((each) => `- ${prose(each)}`),
      ];
    case 'resume':
      return [`**Paused** by ${proseSaid(waiting.by)}: ${proseSaid(waiting.reason)}. ${commands.join('')}`];
  }
}

/** Never a list inside of a list: the Web UI runs its lines together. */
function shareItems(lines: readonly ShareLine[]): string[] {
  const said = ({ text, command }: ShareLine) => `${prose(text)}${command === undefined ? '' : `: ${inCode(command)}`}`;
  return lines.flatMap((line) => {
    const { below = [] } = line;
    return below.length === 0
      ? [said(line), '']
      : [`${said(line)}:`, '', ...below.map((each) => `- ${said(each)}`), ''];
  });
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
