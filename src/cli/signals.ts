import { createHash } from 'node:crypto';
import type { Command } from 'commander';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError, isGrpcServiceError } from '@temporalio/client';
import type { z } from 'zod';
import type { Receipt } from '../contracts/run-facts';
import { SIGNALS, UPDATES } from '../contracts/signals';
import type { SignalName } from '../contracts/signals';
import { RunbookError } from '../errors';
import { DOCUMENT_TYPES, signDocument } from '../documents/documents';
import { printResult } from './command';
import type { CommandHost, ServerOptions } from './command';
import type { CliContext } from './context';
import { EXIT } from './exit-codes';
import type { ExitCode } from './exit-codes';
import { fetchEvents, signalEvents } from './history';
import type { RunReference } from './history';
import { receiptLines } from './render-status';
import { queryStatus } from './run-view';
import { refusePlainShare, signingKey } from './secret-input';
import type { SigningOptions } from './secret-input';
import { jsonText, shellLine } from './text';

/** What a command that gives a signal may be told. */
export interface GivingOptions extends ServerOptions {
  /** Print the signal's input instead of sending it. */
  readonly print?: boolean;
}

export const PRINT_OPTION = ['--print', "print the signal's input as one line instead of sending it"] as const;

/** Options of the commands by which a person says something that a run acts on. */
export interface StatementOptions extends GivingOptions, SigningOptions {}

/** @param what as the help calls it, with its article: `the approval` */
export function withStatementOptions(command: Command, what: string): Command {
  return command
    .option(
      '--key-file <file>',
      `your signing key ("runbook keys init"), else RUNBOOKS_KEY_FILE; without one ${what} is a claim`,
    )
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option(...PRINT_OPTION);
}

/**
 * What a person says to one run: signed where there is a key, else the plain members, which count as a claim.
 *
 * @param statement.what as the person calls it, with its article.
 * @throws RunbookError `INVALID_INPUT` where the members are not those of such a document; `refusal` says what to do.
 */
export async function statementOf<P extends object>(
  context: CliContext,
  options: SigningOptions,
  statement: {
    readonly what: string;
    readonly typ: keyof typeof DOCUMENT_TYPES;
    readonly members: z.ZodType<P>;
    readonly refusal?: { readonly needed: string; readonly next: string };
  },
  said: object,
): Promise<{ readonly document: string } | P> {
  const parsed = statement.members.safeParse({ ...said, iat: Math.floor(Date.now() / 1000) });
  if (!parsed.success) {
    const mistakes = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');
    const text = `${statement.what} is refused: ${mistakes}. Nothing was sent.`;
    throw new RunbookError('INVALID_INPUT', text.replace(/^t/, 'T'), {
      next: 'Correct it, and give the same command again.',
      ...statement.refusal,
    });
  }
  const key = await signingKey(context, options);
  if (key === undefined) return parsed.data;
  return { document: await signDocument(DOCUMENT_TYPES[statement.typ], parsed.data, key) };
}

/** Sends the signal and says what became of it; or prints its input as one line, to paste into the Web UI. */
export async function giveSignal(
  host: CommandHost,
  options: GivingOptions,
  client: Client,
  run: RunReference,
  signal: SignalName,
  input: unknown,
): Promise<void> {
  const { context } = host;
  // An envelope is encrypted, and has checks of its own.
  if (signal !== SIGNALS.share) refusePlainShare(input);
  if (options.print === true) {
    context.out(jsonText(input));
    return;
  }
  const sent = await sendSignal(client, run, signal, input, context.stop);
  printResult(context, options, sent, sent.lines);
  host.finish(sent.exitCode);
}

/** What became of a signal within the time that a person waits for it. */
export interface SentSignal {
  readonly signal: SignalName;
  readonly workflowId: string;
  /** Counts the signals of this name in the run, from 1; absent where it could not be found out. */
  readonly arrival?: number;
  /** Absent where the run has not said anything yet. */
  readonly receipt?: Receipt;
  readonly lines: readonly string[];
  readonly exitCode: ExitCode;
}

const RECEIPT_DEADLINE_MS = 30_000;
/** A check takes about 90 ms: earlier looks would only be in its way. */
const FIRST_LOOKS_MS = [50, 100, 200];
const POLL_MS = 250;

