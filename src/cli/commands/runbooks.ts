import type { Command } from 'commander';
import { RUNBOOK_NAMES } from '../../contracts/names';
import { RUNBOOK_PURPOSES } from '../../contracts/runbook-purposes';
import { newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';
import { inputFields, runbookName } from '../run-input';
import { columns } from '../text';

export const commands = (host: CommandHost): Command[] => [runbooksCommand(host)];

/** `runbook runbooks`: what there is, and the fields of one runbook's input. Needs no server. */
function runbooksCommand({ context }: CommandHost): Command {
  return newCommand('runbooks', ['runbook runbooks', 'runbook runbooks drFailover'])
    .argument('[runbook]', 'one of them: prints every field of its input')
    .action((name: string | undefined, options: CommonOptions) => {
      if (name === undefined) {
        const all = RUNBOOK_NAMES.map((each) => ({ name: each, purpose: RUNBOOK_PURPOSES[each] }));
        printResult(context, options, all, columns(all.map((each) => [each.name, each.purpose])));
        return;
      }
      const runbook = runbookName(name);
      const fields = inputFields(runbook);
      printResult(context, options, { runbook, purpose: RUNBOOK_PURPOSES[runbook], fields }, [
        `${runbook}: ${RUNBOOK_PURPOSES[runbook]}`,
        '',
        ...columns(
          fields.map((field) => {
            const without = field.default === undefined ? 'optional' : `default ${field.default}`;
            return [`  ${field.name}`, field.type, field.required ? 'required' : without];
          }),
        ),
      ]);
    });
}
