import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError, WorkflowUpdateFailedError, isGrpcServiceError } from '@temporalio/client';
import { nextCommandOf } from '../contracts/next-commands';
import { payloadConverter } from '../contracts/payload-converter';
import type { Receipt } from '../contracts/run-facts';
import { SEND_AGAIN, UPDATES, UPDATES_FROM } from '../contracts/signals';
import type { SignalName } from '../contracts/signals';
import { RunbookError } from '../errors';
import { firstValue } from '../report/run-history';
import type { CliContext } from './context';
import { EXIT } from './errors';
import { receiptLines } from './render-status';
import { queryStatus, waitVisibly } from './run';
import type { RunReference, TemporalSession } from './run';

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
  return outcomeOf(signal, workflowId, (await answer) || {}, recorded === true);
}

/** What became of a signal, as the command prints it. `recorded`: Temporal has it. */
export function outcomeOf(signal: SignalName, workflowId: string, { arrival, receipt }: Answer, recorded: boolean) {
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
export interface Sending {
  /** Sent twice with the same UUID, the server records it once. */
  readonly requestId?: string;
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
export interface Answer {
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

/** The server's error: inside one of the client, or as the service itself throws it. */
const rpcErrorIn = (error: Error) => [error, error.cause].find(isGrpcServiceError);
/** gRPC's code NOT_FOUND. */
const NOT_FOUND = 5;

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
export async function send(sending: Sending, withinMs: number): Promise<boolean | undefined> {
  const { client, run, signal } = sending;
  try {
    await client.withDeadline(Date.now() + withinMs, () => signalRun(sending));
    return true;
  } catch (error) {
    const details = error instanceof Error ? rpcErrorIn(error)?.details : undefined;
    if (details?.includes('limit for signal events') && updateOf(signal) !== undefined) return false;
    return mayBeAccepted(error) ? undefined : refuse(run)(error);
  }
}

function signalRun({ client, run, signal, input, requestId }: Sending): Promise<unknown> {
  if (requestId === undefined) return client.workflow.getHandle(run.workflowId, run.runId).signal(signal, input);
  const { namespace, identity } = client.workflow.options;
  // The handle would make up a request ID for each call.
  return client.workflowService.signalWorkflowExecution({
    ...{ namespace, identity, requestId, signalName: signal },
    workflowExecution: run,
    input: { payloads: [payloadConverter.toPayload(input)] },
  });
}

/** The run's receipt. Sends an update if the signal was not `recorded`, or if the run no longer reads signals. */
export async function receiptOf(sent: Sent, recorded: boolean): Promise<Answer> {
  const { client, run, signal, input } = sent;
  const update = updateOf(signal);
  const sendUpdate = async (): Promise<Answer> => {
    const handle = client.workflow.getHandle(run.workflowId, run.runId);
    const arrival = await handle.executeUpdate<number, [unknown]>(update ?? '', {
      args: [input],
      ...(sent.requestId !== undefined && { updateId: sent.requestId }),
    });
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
    const rpcError = cause instanceof Error ? rpcErrorIn(cause) : undefined;
    if (cause instanceof WorkflowNotFoundError || Number(rpcError?.code) === NOT_FOUND) {
      const message = `There is no open run with the Workflow ID "${workflowId}"; nothing was sent.`;
      throw new RunbookError('NOT_FOUND', message, { next: '"runbook list --open" shows the open runs.', cause });
    }
    if (rpcError === undefined) throw cause;
    throw new RunbookError('TEMPORAL_UNAVAILABLE', 'The Temporal server refused it; nothing was sent.', {
      observed: rpcError.details,
      needed: "permission to signal runs of this namespace, within the server's limits",
      next: 'Correct the error that the server reports; then run the same command again.',
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
