import { z } from 'zod';
import { RUNBOOK_NAMES, deploymentWorkflowId, webUiLink } from '../../src/contracts/names';
import { nextCommandOf, shellLine } from '../../src/contracts/next-commands';
import { NOTIFICATION_EVENTS, SEEN, SERVICE_ALARMS } from '../../src/contracts/notifications';
import type { Notification, NotificationEvent, Seen } from '../../src/contracts/notifications';
import { incidentKey } from '../../src/contracts/input-members';
import { readinessResult } from '../../src/contracts/readiness';
import { escapeUntrusted, verdictsText } from '../../src/contracts/words';
import { runOutcome } from '../../src/contracts/run-facts';
import { GATE_NAMES } from '../../src/contracts/gates';
import type { NextCommand } from '../../src/contracts/run-status';
import { ERROR_CODES, RunbookError } from '../../src/errors';
import { findDeployment } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import { redact } from '../../src/keys';
import type { RunContext } from '../../src/keys';
import { waitedFor } from '../../src/words/status';

/*
 * A notification as text. All of it came through Temporal, where writers can put anything: names must be in the
 * inventory, everything else must be a number or from a closed list, and other texts become short quotations.
 */

/** A notification as text, for every kind of target: our own words, except for short quotations at the end of the details. */
export type Message = ReturnType<typeof messageOf>;

const LONGEST_WORDS = 120;
/** How much of a text is read at all. */
const LONGEST_TEXT = 2_000;
/** Quotations in one message. */
const MOST_WORDS = 3;
/** A valid step name: letters, no address, no shell syntax. */
const STEP = /^[A-Z][A-Za-z0-9 ,()'-]{2,99}$/;
const SUBJECT = /^(run|outage|protection|readiness|readiness-overdue|(wait|finding|alarm):[A-Za-z0-9:-]{1,80})$/;
/** Events that are the end of their own subject. */
const ENDS: readonly NotificationEvent[] = ['service-ready', 'service-alarm-over', 'over'];
/** A valid Workflow ID, which the person who started the run could choose: nothing in it makes a link or a sentence. */
const PLAIN_ID = /^[A-Za-z0-9][A-Za-z0-9:_-]{0,119}$/;
const UNSHOWN_ID = 'A-RUN-WITH-ANOTHER-ID';

const verdicts = readinessResult.pick({ switchover: true, failover: true });
const time = z.int().min(0).max(8e15);
const count = z.int().min(0).max(10_000);
const texts = z.array(z.string()).max(1_000).catch([]);
const anyText = z.string().catch('');
/** A value that is not on its list is left out: the rest is sent anyway. */
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
    ...{ message: anyText, what: anyText, by: anyText, reason: anyText },
  });
  return z.object({
    event: z.enum(NOTIFICATION_EVENTS),
    severity: z.enum(['info', 'warning', 'critical']),
    runbook: z.enum(RUNBOOK_NAMES),
    number: count.min(1),
    at: time,
    subject: z.string().regex(SUBJECT).catch('run'),
    closes: z.array(z.string().regex(SUBJECT)).max(100).catch([]),
    ...{ ticket: anyText, incidentKey: known(incidentKey) },
    ...{ from: known(cluster), to: known(cluster), reason: anyText, requestedBy: anyText },
    tookOver: known(z.enum(RUNBOOK_NAMES)),
    inOutage: known(z.boolean()),
    clientsHeld: known(z.boolean()),
    since: known(time),
    outcome: known(runOutcome),
    streaming: known(z.object({ secondary: cluster, primary: cluster })),
    readiness: known(verdicts.extend({ before: verdicts.optional() })),
    finding: known(z.string()),
    words: anyText,
    leftToDo: texts,
    waiting: known(waiting),
    alarm: known(
      z.object({
        kind: z.enum(SERVICE_ALARMS),
        drSet: known(z.string().regex(/^[a-z0-9-]{1,100}$/)),
        seen: z.array(z.object({ cluster, how: z.enum(SEEN) })).max(200),
        primary: known(cluster),
        run: known(z.object({ runbook: z.enum(RUNBOOK_NAMES), started: z.boolean() })),
        runsFail: known(z.boolean()),
      }),
    ),
  });
}

type Facts = z.infer<ReturnType<typeof factsSchema>>;

/**
 * Turns a notification into text. The words are ours, whatever the notification contains: texts of the run become short
 * quotations, and the run is the one that calls, not the one that the notification names.
 *
 * @throws RunbookError INVALID_INPUT if it is not a notification of this program
 */
