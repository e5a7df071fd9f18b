import type { RunbookError } from '../errors';
import { isRunbookError } from '../errors';
import type { CliContext } from './context';
import { printError } from './print-error';

const TRIES = 3;

/**
 * Asks a person up to three times, where he may have mistyped. Where no person is asked, the first answer counts.
 *
 * @param mistyped whether another answer may do
 * @throws the error of the last answer
 */
export async function askAgain<T>(
  context: CliContext,
  ask: () => Promise<T>,
  mistyped: (error: RunbookError) => boolean,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!context.interactive || !isRunbookError(error) || !mistyped(error) || tries === TRIES) throw error;
      printError(context, error, { json: false, debug: false });
      context.err(`Again (${tries + 1} of ${TRIES}); Ctrl-C ends it.`);
    }
  }
}
