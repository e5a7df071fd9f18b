import { Command, CommanderError } from 'commander';
import { programVersion } from '../dev-server/locations';
import type { CliContext } from './context';
import { GROUPS, SUMMARIES, loadCommands } from './command';
import { LEFT_OUT } from './command-files';
import { EXIT, exitCodeOf, printError } from './errors';
import type { ExitCode } from './errors';
import { RunbookError } from '../errors';
import { processFacts, refuseUnsafeStart } from '../process-guard';
import { terminalLine } from '../contracts/words';
import { environmentLines } from './environment';
import { withPersonalSettings } from './personal-settings';
import { colored, wrapped } from './text';
import type { CommandHost } from './command-host';

/**
 * The command line, with every command's action bound to `host`.
 *
 * @param only - loads only the command of this name. If no command has this name, all commands are added with name and
 *   summary only, as the help needs them. If absent, all commands are loaded completely.
 */
export function buildProgram(host: CommandHost, only?: string): Command {
  const program = new Command('runbook')
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .version(programVersion(), '-V, --version', 'print the version')
    .description('Durable runbooks for the replication administration interface of HashiCorp Vault Enterprise')
    .addHelpText(
      'after',
      `
A switchover, by role:
  operator
    runbook plan drSwitchover --deployment payments --to west --reason planned
    runbook start drSwitchover --deployment payments --to west --reason planned
    runbook watch payments
  holders
    runbook share payments --holder NAME
  approver
    runbook approve payments --gate plan --name NAME
  anyone
    runbook status payments

Exit codes:
  0 done                 1 failed           2 wrong command line   3 refused
  4 not finished, or no answer yet          5 not found
  6 the run ended in another way (aborted, rolled back)
  7 ready with warnings (readiness, doctor, inventory check --live, schedules)
  8 the run did what was asked; something critical is left to do

Variables: runbook help environment${
        LEFT_OUT.length === 0 ? '' : `\n\nOnly the package for worker hosts has: ${LEFT_OUT.join(', ')}.`
      }`,
    );
  if (only === undefined || Object.hasOwn(SUMMARIES, only)) {
    for (const command of loadCommands(host, only)) program.addCommand(command);
  } else {
    for (const [name, summary] of Object.entries(SUMMARIES)) program.command(name).description(summary);
  }
  program.commandsGroup('Help:').helpCommand('help [command]', 'help for a command, or "help environment"');
  for (const command of program.commands) command.helpGroup(GROUPS.get(command.name()) ?? '');
  settle(program, host.context);
  return program;
}

/** A key ID, public key or plan digest that begins with a hyphen: one in 64 does. No option is as long. */
const HYPHENATED = /^-[A-Za-z0-9_-]{42}(?::[A-Za-z0-9_-]{43})?$/;

/** @throws RunbookError `INVALID_INPUT` for a command that only the package for worker hosts has */
function refuseLeftOut(name: string): void {
  if (!LEFT_OUT.includes(name)) return;
  throw new RunbookError('INVALID_INPUT', `"runbook ${name}" is not in this file, which has the commands of people.`, {
    needed: 'the package for worker hosts',
    next: 'Run it on a worker host, where the operators installed the package (docs/first-hour.md).',
  });
}

/** The topic of the help that is no command. */
const ENVIRONMENT = 'environment';

const asksForJson = (words: readonly string[]): boolean =>
  words.some((word, index) => ['--json', '-ojson'].includes(word) || (word === '-o' && words[index + 1] === 'json'));

/** A run that is named by `-w`, as in the `temporal` CLI, is what the command's argument names. */
function runAsArgument(program: Command, words: readonly string[]): readonly string[] {
  const command = program.commands.find((each) => each.name() === words[0]);
  if (command?.registeredArguments[0]?.name() !== 'run') return words;
  return words.flatMap((word) => (/^(-w|--workflow-id)$/.test(word) ? [] : word.replace(/^--workflow-id=/, '')));
}

/** Makes commands write through the context, and throw instead of ending the process. */
function settle(command: Command, context: CliContext): void {
  command.exitOverride().configureOutput({
    writeOut: (text) => text.replace(/\n$/, '').split('\n').forEach(context.out),
    writeErr: (text) => text.replace(/\n$/, '').split('\n').forEach(context.err),
  });
  for (const each of command.commands) settle(each, context);
}

/** A line as the terminal shows it. Colors apply to the first line only; a continuation may be text from others. */
function shown(context: CliContext, to: 'out' | 'err', line: string): string[] {
  const [first = '', ...more] = wrapped(terminalLine(line), context.columns?.()[to]);
  return [context.colors?.()[to] === true ? colored(first) : first, ...more];
}

/** The same context, in which every line stays one line, whatever text from others it contains. */
export function lineByLine(context: CliContext): CliContext {
  return {
    ...context,
    out: (line) => shown(context, 'out', line).forEach((each) => context.out(each)),
    err: (line) => shown(context, 'err', line).forEach((each) => context.err(each)),
    ask: (question) => context.ask(terminalLine(question)),
    askHidden: (question) => context.askHidden(terminalLine(question)),
  };
}

/** Programs and set-up take nothing from a person's settings; `join` writes them. */
const WITHOUT_SETTINGS = ['join', 'init', 'worker', 'gateway', 'simulator', 'dev'];

/** The same context, with a person's stored settings once a command asks for its environment. */
function withSettings(context: CliContext, command: string): CliContext {
  let settled = WITHOUT_SETTINGS.includes(command) ? context.env : undefined;
  return {
    ...context,
    get env() {
      return (settled ??= withPersonalSettings(context.env));
    },
  };
}

/** Runs one command line. Never throws: errors are printed and mapped to the exit code. */
export async function runCli(words: readonly string[], given: CliContext): Promise<ExitCode> {
  const asked = (words[0] === 'help' ? words[1] : words[0]) ?? '';
  const context = withSettings(lineByLine(given), asked);
  let code: ExitCode = EXIT.ok;
  const program = buildProgram({ context, finish: (given) => (code = given) }, asked);
  try {
    refuseUnsafeStart(processFacts(given.env));
    refuseLeftOut(asked);
    // A leading space keeps such a word from being parsed as an option. The commands trim it.
    const parsed = runAsArgument(program, words).map((word) => (HYPHENATED.test(word) ? ` ${word}` : word));
    if (asked === ENVIRONMENT && words[0] === 'help') {
      environmentLines(given.env).forEach(context.out);
      return EXIT.ok;
    }
    await program.parseAsync(parsed, { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) {
      return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    }
    printError(context, error, { json: asksForJson(words), debug: words.includes('--debug') });
    return exitCodeOf(error);
  }
}
