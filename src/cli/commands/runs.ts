import { setTimeout as delay } from 'node:timers/promises';
import { Option } from 'commander';
import type { Command } from 'commander';
import { RUNBOOK_NAMES } from '../../contracts/names';
import { nextCommands, nextCommandOf } from '../../contracts/next-commands';
import type { Report } from '../../contracts/report';
import { RunbookError } from '../../errors';
import { renderHtml } from '../../report/render-html';
import { renderMarkdown } from '../../report/render-markdown';
import { writeReportFiles } from '../../report/report-files';
import { newCommand, printResult, withRun, withServerOptions, withSession, seconds, workflowIdOf } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import type { CliContext } from '../context';
import { EXIT, exitCodeOfOutcome } from '../errors';
import type { ExitCode } from '../errors';
import { readReport, summaryLines, readProvableReport, verifyReport } from '../read-report';
import { statusLines, Progress } from '../render-status';
import { readRunView } from '../run';
import type { RunReference, TemporalSession } from '../run';
import { columns, jsonText } from '../text';

export const commands = (host: CommandHost): Command[] => [
  listCommand(host),
  statusCommand(host),
  watchCommand(host),
  reportCommand(host),
];

/** `runbook list`: the newest runs of the namespace. */
function listCommand({ context }: CommandHost): Command {
  const command = newCommand('list', ['runbook list', 'runbook list --open --json'])
    .option('--open', 'only runs that have not ended')
    .option('--limit <number>', 'at most so many', '30');
  return withServerOptions(command).action(async (options: ServerOptions & { open?: boolean; limit: string }) => {
    const types = RUNBOOK_NAMES.map((name) => `'${name}'`).join(', ');
    const query = `WorkflowType IN (${types})${options.open === true ? " AND ExecutionStatus = 'Running'" : ''}`;
    const runs = await withSession(context, options, async ({ client }) => {
      const found = [];
      for await (const { workflowId, runId, type, status, startTime, memo } of client.workflow.list({ query })) {
        if (found.length >= Number(options.limit)) break;
        const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
        found.push({
          ...{ workflowId, runId, runbook: type },
          ...{ state: status.name.toLowerCase(), startedAt: startTime.toISOString() },
          // What a run that has ended waited for last says nothing.
          ...(status.name === 'RUNNING' && {
            phase: text(memo?.['phase']),
            waitingFor: text(memo?.['waitingFor']),
          }),
        });
      }
      return found;
    });
    const rows = runs.map(({ workflowId, runbook, state, phase = '', startedAt, waitingFor = '' }) => {
      return [workflowId, runbook, state, phase, startedAt, waitingFor];
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
      const next = view.status === undefined ? [] : nextCommands(view.status);
      printResult(context, options, { ...view, answered, next }, statusLines(view));
      // The exit code says it too: what is shown is as old as the last event.
      if (!answered && view.state === 'running') finish(EXIT.pending);
    },
  );
}

interface WatchOptions extends ServerOptions {
  readonly runId?: string;
  readonly timeout?: number;
}

const POLL_MS = 500;

/** `runbook watch`: live progress until the run ends; the exit code tells how it ended. */
function watchCommand(host: CommandHost): Command {
  const command = newCommand('watch', [
    'runbook watch deployment:payments',
    'runbook watch deployment:payments --timeout 600 --json   (one JSON object per line, the report last)',
  ])
    .option('--run-id <id>', 'an earlier run of this Workflow ID')
    .option('--timeout <seconds>', 'give up watching after so long; the run goes on', seconds);
  return withServerOptions(withRun(command)).action(async (workflowId: string, options: WatchOptions) => {
    const run = { workflowId, runId: options.runId };
    await withSession(host.context, options, async (session) => {
      host.finish(await watchRun(host.context, session, run, options));
    });
  });
}

/** Follows one run until it ends, the time is over, or the person ends the command. */
async function watchRun(
  context: CliContext,
  session: TemporalSession,
  run: RunReference,
  { json, timeout }: WatchOptions,
): Promise<ExitCode> {
  const deadline = timeout === undefined ? Infinity : Date.now() + timeout * 1000;
  const progress = new Progress();
  let view = await readRunView(session, run);
  // From here on the same run is meant, also when another one starts under this Workflow ID.
  const same = { workflowId: view.workflowId, runId: view.runId };
  for (;;) {
    for (const line of progress.lines(view)) context.out(json === true ? jsonText({ progress: line }) : line);
    if (view.state !== 'running') break;
    if (Date.now() >= deadline || context.stop.aborted) {
      context.err(`Not watching any more; the run goes on: ${nextCommandOf.status(run.workflowId)}`);
      return EXIT.pending;
    }
    await delay(POLL_MS, undefined, { signal: context.stop }).catch(() => undefined);
    view = await readRunView(session, same, { repeatedly: true });
  }
  const report = await readReport(session, same);
  if (json === true) context.out(jsonText({ report }));
  else for (const line of summaryLines(report)) context.out(line);
  return exitCodeOfOutcome(report.outcome);
}

interface ReportOptions extends ServerOptions {
  readonly runId?: string;
  readonly format?: Format;
  readonly output?: string;
  readonly verify?: string;
}

const RENDERERS = { md: renderMarkdown, html: renderHtml, json: (report: Report) => jsonText(report, 2) } as const;
type Format = keyof typeof RENDERERS;

/** `runbook report`: what a run did, also of one that is open or was terminated. */
function reportCommand(host: CommandHost): Command {
  const { context } = host;
  const command = newCommand('report', [
    'runbook report deployment:payments',
    'runbook report deployment:payments --format html > report.html',
    'runbook report deployment:payments --output reports   (JSON, Markdown and HTML files)',
    'runbook report --verify report.html   (is it the history that the server has, and what the run says?)',
  ])
    .argument('[run]', 'its Workflow ID, or its deployment: payments is deployment:payments', workflowIdOf)
    .option('--run-id <id>', 'an earlier run of this Workflow ID (default: the newest)')
    .addOption(new Option('--format <format>', 'default: md, or json with --json').choices(Object.keys(RENDERERS)))
    .option('--output <directory>', 'write files there and print their paths')
    .option('--verify <file>', 'prove a report that this command made, in any format');
  return withServerOptions(command).action(async (workflowId: string | undefined, options: ReportOptions) => {
    const { runId, format = options.json === true ? 'json' : 'md', output, verify } = options;
    if (verify !== undefined) return verifyFile(host, verify, options);
    if (workflowId === undefined)
      throw new RunbookError('INVALID_INPUT', 'Which run? Give its Workflow ID, or --verify FILE.');
    const report = await withSession(context, options, (session) => readProvableReport(session, { workflowId, runId }));
    if (output === undefined) {
      for (const line of RENDERERS[format](report).trimEnd().split('\n')) context.out(line);
      return;
    }
    const files = await writeReportFiles(report, output);
    printResult(context, options, { files }, files);
  });
}

/** Says what is proven, also where the rest is not; 0 is for all of it alone. */
async function verifyFile({ context, finish }: CommandHost, file: string, options: ServerOptions): Promise<void> {
  const proven: string[] = [];
  try {
    const what = await withSession(context, options, (session) =>
      verifyReport(session, file, RENDERERS, (line) => proven.push(line)),
    );
    finish(what === 'all' ? EXIT.ok : EXIT.pending);
  } finally {
    printResult(context, options, { proven }, proven);
  }
}
