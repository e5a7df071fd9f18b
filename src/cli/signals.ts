import { CommanderError } from 'commander';
import type { Command } from 'commander';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError, WorkflowUpdateFailedError, isGrpcServiceError } from '@temporalio/client';
import { nextCommandOf } from '../contracts/next-commands';
import type { Receipt } from '../contracts/run-facts';
import { SEND_AGAIN, SIGNALS, UPDATES, UPDATES_FROM } from '../contracts/signals';
import type { SignalName } from '../contracts/signals';
import { RunbookError } from '../errors';
import { signStatement, statementPayload } from '../documents/statements';
import type { StatementMembers, StatementType } from '../documents/statements';
import { firstValue } from '../report/run-history';
import { duration, printResult, withRun, withServerOptions } from './command';
import type { ServerOptions } from './command';
import type { CliContext } from './context';
import { EXIT } from './errors';
import { receiptLines } from './render-status';
import { queryStatus, waitVisibly } from './run';
import type { RunReference, TemporalSession } from './run';
import { refusePlainShare, signingKey } from './secret-input';
import type { SigningOptions } from './secret-input';
import type { CommandHost } from './command-host';
import { jsonText } from '../contracts/words';

export const NAME_OPTION = [
  '--name <name>',
  'your name as the inventory lists it (default: RUNBOOKS_PERSON, otherwise a prompt)',
] as const;
export const HOLDER_OPTION = ['--holder <name>', NAME_OPTION[1]] as const;
/** Options of the commands that send a run a person's statement. */
export interface StatementOptions extends ServerOptions, SigningOptions {
  /** Print the signal's input instead of sending it. */
  readonly print?: boolean;
  readonly timeout?: number;
  readonly name?: string;
  readonly reason?: string;
}

/** The name of the person who runs the command: from the option or RUNBOOKS_PERSON, otherwise from a prompt. */
export function personOf(context: CliContext, given: string | undefined, option = '--name'): Promise<string> {
  const named = given || context.env['RUNBOOKS_PERSON'];
  return givenOrAsked(context, named, `${option} or RUNBOOKS_PERSON`, 'Your name, as the inventory lists it');
}

/** The value of an option, otherwise the answer of the person at the terminal. */
export async function givenOrAsked(
  context: CliContext,
  given: string | undefined,
  option: string,
  question: string,
): Promise<string> {
  const answer = given || (context.interactive ? await context.ask(question) : '');
  if (answer !== '') return answer;
  context.err(`error: ${option} is required`);
  throw new CommanderError(EXIT.usage, 'commander.missingMandatoryOptionValue', option);
}

/** Adds the options of commands that sign. */
export function withSigningOptions(command: Command): Command {
  return command
    .option('--key-file <file>', 'your signing key (default: RUNBOOKS_KEY_FILE, or the key of "runbook join")')
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option('--print', "print the signal's input as one line instead of sending it");
}

/** Adds the options of commands that send a statement to a run and wait for its receipt. Without a key a statement is a claim. */
export function withStatementOptions(command: Command): Command {
  withSigningOptions(command).option('--timeout <duration>', "how long to wait for the run's receipt, such as 30s", duration, 30_000);
  return withServerOptions(withRun(command));
}

/** One run of a Workflow ID. */
export type ExactRun = RunReference & { readonly runId: string };

/**
 * A person's statement to one run: signed if they have a key, otherwise the plain members, which count as a claim.
 *
 * @throws RunbookError `INVALID_INPUT` if the members do not match the schema
 */
export async function statementOf<T extends StatementType>(
  context: CliContext,
  options: SigningOptions,
  { namespace }: TemporalSession,
  run: ExactRun,
  type: T,
  members: StatementMembers<T>,
): Promise<object> {
  const payload = statementPayload(type, { namespace, ...run }, members);
  const key = await signingKey(context, options, payload.name);
  return key === undefined ? payload : { document: await signStatement(type, payload, key) };
}

/** Sends a statement to the run that it names. */
export async function giveStatement<T extends StatementType>(
  host: CommandHost,
  options: StatementOptions,
  session: TemporalSession,
  run: ExactRun,
  [signal, type]: readonly [SignalName, T],
  members: StatementMembers<T>,
): Promise<void> {
  const input = await statementOf(host.context, options, session, run, type, members);
  await giveSignal(host, options, session, run, signal, input);
}

