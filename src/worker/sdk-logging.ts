import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger as SdkLogger, LogLevel } from '@temporalio/worker';
import type { Logger } from 'pino';

const TO_PINO = {
  TRACE: 'trace',
  DEBUG: 'debug',
  INFO: 'info',
  WARN: 'warn',
  ERROR: 'error',
} as const satisfies Record<LogLevel, string>;

/** Adapts our logger to the interface of the SDK. */
export function sdkLogger(log: Logger): SdkLogger {
  return new DefaultLogger('TRACE', ({ level, message, meta }) => {
    // The worker for the queue of the key directory has only activities, by design.
    if (message.startsWith('No workflows registered')) return;
    log[TO_PINO[level]](meta ?? {}, message);
  });
}

/** Installs our logger in the SDK. Only the first call in a process has an effect, because the SDK has one runtime. */
export function installLogger(log: Logger): void {
  try {
    Runtime.install({
      logger: sdkLogger(log),
      telemetryOptions: { logging: { forward: {}, filter: { core: 'WARN', other: 'ERROR' } } },
      // Each program handles signals itself.
      shutdownSignals: [],
    });
  } catch (error) {
    // The runtime exists already: the embedding program, such as a test, has installed its own.
    if (!(error instanceof Error && error.name === 'IllegalStateError')) throw error;
  }
}
