import { setTimeout as delay } from 'node:timers/promises';
import { Option } from 'commander';
import type { Command } from 'commander';
import { nextCommandOf, shellLine } from '../../contracts/next-commands';
import { reportSchema } from '../../contracts/report';
import type { Report } from '../../contracts/report';
import { RunbookError, isRunbookError } from '../../errors';
import { RUNBOOK_NAMES, holdsDeploymentLock } from '../../contracts/names';
import { tableOf } from '../deployment-status';
import { renderHtml, renderMarkdown } from '../../report/render';
import { digestOf, markIn } from '../../report/run-history';
import {
  newCommand,
  printResult,
  schemaText,
  withRun,
  withRunSession,
  withServerOptions,
  withSession,
  duration,
} from '../command';
import type { ServerOptions } from '../command';
import type { CliContext } from '../context';
import { EXIT, exitCodeOfRun, isNoRun } from '../errors';
import type { ExitCode } from '../errors';
import { readReport, summaryLines, timeLineLines } from '../read-report';
import { Progress } from '../render-status';
import { describe, readRunView } from '../run';
import type { RunReference, RunView, TemporalSession } from '../run';
import { readTextFile } from '../secret-input';
import type { CommandHost } from '../command-host';
import { clock, escapeUntrusted, inLines, jsonText } from '../../contracts/words';

export const commands = (host: CommandHost): Command[] => [watchCommand(host), reportCommand(host)];

interface WatchOptions extends ServerOptions {
  readonly runId?: string;
  readonly timeout?: number;
}

const POLL_MS = 500;

/** `runbook watch`: live progress until the run ends; the exit code shows how it ended. */
function watchCommand(host: CommandHost): Command {
  const command = newCommand('watch', [
    'runbook watch deployment:payments',
    'runbook watch deployment:payments --timeout 10m --json   (one JSON object per line, the report last)',
  ])
    .option('-r, --run-id <id>', 'an earlier run of this Workflow ID')
    .option('--timeout <duration>', 'stop watching after this time, such as 10m; the run continues', duration);
  return withServerOptions(withRun(command)).action(async (given: string, options: WatchOptions) => {
    await withRunSession(host.context, options, given, async (session, workflowId) => {
      const run = { workflowId, runId: options.runId };
      host.finish(await watchRun(host.context, session, run, options));
    });
  });
}

/** Follows one run until it ends, the time expires, or the person ends the command. */
async function watchRun(
  context: CliContext,
  session: TemporalSession,
  run: RunReference,
  { json, timeout }: WatchOptions,
): Promise<ExitCode> {
  const deadline = timeout === undefined ? Infinity : Date.now() + timeout;
  const progress = new Progress();
  let view = await readRunView(session, run);
  // From here on, follow the same run even if another one starts under this Workflow ID.
  const same = { workflowId: view.workflowId, runId: view.runId };
  let before: readonly string[] | undefined;
  for (;;) {
    for (const line of progress.lines(view))
      context.out(json === true ? schemaText('watch', { progress: line }) : line);
    if (before === undefined && json !== true && hasReadClusters(view)) {
      before = await clustersBefore(session, same);
      before.forEach(context.out);
    }
    if (view.state !== 'running') break;
    if (Date.now() >= deadline || context.stop.aborted) {
      context.err(`Stopped watching; the run continues: ${nextCommandOf.status(run.workflowId)}`);
      return EXIT.pending;
    }
    await delay(POLL_MS, undefined, { signal: context.stop }).catch(() => undefined);
    view = await readRunView(session, same, { repeatedly: true });
  }
  const report = await readReport(session, same);
  if (json === true) context.out(schemaText('watch', { report }));
  else
    for (const line of [...clusterLines(report), ...summaryLines(report), ...timeLineLines(report)]) context.out(line);
  return exitCodeOfRun(report);
}

const mayChangeRoles = (runbook: string): boolean =>
  RUNBOOK_NAMES.some((name) => name === runbook && holdsDeploymentLock(name));

/** Whether a run that may change roles has read the clusters. */
function hasReadClusters({ runbook, status }: RunView): boolean {
  return mayChangeRoles(runbook) && status !== undefined && status.phase !== 'checking' && status.phase !== 'finished';
}

/** The clusters as the run read them last; without a worker that answers, they are shown at the end. */
async function clustersBefore(session: TemporalSession, run: RunReference): Promise<readonly string[]> {
  const report = await readReport(session, run).catch((error: unknown) => {
    if (isRunbookError(error, 'REPORT_UNAVAILABLE')) return undefined;
    throw error;
  });
  return report === undefined ? [] : clusterLines(report);
}

/** The clusters as a run read them last, with the time. A run that was refused changed nothing. */
function clusterLines({ finalState, outcome, runbook }: Report): readonly string[] {
  if (!mayChangeRoles(runbook) || outcome === 'refused' || finalState.length === 0) return [];
  const at = Math.min(...finalState.map((each) => each.at));
  return ['', `Clusters as read at ${clock(at)}`, ...tableOf(inLines(finalState)).map((line) => `  ${line}`), ''];
}

interface ReportOptions extends ServerOptions {
  readonly runId?: string;
  readonly format?: Format;
  readonly verify?: string;
}

const RENDERERS = { md: renderMarkdown, html: renderHtml, json: (report: Report) => jsonText(report, 2) } as const;
type Format = keyof typeof RENDERERS;

