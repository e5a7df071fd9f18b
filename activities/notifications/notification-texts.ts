import { nextCommandOf, shellLine } from '../../src/contracts/next-commands';
import type { NextCommand } from '../../src/contracts/next-commands';
import type { Notification, NotificationSeverity } from '../../src/contracts/notifications';
import { verdictWords } from '../../src/contracts/readiness-words';
import type { Inventory } from '../../src/inventory';
import type { RunContext } from '../../src/keys';
import { notificationFacts } from './notification-facts';
import type { NotificationFacts } from './notification-facts';

/** A notification in words, for every kind of target: ours, but for short quotations at the end of the details. */
export type Message = ReturnType<typeof messageOf>;

/** What cannot wait for the report, by the code of its finding. */
const ALARMS: Readonly<Record<string, string>> = {
  'inventory-refused': 'The inventory file was changed and has a mistake: the workers go on with the one before.',
  'orphan-token': 'An operation token may exist that nobody holds.',
  'orphan-root-token': 'A root token may exist that nobody holds.',
  'plain-text-share':
    'A key share seems to stand in plain text in the history of the run. In this order: finish the run; rekey the cluster, so that the share is worth nothing; then delete the run, its resets, exports and backups.',
  'plain-text-token':
    'A token seems to stand in plain text in the history of the run. In this order: end that token now; finish the run; then delete the run, its resets, exports and backups.',
};
/** Of a Workflow ID that whoever started the run could choose: nothing in it makes a link or a sentence. */
const PLAIN_ID = /^[A-Za-z0-9][A-Za-z0-9:_-]{0,119}$/;
const UNSHOWN_ID = 'A-RUN-WITH-ANOTHER-ID';

/**
 * Puts a notification into words. They are ours, whatever the notification says: texts of the run are short quotations,
 * and the run is the one that asks, not the one that it names.
 *
 * @throws RunbookError INVALID_INPUT where it is no notification that this program tells
 */
export function messageOf(inventory: Inventory, deployment: string, given: Notification, run: RunContext) {
  const facts = notificationFacts(inventory, deployment, given);
  const { event, severity, runbook, number, subject, at, outcome } = facts;
  const { ns, rid } = run;
  const wid = PLAIN_ID.test(run.wid) ? run.wid : UNSHOWN_ID;
  const marks: Readonly<Record<NotificationSeverity, string>> = { info: '', warning: '[!] ', critical: '[CRITICAL] ' };
  const text = sentenceOf(facts);
  const { uiAddress } = inventory.temporal;
  return {
    /** The same when the same notification is sent twice. */
    id: `${ns}/${wid}/${rid}/${number}`,
    /** The same for a matter and its end. */
    subject: `${ns}/${wid}/${rid}/${subject}`,
    event,
    severity,
    at: new Date(at).toISOString(),
    deployment,
    runbook,
    workflowId: wid,
    runId: rid,
    ...(outcome && { outcome }),
    /** One line. */
    title: `${marks[severity]}${deployment}: ${text}`,
    text,
    /** Each a line: what is left to do; at the end the words of the run, quoted. */
    details: [
      ...(facts.leftToDo > 0 && event === 'finished' ? [`Left to do: ${facts.leftToDo}; the report lists what`] : []),
      ...facts.words.map((each) => `The run says: "${each}"`),
    ],
    /** The exact command of each person who can do something. */
    commands: wid === UNSHOWN_ID ? [LIST] : commandsOf(facts, wid, rid),
    ...(uiAddress !== undefined && {
      link: `${uiAddress.replace(/(?<!\/)\/+$/, '')}/namespaces/${encodeURIComponent(ns)}/workflows/${encodeURIComponent(run.wid)}/${encodeURIComponent(rid)}/history`,
    }),
  };
}

/** The message as plain text, for mail and chat. */
export function plainText({ text, details, commands, link, runbook, workflowId, at }: Message): string {
  return [
    text,
    '',
    ...details.map((line) => `- ${line}`),
    ...(details.length > 0 ? [''] : []),
    ...commands.flatMap(({ who, command }) => [`${who}:`, `    ${command}`]),
    ...(commands.length > 0 ? [''] : []),
    `${runbook}, ${workflowId}, ${at}`,
    ...(link === undefined ? [] : [link]),
  ].join('\n');
}