export function messageOf(inventory: Inventory, deployment: string, given: Notification, run: RunContext) {
  const { clusters } = findDeployment(inventory, deployment);
  const { data: facts } = factsSchema(inventory, (name) => clusters.has(name)).safeParse(given);
  if (!facts)
    throw new RunbookError('INVALID_INPUT', 'This program has no such notification; none was sent.', {
      needed: `one of the events ${NOTIFICATION_EVENTS.join(', ')}, of an existing runbook`,
    });
  const { event, severity, runbook, number, subject, at, ticket, outcome, leftToDo } = facts;
  const { ns, rid } = run;
  const wid = PLAIN_ID.test(run.wid) ? run.wid : UNSHOWN_ID;
  const marks = { info: '', warning: '[!] ', critical: '[CRITICAL] ' } as const;
  const text = sentenceOf(facts);
  const of = /^(service-alarm|readiness-)/.test(event) ? `${ns}/${deployment}` : `${ns}/${wid}/${rid}`;
  const keyOf = (each: string) => `${of}/${each}`;
  const { uiAddress } = inventory.temporal;
  return {
    /** The same if the same notification is sent twice. */
    id: `${ns}/${wid}/${rid}/${number}`,
    /** The same for an event and its end, which another run of `walSampler` may notice. */
    subject: keyOf(subject),
    /** The subjects that are over with this. */
    closes: [...new Set([...facts.closes, ...(ENDS.includes(event) ? [subject] : [])])].map(keyOf),
    event,
    severity,
    at: new Date(at).toISOString(),
    deployment,
    runbook,
    workflowId: wid,
    runId: rid,
    /** As the run's input says; the other one is a `dedup_key` of PagerDuty. */
    ...(ticket !== '' && { ticket: quotation(ticket) }),
    ...(facts.incidentKey !== undefined && { incidentKey: facts.incidentKey }),
    ...(outcome && { outcome }),
    /** One line. */
    title: `${marks[severity]}${deployment}: ${text}`,
    text,
    /** One line each: what is left to do; at the end, texts of the run, quoted. */
    details: [
      ...(ticket === '' ? [] : [`Ticket, as the run says: "${quotation(ticket)}"`]),
      ...(leftToDo.length > 0 && event === 'finished' ? [`Left to do: ${leftToDo.length}; see the report`] : []),
      ...claims(facts),
      ...quotations(facts).map((each) => `The run says: "${each}"`),
    ],
    /** The exact command for each person who can act. */
    commands: wid === UNSHOWN_ID ? [LIST] : commandsOf(facts, deployment, wid, rid),
    ...(uiAddress !== undefined && { link: webUiLink(uiAddress, ns, run.wid, rid) }),
  };
}

/** Longer texts are refused entirely. */
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

/** Who wants the run and why, for people who decide whether to get up. Anybody who can start runs can write it. */
function claims({ event, requestedBy, reason }: Facts): readonly string[] {
  if (!ASKS_PEOPLE.has(event)) return [];
  return [
    ...(requestedBy === '' ? [] : [`Requested by, as the run says: "${quotation(requestedBy)}" (UNVERIFIED)`]),
    ...(reason === '' ? [] : [`Reason, as the run says: "${quotation(reason)}"`]),
  ];
}

const ASKS_PEOPLE: ReadonlySet<string> = new Set<NotificationEvent>([
  ...(['started', 'waiting-for-people', 'reminder', 'escalation', 'stand-by-called', 'parked'] as const),
]);

/**
 * The message as an Adaptive Card, as the workflows of Microsoft Teams take it. In text runs no Markdown is interpreted, so
 * that nothing in a quotation becomes a link.
 */
export function teamsCard({ title, details, commands, link, workflowId, severity }: Message): object {
  const color = { info: 'Default', warning: 'Warning', critical: 'Attention' } as const;
  const line = (text: string, more: object = {}) => ({
    type: 'RichTextBlock',
    inlines: [{ type: 'TextRun', text: text.slice(0, LONGEST_CHAT), ...more }],
  });
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    body: [
      line(title, { weight: 'Bolder', color: color[severity] }),
      ...details.map((each) => line(each)),
      ...commands.flatMap(({ who, command }) => [line(`${who}:`), line(command, { fontType: 'Monospace' })]),
      line(workflowId, { isSubtle: true }),
    ],
    ...(link !== undefined && { actions: [{ type: 'Action.OpenUrl', title: 'The run', url: link }] }),
  };
  const contentType = 'application/vnd.microsoft.card.adaptive';
  return { type: 'message', attachments: [{ contentType, content }] };
}

