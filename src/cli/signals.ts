import { createHash } from 'node:crypto';
import { CommanderError } from 'commander';
import type { Command } from 'commander';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError, isGrpcServiceError } from '@temporalio/client';
import type { z } from 'zod';
import { inputMistakes } from '../contracts/runbook-inputs';
import { nextCommandOf } from '../contracts/next-commands';
import { approvalPayload, controlPayload, decisionPayload } from '../contracts/payloads';
import type { Receipt } from '../contracts/run-facts';
import { SIGNALS, UPDATES, UPDATES_FROM } from '../contracts/signals';
import type { SignalName } from '../contracts/signals';
import { RunbookError } from '../errors';
import { DOCUMENT_TYPES, signDocument } from '../documents/documents';
import { number, printResult, withRun, withServerOptions } from './command';
import type { CommandHost, ServerOptions } from './command';
import type { CliContext } from './context';
import { EXIT } from './errors';
import { receiptLines } from './render-status';
import { fetchEvents, queryStatus, signalInputs, waitVisibly } from './run';
import type { RunReference, TemporalSession } from './run';
import { refusePlainShare, signingKey } from './secret-input';
import type { SigningOptions } from './secret-input';
import { jsonText } from '../contracts/words';

export const NAME_OPTION = [
  '--name <name>',
  'your name as the inventory lists it (default: RUNBOOKS_PERSON, or you are asked)',
] as const;
export const HOLDER_OPTION = ['--holder <name>', NAME_OPTION[1]] as const;
/** Options of the commands by which a person says something that a run acts on. */
export interface StatementOptions extends ServerOptions, SigningOptions {
  /** Print the signal's input instead of sending it. */
  readonly print?: boolean;
  readonly timeout?: number;
  readonly name?: string;
  readonly reason?: string;
}

/** Who gives the command: named by its option or by RUNBOOKS_PERSON, else asked. */
export function personOf(context: CliContext, given: string | undefined, option = '--name'): Promise<string> {
  const named = given || context.env['RUNBOOKS_PERSON'];
  return wanted(context, named, `${option} or RUNBOOKS_PERSON`, 'Your name, as the inventory lists it');
}