/** `runbook report`: what a run did, even if it is open or was terminated. */
function reportCommand(host: CommandHost): Command {
  const { context } = host;
  const command = newCommand('report', [
    'runbook report deployment:payments',
    'runbook report deployment:payments --format html > report.html',
    "runbook report --verify report.html   (checks it against the server's history and the run's own answer)",
  ])
    .option('-r, --run-id <id>', 'an earlier run of this Workflow ID (default: the newest)')
    .addOption(new Option('--format <format>', 'default: md, or json with --json').choices(Object.keys(RENDERERS)))
    .option('--verify <file>', 'verify a report that this command wrote, in any format');
  return withServerOptions(withRun(command, '[run]')).action(
    async (given: string | undefined, options: ReportOptions) => {
      const { runId, format = options.json === true ? 'json' : 'md', verify } = options;
      if (verify !== undefined) {
        const proven = await withSession(context, options, (session) => verifyReport(session, verify));
        return printResult(context, options, 'report-verified', { proven }, proven);
      }
      if (given === undefined)
        throw new RunbookError('INVALID_INPUT', 'Which run? Give its Workflow ID, or --verify FILE.');
      const report = await withRunSession(context, options, given, (session, workflowId) =>
        readProvableReport(session, { workflowId, runId }),
      );
      for (const line of RENDERERS[format](report).trimEnd().split('\n')) context.out(line);
    },
  );
}

const marked = reportSchema
  .pick({ namespace: true, workflowId: true, runId: true })
  .extend({ history: reportSchema.shape.history.unwrap() });

/**
 * The report of a run; with a digest of its history once Temporal has closed the run. A run that has recorded its ending
 * still writes its files, so its history grows. After the run is closed, its report and history no longer change.
 */
async function readProvableReport(session: TemporalSession, run: RunReference): Promise<Report> {
  const { workflowId, runId, status } = await describe(session.client, run);
  const report = await readReport(session, { workflowId, runId });
  if (status.name === 'RUNNING') return report;
  return { ...report, history: digestOf(await historyOf(session, report)) };
}

/**
 * Verifies that a report matches the history that the server has of the run, and the run's own report.
 *
 * @returns what was verified, as lines
 * @throws RunbookError `DOCUMENT_INVALID` if something differs, `NOT_FOUND` if the history is gone
 */
async function verifyReport(session: TemporalSession, file: string): Promise<string[]> {
  const text = await readTextFile(file);
  const { format, mark } = claimedBy(file, text);
  const { namespace, workflowId, runId, history: claimed } = mark;
  if (namespace !== session.namespace)
    throw new RunbookError('INVALID_INPUT', `The report belongs to namespace ${escapeUntrusted(namespace)}.`, {
      observed: `this command reads namespace ${session.namespace}`,
      next: `Run: \`${shellLine('runbook', 'report', '--verify', file, '--namespace', namespace)}\``,
    });
  const now = digestOf(await historyOf(session, mark));
  if (now.events !== claimed.events || now.sha256 !== claimed.sha256)
    throw differs(
      'The history of the run differs from the history of this report.',
      `${now.events} events with SHA-256 ${now.sha256} instead of ${claimed.events} with ${claimed.sha256}`,
    );
  const fresh = await readProvableReport(session, { workflowId, runId });
  // Of JSON too the text: of a member that is there twice, another reader may take the other one.
  const different = firstDifference(text, RENDERERS[format](fresh));
  if (different !== undefined)
    throw differs("The history matches, but the report differs from the run's own report.", different);
  return [
    `History: match. ${escapeUntrusted(workflowId)}, run ${escapeUntrusted(runId)}, events 1 to ${now.events}, SHA-256 ${now.sha256}`,
    "Contents: match. The report is the run's own report.",
  ];
}

function claimedBy(file: string, text: string) {
  const format = text.trimStart().startsWith('{') ? 'json' : text.trimStart().startsWith('<') ? 'html' : 'md';
  try {
    const claimed: unknown = format === 'json' ? JSON.parse(text) : markIn(text);
    return { format, mark: marked.strip().parse(claimed) } as const;
  } catch (cause) {
    throw new RunbookError('DOCUMENT_INVALID', `${file} contains no digest of a history.`, {
      needed:
        'a report of an ended run, as "runbook report" prints it; a file that a worker wrote cannot contain the end of its run',
      next: 'Create one: `runbook report WORKFLOW-ID --run-id RUN-ID --format html > FILE`',
      cause,
    });
  }
}

async function historyOf({ client }: TemporalSession, { workflowId, runId }: RunReference) {
  try {
    return await client.workflow.getHandle(workflowId, runId).fetchHistory();
  } catch (error) {
    if (!isNoRun(error)) throw error;
    throw new RunbookError(
      'NOT_FOUND',
      'The server no longer has the history of this run, so the report cannot be verified.',
      {
        observed: `${workflowId}, run ${runId}`,
        needed: "a history within the namespace's retention, or an archived one",
      },
    );
  }
}

function differs(message: string, observed: string): RunbookError {
  return new RunbookError('DOCUMENT_INVALID', message, {
    observed,
    needed: 'an unchanged report, verified by the version of this program that wrote it',
    next: 'Create a new one with "runbook report", compare the two, and ask the person who gave you this one.',
  });
}

/** The first line of a rendering that differs. */
function firstDifference(given: string, fresh: string): string | undefined {
  const [lines, others] = [given.trimEnd().split('\n'), fresh.trimEnd().split('\n')];
  const at = [...lines, ''].findIndex((line, index) => line !== (others[index] ?? ''));
  return at < 0 ? undefined : `line ${at + 1}: ${escapeUntrusted((lines[at] ?? 'nothing').slice(0, SHOWN))}`;
}

const SHOWN = 80;
