import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger, LogLevel } from '@temporalio/worker';
import pino from 'pino';
import { redact } from '../secrets/redaction';

const TO_PINO: Readonly<Record<LogLevel, 'trace' | 'debug' | 'info' | 'warn' | 'error'>> = {
  TRACE: 'trace',
  DEBUG: 'debug',
  INFO: 'info',
  WARN: 'warn',
  ERROR: 'error',
};

/** Fields that the SDK logs and that people need. Everything else, inputs above all, stays out of the log. */
const KEPT_FIELDS = [
  'sdkComponent',
  'taskQueue',
  'namespace',
  'workflowId',
  'runId',
  'workflowType',
  'activityType',
  'activityId',
  'attempt',
  'isLocal',
  'durationMs',
  'code',
  'cluster',
  'deployment',
  'step',
  'cid',
  'epoch',
  'count',
  'state',
  'keyHome',
  'path',
  'text',
  'next',
] as const;

/**
 * A logger that writes one JSON object per line, with known fields only and every text redacted. Errors are written as
 * code and message, without stack: stacks of parsers quote what they parse.
 *
 * @param destination file descriptor; 2 is standard error.
 */
export function createLogger(level: string, destination = 2): Logger {
  const sink = pino(
    { level, base: undefined, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination(destination),
  );
  return new DefaultLogger('TRACE', ({ level: entryLevel, message, meta }) => {
    sink[TO_PINO[entryLevel]](loggedFields(meta), redact(message));
  });
}

/** What of an entry's fields may be written. */
export function loggedFields(meta: Record<string | symbol, unknown> | undefined): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const name of KEPT_FIELDS) {
    const value = meta?.[name];
    if (typeof value === 'string') fields[name] = redact(value);
    else if (typeof value === 'number' || typeof value === 'boolean') fields[name] = value;
  }
  const error = meta?.['error'];
  if (error instanceof Error) fields['error'] = redact(describeError(error));
  return fields;
}

function describeError(error: Error): string {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  return `${code}: ${error.message}`;
}

/** Gives the SDK our logger. Only the first call in a process counts: the SDK has one runtime. */
export function installLogger(logger: Logger): void {
  try {
    Runtime.install({
      logger,
      telemetryOptions: { logging: { forward: {}, filter: { core: 'WARN', other: 'ERROR' } } },
      shutdownSignals: [],
    });
  } catch (error) {
    // The runtime exists already: an embedding program, such as a test, has installed its own.
    if (!(error instanceof Error && error.name === 'IllegalStateError')) throw error;
  }
}
