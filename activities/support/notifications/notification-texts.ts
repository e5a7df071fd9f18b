import type { NextCommand } from '../../../src/contracts/next-commands';
import { askedAgain, untilWhen } from '../../../src/contracts/gate-words';
import { commandsFor } from '../../../src/contracts/next-commands';
import type { Notification, NotificationSeverity } from '../../../src/contracts/notifications';
import type { Waiting } from '../../../src/contracts/run-status';
import { shareFacts } from '../../../src/contracts/share-words';
import { inLines, said } from '../../../src/contracts/words';
import { redact } from '../../../src/secrets';
import type { RunContext } from '../../../src/secrets';

/** A notification in words, for every kind of target. Texts of people and of the service are redacted. */
export interface Message {
  /** The same when the same notification is sent twice. */
  readonly id: string;
  /** The same for a matter and its end. */
  readonly subject: string;
  readonly event: Notification['event'];
  readonly severity: NotificationSeverity;
  readonly at: string;
  readonly deployment: string;
  readonly runbook: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly outcome?: Notification['outcome'];
  /** One line. */
  readonly title: string;
  readonly text: string;
  /** Each a line: what is waited for and from whom, what is left to do. */
  readonly details: readonly string[];
  /** The exact command of each person who can do something. */
  readonly commands: readonly NextCommand[];
  readonly link?: string;
}

/** Items of a list that a message shows. */
const SHOWN = 10;

export function messageOf(
  deployment: string,
  given: Notification,
  run: RunContext,
  uiAddress: string | undefined,
): Message {
  // No text of it makes a line of its own, in a mail or on a telephone.
  const notification = inLines(given);
  const { event, severity, runbook, number, subject, text, at, waiting, outcome, leftToDo = [] } = notification;
  const { ns, wid, rid } = run;
  const marks: Readonly<Record<NotificationSeverity, string>> = { info: '', warning: '[!] ', critical: '[CRITICAL] ' };
  const shown = redact(text).trim();
  return {
    id: `${ns}/${wid}/${rid}/${number}`,
    subject: `${ns}/${wid}/${rid}/${subject}`,
    event,
    severity,
    at: new Date(at).toISOString(),
    deployment,
    runbook,
    workflowId: wid,
    runId: rid,
    ...(outcome && { outcome }),
    title: `${marks[severity]}${deployment}: ${shown}`,
    text: shown,
    details: [...waitingLines(waiting), ...listed('Left to do', leftToDo)],
    commands: waiting ? commandsFor(wid, waiting) : endCommands(event, wid, rid),
    ...(uiAddress !== undefined && {
      link: `${uiAddress.replace(/\/+$/, '')}/namespaces/${encodeURIComponent(ns)}/workflows/${encodeURIComponent(wid)}/${encodeURIComponent(rid)}/history`,
    }),
  };
}

/** The message as plain text, for mail and chat. */
export function plainText({ text, details, commands, link, runbook, workflowId, at }: Message): string {
  const asked = ({ who, effect, as }: NextCommand) => `${who}${effect || as ? ` (${effect ?? as ?? ''})` : ''}:`;
  return [
    text,
    '',
    ...details.map((line) => `- ${line}`),
    ...(details.length > 0 ? [''] : []),
    ...commands.flatMap((each) => [asked(each), `    ${each.command}`]),
    ...(commands.length > 0 ? [''] : []),
    `${runbook}, ${workflowId}, ${at}`,
    ...(link === undefined ? [] : [link]),
  ].join('\n');
}

function endCommands(event: Notification['event'], workflowId: string, runId: string): NextCommand[] {
  return event === 'finished'
    ? [{ who: 'the whole story', command: `runbook report ${workflowId} --run-id ${runId}` }]
    : [{ who: 'to see where it stands', command: `runbook status ${workflowId}` }];
}

function waitingLines(waiting: Waiting | undefined): string[] {
  switch (waiting?.for) {
    case undefined:
      return [];
    case 'approval':
      return [
        `Gate ${waiting.gate}, ${untilWhen(waiting, (until) => new Date(until).toISOString())}${askedAgain(waiting)}`,
        ...waiting.missing.map((each) => `Missing: ${redact(each)}`),
      ];
    case 'shares':
      return [
        `${waiting.threshold} key shares, until ${new Date(waiting.until).toISOString()}`,
        `In hand: ${waiting.held.join(', ') || 'none'}. Not yet: ${waiting.missingHolders.join(', ') || 'nobody'}`,
        ...shareFacts(waiting).map(redact),
      ];
    case 'rehearsal':
      return [
        `REHEARSAL, until ${new Date(waiting.until).toISOString()}: no key share is asked for`,
        `Answered: ${waiting.answered.join(', ') || 'nobody'}. Not yet: ${waiting.missing.join(', ') || 'nobody'}`,
      ];
    case 'decision':
      return [
        `${waiting.code}: ${redact(waiting.message)}`,
        ...(waiting.observed === undefined ? [] : [`Observed: ${redact(waiting.observed)}`]),
        ...(waiting.needed === undefined ? [] : [`Needed: ${redact(waiting.needed)}`]),
        ...(waiting.next === undefined ? [] : [`Next: ${redact(waiting.next)}`]),
      ];
    case 'resume':
      return [`Paused by ${said(redact(waiting.by))}: ${said(redact(waiting.reason))}`];
    case 'window':
      return [`The change window begins ${new Date(waiting.until).toISOString()}`];
    case 'action':
      return listed(redact(waiting.what), waiting.instructions);
  }
}

function listed(head: string, items: readonly string[]): string[] {
  const more = items.length - SHOWN;
  return [
    ...items.slice(0, SHOWN).map((item) => `${head}: ${redact(item)}`),
    ...(more > 0 ? [`${head}: ${more} more; see the run`] : []),
  ];
}
