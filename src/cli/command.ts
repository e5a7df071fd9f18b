import { Command, InvalidArgumentError } from 'commander';
import type { CliContext } from './context';
import { SUMMARIES } from './command-table';
import type { ExitCode } from './errors';
import { jsonText } from './text';
import type { ConnectionFlags } from '../worker/connection';
import type * as runModule from './run';
import type { TemporalSession } from './run';

/** Options that every command has. */
export interface CommonOptions {
  readonly json?: boolean;
  readonly debug?: boolean;
}

/** Options of the commands that talk to a Temporal server. */
export type ServerOptions = CommonOptions & ConnectionFlags;

/** What runs a command's work and keeps its exit code. */
export interface CommandHost {
  readonly context: CliContext;
  readonly finish: (code: ExitCode) => void;
}

/**
 * A new command with the common options and examples under its help.
 *
 * @param summary of a command below another one; those of the others stand in the table.
 */
export function newCommand(name: string, examples: readonly string[], summary = SUMMARIES[name] ?? ''): Command {
  return new Command(name)
    .description(summary)
    .option('--json', 'print one JSON object instead of text')
    .option('--debug', 'print the stack of an error')
    .showHelpAfterError('(--help shows the options and examples)')
    .addHelpText('after', `\nExamples:\n${examples.map((example) => `  ${example}`).join('\n')}`);
}

/** Adds the options that say which Temporal server to use. */
export function withServerOptions(command: Command): Command {
  return command
    .option('--address <host:port>', 'Temporal server (default: TEMPORAL_ADDRESS, the profile file, 127.0.0.1:7233)')
    .option('--namespace <name>', 'Temporal namespace (default: TEMPORAL_NAMESPACE, the profile file, "default")')
    .option('--profile <name>', 'profile of the Temporal profile file');
}

/** Adds the argument that names a run. */
export function withRun(
  command: Command,
  what = 'its Workflow ID, or its deployment: payments is deployment:payments',
): Command {
  return command.argument('<run>', what, workflowIdOf);
}

/** A deployment stands for the Workflow ID that is its lock. A UUID is what the Web UI proposes as a Workflow ID. */
export function workflowIdOf(given: string): string {
  return /^(?![0-9a-f]{8}-([0-9a-f]{4}-){3})[a-z0-9-]+$/.test(given) ? `deployment:${given}` : given;
}

/** Reads an option that is a number of seconds. */
export function seconds(text: string): number {
  const value = Number(text);
  if (value >= 0) return value;
  throw new InvalidArgumentError('a number of seconds');
}

/** Collects the values of an option that may be given several times. */
export const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

/** Runs `work` with an open connection, which is closed on every path. */
export async function withSession<T>(
  context: CliContext,
  options: ConnectionFlags,
  work: (session: TemporalSession) => Promise<T>,
): Promise<T> {
  // The packages of Temporal take a good part of a second to load, and help needs none of them.
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- as above
  const { connectTemporal } = require('./run') as typeof runModule;
  const session = await connectTemporal(options, context.env);
  try {
    return await work(session);
  } finally {
    await session.close();
  }
}

/** Prints a result: one JSON object with `--json`, else the lines. */
export function printResult(
  context: CliContext,
  options: CommonOptions,
  result: unknown,
  lines: readonly string[],
): void {
  for (const line of options.json === true ? [jsonText(result)] : lines) context.out(line);
}
