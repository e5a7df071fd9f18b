import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError, isGrpcServiceError } from '@temporalio/client';
import type { Receipt } from '../contracts/run-facts';
import { UPDATES } from '../contracts/signals';
import type { SignalName } from '../contracts/signals';
import { RunbookError } from '../errors';
import { EXIT } from './exit-codes';
import type { ExitCode } from './exit-codes';
import { fetchEvents, signalEvents } from './history';
import type { RunReference } from './history';
import { receiptLines } from './render-status';
import { queryStatus } from './run-view';
import { shellLine } from './text';

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
  let updated: number | undefined;
  try {
    updated = await give(client, run, signal, input);
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
  const arrival = updated ?? (await findArrival(client, run, signal, input));
  const receipt = arrival === undefined ? undefined : await awaitReceipt(client, run, signal, arrival, stop);
  const common = { signal, workflowId, ...(arrival === undefined ? {} : { arrival }) };
  if (receipt === undefined) {
    const line = `Sent, and recorded by Temporal. No receipt yet: look with "${shellLine('runbook', 'status', workflowId)}".`;
    return { ...common, lines: [line], exitCode: EXIT.pending };
  }
  const exitCode = receipt.verdict === 'accepted' ? EXIT.ok : EXIT.refused;
  return { ...common, receipt, lines: receiptLines(receipt), exitCode };
}

/**
 * As a signal; where the server takes none any more for this run, as the update of the same name where there is one.
 *
 * @returns the number of the update, where it is one
 */
async function give(
  client: Client,
  { workflowId, runId }: RunReference,
  signal: SignalName,
  input: unknown,
): Promise<number | undefined> {
  const handle = client.workflow.getHandle(workflowId, runId);
  try {
    await handle.signal(signal, input);
    return undefined;
  } catch (error) {
    const { cause } = error instanceof Error ? error : {};
    const full = isGrpcServiceError(cause) && cause.details.includes('limit for signal events');
    const update = UPDATES.find((name) => name === signal);
    if (!full || update === undefined) throw error;
    return handle.executeUpdate<number, [unknown]>(update, { args: [input] });
  }
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

async function awaitReceipt(
  client: Client,
  run: RunReference,
  signal: SignalName,
  arrival: number,
  stop: AbortSignal,
): Promise<Receipt | undefined> {
  const deadline = Date.now() + RECEIPT_DEADLINE_MS;
  const pauses = FIRST_LOOKS_MS.map((at, index) => at - (FIRST_LOOKS_MS[index - 1] ?? 0));
  while (Date.now() < deadline && !stop.aborted) {
    await delay(pauses.shift() ?? POLL_MS);
    const status = await queryStatus(client, run);
    const receipt = status?.receipts.findLast(
      (each) => each.signal === signal && (each.arrival === arrival || each.alsoFor?.includes(arrival) === true),
    );
    if (receipt !== undefined) return receipt;
  }
  return undefined;
}
