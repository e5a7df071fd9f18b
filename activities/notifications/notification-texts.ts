import { z } from 'zod';
import { RUNBOOK_NAMES, webUiLink } from '../../src/contracts/names';
import { nextCommandOf, shellLine } from '../../src/contracts/next-commands';
import type { NextCommand } from '../../src/contracts/next-commands';
import { NOTIFICATION_EVENTS } from '../../src/contracts/notifications';
import type { Notification } from '../../src/contracts/notifications';
import { GATE_NAMES } from '../../src/contracts/plan';
import { readinessResult } from '../../src/contracts/readiness';
import { escapeUntrusted, verdictsInWords } from '../../src/contracts/words';
import { runOutcome } from '../../src/contracts/run-facts';
import { ERROR_CODES, RunbookError } from '../../src/errors';
import { findDeployment } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import { redact } from '../../src/keys';
import type { RunContext } from '../../src/keys';
import { waitedFor } from '../../src/words/status';

/*
 * A notification in words. All of it came through Temporal, whose writers can put anything there: names are those of the
 * inventory, everything else is of a closed list or a number, and what is left of other texts is a short quotation.
 */

/** A notification in words, for every kind of target: ours, but for short quotations at the end of the details. */
export type Message = ReturnType<typeof messageOf>;

const LONGEST_WORDS = 120;
/** Read of a text at all. */
const LONGEST_TEXT = 2_000;
/** Words of others in one message. */
const MOST_WORDS = 3;
/** What a step may be called: letters, no address, no shell. */
const STEP = /^[A-Z][A-Za-z0-9 ,()'-]{2,99}$/;
/** Of a Workflow ID that whoever started the run could choose: nothing in it makes a link or a sentence. */
const PLAIN_ID = /^[A-Za-z0-9][A-Za-z0-9:_-]{0,119}$/;
const UNSHOWN_ID = 'A-RUN-WITH-ANOTHER-ID';

const verdicts = readinessResult.pick({ switchover: true, failover: true });
const time = z.int().min(0).max(8e15);
const count = z.int().min(0).max(10_000);
const texts = z.array(z.string()).max(1_000).catch([]);
const said = z.string().catch('');
/** What is not of its list is left out: the rest is told all the same. */
const known = <S extends z.ZodType>(schema: S) => schema.optional().catch(undefined);

function factsSchema({ people }: Inventory, isCluster: (name: string) => boolean) {
  const cluster = z.string().refine(isCluster);
  const person = texts.transform((names) => names.filter((name) => people.has(name)));
  const waiting = z.object({
    for: z.enum(['approval', 'shares', 'rehearsal', 'decision', 'resume', 'action']),
    gate: known(z.enum(GATE_NAMES)),
    again: z.unknown().optional(),
    step: z.string().regex(STEP).catch('a step'),
    parkingNo: count.catch(0),
    code: z.enum([...Object.keys(ERROR_CODES), 'INTERRUPTED']).catch('for a reason that the status shows'),
    ...{ missing: person, missingHolders: person },
    ...{ message: said, what: said, by: said, reason: said },
  });
  return z.object({
    event: z.enum(NOTIFICATION_EVENTS),
    severity: z.enum(['info', 'warning', 'critical']),
    runbook: z.enum(RUNBOOK_NAMES),
    number: count.min(1),
    at: time,
    subject: z
      .string()
      .regex(/^(run|outage|protection|(wait|finding):[A-Za-z0-9:-]{1,80})$/)
      .catch('run'),
    tookOver: known(z.enum(RUNBOOK_NAMES)),
    inOutage: known(z.boolean()),
    clientsHeld: known(z.boolean()),
    since: known(time),
    outcome: known(runOutcome),
    streaming: known(z.object({ secondary: cluster, primary: cluster })),
    readiness: known(verdicts.extend({ before: verdicts.optional() })),
    finding: known(z.string()),
    words: said,
    leftToDo: texts,
    waiting: known(waiting),
  });
}

type Facts = z.infer<ReturnType<typeof factsSchema>>;

/**
 * Puts a notification into words. They are ours, whatever the notification says: texts of the run are short quotations,
 * and the run is the one that asks, not the one that it names.
 *
 * @throws RunbookError INVALID_INPUT where it is no notification that this program tells
 */
export function messageOf(inventory: Inventory, deployment: string, given: Notification, run: RunContext) {
  const { clusters } = findDeployment(inventory, deployment);
  const { data: facts } = factsSchema(inventory, (name) => clusters.has(name)).safeParse(given);
  if (!facts)
    throw new RunbookError('INVALID_INPUT', 'The notification is none that this program tells; nobody was told.', {
      needed: `one of the events ${NOTIFICATION_EVENTS.join(', ')}, of a runbook that there is`,
    });
  const { event, severity, runbook, number, subject, at, outcome, leftToDo } = facts;
  const { ns, rid } = run;
  const wid = PLAIN_ID.test(run.wid) ? run.wid : UNSHOWN_ID;
  const marks = { info: '', warning: '[!] ', critical: '[CRITICAL] ' } as const;
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
      ...(leftToDo.length > 0 && event === 'finished' ? [`Left to do: ${leftToDo.length}; the report lists what`] : []),
      ...quotations(facts).map((each) => `The run says: "${each}"`),
    ],
    /** The exact command of each person who can do something. */
    commands: wid === UNSHOWN_ID ? [LIST] : commandsOf(facts, wid, rid),
    ...(uiAddress !== undefined && { link: webUiLink(uiAddress, ns, run.wid, rid) }),
  };
}

