import { Command, InvalidArgumentError, Option } from 'commander';
import { COMMAND_FILES, LEFT_OUT } from './command-files';
import type { CommandFile } from './command-files';
import type { CliContext } from './context';
import { deploymentWorkflowId } from '../contracts/names';
import { durationMs, jsonText } from '../contracts/words';
import type { ConnectionFlags } from '../worker/connection';
import type * as runModule from './run';
import type { TemporalSession } from './run';
import type { CommandHost } from './command-host';

/** Options that every command has. */
export interface CommonOptions {
  readonly json?: boolean;
}

/** Options of the commands that talk to a Temporal server. */
export type ServerOptions = CommonOptions & ConnectionFlags;

/**
 * A new command with the common options, and with examples below its help.
 *
 * @param summary - of a subcommand; the table holds the summaries of all other commands
 */
export function newCommand(name: string, examples: readonly string[], summary = SUMMARIES[name] ?? ''): Command {
  const command = new Command(name);
  return command
    .description(summary)
    .option('--json', 'print one JSON object instead of text')
    .addOption(new Option('-o <format>', 'as in `temporal`: json is the same as --json').choices(['text', 'json']))
    .on('option:o', (format) => command.setOptionValue('json', format === 'json'))
    .option('--debug', 'print the stack trace of an error')
    .showHelpAfterError('(--help shows the options and examples)')
    .addHelpText('after', `\nExamples:\n${examples.map((example) => `  ${example}`).join('\n')}`);
}

/** Adds the options that select the Temporal server. */
export function withServerOptions(command: Command): Command {
  return command
    .option(
      '--address <host:port>',
      'Temporal server (default: TEMPORAL_ADDRESS, as `join` stored it, the profile file, 127.0.0.1:7233)',
    )
    .option(
      '-n, --namespace <name>',
      'Temporal namespace (default: TEMPORAL_NAMESPACE, as `join` stored it, the profile file, "default")',
    );
}

/** Adds the argument that names a run. */
export function withRun(command: Command, argument = '<run>'): Command {
  return command.argument(
    argument,
    'Workflow ID, or a deployment: payments means deployment:payments; also as -w, --workflow-id',
  );
}

/** A deployment name means the Workflow ID that is its lock. A UUID stays unchanged: the Web UI proposes UUIDs as Workflow IDs. */
export function workflowIdOf(given: string): string {
  return /^(?![0-9a-f]{8}-([0-9a-f]{4}-){3})[a-z0-9-]+$/.test(given) ? deploymentWorkflowId(given) : given;
}

/** Reads a numeric option. The limit is what a timer accepts in seconds. */
export function number(text: string): number {
  const value = Number(text);
  if (value >= 0 && value <= 2_000_000) return value;
  throw new InvalidArgumentError('Use a number from 0 to 2000000.');
}

/** The limit is what a timer accepts. */
const LONGEST_MS = 2_000_000_000;

/** Reads a duration as the inventory writes it, such as `30s`, in ms. A number without a unit is in seconds. */
export function duration(text: string): number {
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1_000 : durationMs(text);
  if (ms !== undefined && ms <= LONGEST_MS) return ms;
  throw new InvalidArgumentError('Use a duration such as 30s, 10m or 2h; a number without a unit is in seconds.');
}

/** Collects the values of a repeatable option. */
export const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

/** Runs `work` with an open connection and always closes it. */
export async function withSession<T>(
  context: CliContext,
  options: ConnectionFlags,
  work: (session: TemporalSession) => Promise<T>,
): Promise<T> {
  // The Temporal packages take a large part of a second to load, and help needs none of them.
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- as above
  const { connectTemporal } = require('./run') as typeof runModule;
  const session = await connectTemporal(options, context.env);
  try {
    return await work(session);
  } catch (error) {
    throw await session.explain(error);
  } finally {
    await session.close();
  }
}

/** As {@link withSession}, for one run: `work` gets the Workflow ID that the given word means, and people are told if it is not a deployment's. */
export function withRunSession<T>(
  context: CliContext,
  options: ConnectionFlags,
  given: string,
  work: (session: TemporalSession, workflowId: string) => Promise<T>,
): Promise<T> {
  return withSession(context, options, async (session) => {
    const workflowId = workflowIdOf(given);
    if (workflowId === given) return work(session, given);
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- as in withSession
    const { hasRun } = require('./run') as typeof runModule;
    if ((await hasRun(session.client, workflowId)) || !(await hasRun(session.client, given)))
      return work(session, workflowId);
    context.err(`There is no run of a deployment "${given}". This is the run with the Workflow ID "${given}".`);
    return work(session, given);
  });
}

/**
 * Prints a result: one JSON object with `--json`, otherwise the lines.
 *
 * @param name - what the object is: its member `schema` is `replication-runbooks/<name>/v1`, unless it has one
 */
