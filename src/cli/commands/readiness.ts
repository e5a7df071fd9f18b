import type { Command } from 'commander';
import { InvalidArgumentError } from 'commander';
import { lockWorkflowId } from '../../contracts/names';
import { readinessResult } from '../../contracts/readiness';
import { verdictWords } from '../../contracts/readiness-words';
import type { ReadinessPoint, ReadinessResult } from '../../contracts/readiness';
import type { Report } from '../../contracts/report';
import { taskQueueSetting } from '../../worker/settings';
import { newCommand, printResult, seconds, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { EXIT, exitCodeOfOutcome, exitCodeOfReadiness } from '../errors';
import { buildInput } from '../run-input';
import { columns, inLines, shellLine, unmarked } from '../text';
import { waitVisibly } from '../waiting';

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
    .option('--about <question>', 'only this one decides the exit code: switchover or failover', question)
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
      const report = await waitVisibly(context, session, waiting, handle.result());
      if (report === undefined) {
        context.err(`Not waiting any more; the check goes on: ${shellLine('runbook', 'status', workflowId)}`);
        return finish(EXIT.pending);
      }
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

function question(text: string): 'switchover' | 'failover' {
  if (text === 'switchover' || text === 'failover') return text;
  throw new InvalidArgumentError('switchover or failover');
}

/** Points by verdict, the red ones first; under each what it needs and who can do what. */
export function readinessText(given: ReadinessResult): string[] {
  const { switchover, failover, score, comparedWith, changes, candidates, points } = inLines(given);
  const before = comparedWith ? ` (${comparedWith.score} at ${comparedWith.at})` : '';
  const each = candidates.map(
    (one) =>
      `  to ${one.cluster} (${one.drSet}): switchover ${verdictWords(one.switchover)}, failover ${verdictWords(one.failover)}`,
  );
  const changed = changes.map(({ change, before: was, now, ...point }) => {
    return [change, nameOf(point), `${was} before, ${now} now`];
  });
  return [
    `Switchover: ${verdictWords(switchover)}. Failover: ${verdictWords(failover)}. Score ${score} of 100${before}.`,
    ...(candidates.length > 1 ? each : []),
    ...section('Since the last check', changed),
    ...pointLines(points),
    '',
    'Nothing was changed.',
  ];
}

/** Points by verdict, the red ones first. */
export function pointLines(points: readonly ReadinessPoint[]): string[] {
  const rowsOf = (verdict: ReadinessPoint['verdict']) => points.filter((each) => each.verdict === verdict).map(row);
  return [
    ...section('Red', rowsOf('fail')),
    ...section('Warnings', rowsOf('warn')),
    ...section('Not checkable', rowsOf('not-checkable')),
    ...section('Good', rowsOf('ok')),
  ];
}

function section(title: string, rows: readonly (readonly string[])[]): string[] {
  return rows.length === 0 ? [] : ['', title, ...columns(rows.map((cells) => ['', ...cells]))];
}

function row(point: ReadinessPoint): string[] {
  const { verdict, about, observed, needed, reason, next } = point;
  const why = reason === undefined ? '' : ` (${reason})`;
  const then = next === undefined || verdict === 'not-checkable' ? '' : ` ${next}`;
  const text = verdict === 'ok' ? observed : unmarked(`${observed}${why}. Needed: ${needed}.${then}`);
  return [nameOf(point), about === 'both' ? '' : about, text];
}

function nameOf({ id, cluster }: Pick<ReadinessPoint, 'id' | 'cluster'>): string {
  return cluster === undefined ? id : `${id} (${cluster})`;
}