/** Longer texts are refused whole. */
const LONGEST_CHAT = 3_000;

/** The message as one text, as every Slack-compatible webhook takes it. */
export function chatText({ title, details, commands, link, workflowId }: Message): string {
  const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const lines = [
    `*${escaped(title)}*`,
    ...details.map((line) => `• ${escaped(line)}`),
    ...commands.map(({ who, command }) => `${escaped(who)}: \`${escaped(command)}\``),
    link === undefined ? escaped(workflowId) : `<${link}|${escaped(workflowId)}>`,
  ];
  return lines.join('\n').slice(0, LONGEST_CHAT);
}

/** What others wrote, for a place where it is quoted. */
function quotations({ words, waiting, leftToDo }: Facts): readonly string[] {
  const { for: kind, by = '', reason = '', message = '', what = '' } = waiting ?? {};
  const waited = kind === 'resume' ? `paused by ${escapeUntrusted(by)}: ${escapeUntrusted(reason)}` : message || what;
  return [words, waited, ...leftToDo]
    .filter((text) => text !== '')
    .slice(0, MOST_WORDS)
    .map(quotation);
}

/** One short line, redacted, in which nothing becomes a link. */
function quotation(text: string): string {
  const plain = escapeUntrusted(redact(text.slice(0, LONGEST_TEXT).normalize('NFKC')))
    .replace(/[a-z][a-z0-9+.-]{0,6}:\/\/\S{1,2000}/gi, '[link]')
    .replace(/[.。](?=\p{L})/gu, ' ')
    .replace(/@/g, ' at ')
    .replace(/["“”„]/g, "'")
    .trim();
  const characters = [...plain];
  return characters.length <= LONGEST_WORDS ? plain : `${characters.slice(0, LONGEST_WORDS - 1).join('')}…`;
}

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

/** What happened, in one sentence of ours. */
function sentenceOf(facts: Facts): string {
  const { event, runbook, tookOver, since, streaming, finding = '', outcome, readiness } = facts;
  const held = facts.clientsHeld === true ? ' Clients may be kept out.' : '';
  const clients = facts.inOutage === true ? ' No cluster serves clients.' : held;
  switch (event) {
    case 'started':
      return tookOver === undefined
        ? `${runbook} was started.`
        : `${tookOver} was taken over: it goes on as ${runbook}.`;
    case 'waiting-for-people':
    case 'parked':
      return `${runbook} waits for ${waitedForBy(facts)}.${clients}`;
    case 'reminder':
    case 'escalation':
      return `${runbook} still waits for ${waitedForBy(facts)}${since === undefined ? '' : `, since ${new Date(since).toISOString()}`}.${clients}`;
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
      return (Object.hasOwn(ALARMS, finding) && ALARMS[finding]) || 'Something critical was found.';
    case 'readiness-changed': {
      const before = readiness?.before ? ` Before: ${verdictsInWords(readiness.before)}.` : '';
      return readiness ? `Readiness: ${verdictsInWords(readiness)}.${before}` : 'Readiness changed.';
    }
    case 'readiness-overdue':
      return `No readiness check has ended since ${new Date(since ?? 0).toISOString()}: see to its Schedule and its runs.`;
    case 'finished':
      return `${runbook} ended${outcome === undefined ? '' : `: ${outcome}`}.${clients}`;
  }
}

/** Who is missing is named in the first line: it is all that a telephone shows. */
function waitedForBy({ waiting }: Facts): string {
  if (!waiting) return 'people';
  const { gate = '?', missing, missingHolders, again } = waiting;
  const names = [...missing, ...missingHolders];
  const from = names.length === 0 ? '' : ` from ${names.join(', ')}`;
  const anew = again === undefined ? '' : ' again: the approvals before do not count any more';
  // Whoever paused it, and what it waits for outside, are words of the run.
  const ours = { by: 'somebody', what: 'people who do something outside of the run' };
  const none = waiting.for === 'rehearsal' ? '; no key share is asked for' : '';
  return `${waitedFor({ ...waiting, gate, ...ours })}${from}${anew}${none}`;
}

const LIST: NextCommand = { who: 'to find the run', command: shellLine('runbook', 'list', '--open') };

function commandsOf({ event, waiting }: Facts, wid: string, rid: string): readonly NextCommand[] {
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
      return [
        ...[...waiting.missing, ...waiting.missingHolders].map((who) => ({
          who,
          command: nextCommandOf.share(wid, who),
        })),
        status,
      ];
    case 'resume':
      return [{ who: 'an operator', command: nextCommandOf.control('resume', wid) }];
    default:
      // What may be decided on a parked step, and what each choice does, is read there.
      return [status];
  }
}
