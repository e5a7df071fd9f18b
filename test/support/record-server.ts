import { WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { RECORD_CONFLICT, RECORD_WORKFLOW, follows, stateOf, written } from '../../src/contracts/record';
import type { RecordState } from '../../src/contracts/record';

/** A fake of the workflow `record` on a Temporal server, for activities that are tested without one. */
export class RecordServer {
  readonly #states = new Map<string, RecordState>();
  /** The error of every call. */
  failure: Error | undefined;
  /** Called before each write. */
  onWrite: () => void | Promise<void> = () => undefined;

  constructor(private readonly taskQueue: string) {}

  /** The values in a record. */
  values(workflowId: string): readonly unknown[] {
    return Object.values(this.#states.get(workflowId)?.entries ?? {}).map(({ value }) => value);
  }

  /** Removes a record without a trace, as an administrator of the server can. */
  forget(workflowId: string): void {
    this.#states.delete(workflowId);
  }

  start(workflowId: string, state: unknown): Promise<void> {
    return this.#answer(() => void this.#states.set(workflowId, this.#states.get(workflowId) ?? stateOf(state)));
  }

  handle(workflowId: string) {
    const found = (): RecordState => {
      const state = this.#states.get(workflowId);
      if (state) return state;
      throw new WorkflowNotFoundError('no such record', workflowId, undefined);
    };
    return {
      describe: () =>
        this.#answer(() => {
          found();
          const status = { code: 1, name: 'RUNNING' };
          return { workflowId, runId: 'record', type: RECORD_WORKFLOW, taskQueue: this.taskQueue, status };
        }),
      query: () => this.#answer(found),
      executeUpdate: async (_name: string, { args: [write] }: { readonly args: readonly [unknown] }) => {
        await this.onWrite();
        return this.#answer(() => {
          const sent: unknown = copied(write);
          if (!follows(found(), sent)) {
            const cause = ApplicationFailure.create({ type: RECORD_CONFLICT, nonRetryable: true });
            throw new WorkflowUpdateFailedError('refused', cause);
          }
          this.#states.set(workflowId, written(found(), sent));
        });
      },
    };
  }

  async #answer<T>(how: () => T): Promise<T> {
    if (this.failure) throw this.failure;
    return copied(how());
  }
}

function copied<T>(value: T): T {
  return value === undefined ? value : (JSON.parse(JSON.stringify(value)) as T);
}
