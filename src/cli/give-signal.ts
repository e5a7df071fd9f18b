import type { Client } from '@temporalio/client';
import { SIGNALS } from '../contracts/signals';
import type { SignalName } from '../contracts/signals';
import { printResult } from './command';
import type { CommandHost, ServerOptions } from './command';
import type { RunReference } from './history';
import { refusePlainShare } from './plain-share';
import { sendSignal } from './send-signal';
import { jsonText } from './text';

/** What a command that gives a signal may be told. */
export interface GivingOptions extends ServerOptions {
  /** Print the signal's input instead of sending it. */
  readonly print?: boolean;
}

export const PRINT_OPTION = ['--print', "print the signal's input as one line instead of sending it"] as const;

/** Sends the signal and says what became of it; or prints its input as one line, to paste into the Web UI. */
export async function giveSignal(
  host: CommandHost,
  options: GivingOptions,
  client: Client,
  run: RunReference,
  signal: SignalName,
  input: unknown,
): Promise<void> {
  const { context } = host;
  // An envelope is encrypted, and has checks of its own.
  if (signal !== SIGNALS.share) refusePlainShare(input);
  if (options.print === true) {
    context.out(jsonText(input));
    return;
  }
  const sent = await sendSignal(client, run, signal, input, context.stop);
  printResult(context, options, sent, sent.lines);
  host.finish(sent.exitCode);
}
