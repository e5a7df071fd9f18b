import { ApplicationFailure, WorkflowFailedError } from '@temporalio/client';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import type { Command } from 'commander';
import { PLAN_ID, RUNBOOK_NAMES } from '../../contracts/names';
import type { RunbookName } from '../../contracts/names';
import { commandsFor, shellWord } from '../../contracts/next-commands';
import { newCommand, number, printResult, withRun, withRunSession, withServerOptions, withSession } from '../command';
import type { ServerOptions } from '../command';
import { EXIT } from '../errors';
import { statusLines } from '../render-status';
import { showDeployment } from '../deployment-status';
import { describe } from '../run';
import type { RunReference, TemporalSession } from '../run';
import { isRunbookError } from '../../errors';
import { NAME_OPTION, gatewayOf, overTemporal, withPersonOptions, withRuns } from '../run-session';
import type { RunOptions, RunSession } from '../run-session';
import { durationText, inLines } from '../../contracts/words';
import { runOutcome } from '../../contracts/run-facts';
import type { RunOutcome } from '../../contracts/run-facts';
import { fieldsOf, textOf } from '../../report/run-record';
import { columns } from '../text';
import type { CommandHost } from '../command-host';

export const commands = (host: CommandHost): Command[] => [listCommand(host), statusCommand(host)];

interface ListOptions extends ServerOptions {
  readonly open?: boolean;
  readonly all?: boolean;
  readonly limit: number;
}

/** `runbook list`: the newest runs of the namespace. */
function listCommand({ context }: CommandHost): Command {
  const command = newCommand('list', ['runbook list', 'runbook list --open --json'])
    .option('--open', 'only runs that have not ended')
    .option('--all', 'also samplers, plans and readings of a status')
    .option('--limit <number>', 'maximum number of runs', number, 30);
  return withServerOptions(command).action(async (options: ListOptions) => {
    const runs = await withSession(context, options, (session) => readRuns(session, options));
    // Anybody who can write to the namespace can choose IDs and memos.
    const rows = inLines(runs).map((run) => [
      ...[shellWord(run.workflowId), run.runbook, run.deployment ?? '-', stateText(run)],
      ...[`${run.startedAt.slice(0, 19).replace('T', ' ')}Z`, durationText(run.durationMs), run.waitingFor ?? ''],
    ]);
    const head = ['WORKFLOW ID', 'RUNBOOK', 'DEPLOYMENT', 'STATE', 'STARTED', 'DURATION', 'WAITS FOR'];
    const none = options.all === true ? 'No runs.' : 'No runs. Samplers and plans: runbook list --all';
    printResult(context, options, 'list', { runs }, rows.length === 0 ? [none] : columns([head, ...rows]));
    if (options.json !== true && runs.some(({ state, outcome }) => state === 'failed' && outcome === undefined))
      context.err('Whether a failed run had changed anything: runbook report WORKFLOW-ID');
  });
}

/** Runs that only read and are many. */
const READING: readonly RunbookName[] = ['walSampler', 'deploymentStatus'];

/** The newest runs, as far as Temporal knows them without a worker. */
async function readRuns({ client }: TemporalSession, { open, all, limit }: ListOptions) {
  const types = RUNBOOK_NAMES.filter((name) => all === true || !READING.includes(name)).map((name) => `'${name}'`);
  const query = [
    `WorkflowType IN (${types.join(', ')})`,
    ...(all === true ? [] : [`WorkflowId NOT STARTS_WITH '${PLAN_ID}'`]),
    ...(open === true ? ["ExecutionStatus = 'Running'"] : []),
  ].join(' AND ');
  const found: WorkflowExecutionInfo[] = [];
  for await (const run of client.workflow.list({ query })) {
    if (found.length >= limit) break;
    found.push(run);
  }
  const runs = [];
  while (runs.length < found.length)
    runs.push(
      ...(await Promise.all(found.slice(runs.length, runs.length + AT_ONCE).map((run) => listed(client, run)))),
    );
  return runs;
}

/** How many ends of runs are read at once. */
const AT_ONCE = 10;
const END_DEADLINE_MS = 5_000;

