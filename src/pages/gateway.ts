/** What the pages ask of the one gateway that the person named, and what they make of its answers. They trust none of them. */
import { z } from 'zod';
import type { SentAnswer, WaitingAnswer } from '../contracts/mailbox';
import { receipt } from '../contracts/run-facts';
import { clock, counted, durationText, inLines } from '../contracts/words';
import { askMailbox } from '../documents/mailbox';
import type { MailboxAccess } from '../documents/mailbox';
import type { StatedRun } from '../documents/statements';
import { RunbookError } from '../errors';

const run = z.object({
  workflowId: z.string(),
  runId: z.string(),
  namespace: z.string(),
  deployment: z.string(),
  runbook: z.string(),
  phase: z.string(),
  requestedBy: z.string().optional(),
  reason: z.string().optional(),
});
export type NamedRun = z.infer<typeof run>;

const item = z.discriminatedUnion('kind', [
  run.extend({ kind: z.literal('approval'), gate: z.string(), planDigest: z.string() }),
  run.extend({ kind: z.enum(['share', 'token', 'rehearsal']), invitation: z.string() }),
  run.extend({ kind: z.literal('decision'), step: z.string(), parkingNo: z.number() }),
]);
/** Something that waits for the person, as far as the pages use it. */
export type Item = z.infer<typeof item>;

const waitingAnswer = z.object({
  schema: z.literal('runbooks/waiting/v1' satisfies WaitingAnswer['schema']),
  at: z.string().refine((text) => !Number.isNaN(Date.parse(text))),
  items: z.array(z.unknown()),
  runs: z.array(run),
  unreachable: z.array(z.object({ workflowId: z.string() })),
});

/** What waits for a person, in lines that can be shown. */
export interface WaitingThings extends Pick<z.infer<typeof waitingAnswer>, 'runs' | 'unreachable'> {
  readonly items: readonly Item[];
  /** Why the list may not be complete or current. */
  readonly warnings: readonly string[];
}

/** The gateway refuses a request whose clock differs by more than a minute. This is said sooner. */
const CLOCKS_DIFFER_MS = 20_000;

/** @throws RunbookError as the gateway answered; `RESPONSE_INVALID` if this page does not know the form of its answer */
export async function askWaiting(access: MailboxAccess): Promise<WaitingThings> {
  const { data } = waitingAnswer.safeParse(inLines(await askMailbox(access, '/v1/waiting')));
  if (data === undefined) throw tooOld();
  const items = data.items.flatMap((each) => item.safeParse(each).data ?? []);
  const unknown = data.items.length - items.length;
  const difference = Date.parse(data.at) - Date.now();
  return {
    ...data,
    items,
    warnings: [
      ...(Math.abs(difference) < CLOCKS_DIFFER_MS ? [] : [clocksText(Date.parse(data.at), Date.now())]),
      ...(unknown === 0
        ? []
        : [
            `This page is too old to show you ${counted(unknown, 'more request')}. Get the current page, or use the terminal.`,
          ]),
    ],
  };
}

function clocksText(theirs: number, ours: number): string {
  const apart = durationText(Math.abs(theirs - ours));
  return `The clocks differ by ${apart}: the gateway's shows ${clock(theirs, ours)}, the one of this device ${clock(ours, ours)}. Set the clock of this device: beyond one minute, the gateway refuses what you send.`;
}

function tooOld(): RunbookError {
  return new RunbookError('RESPONSE_INVALID', 'This page cannot read the answer of the gateway.', {
    needed: 'a page and a gateway of the same version',
    next: 'Get the current page from the operators, and compare its SHA-256. Until then, use the terminal.',
  });
}

const pathOf = ({ workflowId, runId }: Pick<StatedRun, 'workflowId' | 'runId'>): string =>
  `/v1/runs/${encodeURIComponent(workflowId)}/${encodeURIComponent(runId)}`;

/** The status of a run as JSON. */
export const askRun = (access: MailboxAccess, of: Pick<StatedRun, 'workflowId' | 'runId'>): Promise<unknown> =>
  askMailbox(access, pathOf(of));

const sentAnswer = z.object({ receipt: receipt.optional() });

/**
 * Sends a document to a run. Sent twice, it counts once.
 *
 * @returns the run's receipt; undefined if it is sent, and the run has not answered yet
 * @throws RunbookError as the gateway answered
 */
export async function sendDocument(
  access: MailboxAccess,
  of: StatedRun,
  verb: string,
  document: string,
): Promise<SentAnswer['receipt']> {
  const answer = await askMailbox(access, `${pathOf(of)}/${verb}`, { document });
  const { data } = sentAnswer.safeParse(inLines(answer));
  if (data === undefined) throw tooOld();
  return data.receipt;
}

/** What holders are asked for. */
export const isInvitation = (each: Item): each is Extract<Item, { invitation: string }> => 'invitation' in each;