/** Sends the signal and prints its outcome; with `--print`, prints its input as one line to paste into the Web UI. */
export async function giveSignal(
  { context, finish }: CommandHost,
  options: StatementOptions,
  session: TemporalSession,
  run: RunReference,
  signal: SignalName,
  input: unknown,
): Promise<void> {
  // An envelope is encrypted, and has its own checks.
  if (signal !== SIGNALS.share) refusePlainShare(input);
  if (options.print === true) {
    context.out(jsonText(input));
    return;
  }
  const sent = await sendSignal(context, session, run, signal, input, options.timeout);
  printResult(context, options, sent, sent.lines);
  finish(sent.exitCode);
}

/**
 * Sends a signal, and shows progress while it waits for the run's receipt.
 *
 * @throws RunbookError `NOT_FOUND` if there is no open run
 */
export async function sendSignal(
  context: Pick<CliContext, 'stop' | 'err'>,
  session: Pick<TemporalSession, 'client' | 'namespace'>,
  run: RunReference,
  signal: SignalName,
  input: unknown,
  timeoutMs = 30_000,
) {
  const { workflowId } = run;
  const sending = { client: session.client, run, signal, input };
  const accepting = { what: `Temporal to accept this ${signal}`, run };
  const accepted = send(sending, Math.max(timeoutMs, ACCEPTED_WITHIN_MS));
  const recorded = await waitVisibly(context, session, accepting, accepted);
  const stop = AbortSignal.any([context.stop, AbortSignal.timeout(timeoutMs)]);
  const waiting = { what: `the receipt of this ${signal}`, run, timeoutMs };
  const answer =
    recorded !== undefined && waitVisibly(context, session, waiting, receiptOf({ ...sending, stop }, recorded));
  const { arrival, receipt }: Answer = (await answer) || {};
  const common = { signal, workflowId, arrival, receipt };
  if (receipt === undefined) {
    const known = recorded
      ? 'Sent and recorded by Temporal; no receipt yet'
      : 'It is unknown whether Temporal accepted it';
    const lines = [`${known}. Check with "${nextCommandOf.status(workflowId)}".`];
    return { ...common, lines, exitCode: EXIT.pending };
  }
  return { ...common, lines: receiptLines(receipt), exitCode: receipt.verdict === 'accepted' ? EXIT.ok : EXIT.refused };
}

/** A signal that is being sent to a run. */
interface Sending {
  readonly client: Client;
  readonly run: RunReference;
  readonly signal: SignalName;
  readonly input: unknown;
}

/** A signal that was sent; `stop` ends the wait for its receipt. */
interface Sent extends Sending {
  readonly stop: AbortSignal;
}

/** `arrival` counts the signals of this name in the run, from 1. */
interface Answer {
  readonly arrival?: number | undefined;
  readonly receipt?: Receipt | undefined;
}

const updateOf = (signal: SignalName) => UPDATES.find((name) => name === signal);

/** A Temporal server that is busy, or is just coming back, may take this long. */
const ACCEPTED_WITHIN_MS = 10_000;
/**
 * The gRPC codes that leave open whether a call took effect: cancelled, unknown, deadline exceeded, aborted, internal,
 * unavailable, data loss; and resource exhausted, which may answer only the client's second attempt.
 */
const OPEN_CODES: readonly number[] = [1, 2, 4, 8, 10, 13, 14, 15];

const rpcErrorIn = ({ cause }: Error) => (isGrpcServiceError(cause) ? cause : undefined);

/** Whether Temporal may have accepted the failed call: the connection broke, or no answer arrived in time. */
function mayBeAccepted(error: unknown): boolean {
  return error instanceof Error && OPEN_CODES.includes(rpcErrorIn(error)?.code ?? -1);
}

/**
 * Sends it as a signal.
 *
 * @returns false if the server accepts no more signals for this run, and there is an update of the same name; undefined if
 *   it is unknown whether the server accepted this one
 * @throws RunbookError `NOT_FOUND` if there is no open run, `TEMPORAL_UNAVAILABLE` if the server refuses it: nothing was sent
 */
async function send({ client, run, signal, input }: Sending, withinMs: number): Promise<boolean | undefined> {
  const handle = client.workflow.getHandle(run.workflowId, run.runId);
  try {
    await client.withDeadline(Date.now() + withinMs, () => handle.signal(signal, input));
    return true;
  } catch (error) {
    const details = error instanceof Error ? rpcErrorIn(error)?.details : undefined;
    if (details?.includes('limit for signal events') && updateOf(signal) !== undefined) return false;
    return mayBeAccepted(error) ? undefined : refuse(run)(error);
  }
}

