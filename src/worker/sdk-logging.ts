import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger as SdkLogger, LogLevel } from '@temporalio/worker';
import type { Logger } from 'pino';
import { OUTAGE_METRIC } from '../contracts/names';

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

/** Seconds. The SDK's own buckets end at 10 s: every outage would be in the last one. */
const OUTAGE_BUCKETS = [1, 2.5, 5, 10, 20, 30, 60, 120, 300, 900, 3_600];

/** The SDK's exporter of this process's metrics, at `/metrics`. */
export function metricsAt(bindAddress: string) {
  const names = { countersTotalSuffix: true, unitSuffix: true, useSecondsForDurations: true };
  return { prometheus: { bindAddress, ...names, histogramBucketOverrides: { [OUTAGE_METRIC]: OUTAGE_BUCKETS } } };
}

/** Installs our logger in the SDK. Only the first call in a process has an effect, because the SDK has one runtime. */
export function installLogger(log: Logger, metricsAddress?: string): void {
  try {
    Runtime.install({
      logger: sdkLogger(log),
      telemetryOptions: {
        logging: { forward: {}, filter: { core: 'WARN', other: 'ERROR' } },
        ...(metricsAddress !== undefined && { metrics: metricsAt(metricsAddress) }),
      },
      // Each program handles signals itself.
      shutdownSignals: [],
    });
  } catch (error) {
    // The runtime exists already: the embedding program, such as a test, has installed its own.
    if (!(error instanceof Error && error.name === 'IllegalStateError')) throw error;
  }
}
