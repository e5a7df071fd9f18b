import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { Logger } from 'pino';
import type { KeyRecords } from '../keys';

const DESCRIBE_DEADLINE_MS = 5_000;

/**
 * Whether a run has ended, as the server says. A run that the server does not know any more has ended too.
 *
 * @throws where the server does not answer: the key record then waits for its time to end.
 */
export async function isRunClosed(
  client: Client,
  namespace: string,
  run: { readonly wid: string; readonly rid: string; readonly ns: string },
): Promise<boolean> {
  // Another namespace's runs are not ours to judge.
  if (run.ns !== namespace) return false;
  try {
    const description = await client.withDeadline(Date.now() + DESCRIBE_DEADLINE_MS, () =>
      client.workflow.getHandle(run.wid, run.rid).describe(),
    );
    return description.status.name !== 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return true;
    throw error;
  }
}

/** Destroys ceremony keys that are past their time or belong to ended runs, and sees to the tokens of the records: at once, and again and again. */
export class KeySweeper {
  readonly #records: KeyRecords;
  readonly #client: Client;
  readonly #namespace: string;
  readonly #log: Logger;
  readonly #sweepTokens: () => Promise<void>;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: {
    records: KeyRecords;
    client: Client;
    namespace: string;
    log: Logger;
    sweepTokens: () => Promise<void>;
  }) {
    this.#records = options.records;
    this.#client = options.client;
    this.#namespace = options.namespace;
    this.#log = options.log;
    this.#sweepTokens = options.sweepTokens;
  }

  /** Sweeps now and then every `intervalMs`. Resolves after the first sweep. */
  async start(intervalMs: number): Promise<void> {
    await this.sweep();
    this.#timer = setInterval(() => void this.sweep(), intervalMs);
    this.#timer.unref();
  }

  /** Ends the sweeping and waits for a sweep that is under way. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  /** One sweep; a failure is logged and the next one tries again. */
  sweep(): Promise<void> {
    this.#running = this.#running.then(() => this.#sweepOnce());
    return this.#running;
  }

  async #sweepOnce(): Promise<void> {
    try {
      const destroyed = await this.#records.sweep(Date.now(), (wid, rid, ns) =>
        isRunClosed(this.#client, this.#namespace, { wid, rid, ns }),
      );
      for (const { cid, epoch, why } of destroyed)
        this.#log.info({ cid, epoch, state: why }, 'Ceremony keys destroyed');
    } catch (error) {
      this.#log.warn({ error }, 'Sweeping the ceremony keys failed; the next sweep tries again');
    }
    try {
      await this.#sweepTokens();
    } catch (error) {
      this.#log.warn({ error }, 'Sweeping the tokens of the records failed; the next sweep tries again');
    }
  }
}