/** What others wrote, as quotations. */
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
  'inventory-refused': 'The inventory file was changed and has a mistake: the workers continue with the previous one.',
  'orphan-token': 'An operation token may exist that nobody holds.',
  'orphan-root-token': 'A root token may exist that nobody holds.',
  'plain-text-share':
    'A key share seems to be in plain text in the history of the run. In this order: finish the run; rekey the cluster, so that the share becomes worthless; then delete the run, its resets, exports and backups.',
  'plain-text-token':
    'A token seems to be in plain text in the history of the run. In this order: invalidate that token now; finish the run; then delete the run, its resets, exports and backups.',
};

/** What happened, in one sentence. */
function sentenceOf(facts: Facts): string {
  const { event, tookOver, since, streaming, finding = '', outcome, readiness, from, to } = facts;
  const runbook = [facts.runbook, ...(from && to ? ['from', from] : []), ...(to ? ['to', to] : [])].join(' ');
  const held = facts.clientsHeld === true ? ' Clients may still be quiesced.' : '';
  const clients = facts.inOutage === true ? ' No cluster serves clients.' : held;
  switch (event) {
    case 'started':
      return tookOver === undefined
        ? `${runbook} was started.`
        : `${tookOver} was taken over: it continues as ${runbook}.`;
    case 'waiting-for-people':
    case 'parked':
      return `${runbook} waits for ${waitedForBy(facts)}.${clients}`;
    case 'reminder':
    case 'escalation':
      return `${runbook} still waits for ${waitedForBy(facts)}${since === undefined ? '' : `, since ${new Date(since).toISOString()}`}.${clients}`;
    case 'stand-by-called':
      return `${runbook} now asks the stand-by holders for key shares.`;
    case 'outage-started':
      return 'The outage began: no cluster serves clients.';
    case 'service-ready':
      return 'Service is back.';
    case 'protected-again':
      return streaming === undefined
        ? 'DR protection is restored.'
        : `${streaming.secondary} streams from ${streaming.primary}: DR protection is restored.`;
    case 'critical-finding':
      return (Object.hasOwn(ALARMS, finding) && ALARMS[finding]) || 'The run reports a critical finding.';
    case 'readiness-changed': {
      const before = readiness?.before ? ` Before: ${verdictsText(readiness.before)}.` : '';
      return readiness ? `Readiness: ${verdictsText(readiness)}.${before}` : 'Readiness changed.';
    }
    case 'readiness-overdue':
      if (facts.closes.length > 0) return 'Readiness checks end again.';
      return `No readiness check has ended since ${new Date(since ?? 0).toISOString()}: check its Schedule and its runs.`;
    case 'over':
      return `${runbook} no longer waits for ${overText(facts)}.`;
    case 'service-alarm':
      return alarmText(facts);
    case 'service-alarm-over':
      return alarmOverText(facts);
    case 'finished':
      return `${runbook} ended${outcome === undefined ? '' : `: ${outcome}`}.${clients}`;
  }
}

/** What a run waited for, by its subject. */
function overText({ subject }: Facts): string {
  const [, kind, name = ''] = subject.split(':');
  if (kind === 'gate' && GATE_NAMES.some((gate) => gate === name)) return `approval of gate ${name}`;
  return kind === 'shares' ? 'key shares' : 'the decision or action that it asked for';
}

const SEEN_WORDS: Readonly<Record<Seen, string>> = {
  primary: 'is a primary',
  streams: 'streams',
  secondary: 'is a DR secondary',
  silent: 'does not answer',
  comparing: 'compares trees and does not stream yet',
  'not-in-step': 'does not stream',
  'not-connected': 'is not connected to its primary',
  'no-heartbeat': 'receives no heartbeat from its primary',
  'no-role': 'has no role in replication',
};

function seenText({ alarm }: Facts): string {
  return (alarm?.seen ?? []).map(({ cluster, how }) => `${cluster} ${SEEN_WORDS[how]}`).join(', ');
}

const primariesOf = ({ alarm }: Facts) =>
  (alarm?.seen ?? []).filter(({ how }) => how === 'primary').map(({ cluster }) => cluster);

function setText({ alarm }: Facts): string {
  return alarm?.drSet === undefined ? 'the performance set' : `DR set ${alarm.drSet}`;
}

/** What `walSampler` or a worker noticed. */
function alarmText(facts: Facts): string {
  const { alarm, since } = facts;
  const from = since === undefined ? '' : ` since ${new Date(since).toISOString()}`;
  switch (alarm?.kind) {
    case 'no-primary': {
      const { run } = alarm;
      const started = run?.started === true ? ` ${run.runbook} was started, and waits at its gates.` : '';
      return `No cluster of ${setText(facts)} answers as primary${from}: ${seenText(facts)}.${started}`;
    }
    case 'two-primaries':
      return `Several primaries in ${setText(facts)}${from}: ${primariesOf(facts).join(' and ')}. Clients may write to each of them.`;
    case 'not-streaming':
      return `No replication${from}: ${seenText(facts)}.`;
    case 'no-samples':
      return `No sample was recorded${from}: ${alarm.runsFail === true ? 'runs of walSampler begin, but none completes' : 'walSampler does not run'}. An outage would not be noticed, and the loss of a failover would not be bounded.`;
    case undefined:
      return 'Something is wrong with the service.';
  }
}