export function printResult(
  context: CliContext,
  options: CommonOptions,
  name: string,
  result: object,
  lines: readonly string[],
): void {
  for (const line of options.json === true ? [schemaText(name, result)] : lines) context.out(line);
}

/** A result as programs read it. */
export function schemaText(name: string, result: object): string {
  return jsonText({ schema: `replication-runbooks/${name}/v1`, ...result });
}

/** All commands in the order of the help, each with its summary and the file that contains it. */
const TABLE = {
  plan: ['show the plan: preconditions (observed and needed) and steps; makes no changes', 'start'],
  start: ['start a run and exit; "runbook watch" follows it', 'start'],
  runbooks: ['list the runbooks, or show the input fields of one', 'runbooks'],
  readiness: ['check whether a switchover and a failover would start now; makes no changes', 'start'],
  list: ['list the runs of this namespace, newest first', 'runs'],
  status: ['show what a run does and waits for; answers within seconds, even without a worker', 'runs'],
  watch: ['follow a run until it ends; the exit code shows how it ended', 'reports'],
  report: ['show what a run did; needs a worker if the run is open, failed or was terminated', 'reports'],
  waiting: ['show what waits for you: approvals, key shares, decisions', 'waiting'],
  share: ['give your key share to a run that asks for it; it leaves this machine only in encrypted form', 'share'],
  'provide-token': [
    'give a run the operation token that people generated themselves; it leaves this machine only in encrypted form',
    'share',
  ],
  invitation: ['print the invitation of a run, to pass on to holders who work offline', 'share'],
  'holder-page': [
    "write the holder's page: one HTML file for holders with only a browser; save it beforehand",
    'share',
  ],
  'approver-page': [
    "write the approver's page: one HTML file for approvers with only a browser; save it beforehand",
    'share',
  ],
  approve: ['approve or reject what a run will do next', 'statements'],
  decide: ['decide what happens with a parked step; "runbook status" lists the choices', 'statements'],
  pause: ['pause a run before its next step; during an outage, only once a cluster serves', 'statements'],
  resume: ['continue a paused run', 'statements'],
  abort: ['end a run at its next safe point, with its clean-ups and a report', 'statements'],
  'take-over': [
    'order a run to become a failover; to give the failover its own input, use "start drFailover --take-over"',
    'statements',
  ],
  init: ['set up a deployment: read the clusters, create keys, write the inventory and settings', 'init'],
  join: ["pin the workers' key and create your own, on your machine, from the line that operators sent you", 'keys'],
  doctor: ['show what is missing here, and how to fix each finding; makes no changes', 'doctor'],
  keys: ['manage the keys of people and workers', 'keys'],
  inventory: ['check the inventory file, or add people to it', 'inventory'],
  schedules: [
    'create, compare or remove the Schedules of Temporal that sample, check readiness and rotate batch tokens',
    'schedules',
  ],
  policy: ["print the policy that the workers' credential needs on the service; contacts no server", 'inventory'],
  worker: ['run workflows and activities until Ctrl-C; takes its settings from the environment', 'programs'],
  gateway: ['let people reach Temporal, and pass only what people need, until Ctrl-C', 'gateway'],
  simulator: ['run the simulated service from a topology file until Ctrl-C', 'programs'],
  dev: ['run a Temporal dev server, the simulated deployment "payments" and a worker until Ctrl-C', 'programs'],
} as const satisfies Readonly<Record<string, readonly [summary: string, file: CommandFile]>>;

/** The headings of the help, each before the command that its group begins with. */
const HEADINGS: Readonly<Partial<Record<keyof typeof TABLE, string>>> = {
  plan: 'Every day:',
  waiting: 'Holders and approvers:',
  init: 'Set-up:',
  worker: 'Programs:',
};

/** The heading above each command in the help. */
export const GROUPS: ReadonlyMap<string, string> = groupsOf(Object.keys(TABLE) as (keyof typeof TABLE)[]);

function groupsOf(names: readonly (keyof typeof TABLE)[]): Map<string, string> {
  let heading = '';
  return new Map(names.map((name) => [name, (heading = HEADINGS[name] ?? heading)]));
}

const PRESENT = Object.entries(TABLE).filter(([name]) => !LEFT_OUT.includes(name));

/** The summary of each command, in the order of the help. */
export const SUMMARIES: Readonly<Record<string, string>> = Object.fromEntries(
  PRESENT.map(([name, [summary]]) => [name, summary]),
);

/** The commands of the file that contains the named command; all commands if no name is given. */
export function loadCommands(host: CommandHost, name?: string): readonly Command[] {
  const files = PRESENT.flatMap(([each, [, file]]) => (name === undefined || each === name ? file : []));
  return [...new Set(files)]
    .flatMap((file) => COMMAND_FILES[file]().commands(host))
    .filter((command) => !LEFT_OUT.includes(command.name()));
}
