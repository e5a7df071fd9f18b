import { DefaultLogger, IllegalStateError, Runtime } from '@temporalio/worker';

/** The core of the SDK tells errors only. One runtime serves all files of a process: the first that asks installs it. */
export function quietRuntime(): void {
  try {
    Runtime.install({ logger: new DefaultLogger('ERROR') });
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}