async function listed(client: Client, run: WorkflowExecutionInfo) {
  const { workflowId, runId, type, status, startTime, closeTime, memo } = run;
  const noted = (name: string) => textOf(memo?.[name]);
  const told = runOutcome.safeParse(memo?.['outcome']).data;
  // The code of a failure is in the result only.
  const end = told === undefined || status.name === 'FAILED' ? await readEnd(client, run) : {};
  return {
    ...{ workflowId, runId, runbook: RUNBOOK_NAMES.find((name) => name === memo?.['runbook']) ?? type },
    ...{ deployment: noted('deployment') ?? end.deployment, state: status.name.toLowerCase() },
    // An ended run waits for nothing, whatever its memo says.
    ...(status.name === 'RUNNING' && { phase: noted('phase'), waitingFor: noted('waitingFor') }),
    ...{ outcome: told ?? end.outcome, failure: end.failure, startedAt: startTime.toISOString() },
    ...{ endedAt: closeTime?.toISOString(), durationMs: (closeTime?.getTime() ?? Date.now()) - startTime.getTime() },
  };
}

interface End {
  readonly outcome?: RunOutcome | undefined;
  readonly deployment?: string | undefined;
  /** The code of the error that the run failed with. */
  readonly failure?: string | undefined;
}

/** What the last event of an ended run says. A run that was ended from outside, or whose history is gone, says nothing. */
async function readEnd(client: Client, { workflowId, runId, status }: WorkflowExecutionInfo): Promise<End> {
  if (status.name !== 'COMPLETED' && status.name !== 'FAILED') return {};
  const handle = client.workflow.getHandle<() => Promise<unknown>>(workflowId, runId, { followRuns: false });
  try {
    const result = fieldsOf(await client.withDeadline(Date.now() + END_DEADLINE_MS, () => handle.result()));
    return { outcome: runOutcome.safeParse(result['outcome']).data, deployment: textOf(result['deployment']) };
  } catch (error) {
    const cause = error instanceof WorkflowFailedError ? error.cause : undefined;
    return { failure: cause instanceof ApplicationFailure ? (cause.type ?? undefined) : undefined };
  }
}

/** What a run does, or how it ended. */
function stateText({ state, phase, outcome, failure }: Awaited<ReturnType<typeof listed>>): string {
  if (state === 'running') return phase === undefined ? state : `${state}: ${phase}`;
  if (state === 'failed') return [outcome ?? state, ...(failure === undefined ? [] : [failure])].join(': ');
  if (state !== 'completed') return state;
  return outcome ?? 'ended, outcome unknown';
}

/**
 * `runbook status`: what a run does, what it waits for, and the exact command for each missing person. Of a deployment without
 * an open run: its clusters, and what earlier runs left.
 */
function statusCommand(host: CommandHost): Command {
  const command = newCommand('status', [
    'runbook status payments   (without an open run: its clusters)',
    'runbook status deployment:payments --json',
    'runbook status payments --gateway https://runbooks.example:8421   (without access to Temporal)',
  ])
    .option('-r, --run-id <id>', 'an earlier run of this Workflow ID')
    .option('--name <name>', `with --gateway: ${NAME_OPTION[1]}`);
  return withPersonOptions(withServerOptions(withRun(command))).action(
    async (given: string, options: RunOptions & { runId?: string }) => {
      const { runId } = options;
      const { context } = host;
      if (gatewayOf(context, options) !== undefined)
        return withRuns(context, options, given, (session, workflowId) =>
          showRun(host, session, { workflowId, runId }, options),
        );
      await withRunSession(context, options, given, async (session, workflowId) => {
        // Only a word that means a deployment; its Workflow ID means the newest run under it, open or not.
        const isDeployment = workflowId !== given && runId === undefined;
        if (isDeployment && !(await isOpen(session, workflowId))) return showDeployment(host, session, given, options);
        return showRun(host, overTemporal(context, options, session), { workflowId, runId }, options);
      });
    },
  );
}

async function isOpen({ client }: TemporalSession, workflowId: string): Promise<boolean> {
  const found = await describe(client, { workflowId }).catch((error: unknown) => {
    if (isRunbookError(error, 'NOT_FOUND')) return undefined;
    throw error;
  });
  return found?.status.name === 'RUNNING';
}

async function showRun(
  { context, finish }: CommandHost,
  session: Pick<RunSession, 'view'>,
  run: RunReference,
  options: ServerOptions,
): Promise<void> {
  const view = await session.view(run);
  const answered = view.status !== undefined;
  const next = view.status?.waiting.flatMap((each) => commandsFor(view.workflowId, each)) ?? [];
  printResult(context, options, 'status', { ...view, answered, next }, statusLines(view));
  // The exit code reports it too: the shown state is as old as the last event.
  if (!answered && view.state === 'running') finish(EXIT.pending);
}
