import { Command, InvalidArgumentError } from 'commander';
import type { CliContext } from './context';
import type { ExitCode } from './errors';
import { jsonText } from '../contracts/words';
import type { ConnectionFlags } from '../worker/settings';
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
    .option('--namespace <name>', 'Temporal namespace (default: TEMPORAL_NAMESPACE, the profile file, "default")');
}

/** Adds the argument that names a run. */
export function withRun(command: Command, argument = '<run>'): Command {
  const what = 'its Workflow ID, or its deployment: payments is deployment:payments';
  return command.argument(argument, what, workflowIdOf);
}

/** A deployment stands for the Workflow ID that is its lock. A UUID is what the Web UI proposes as a Workflow ID. */
function workflowIdOf(given: string): string {
  return /^(?![0-9a-f]{8}-([0-9a-f]{4}-){3})[a-z0-9-]+$/.test(given) ? `deployment:${given}` : given;
}

/** Reads an option that is a number; of seconds a timer takes no more. */
export function number(text: string): number {
  const value = Number(text);
  if (value >= 0 && value <= 2_000_000) return value;
  throw new InvalidArgumentError('a number, at most 2000000');
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

/* Each command loads what it needs when it is asked for: a holder's `share` must not wait for the simulated service. */
/* eslint-disable @typescript-eslint/no-require-imports -- an import would load every command */

/** What a file of `commands/` gives. */
interface CommandModule {
  readonly commands: (host: CommandHost) => readonly Command[];
}

/** All commands in the order of the help: each with what the help says of it, and the file that has it. */
const TABLE = {
  plan: ['only read, and show the plan: preconditions with observed and needed values, steps', 'start'],
  start: ['start a run; exits at once, "runbook watch" follows it', 'start'],
  runbooks: ['the runbooks, or the input fields of one', 'runbooks'],
  readiness: ['would a switchover and a failover start now? Changes nothing', 'start'],
  list: ['the runs of this namespace, newest first', 'runs'],
  status: ['what a run does and waits for; answers within seconds, also without a worker', 'runs'],
  watch: ['follow a run until it ends; the exit code tells how', 'reports'],
  share: ['give your key share to a run that asks for it; it leaves this machine encrypted only', 'share'],
  'provide-token': [
    'give a run the operation token that people generated themselves; it leaves this machine encrypted only',
    'share',
  ],
  invitation: ['print the invitation of a run, to hand to holders who work offline', 'share'],
  'holder-page': ["write the holder's page: one HTML file that needs no network, to be saved beforehand", 'share'],
  approve: ['approve or reject what a run will do next', 'statements'],
  decide: ['decide what happens with a parked step; "runbook status" lists the choices', 'statements'],
  pause: ['hold a run before its next step; inside an outage once a cluster serves', 'statements'],
  resume: ['let a paused run go on', 'statements'],
  abort: ['end a run at its next safe point, with its clean-ups and a report', 'statements'],
  'take-over': [
    'order that a run becomes a failover; "start drFailover --take-over" does it with an input of its own',
    'statements',
  ],
  report: ['what a run did; a worker answers for one that is open, failed or was terminated', 'reports'],
  init: ['set up a deployment: reads the clusters, makes the keys, writes inventory and settings', 'init'],
  join: ["pin the workers' key and make your own, on your machine, from the line that the operators sent", 'keys'],
  doctor: ['what is missing here, each finding with what mends it; changes nothing', 'doctor'],
  keys: ['keys of people and workers', 'keys'],
  inventory: ['the inventory file', 'inventory'],
  policy: ["print the service's policy that the workers' credential needs; no server is asked", 'inventory'],
  completion: ['print what makes a shell complete commands: bash or zsh', 'runbooks'],
  worker: ['run workflows and activities until Ctrl-C; settings from the environment', 'programs'],
  simulator: ['run the simulated service from a topology file until Ctrl-C', 'programs'],
  dev: ['Temporal dev server, simulated deployment "payments" and worker, until Ctrl-C', 'programs'],
} as const;

/** What the help says of each command, in its order. */
export const SUMMARIES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(TABLE).map(([name, [summary]]) => [name, summary]),
);

/** The commands of the file that has the command of this name; all commands where no name is given. */
export function loadCommands(host: CommandHost, name?: string): readonly Command[] {
  const files = Object.entries(TABLE).flatMap(([each, [, file]]) => (name === undefined || each === name ? file : []));
  return [...new Set(files)].flatMap((file) => (require(`./commands/${file}`) as CommandModule).commands(host));
}
