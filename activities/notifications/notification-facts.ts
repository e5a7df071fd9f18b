import { z } from 'zod';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { NOTIFICATION_EVENTS } from '../../src/contracts/notifications';
import { GATE_NAMES } from '../../src/contracts/plan';
import { readinessResult } from '../../src/contracts/readiness';
import { attested, runOutcome } from '../../src/contracts/run-facts';
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
};

const verdicts = readinessResult.pick({ switchover: true, failover: true });
const time = z.int().min(0).max(8e15);
const count = z.int().min(0).max(10_000);
const texts = z.array(z.string()).max(1_000).catch([]);

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
      clientsHeld: z.boolean().optional().catch(undefined),
      since: time.optional().catch(undefined),
      outcome: runOutcome.optional().catch(undefined),
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
  const known = waitingSchema(inventory, deployment).safeParse(waiting).data;
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

/** What is waited for, with names of the inventory and nothing that others wrote; and, apart, what they wrote. */
function waitingSchema(inventory: Inventory, deployment: string) {
  const { gates } = findDeployment(inventory, deployment);
  const isKnown = (name: string) => inventory.people.has(name) || /^plain text of signal \d{1,6}$/.test(name);
  const told = (waiting: Waiting, said: readonly string[] = []) => ({ waiting, words: said });
  const people = texts.transform((names) => names.filter(isKnown));
  const approval = z.object({
    for: z.literal('approval'),
    gate: z.enum(GATE_NAMES),
    approved: z.array(attested).catch([]),
    until: time.optional(),
    again: z.unknown().optional(),
  });
  const shares = z.object({
    for: z.literal('shares'),
    ...{ held: people, missingHolders: people, notJoined: people },
    ...{ threshold: count, until: time },
    standBy: z.object({ holders: people, askedFrom: time }).optional().catch(undefined),
  });
  const decision = z.object({
    for: z.literal('decision'),
    step: z
      .string()
      .transform((step) => (STEP.test(step) ? step : ''))
      .catch(''),
    code: z.enum([...Object.keys(ERROR_CODES), 'INTERRUPTED', '']).catch(''),
    parkingNo: count,
    message: z.string().catch(''),
    choices: z
      .array(z.object({ action: z.enum(DECISION_ACTIONS) }))
      .catch([])
      .transform((all) => all.map(({ action }) => ({ action, effect: EFFECTS[action] }))),
  });
  const resume = z.object({ for: z.literal('resume'), by: z.string().catch(''), reason: z.string().catch('') });
  return z.union([
    approval.transform(({ gate, approved, until, again, ...rest }) => {
      const policy = gates[gate];
      const each = `${policy.approvals} approval${policy.approvals === 1 ? '' : 's'} by ${policy.groups.join(', ')}`;
      return told({
        ...{ ...rest, gate, planDigest: '', missing: [each], approved: approved.filter(({ name }) => isKnown(name)) },
        ...(until !== undefined && { until }),
        ...(again !== undefined && { again: 'the approvals before do not count any more' }),
      });
    }),
    shares.transform(({ standBy, ...rest }) =>
      told({
        ...rest,
        cid: '',
        epoch: 1,
        ...(standBy && { standBy }),
      }),
    ),
    z
      .object({ for: z.literal('rehearsal'), answered: people, missing: people, until: time })
      .transform((rest) => told({ ...rest, epoch: 1 })),
    decision.transform(({ message, ...rest }) => told({ ...rest, message: '' }, [message])),
    resume.transform(({ by, reason, ...rest }) =>
      told({ ...rest, by: '', reason: '' }, [`paused by ${escapeUntrusted(by)}: ${escapeUntrusted(reason)}`]),
    ),
    z.object({ for: z.literal('window'), until: time }).transform((rest) => told(rest)),
    z
      .object({ for: z.literal('action'), what: z.string().catch('') })
      .transform(({ what, ...rest }) => told({ ...rest, what: '', instructions: [] }, [what])),
  ]);
}