/** What an option gives, else what the person at the terminal answers. */
export async function wanted(
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

/** What whoever signs may give, on the way to a run. */
export function withSigningOptions(command: Command): Command {
  return command
    .option('--key-file <file>', 'your signing key, else RUNBOOKS_KEY_FILE, or where "runbook join" put it')
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option('--print', "print the signal's input as one line instead of sending it");
}

/** Of commands that name their run and wait for what it says. Without a key a statement is a claim. */
export function withStatementOptions(command: Command): Command {
  withSigningOptions(command).option('--timeout <seconds>', 'how long to wait for what the run says of it', number, 30);
  return withServerOptions(withRun(command));
}

/** What people say to a run: its name in a sentence, and its members. */
const STATEMENTS = {
  approval: ['The approval', approvalPayload],
  decision: ['The decision', decisionPayload],
  control: ['The order', controlPayload],
} as const;
type StatementType = keyof typeof STATEMENTS;
type StatementMembers<T extends StatementType> = {
  readonly [M in keyof Omit<z.input<(typeof STATEMENTS)[T][1]>, 'ns' | 'wid' | 'rid' | 'iat'>]: unknown;
};

/** One run of a Workflow ID. */
export type ExactRun = RunReference & { readonly runId: string };

/**
 * What a person says to one run: signed where they have a key, else the plain members, which count as a claim.
 *
 * @throws RunbookError `INVALID_INPUT` where the members are not those of such a document.
 */
export async function statementOf<T extends StatementType>(
  context: CliContext,
  options: SigningOptions,
  { namespace: ns }: TemporalSession,
  { workflowId: wid, runId: rid }: ExactRun,
  type: T,
  members: StatementMembers<T>,
): Promise<object> {
  const [what, schema] = STATEMENTS[type];
  const parsed = schema.safeParse({ ns, wid, rid, ...members, iat: Math.floor(Date.now() / 1000) });
  if (!parsed.success) {
    const mistakes = inputMistakes(parsed.error).join('; ');
    throw new RunbookError('INVALID_INPUT', `${what} is refused: ${mistakes}. Nothing was sent.`, {
      next: 'Correct it, and give the same command again.',
    });
  }
  const key = await signingKey(context, options, parsed.data.name);
  if (key === undefined) return parsed.data;
  return { document: await signDocument(DOCUMENT_TYPES[type], parsed.data, key) };
}

/** Gives a statement to the run that it names. */
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

/** Sends the signal and says what became of it; or prints its input as one line, to paste into the Web UI. */
export async function giveSignal(
  { context, finish }: CommandHost,
  options: StatementOptions,
  session: TemporalSession,
  run: RunReference,
  signal: SignalName,
  input: unknown,
): Promise<void> {
  // An envelope is encrypted, and has checks of its own.
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
 * Sends a signal and waits for what the run says of it, visibly.
 *
 * @throws RunbookError `NOT_FOUND` where there is no open run.
 */
export async function sendSignal(
  context: Pick<CliContext, 'stop' | 'err'>,
  session: Pick<TemporalSession, 'client' | 'namespace'>,
  run: RunReference,
  signal: SignalName,
  input: unknown,
  timeoutS = 30,
) {
  const { workflowId } = run;
  const timeoutMs = timeoutS * 1_000;
  const sending = { client: session.client, run, signal, input };
  const taking = { what: `Temporal to take this ${signal}`, run };
  const recorded = await waitVisibly(context, session, taking, send(sending, Math.max(timeoutMs, TAKEN_WITHIN_MS)));
  const stop = AbortSignal.any([context.stop, AbortSignal.timeout(timeoutMs)]);
  const waiting = { what: `what the run says of this ${signal}`, run, timeoutMs };
  const answer = recorded !== undefined && waitVisibly(context, session, waiting, said({ ...sending, stop }, recorded));
  const { arrival, receipt }: Said = (await answer) || {};
  const common = { signal, workflowId, arrival, receipt };
  if (receipt === undefined) {
    const known = recorded ? 'Sent, and recorded by Temporal. No receipt yet' : 'Whether Temporal took it is not known';
    return { ...common, lines: [`${known}: look with "${nextCommandOf.status(workflowId)}".`], exitCode: EXIT.pending };
  }
  return { ...common, lines: receiptLines(receipt), exitCode: receipt.verdict === 'accepted' ? EXIT.ok : EXIT.refused };
}

/** What is on its way to a run. */
interface Sending {
  readonly client: Client;
  readonly run: RunReference;
  readonly signal: SignalName;
  readonly input: unknown;
}

/** It is there; `stop` ends the waiting for what the run says of it. */
interface Given extends Sending {
  readonly stop: AbortSignal;
}

/** `arrival` counts the signals of this name in the run, from 1. */
interface Said {
  readonly arrival?: number | undefined;
  readonly receipt?: Receipt | undefined;
}

const updateOf = (signal: SignalName) => UPDATES.find((name) => name === signal);

/** A Temporal that is busy, or that just comes back, needs so long. */
const TAKEN_WITHIN_MS = 10_000;
/**
 * gRPC's codes that leave open whether a call was carried out: cancelled, unknown, deadline, aborted, internal, unavailable,
 * data loss; and exhausted, which may be the answer to a second try alone.
 */
const OPEN_CODES: readonly number[] = [1, 2, 4, 8, 10, 13, 14, 15];

const rpcErrorIn = ({ cause }: Error) => (isGrpcServiceError(cause) ? cause : undefined);

/** Whether Temporal may have taken what failed with this: the connection broke, or no answer came in time. */
function mayBeTaken(error: unknown): boolean {
  return error instanceof Error && OPEN_CODES.includes(rpcErrorIn(error)?.code ?? -1);
}

/**
 * As a signal.
 *
 * @returns false where the server takes no more of them for this run, and there is an update of the same name; undefined
 *   where nobody knows whether it took this one
 * @throws RunbookError `NOT_FOUND` where there is no open run, `TEMPORAL_UNAVAILABLE` where the server refuses it: nothing was sent.
 */
async function send({ client, run, signal, input }: Sending, withinMs: number): Promise<boolean | undefined> {
  const handle = client.workflow.getHandle(run.workflowId, run.runId);
  try {
    await client.withDeadline(Date.now() + withinMs, () => handle.signal(signal, input));
    return true;
  } catch (error) {
    const details = error instanceof Error ? rpcErrorIn(error)?.details : undefined;
    if (details?.includes('limit for signal events') && updateOf(signal) !== undefined) return false;
    return mayBeTaken(error) ? undefined : refuse(run)(error);
  }
}

/** What the run says of it; as an update where it was not `recorded` as a signal, or the run looks at no more of them. */
async function said(given: Given, recorded: boolean): Promise<Said> {
  const { client, run, signal, input } = given;
  const update = updateOf(signal);
  const giveUpdate = async (): Promise<Said> => {
    const handle = client.workflow.getHandle(run.workflowId, run.runId);
    const arrival = await handle.executeUpdate<number, [unknown]>(update ?? '', { args: [input] });
    return { arrival, ...(await awaitReceipt(given, arrival)) };
  };
  if (!recorded)
    return giveUpdate().catch((error: unknown) => {
      if (mayBeTaken(error)) return {};
      return refuse(run)(error);
    });
  const arrival = await arrivalOf(given);
  if (arrival === undefined) return {};
  const { receipt, isFlooded } = await awaitReceipt(given, arrival);
  if (!isFlooded || update === undefined) return { arrival, receipt };
  return giveUpdate().catch((error: unknown) => {
    // The run ended meanwhile, or Temporal is away; what was sent before is in the history.
    if (error instanceof WorkflowNotFoundError || mayBeTaken(error)) return { arrival };
    throw error;
  });
}

function refuse({ workflowId }: RunReference): (error: unknown) => never {
  return (cause) => {
    if (cause instanceof WorkflowNotFoundError) {
      const message = `There is no open run with the Workflow ID "${workflowId}"; nothing was sent.`;
      throw new RunbookError('NOT_FOUND', message, { next: '"runbook list --open" shows the open runs.', cause });
    }
    const rpcError = cause instanceof Error ? rpcErrorIn(cause) : undefined;
    if (rpcError === undefined) throw cause;
    throw new RunbookError('TEMPORAL_UNAVAILABLE', 'The Temporal server refuses it; nothing was sent.', {
      observed: rpcError.details,
      needed: "the right to signal runs of this namespace, within the server's limits",
      next: 'Correct what it names; then give the same command again.',
      cause,
    });
  };
}

/**
 * Which of the signals of this name is ours, by which its receipt is known. Where a workflow task is under way, perhaps at a
 * worker that was killed, the history shows a signal only once that task is over; and Temporal itself may be down for a
 * moment.
 */
async function arrivalOf({ client, run, signal, input, stop }: Given): Promise<number | undefined> {
  const mine = digestOf(input);
  while (!stop.aborted) {
    const events = await fetchEvents(client, run).catch(() => []);
    const index = signalInputs(events, signal).findLastIndex((each) => digestOf(each) === mine);
    if (index !== -1) return index + 1;
    await delay(POLL_MS);
  }
  return undefined;
}

function digestOf(input: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(input) ?? '')
    .digest('hex');
}

/** A check takes about 90 ms: earlier looks would only be in its way. */
const FIRST_PAUSES_MS = [50, 50, 100];
const POLL_MS = 250;
/** A check takes no longer, where the run looks at the signal at all. */
const LOOKED_AT_WITHIN_MS = 3_000;

/** What the run says of a signal; `isFlooded` where it has too many to look at this one. */
async function awaitReceipt(
  { client, run, signal, stop }: Given,
  arrival: number,
): Promise<Pick<Said, 'receipt'> & { readonly isFlooded?: true }> {
  const begin = Date.now();
  const pauses = [...FIRST_PAUSES_MS];
  while (!stop.aborted) {
    await delay(pauses.shift() ?? POLL_MS);
    // It was sent: who may not ask is told that no receipt is known.
    const status = await queryStatus(client, run).catch(() => undefined);
    const receipt = status?.receipts.findLast((each) => each.signal === signal && each.arrival === arrival);
    if (receipt !== undefined) return { receipt };
    const flooded = status?.findings.some(({ code }) => code === 'too-many-signals') === true;
    const mayBeUpdate = arrival < UPDATES_FROM && updateOf(signal) !== undefined;
    if (flooded && mayBeUpdate && Date.now() > begin + LOOKED_AT_WITHIN_MS) return { isFlooded: true };
  }
  return {};
}
