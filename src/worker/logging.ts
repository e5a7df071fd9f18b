import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger as SdkLogger, LogLevel } from '@temporalio/worker';
import pino from 'pino';
import type { Logger } from 'pino';
import { LOGGED_FIELDS } from '../contracts/log';
import { oneLine } from '../contracts/words';
import { redact } from '../keys';

/**
 * Creates a logger that writes one JSON object per line. It writes only known fields and redacts every text. Errors are
 * logged as code and message, without a stack: the stack of a parser error quotes the parsed text.
 *
 * @param destination file descriptor or stream; default: standard error.
 */
export function createLogger(level: string, destination: number | pino.DestinationStream = 2): Logger {
  const stream = typeof destination === 'number' ? pino.destination({ dest: destination, sync: true }) : destination;
  return pino(
    {
      level,
      base: undefined,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: loggedFields },
      // The formatter above turns the error into text; pino's own serializer would add the stack.
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

/** The fields of an entry that may be logged. */
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

/** Logs are also read in terminals: text from others must not contain line breaks or control sequences. */
function shown(text: string): string {
  return oneLine(redact(text));
}

/** The error with its causes: a workflow failure alone does not show what happened. */
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