/**
 * Sends a signal and waits up to 30 s for what the run says of it.
 *
 * @throws RunbookError `NOT_FOUND` where there is no open run.
 */
export async function sendSignal(
  client: Client,
  run: RunReference,
  signal: SignalName,
  input: unknown,
  stop: AbortSignal,
): Promise<SentSignal> {
  const { workflowId } = run;
  let sent: Sent;
  try {
    sent = await give(client, run, signal, input, stop);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    throw new RunbookError(
      'NOT_FOUND',
      `There is no open run with the Workflow ID "${workflowId}"; nothing was sent.`,
      {
        next: '"runbook list --open" shows the open runs.',
        cause: error,
      },
    );
  }
  const { arrival, receipt } = sent;
  const common = { signal, workflowId, ...(arrival === undefined ? {} : { arrival }) };
  if (receipt === undefined) {
    const line = `Sent, and recorded by Temporal. No receipt yet: look with "${shellLine('runbook', 'status', workflowId)}".`;
    return { ...common, lines: [line], exitCode: EXIT.pending };
  }
  const exitCode = receipt.verdict === 'accepted' ? EXIT.ok : EXIT.refused;
  return { ...common, receipt, lines: receiptLines(receipt), exitCode };
}

type Sent = Pick<SentSignal, 'arrival' | 'receipt'>;

/**
 * As a signal; where the server takes none any more for this run, or the run looks at no more, as the update of the same
 * name where there is one.
 */
async function give(
  client: Client,
  run: RunReference,
  signal: SignalName,
  input: unknown,
  stop: AbortSignal,
): Promise<Sent> {
  const handle = client.workflow.getHandle(run.workflowId, run.runId);
  const update = UPDATES.find((name) => name === signal);
  try {
    await handle.signal(signal, input);
    const arrival = await findArrival(client, run, signal, input);
    const receipt =
      arrival === undefined
        ? undefined
        : await awaitReceipt(client, run, { signal, arrival, mayGiveUp: !!update }, stop);
    if (receipt !== 'not looked at') return { arrival, receipt };
  } catch (error) {
    const { cause } = error instanceof Error ? error : {};
    const full = isGrpcServiceError(cause) && cause.details.includes('limit for signal events');
    if (!full || update === undefined) throw error;
  }
  if (update === undefined) return {};
  const arrival = await handle.executeUpdate<number, [unknown]>(update, { args: [input] });
  const receipt = await awaitReceipt(client, run, { signal, arrival, mayGiveUp: false }, stop);
  return { arrival, ...(receipt === 'not looked at' ? {} : { receipt }) };
}

/** Which of the signals of this name ours is: receipts are known by that number. */
async function findArrival(
  client: Client,
  run: RunReference,
  signal: SignalName,
  input: unknown,
): Promise<number | undefined> {
  const mine = digestOf(input);
  const events = await fetchEvents(client, run);
  return signalEvents(events, signal).findLast((event) => digestOf(event.input) === mine)?.arrival;
}

function digestOf(input: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(input) ?? '')
    .digest('hex');
}

/** A check takes no longer where the run looks at the signal at all. */
const LOOKED_AT_WITHIN_MS = 3_000;

async function awaitReceipt(
  client: Client,
  run: RunReference,
  {
    signal,
    arrival,
    mayGiveUp,
  }: { readonly signal: SignalName; readonly arrival: number; readonly mayGiveUp: boolean },
  stop: AbortSignal,
): Promise<Receipt | 'not looked at' | undefined> {
  const begin = Date.now();
  const pauses = FIRST_LOOKS_MS.map((at, index) => at - (FIRST_LOOKS_MS[index - 1] ?? 0));
  while (Date.now() < begin + RECEIPT_DEADLINE_MS && !stop.aborted) {
    await delay(pauses.shift() ?? POLL_MS);
    const status = await queryStatus(client, run);
    const receipt = status?.receipts.findLast(
      (each) => each.signal === signal && (each.arrival === arrival || each.alsoFor?.includes(arrival) === true),
    );
    if (receipt !== undefined) return receipt;
    const flooded = status?.findings.some(({ code }) => code === 'too-many-signals') === true;
    if (mayGiveUp && flooded && Date.now() > begin + LOOKED_AT_WITHIN_MS) return 'not looked at';
  }
  return undefined;
}
