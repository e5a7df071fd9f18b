import type { Command } from 'commander';
import { RUNBOOK_NAMES } from '../../contracts/names';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { EXIT } from '../exit-codes';
import { nextCommands } from '../../contracts/next-commands';
import { statusLines } from '../render-status';
import { readRunView } from '../run-view';
import { columns } from '../text';

export const commands = (host: CommandHost): Command[] => [listCommand(host), statusCommand(host)];

/** A line of `runbook list`. */
interface ListedRun {
  readonly workflowId: string;
  readonly runId: string;
  readonly runbook: string;
  readonly state: string;
  readonly startedAt: string;
  readonly phase?: string;
  readonly waitingFor?: string;
}

/** `runbook list`: the newest runs of the namespace. */
function listCommand(host: CommandHost): Command {
  const command = newCommand('list', ['runbook list', 'runbook list --open --json'])
    .option('--open', 'only runs that have not ended')
    .option('--limit <number>', 'at most so many', '30');
  return withServerOptions(command).action(async (options: ServerOptions & { open?: boolean; limit: string }) => {
    await withSession(host.context, options, async ({ client }) => {
      const types = RUNBOOK_NAMES.map((name) => `'${name}'`).join(', ');
      const query = `WorkflowType IN (${types})${options.open === true ? " AND ExecutionStatus = 'Running'" : ''}`;
      const runs: ListedRun[] = [];
      for await (const run of client.workflow.list({ query, pageSize: 100 })) {
        if (runs.length >= Number(options.limit)) break;
        runs.push({
          workflowId: run.workflowId,
          runId: run.runId,
          runbook: run.type,
          state: run.status.name.toLowerCase(),
          startedAt: run.startTime.toISOString(),
          ...textMember(run.memo, 'phase'),
          ...textMember(run.memo, 'waitingFor'),
        });
      }
      const rows = runs.map((run) => [
        run.workflowId,
        run.runbook,
        run.state,
        run.phase ?? '',
        run.startedAt,
        run.waitingFor ?? '',
      ]);
      printResult(host.context, options, runs, rows.length === 0 ? ['No runs.'] : columns(rows));
    });
  });
}

function textMember<K extends string>(memo: Record<string, unknown> | undefined, name: K): { [member in K]?: string } {
  const value = memo?.[name];
  // The computed name is the one that was asked for.
  return typeof value === 'string' ? ({ [name]: value } as { [member in K]: string }) : {};
}

/** `runbook status`: what a run does, what it waits for, and the exact command for each missing person. */
function statusCommand(host: CommandHost): Command {
  const command = newCommand('status', [
    'runbook status deployment:payments',
    'runbook status deployment:payments --json',
  ])
    .argument('<workflowId>', 'for example deployment:payments')
    .option('--run-id <id>', 'an earlier run of this Workflow ID');
  return withServerOptions(command).action(async (workflowId: string, options: ServerOptions & { runId?: string }) => {
    await withSession(host.context, options, async (session) => {
      const view = await readRunView(session, {
        workflowId,
        ...(options.runId === undefined ? {} : { runId: options.runId }),
      });
      const next = view.status === undefined ? [] : nextCommands(view.status);
      printResult(host.context, options, { ...view, answered: view.status !== undefined, next }, statusLines(view));
      // Said by exit code too: what is shown is as old as the last event.
      if (view.status === undefined && view.state === 'running') host.finish(EXIT.pending);
    });
  });
}
