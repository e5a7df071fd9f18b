import { isDeepStrictEqual } from 'node:util';
import { getClient } from '@temporalio/activity';
import type { temporal } from '@temporalio/proto';
import type { SignalName } from '../../src/contracts/signals';
import { RunbookError } from '../../src/errors';
import { firstValue, textOf } from '../../src/report/history-values';
import type { RunContext } from '../../src/secrets';

/**
 * Who sent the signals of a run, as the server recorded it on the signals' events (rule 18). Handlers get no event ID: the
 * n-th signal of a name that a run handled is the n-th event of that name in its history, and its content must be the same.
 */
export class Senders {
  readonly #run: RunContext;
  #events: Promise<readonly temporal.api.history.v1.IHistoryEvent[]> | undefined;

  constructor(run: RunContext) {
    this.#run = run;
  }

  /**
   * The principal on the event of one signal.
   *
   * @param arrival counts the signals of this name in this run, from 1
   * @param input what the run was given
   * @returns undefined where the server records no senders: authentication is off, or older than 1.31
   * @throws RunbookError DOCUMENT_INVALID where no such signal with this content is in the history
   */
  async of(signal: SignalName, arrival: number, input: unknown): Promise<string | undefined> {
    this.#events ??= this.#read();
    const events = (await this.#events).filter(
      ({ workflowExecutionSignaledEventAttributes: signaled }) => signaled?.signalName === signal,
    );
    const event = events[arrival - 1];
    const content = firstValue(event?.workflowExecutionSignaledEventAttributes?.input);
    if (!event || !isDeepStrictEqual(content, input)) {
      throw new RunbookError(
        'DOCUMENT_INVALID',
        'The document is refused: the history of this run holds no such signal with this content.',
      );
    }
    return textOf(event.principal?.name);
  }

  async #read(): Promise<readonly temporal.api.history.v1.IHistoryEvent[]> {
    const { wid, rid } = this.#run;
    const { events } = await getClient().workflow.getHandle(wid, rid).fetchHistory();
    return events ?? [];
  }
}
