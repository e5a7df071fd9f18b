import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger as SdkLogger, LogLevel } from '@temporalio/worker';
import pino from 'pino';
import type { Logger } from 'pino';
import { LOGGED_FIELDS } from '../contracts/log';
import { oneLine } from '../contracts/words';
import { redact } from '../keys';

/**
 * A logger that writes one JSON object per line: known fields only, every text redacted, errors as code and message
 * without stack, because stacks of parsers quote what they parse.
 *
 * @param destination file descriptor or stream; default standard error.
 */
export function createLogger(level: string, destination: number | pino.DestinationStream = 2): Logger {
  const stream = typeof destination === 'number' ? pino.destination({ dest: destination, sync: true }) : destination;
  return pino(
    {
      level,
      base: undefined,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: loggedFields },
      // Turned into a plain field by the formatter above; pino's own serializer would add the stack.
      serializers: { err: (error: unknown) => error },
      hooks: {
        logMethod(args, method) {
          const [first, ...rest] = args.map((arg: unknown) => (typeof arg === 'string' ? shown(arg) : arg));
          method.apply(this, [first, ...rest] as Parameters<typeof method>);
        },
      },
    },
    stream,
  );
}

/** What of an entry's fields may be written. */
export function loggedFields(entry: Readonly<Record<string | symbol, unknown>>): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const name of LOGGED_FIELDS) {
    const value = entry[name];
    if (typeof value === 'string') fields[name] = shown(value);
    else if (typeof value === 'number' || typeof value === 'boolean') fields[name] = value;
  }
  const error = entry['error'] ?? entry['err'];
  if (error instanceof Error) fields['error'] = shown(describeError(error));
  else if (typeof error === 'string') fields['error'] = shown(error);
  return fields;
}

/** A log is read in terminals too: they show what others wrote, and obey none of it. */
function shown(text: string): string {
  return oneLine(redact(text));
}

/** A workflow failure says little by itself: its causes say what happened. */
function describeError(error: Error): string {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  const cause = error.cause instanceof Error ? ` <- ${describeError(error.cause)}` : '';
  return `${code}: ${error.message}${cause}`;
}

const TO_PINO = {
  TRACE: 'trace',
  DEBUG: 'debug',
  INFO: 'info',
  WARN: 'warn',
  ERROR: 'error',
} as const satisfies Record<LogLevel, string>;

/** Our logger as the SDK takes it. */
export function sdkLogger(log: Logger): SdkLogger {
  return new DefaultLogger('TRACE', ({ level, message, meta }) => {
    // The worker of the key directory's queue has activities only, on purpose.
    if (message.startsWith('No workflows registered')) return;
    log[TO_PINO[level]](meta ?? {}, message);
  });
}

/** Gives the SDK our logger. Only the first call in a process counts: the SDK has one runtime. */
export function installLogger(log: Logger): void {
  try {
    Runtime.install({
      logger: sdkLogger(log),
      telemetryOptions: { logging: { forward: {}, filter: { core: 'WARN', other: 'ERROR' } } },
      // The programs decide themselves what a signal means.
      shutdownSignals: [],
    });
  } catch (error) {
    // The runtime exists already: an embedding program, such as a test, has installed its own.
    if (!(error instanceof Error && error.name === 'IllegalStateError')) throw error;
  }
}

/**
 * Lets a process end whose worker was refused: the SDK's runtime keeps it alive until the last client or worker is gone,
 * and there was none.
 */
export async function releaseRuntime(): Promise<void> {
  await Runtime.instance().shutdown();
}