function alarmOverText(facts: Facts): string {
  const lasted = facts.since === undefined ? '' : ` (wrong since ${new Date(facts.since).toISOString()})`;
  switch (facts.alarm?.kind) {
    case 'no-primary':
      return `${setText(facts)} has a primary again: ${primariesOf(facts).join(', ') || seenText(facts)}${lasted}.`;
    case 'two-primaries':
      return `No second primary in ${setText(facts)} any more${lasted}.`;
    case 'not-streaming':
      return `Replication is back: ${seenText(facts)}${lasted}.`;
    case 'no-samples':
      return `Samples are recorded again, or are no longer wanted${lasted}.`;
    case undefined:
      return `The problem with the service is over${lasted}.`;
  }
}

/** The one command to type next. */
function alarmCommand({ alarm, event }: Facts, deployment: string): NextCommand {
  const readiness = { who: 'to see every point', command: shellLine('runbook', 'readiness', deployment) };
  if (alarm === undefined || event === 'service-alarm-over') return readiness;
  const { kind, seen, run, primary, drSet } = alarm;
  switch (kind) {
    case 'no-primary': {
      const status = nextCommandOf.status(deploymentWorkflowId(deployment));
      if (run?.runbook === 'drFailover') return { who: 'to see whom it waits for', command: status };
      // Without a DR secondary that answers, nothing could become primary.
      if (!seen.some(({ how }) => how === 'secondary')) return readiness;
      const input = { deployment, reason: 'no DR primary answers', ...(run && { takeOver: true }) };
      return { who: 'an operator', command: nextCommandOf.start('drFailover', input) };
    }
    case 'two-primaries': {
      const former = seen.filter(({ cluster, how }) => how === 'primary' && cluster !== primary);
      const [one] = former;
      if (drSet === undefined || primary === undefined || one === undefined || former.length > 1) return readiness;
      const reason = `${one.cluster} is primary beside ${primary}`;
      const input = { deployment, cluster: one.cluster, primary, reason };
      return { who: 'an operator', command: nextCommandOf.start('drRejoin', input) };
    }
    case 'not-streaming':
      return readiness;
    case 'no-samples':
      return { who: 'on a worker host', command: shellLine('runbook', 'doctor') };
  }
}

/** Names the missing people in the first line: it is all that a phone shows. */
function waitedForBy({ waiting }: Facts): string {
  if (!waiting) return 'people';
  const { gate = '?', missing, missingHolders, again } = waiting;
  const names = [...missing, ...missingHolders];
  const from = names.length === 0 ? '' : ` from ${names.join(', ')}`;
  const repeated = again === undefined ? '' : ' again: earlier approvals no longer count';
  // The name of the person who paused it, and the action that it waits for, are texts of the run.
  const ours = { by: 'somebody', what: 'people who act outside the run' };
  const none = waiting.for === 'rehearsal' ? '; no key share is asked for' : '';
  return `${waitedFor({ ...waiting, gate, ...ours })}${from}${repeated}${none}`;
}

const LIST: NextCommand = { who: 'to find the run', command: shellLine('runbook', 'list', '--open') };

function commandsOf(facts: Facts, deployment: string, wid: string, rid: string): readonly NextCommand[] {
  const { event, waiting } = facts;
  if (event.startsWith('service-alarm')) return [alarmCommand(facts, deployment)];
  if (event.startsWith('readiness-'))
    return [{ who: 'to see every point', command: shellLine('runbook', 'readiness', wid.replace(/^[a-z-]+:/, '')) }];
  if (event === 'finished')
    return [{ who: 'the full report', command: shellLine('runbook', 'report', wid, '--run-id', rid) }];
  const status = { who: 'to see its status', command: nextCommandOf.status(wid) };
  switch (waiting?.for) {
    case 'approval':
      return waiting.gate ? [{ who: 'an approver', command: nextCommandOf.approve(wid, waiting.gate) }] : [status];
    case 'shares':
    case 'rehearsal': {
      const people = [...waiting.missing, ...waiting.missingHolders];
      return [...people.map((who) => ({ who, command: nextCommandOf.share(wid, who) })), status];
    }
    case 'resume':
      return [{ who: 'an operator', command: nextCommandOf.control('resume', wid) }];
    default:
      // The status shows the choices of a parked step, and what each one does.
      return [status];
  }
}
