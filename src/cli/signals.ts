import type { Command } from 'commander';
import { SIGNALS } from '../contracts/signals';
import type { SignalName } from '../contracts/signals';
import { signStatement, statementPayload } from '../documents/statements';
import type { StatementMembers, StatementType } from '../documents/statements';
import { duration, printResult, withRun, withServerOptions } from './command';
import type { RunReference } from './run';
import { NAME_OPTION, withGatewayOptions, withKeyOptions } from './run-session';
import type { ExactRun, RunOptions, RunSession } from './run-session';
import { refusePlainShare } from './secret-input';
import type { CommandHost } from './command-host';
import { jsonText } from '../contracts/words';

export const HOLDER_OPTION = ['--holder <name>', NAME_OPTION[1]] as const;
/** Options of the commands that send a run a person's statement. */
export interface StatementOptions extends RunOptions {
  /** Print the signal's input instead of sending it. */
  readonly print?: boolean;
  readonly timeout?: number;
  readonly reason?: string;
}

/** Adds the options of commands that sign. */
export function withSigningOptions(command: Command): Command {
  return withKeyOptions(command).option('--print', "print the signal's input as one line instead of sending it");
}

/** Adds the options of commands that send a statement to a run and wait for its receipt. Without a key a statement is a claim. */
export function withStatementOptions(command: Command): Command {
  withSigningOptions(command).option(
    '--timeout <duration>',
    "how long to wait for the run's receipt, such as 30s",
    duration,
    30_000,
  );
  return withGatewayOptions(withServerOptions(withRun(command)));
}

/**
 * A person's statement to one run: signed if they have a key, otherwise the plain members, which count as a claim.
 *
 * @throws RunbookError `INVALID_INPUT` if the members do not match the schema
 */
export async function statementOf<T extends StatementType>(
  session: RunSession,
  run: ExactRun,
  type: T,
  members: StatementMembers<T>,
): Promise<object> {
  const payload = statementPayload(type, run, members);
  const key = await session.keyOf(payload.name);
  return key === undefined ? payload : { document: await signStatement(type, payload, key) };
}

/** Sends a statement to the run that it names. */
export async function giveStatement<T extends StatementType>(
  host: CommandHost,
  options: StatementOptions,
  session: RunSession,
  run: ExactRun,
  [signal, type]: readonly [SignalName, T],
  members: StatementMembers<T>,
): Promise<void> {
  const input = await statementOf(session, run, type, members);
  await giveSignal(host, options, session, run, signal, input);
}

/** Sends the signal and prints its outcome; with `--print`, prints its input as one line to paste into the Web UI. */
export async function giveSignal(
  { context, finish }: CommandHost,
  options: StatementOptions,
  session: RunSession,
  run: RunReference,
  signal: SignalName,
  input: unknown,
): Promise<void> {
  // An envelope is encrypted, and has its own checks.
  if (signal !== SIGNALS.share) refusePlainShare(input);
  if (options.print === true) {
    context.out(jsonText(input));
    return;
  }
  const sent = await session.send(run, signal, input, options.timeout);
  printResult(context, options, 'receipt', sent, sent.lines);
  finish(sent.exitCode);
}
