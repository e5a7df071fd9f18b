import type { Command } from 'commander';
import { RUNBOOK_NAMES } from '../../contracts/names';
import { commandsFor, shellWord } from '../../contracts/next-commands';
import { newCommand, number, printResult, withRun, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { EXIT } from '../errors';
import { statusLines } from '../render-status';
import { readRunView } from '../run';
import { inLines } from '../../contracts/words';
import { columns } from '../text';

export const commands = (host: CommandHost): Command[] => [listCommand(host), statusCommand(host)];

/** `runbook list`: the newest runs of the namespace. */
function listCommand({ context }: CommandHost): Command {
  const command = newCommand('list', ['runbook list', 'runbook list --open --json'])
    .option('--open', 'only runs that have not ended')
    .option('--limit <number>', 'maximum number of runs', number, 30);
  return withServerOptions(command).action(async (options: ServerOptions & { open?: boolean; limit: number }) => {
    const types = RUNBOOK_NAMES.map((name) => `'${name}'`).join(', ');
    const query = `WorkflowType IN (${types})${options.open === true ? " AND ExecutionStatus = 'Running'" : ''}`;
    const runs = await withSession(context, options, async ({ client }) => {
      const found = [];
      for await (const { workflowId, runId, type, status, startTime, memo } of client.workflow.list({ query })) {
        if (found.length >= options.limit) break;
        const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
        found.push({
          ...{ workflowId, runId, runbook: RUNBOOK_NAMES.find((name) => name === memo?.['runbook']) ?? type },
          ...{ state: status.name.toLowerCase(), startedAt: startTime.toISOString() },
          // An ended run waits for nothing, whatever its memo says.
          ...(status.name === 'RUNNING' && {
            phase: text(memo?.['phase']),
            waitingFor: text(memo?.['waitingFor']),
          }),
        });
      }
      return found;
    });
    // Anybody who can write to the namespace can choose IDs and memos.
    const rows = inLines(runs).map(({ workflowId, runbook, state, phase = '', startedAt, waitingFor = '' }) => {
      return [shellWord(workflowId), runbook, state, phase, startedAt, waitingFor];
    });
    printResult(context, options, runs, rows.length === 0 ? ['No runs.'] : columns(rows));
  });
}

/** `runbook status`: what a run does, what it waits for, and the exact command for each missing person. */
function statusCommand({ context, finish }: CommandHost): Command {
  const command = newCommand('status', [
    'runbook status deployment:payments',
    'runbook status deployment:payments --json',
  ]).option('--run-id <id>', 'an earlier run of this Workflow ID');
  return withServerOptions(withRun(command)).action(
    async (workflowId: string, options: ServerOptions & { runId?: string }) => {
      const { runId } = options;
      const view = await withSession(context, options, (session) => readRunView(session, { workflowId, runId }));
      const answered = view.status !== undefined;
      const next = view.status?.waiting.flatMap((each) => commandsFor(view.workflowId, each)) ?? [];
      printResult(context, options, { ...view, answered, next }, statusLines(view));
      // The exit code reports it too: the shown state is as old as the last event.
      if (!answered && view.state === 'running') finish(EXIT.pending);
    },
  );
}
