import { z } from 'zod';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { NOTIFICATION_EVENTS } from '../../src/contracts/notifications';
import { GATE_NAMES } from '../../src/contracts/plan';
import { readinessResult } from '../../src/contracts/readiness';
import { runOutcome } from '../../src/contracts/run-facts';
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
      waiting: waitingSchema(inventory).optional().catch(undefined),
    })
    .safeParse(notification);
  if (!parsed.success)
    throw new RunbookError('INVALID_INPUT', 'The notification is none that this program tells; nobody was told.', {
      needed: `one of the events ${NOTIFICATION_EVENTS.join(', ')}, of a runbook that there is`,
    });
  const { words: given, leftToDo, waiting, ...facts } = parsed.data;
  return {
    ...facts,
    waiting,
    leftToDo: leftToDo.length,
    words: [given, waiting?.words, ...leftToDo]
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

/** What is waited for: of its kind, who is missing by the names of the inventory; and, apart, what others wrote of it. */
function waitingSchema({ people }: Inventory) {
  const ofInventory = texts.transform((names) => names.filter((name) => people.has(name)));
  const said = z.string().catch('');
  return z
    .object({
      for: z.enum(['approval', 'shares', 'rehearsal', 'decision', 'resume', 'window', 'action']),
      gate: z.enum(GATE_NAMES).optional().catch(undefined),
      again: z.unknown().optional(),
      step: z.string().regex(STEP).catch(''),
      code: z.enum([...Object.keys(ERROR_CODES), 'INTERRUPTED', '']).catch(''),
      parkingNo: count.catch(0),
      ...{ missing: ofInventory, missingHolders: ofInventory },
      ...{ message: said, what: said, by: said, reason: said },
    })
    .transform(({ again, missing, missingHolders, message, what, by, reason, ...facts }) => ({
      again: again !== undefined,
      ...{ ...facts, missing: [...missing, ...missingHolders] },
      words: facts.for === 'resume' ? `paused by ${escapeUntrusted(by)}: ${escapeUntrusted(reason)}` : message || what,
    }));
}
