import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { newCommand, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import type { CliContext } from '../context';
import { EXIT, exitCodeOfOutcome } from '../exit-codes';
import type { ExitCode } from '../exit-codes';
import type { RunReference } from '../history';
import { Progress } from '../progress';
import { summaryLines } from '../render-report';
import { readReport } from '../read-report';
import { readRunView } from '../run-view';
import type { TemporalSession } from '../temporal';
import { jsonText, shellLine } from '../text';

export const commands = (host: CommandHost): Command[] => [watchCommand(host)];

interface WatchOptions extends ServerOptions {
  readonly runId?: string;
  readonly timeout?: string;
}

const POLL_MS = 500;

/** `runbook watch`: live progress until the run ends; the exit code tells how it ended. */
function watchCommand(host: CommandHost): Command {
  const command = newCommand('watch', [
    'runbook watch deployment:payments',
    'runbook watch deployment:payments --timeout 600 --json   (one JSON object per line, the report last)',
  ])
    .argument('<workflowId>')
    .option('--run-id <id>', 'an earlier run of this Workflow ID')
    .option('--timeout <seconds>', 'give up watching after so long; the run goes on');
  return withServerOptions(command).action(async (workflowId: string, options: WatchOptions) => {
    await withSession(host.context, options, async (session) => {
      const run = { workflowId, ...(options.runId === undefined ? {} : { runId: options.runId }) };
      host.finish(await watchRun(host.context, session, run, options));
    });
  });
}

/** Follows one run until it ends, the time is over, or the person ends the command. */
export async function watchRun(
  context: CliContext,
  session: TemporalSession,
  run: RunReference,
  options: { readonly json?: boolean; readonly timeout?: string },
): Promise<ExitCode> {
  const deadline =
    options.timeout === undefined ? Number.POSITIVE_INFINITY : Date.now() + Number(options.timeout) * 1000;
  const progress = new Progress();
  const say = (line: string): void => context.out(options.json === true ? jsonText({ progress: line }) : line);
  let view = await readRunView(session, run);
  // From here on the same run is meant, also when another one starts under this Workflow ID.
  const same = { workflowId: view.workflowId, runId: view.runId };
  for (;;) {
    for (const line of progress.lines(view)) say(line);
    if (view.state !== 'running') break;
    if (Date.now() >= deadline || context.stop.aborted) {
      context.err(`Not watching any more; the run goes on: ${shellLine('runbook', 'status', run.workflowId)}`);
      return EXIT.pending;
    }
    await delay(POLL_MS, undefined, { signal: context.stop }).catch(() => undefined);
    view = await readRunView(session, same, { again: true });
  }
  const report = await readReport(session, same);
  if (options.json === true) context.out(jsonText({ report }));
  else for (const line of summaryLines(report)) context.out(line);
  return exitCodeOfOutcome(report.outcome);
}