/** The run's receipt. Sends an update if the signal was not `recorded`, or if the run no longer reads signals. */
async function receiptOf(sent: Sent, recorded: boolean): Promise<Answer> {
  const { client, run, signal, input } = sent;
  const update = updateOf(signal);
  const sendUpdate = async (): Promise<Answer> => {
    const handle = client.workflow.getHandle(run.workflowId, run.runId);
    const arrival = await handle.executeUpdate<number, [unknown]>(update ?? '', { args: [input] });
    return { arrival, ...(await awaitReceipt(sent, arrival)) };
  };
  if (!recorded)
    for (;;) {
      try {
        return await sendUpdate();
      } catch (error) {
        if (mayBeAccepted(error)) return {};
        if (!isFull(error) || sent.stop.aborted) return refuse(run)(error);
        // Others come first in this window.
        await delay(AGAIN_MS);
      }
    }
  const arrival = await arrivalOf(sent);
  if (arrival === undefined) return {};
  const { receipt, isFlooded } = await awaitReceipt(sent, arrival);
  if (!isFlooded || update === undefined) return { arrival, receipt };
  return sendUpdate().catch((error: unknown) => {
    // The run ended meanwhile, or Temporal is unavailable; the signal that was sent before is in the history.
    if (error instanceof WorkflowNotFoundError || mayBeAccepted(error)) return { arrival };
    // The signal waits for its window, like the update would.
    if (isFull(error))
      return awaitReceipt(sent, arrival, false).then((answer) => ({ arrival, receipt: answer.receipt }));
    throw error;
  });
}

/** Whether the run refused an update because it has looked at enough of them for the moment. */
function isFull(error: unknown): boolean {
  return error instanceof WorkflowUpdateFailedError && error.cause?.message.includes(SEND_AGAIN) === true;
}
const AGAIN_MS = 2_000;

function refuse({ workflowId }: RunReference): (error: unknown) => never {
  return (cause) => {
    if (cause instanceof WorkflowNotFoundError) {
      const message = `There is no open run with the Workflow ID "${workflowId}"; nothing was sent.`;
      throw new RunbookError('NOT_FOUND', message, { next: '"runbook list --open" shows the open runs.', cause });
    }
    const rpcError = cause instanceof Error ? rpcErrorIn(cause) : undefined;
    if (rpcError === undefined) throw cause;
    throw new RunbookError('TEMPORAL_UNAVAILABLE', 'The Temporal server refused it; nothing was sent.', {
      observed: rpcError.details,
      needed: "permission to signal runs of this namespace, within the server's limits",
      next: 'Correct what the server reports; then run the same command again.',
      cause,
    });
  };
}

/**
 * The number of our signal among those of its name, which identifies its receipt. While a workflow task is running,
 * perhaps on a worker that was killed, the history shows a new signal only after that task; and Temporal itself may be
 * down for a moment.
 */
async function arrivalOf({ client, run, signal, input, stop }: Sent): Promise<number | undefined> {
  const mine = JSON.stringify(input);
  const handle = client.workflow.getHandle(run.workflowId, run.runId);
  while (!stop.aborted) {
    const history = await handle.fetchHistory().catch(() => undefined);
    const ofThisName = (history?.events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: sent }) =>
      sent?.signalName === signal ? [sent] : [],
    );
    const index = ofThisName.findLastIndex((sent) => JSON.stringify(firstValue(sent.input)) === mine);
    if (index !== -1) return index + 1;
    await delay(POLL_MS);
  }
  return undefined;
}

/** A check takes about 90 ms: earlier queries would only delay it. */
const FIRST_PAUSES_MS = [50, 50, 100];
const POLL_MS = 250;
/** A check takes no longer, if the run reads the signal at all. */
const CHECKED_WITHIN_MS = 3_000;

/** The receipt of a signal; `isFlooded` if the run has too many signals to read this one. */
async function awaitReceipt(
  { client, run, signal, stop }: Sent,
  arrival: number,
  mayUpdate = true,
): Promise<Pick<Answer, 'receipt'> & { readonly isFlooded?: true }> {
  const begin = Date.now();
  const pauses = [...FIRST_PAUSES_MS];
  while (!stop.aborted) {
    await delay(pauses.shift() ?? POLL_MS);
    // The signal was sent. A client that may not query the run reports that there is no receipt yet.
    const status = await queryStatus(client, run).catch(() => undefined);
    const receipt = status?.receipts.findLast((each) => each.signal === signal && each.arrival === arrival);
    if (receipt !== undefined) return { receipt };
    const flooded = status?.findings.some(({ code }) => code === 'too-many-signals') === true;
    const mayBeUpdate = mayUpdate && arrival < UPDATES_FROM && updateOf(signal) !== undefined;
    if (flooded && mayBeUpdate && Date.now() > begin + CHECKED_WITHIN_MS) return { isFlooded: true };
  }
  return {};
}
