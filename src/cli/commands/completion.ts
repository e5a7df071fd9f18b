import { Argument } from 'commander';
import type { Command } from 'commander';
import { RUNBOOK_NAMES } from '../../contracts/names';
import { newCommand } from '../command';
import type { CommandHost } from '../command';
import { loadCommands } from '../command-table';

export const commands = (host: CommandHost): Command[] => [completionCommand(host)];

/** `runbook completion`: a script for a shell, made of the commands as they are. */
function completionCommand(host: CommandHost): Command {
  return newCommand('completion', [
    'source <(runbook completion bash)',
    'source <(runbook completion zsh)',
    'runbook completion fish | source',
  ])
    .addArgument(new Argument('<shell>').choices(['bash', 'zsh', 'fish']))
    .action((shell: 'bash' | 'zsh' | 'fish') => {
      const words = new Map(loadCommands(host).map((command) => [command.name(), wordsOf(command)]));
      for (const line of shell === 'fish' ? fishLines(words) : bashLines(words, shell)) host.context.out(line);
    });
}

/** What may follow a command: its own commands, runbooks where it takes one, its options. */
function wordsOf(command: Command): string[] {
  const takesRunbook = command.registeredArguments.some((argument) => argument.name() === 'runbook');
  const all = [command, ...command.commands];
  return [
    ...command.commands.map((each) => each.name()),
    ...(takesRunbook ? RUNBOOK_NAMES : []),
    ...new Set(all.flatMap((each) => each.options.map(({ long }) => long ?? ''))),
  ];
}

type Words = ReadonlyMap<string, readonly string[]>;

function bashLines(words: Words, shell: 'bash' | 'zsh'): string[] {
  return [
    ...(shell === 'zsh' ? ['autoload -U +X compinit && compinit', 'autoload -U +X bashcompinit && bashcompinit'] : []),
    '_runbook() {',
    '  local words',
    '  case "$COMP_CWORD:${COMP_WORDS[1]}" in',
    `    1:*) words="${[...words.keys()].join(' ')}" ;;`,
    ...[...words].map(([name, each]) => `    *:${name}) words="${each.join(' ')}" ;;`),
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    'complete -o default -F _runbook runbook',
  ];
}

function fishLines(words: Words): string[] {
  return [
    `complete -c runbook -n __fish_use_subcommand -a '${[...words.keys()].join(' ')}'`,
    ...[...words].map(
      ([name, each]) => `complete -c runbook -n '__fish_seen_subcommand_from ${name}' -a '${each.join(' ')}'`,
    ),
  ];
}
