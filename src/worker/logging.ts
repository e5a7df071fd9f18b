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
