import { z } from 'zod';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { NOTIFICATION_EVENTS } from '../../src/contracts/notifications';
import { GATE_NAMES } from '../../src/contracts/plan';
import { readinessResult } from '../../src/contracts/readiness';
import type { RunOutcome } from '../../src/contracts/run-facts';
import type { Waiting } from '../../src/contracts/run-status';
import { DECISION_ACTIONS } from '../../src/contracts/signals';
import type { DecisionAction } from '../../src/contracts/signals';
import { escapeUntrusted } from '../../src/contracts/words';
import { ERROR_CODES, RunbookError } from '../../src/errors';
import { findDeployment } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import { redact } from '../../src/keys';

const LONGEST_WORDS = 120;
/** Read of a text at all. */
const LONGEST_TEXT = 2_000;
/** Words of others in one message. */
const MOST_WORDS = 3;
const OUTCOMES = [
  'completed',
  'planned',
  'refused',
  'aborted',
  'rolled-back',
  'handed-over',
] as const satisfies readonly RunOutcome[];
/** What a step may be called: letters, no address, no shell. */
const STEP = /^[A-Z][A-Za-z0-9 ,()'-]{2,99}$/;

/** What each decision does, in our words: those of a run could say anything. */
const EFFECTS: Readonly<Record<DecisionAction, string>> = {
  retry: 'try the step again',
  skip: 'go on without this step',
  abort: 'end the run',
  'promote-secondary': 'promote the new primary',
  'promote-back': 'promote the old primary again',
  force: 'promote by force',
  leave: 'leave it as it is',
  'cancel-attempt': "cancel somebody else's generation attempt; two people must decide it",
};

const verdicts = readinessResult.pick({ switchover: true, failover: true });
const time = z.int().min(0).max(8e15);
const count = z.int().min(0).max(10_000);
const texts = z.array(z.string()).max(1_000).catch([]);
const by = z.object({ name: z.string(), how: z.enum(['signed', 'principal', 'claimed']) });

/**
 * What of a notification may be said in the name of the site. All of it came through Temporal, whose writers can put
 * anything there: names are those of the inventory, everything else is of a closed list or a number, and what is left of
 * other texts is {@link words}, a short quotation.
 *
 * @throws RunbookError INVALID_INPUT where nothing can be told for certain
 */
export function notificationFacts(inventory: Inventory, deployment: string, notification: unknown) {
  const { clusters } = findDeployment(inventory, deployment);
  const cluster = z.string().refine((name) => clusters.has(name));
  const parsed = z
    .object({
      event: z.enum(NOTIFICATION_EVENTS),
      severity: z.enum(['info', 'warning', 'critical']),
      runbook: z.enum(RUNBOOK_NAMES),
      number: count.min(1),
      at: time,
      subject: z
        .string()
        .regex(/^(run|outage|protection|(wait|finding):[A-Za-z0-9:-]{1,80})$/)
        .catch('run'),
      tookOver: z.enum(RUNBOOK_NAMES).optional().catch(undefined),
      inOutage: z.boolean().optional().catch(undefined),
      since: time.optional().catch(undefined),
      outcome: z.enum(OUTCOMES).optional().catch(undefined),
      streaming: z.object({ secondary: cluster, primary: cluster }).optional().catch(undefined),
      readiness: verdicts.extend({ before: verdicts.optional() }).optional().catch(undefined),
      finding: z.string().optional().catch(undefined),
      words: z.string().optional().catch(undefined),
      leftToDo: texts,
      waiting: z.unknown().optional(),
    })
    .safeParse(notification);
  if (!parsed.success)
    throw new RunbookError('INVALID_INPUT', 'The notification is none that this program tells; nobody was told.', {
      needed: `one of the events ${NOTIFICATION_EVENTS.join(', ')}, of a runbook that there is`,
    });
  const { words: given, leftToDo, waiting, ...facts } = parsed.data;
  const known = knownWaiting(inventory, deployment, waiting);
  return {
    ...facts,
    waiting: known?.waiting,
    leftToDo: leftToDo.length,
    words: [given, ...(known?.words ?? []), ...leftToDo]
      .filter((text) => text !== undefined && text !== '')
      .slice(0, MOST_WORDS)
      .map((text) => words(text ?? '')),
  };
}

export type NotificationFacts = ReturnType<typeof notificationFacts>;

/** Words of others, for a place where they are quoted: one short line, redacted, in which nothing becomes a link. */
function words(text: string): string {
  const plain = escapeUntrusted(redact(text.slice(0, LONGEST_TEXT)).normalize('NFKC'))
    .replace(/[a-z][a-z0-9+.-]{0,6}:\/\/\S{1,2000}/gi, '[link]')
    .replace(/[.。](?=\p{L})/gu, ' ')
    .replace(/@/g, ' at ')
    .replace(/["“”„]/g, "'")
    .trim();
  const characters = [...plain];
  return characters.length <= LONGEST_WORDS ? plain : `${characters.slice(0, LONGEST_WORDS - 1).join('')}…`;
}

/** What is waited for; names that are not known are left out. */
function waitingSchema(isKnown: (name: string) => boolean, isGroup: (name: string) => boolean) {
  const people = texts.transform((names) => names.filter(isKnown));
  const declined = z
    .array(z.object({ by, reason: z.string() }))
    .catch([])
    .transform((all) =>
      all.filter((each) => isKnown(each.by.name)).map((each) => ({ by: each.by, reason: `"${words(each.reason)}"` })),
    );
  const groups = z
    .array(z.object({ group: z.string(), needed: count, held: people, outOf: people }))
    .catch([])
    .transform((all) => all.filter(({ group }) => isGroup(group)));
  return z.discriminatedUnion('for', [
    z.object({
      for: z.literal('approval'),
      gate: z.enum(GATE_NAMES),
      approved: z.array(by).catch([]),
      until: time.optional(),
      again: z.unknown().optional(),
    }),
    z.object({
      for: z.literal('shares'),
      held: people,
      missingHolders: people,
      threshold: count,
      until: time,
      standBy: z.object({ holders: people, askedFrom: time }).optional().catch(undefined),
      declined,
      groups,
      groupsNotTogether: z.boolean().optional().catch(undefined),
      outOfTerm: z.array(z.object({ name: z.string() })).catch([]),
    }),
    z.object({ for: z.literal('rehearsal'), answered: people, missing: people, declined, until: time }),
    z.object({
      for: z.literal('decision'),
      step: z.string().catch(''),
      parkingNo: count,
      code: z.string().catch(''),
      message: z.string().catch(''),
      choices: z.array(z.object({ action: z.enum(DECISION_ACTIONS) })).catch([]),
    }),
    z.object({ for: z.literal('resume'), by: z.string().catch(''), reason: z.string().catch('') }),
    z.object({ for: z.literal('window'), until: time }),
    z.object({ for: z.literal('action'), what: z.string().catch('') }),
  ]);
}

/** What is waited for, with names of the inventory and nothing that others wrote; and what they wrote. */
function knownWaiting(
  inventory: Inventory,
  deployment: string,
  waiting: unknown,
): { readonly waiting: Waiting; readonly words: readonly string[] } | undefined {
  const { gates, shareGroups } = findDeployment(inventory, deployment);
  const isKnown = (name: string) => inventory.people.has(name) || /^plain text of signal \d{1,6}$/.test(name);
  const isGroup = (name: string) => shareGroups.some(({ group }) => group === name);
  const { data } = waitingSchema(isKnown, isGroup).safeParse(waiting);
  switch (data?.for) {
    case undefined:
      return undefined;
    case 'approval': {
      const { gate, approved, until, again } = data;
      const policy = gates[gate];
      const each = `${policy.approvals} approval${policy.approvals === 1 ? '' : 's'} by ${policy.groups.join(', ')}`;
      const known: Waiting = {
        ...{ for: 'approval', gate, planDigest: '', missing: [each] },
        approved: approved.filter(({ name }) => isKnown(name)),
        ...(until !== undefined && { until }),
        ...(again !== undefined && { again: 'the approvals before do not count any more' }),
      };
      return { waiting: known, words: [] };
    }
    case 'shares': {
      const { standBy, groupsNotTogether, outOfTerm, ...rest } = data;
      const notInTerm = outOfTerm.filter(({ name }) => isKnown(name));
      const known: Waiting = {
        ...{ ...rest, cid: '', epoch: 1 },
        ...(standBy && { standBy }),
        ...(groupsNotTogether && { groupsNotTogether }),
        outOfTerm: notInTerm.map(({ name }) => ({ name, why: 'not in office' })),
      };
      return { waiting: known, words: [] };
    }
    case 'rehearsal':
      return { waiting: { ...data, epoch: 1 }, words: [] };
    case 'decision': {
      const { step, code, message, choices, parkingNo } = data;
      const known: Waiting = {
        ...{ for: 'decision', parkingNo, message: '' },
        step: STEP.test(step) ? step : '',
        code: Object.hasOwn(ERROR_CODES, code) || code === 'INTERRUPTED' ? code : '',
        choices: choices.map(({ action }) => ({ action, effect: EFFECTS[action] })),
      };
      return { waiting: known, words: [message] };
    }
    case 'resume':
      return {
        waiting: { for: 'resume', by: '', reason: '' },
        words: [`paused by ${escapeUntrusted(data.by)}: ${escapeUntrusted(data.reason)}`],
      };
    case 'window':
      return { waiting: data, words: [] };
    case 'action':
      return { waiting: { for: 'action', what: '', instructions: [] }, words: [data.what] };
  }
}