/** What happened, in one sentence of ours. */
function sentenceOf(facts: NotificationFacts): string {
  const { event, runbook, tookOver, waiting, inOutage, since, streaming, finding, outcome, readiness } = facts;
  const keptOut = facts.clientsHeld === true ? ' Clients may be kept out meanwhile.' : '';
  switch (event) {
    case 'started':
      return tookOver === undefined
        ? `${runbook} was started.`
        : `${tookOver} was taken over: it goes on as ${runbook}.`;
    case 'waiting-for-people':
    case 'parked':
      return `${runbook} ${inWords(waiting)}.${inOutage === true ? ' No cluster serves clients.' : keptOut}`;
    case 'reminder':
    case 'escalation':
      return `${runbook} still ${inWords(waiting)}${since === undefined ? '' : `, since ${new Date(since).toISOString()}`}.${keptOut}`;
    case 'stand-by-called':
      return `${runbook} now asks who stands by for a key share.`;
    case 'outage-started':
      return 'The outage began: no cluster serves clients.';
    case 'service-ready':
      return 'Service is back.';
    case 'protected-again':
      return streaming === undefined
        ? 'There is DR protection again.'
        : `${streaming.secondary} streams from ${streaming.primary}: there is DR protection again.`;
    case 'critical-finding':
      return (
        (finding !== undefined && Object.hasOwn(ALARMS, finding) && ALARMS[finding]) || 'Something critical was found.'
      );
    case 'readiness-changed': {
      const before = readiness?.before ? ` Before: ${verdictsInWords(readiness.before)}.` : '';
      return readiness ? `Readiness: ${verdictsInWords(readiness)}.${before}` : 'Readiness changed.';
    }
    case 'readiness-overdue':
      return `No readiness check has ended since ${new Date(since ?? 0).toISOString()}: see to its Schedule and its runs.`;
    case 'finished':
      return `${runbook} ended${outcome === undefined ? '' : `: ${outcome}`}.${inOutage === true ? ' It was ended inside the outage.' : keptOut.replace('meanwhile', 'still')}`;
  }
}

function verdictsInWords({ switchover, failover }: NonNullable<NotificationFacts['readiness']>): string {
  return `switchover ${verdictWords(switchover)}, failover ${verdictWords(failover)}`;
}

/** Who is missing is named in the first line: it is all that a telephone shows. */
function inWords(waiting: NotificationFacts['waiting']): string {
  if (waiting === undefined) return 'waits for people';
  const { gate, again, missing, step, code } = waiting;
  const from = missing.length === 0 ? '' : ` from ${missing.join(', ')}`;
  switch (waiting.for) {
    case 'approval':
      return `waits for approval of gate ${gate ?? ''}${again ? ' again: the approvals before do not count any more' : ''}`;
    case 'shares':
      return `waits for key shares${from}`;
    case 'rehearsal':
      return `waits for answers to the rehearsal${from}; no key share is asked for`;
    case 'decision':
      return `is parked${step === '' ? '' : ` at "${step}"`}${code === '' ? '' : ` (${code})`} and waits for a decision`;
    case 'resume':
      return 'is paused and waits to be resumed';
    case 'window':
      return 'waits for its change window';
    case 'action':
      return 'waits until people have done something outside of the run';
  }
}

const LIST: NextCommand = { who: 'to find the run', command: shellLine('runbook', 'list', '--open') };

function commandsOf({ event, waiting }: NotificationFacts, wid: string, rid: string): readonly NextCommand[] {
  if (event.startsWith('readiness-'))
    return [
      { who: 'every point, as of now', command: shellLine('runbook', 'readiness', wid.replace(/^[a-z-]+:/, '')) },
    ];
  if (event === 'finished')
    return [{ who: 'the whole story', command: shellLine('runbook', 'report', wid, '--run-id', rid) }];
  const status = { who: 'to see where it stands', command: nextCommandOf.status(wid) };
  switch (waiting?.for) {
    case 'approval':
      return waiting.gate ? [{ who: 'an approver', command: nextCommandOf.approve(wid, waiting.gate) }] : [status];
    case 'shares':
    case 'rehearsal':
      return [...waiting.missing.map((who) => ({ who, command: nextCommandOf.share(wid, who) })), status];
    case 'resume':
      return [{ who: 'an operator', command: nextCommandOf.control('resume', wid) }];
    default:
      // What may be decided on a parked step, and what each choice does, is read there.
      return [status];
  }
}
