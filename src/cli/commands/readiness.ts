import { Option } from 'commander';
import type { Command } from 'commander';
import { lockWorkflowId } from '../../contracts/names';
import { readinessResult } from '../../contracts/readiness';
import { changeText, verdictWords } from '../../contracts/readiness-words';
import type { ReadinessResult } from '../../contracts/readiness';
import type { Report } from '../../contracts/report';
import { taskQueueSetting } from '../../worker/settings';
import { newCommand, printResult, seconds, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { EXIT, exitCodeOfOutcome, exitCodeOfReadiness } from '../errors';
import { pointLines } from '../points';
import { buildInput } from '../run-input';
import { inLines } from '../text';
import { waitForReport } from '../waiting';

export const commands = (host: CommandHost): Command[] => [readinessCommand(host)];

interface ReadinessOptions extends ServerOptions {
  readonly about?: 'switchover' | 'failover';
  readonly timeout: number;
}

/** `runbook readiness`: starts the check, waits for it, and prints its points; the exit code tells the verdict. */
function readinessCommand(host: CommandHost): Command {
  const command = newCommand('readiness', [
    'runbook readiness payments',
    'runbook readiness payments --about failover --json',
  ])
    .argument('<deployment>')
    .addOption(
      new Option('--about <question>', 'only this one decides the exit code').choices(['switchover', 'failover']),
    )
    .option('--timeout <seconds>', 'give up waiting after so long; the check goes on', seconds, 120);
  return withServerOptions(command).action(async (deployment: string, options: ReadinessOptions) => {
    const { context, finish } = host;
    const { object } = await buildInput(context, 'readiness', { deployment });
    await withSession(context, options, async (session) => {
      const workflowId = lockWorkflowId('readiness', { deployment }) ?? '';
      const handle = await session.client.workflow.start<(given: unknown) => Promise<Report>>('readiness', {
        workflowId,
        taskQueue: taskQueueSetting(context.env),
        args: [object],
        // The question is the same: a check that runs already answers it.
        workflowIdConflictPolicy: 'USE_EXISTING',
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        staticSummary: 'readiness',
      });
      const waiting = { what: 'the check', run: { workflowId }, timeoutMs: options.timeout * 1_000 };
      const report = await waitForReport(host, session, waiting, handle.result());
      if (report === undefined) return;
      const found = readinessResult.safeParse(report.result);
      if (!found.success) {
        context.err(`The check ended as "${report.outcome}" without a verdict.`);
        return finish(report.outcome === 'completed' ? EXIT.failed : exitCodeOfOutcome(report.outcome));
      }
      printResult(context, options, found.data, readinessText(found.data));
      finish(exitCodeOfReadiness(found.data, options.about));
    });
  });
}

/** The verdicts, what changed, and all points. */
export function readinessText(given: ReadinessResult): string[] {
  const { switchover, failover, score, comparedWith, changes, candidates, points } = inLines(given);
  const before = comparedWith ? ` (${comparedWith.score} at ${comparedWith.at})` : '';
  const each = candidates.map(
    (one) =>
      `  to ${one.cluster} (${one.drSet}): switchover ${verdictWords(one.switchover)}, failover ${verdictWords(one.failover)}`,
  );
  return [
    `Switchover: ${verdictWords(switchover)}. Failover: ${verdictWords(failover)}. Score ${score} of 100${before}.`,
    ...(candidates.length > 1 ? each : []),
    ...(changes.length > 0 ? ['', 'Since the last check', ...changes.map((one) => `  ${changeText(one)}`)] : []),
    '',
    ...pointLines(points),
    '',
    'Nothing was changed.',
  ];
}
