import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { InvalidArgumentError } from 'commander';
import { lockWorkflowId } from '../../contracts/names';
import { readinessResult } from '../../contracts/readiness';
import { verdictWords } from '../../contracts/readiness-words';
import type { ReadinessPoint, ReadinessResult } from '../../contracts/readiness';
import type { Report } from '../../contracts/report';
import { RunbookError } from '../../errors';
import { taskQueueSetting } from '../../worker/settings';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { EXIT, exitCodeOfOutcome, exitCodeOfReadiness } from '../exit-codes';
import { buildInput } from '../run-input';
import type { TemporalSession } from '../temporal';
import { columns, inLines, shellLine, unmarked } from '../text';

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
    .option('--timeout <seconds>', 'give up waiting after so long; the check goes on', Number, 120);
  return withServerOptions(command).action(async (deployment: string, options: ReadinessOptions) => {
    const { context } = host;
    const { object } = await buildInput(context, 'readiness', { fields: { deployment } });
    await withSession(context, options, async (session) => {
      const workflowId = lockWorkflowId('readiness', { deployment }) ?? '';
      const report = await resultOf(session, workflowId, object, {
        taskQueue: taskQueueSetting(context.env),
        timeoutMs: options.timeout * 1_000,
        stop: context.stop,
      });
      if (report === undefined) {
        context.err(`Not waiting any more; the check goes on: ${shellLine('runbook', 'status', workflowId)}`);
        host.finish(EXIT.pending);
        return;
      }
      const found = readinessResult.safeParse(report.result);
      if (!found.success) {
        context.err(`The check ended as "${report.outcome}" without a verdict.`);
        host.finish(report.outcome === 'completed' ? EXIT.failed : exitCodeOfOutcome(report.outcome));
        return;
      }
      printResult(context, options, found.data, readinessText(found.data));
      host.finish(exitCodeOfReadiness(found.data, options.about));
    });
  });
}

function question(text: string): 'switchover' | 'failover' {
  if (text === 'switchover' || text === 'failover') return text;
  throw new InvalidArgumentError('switchover or failover');
}

/** The report of the check; of the one that runs already, where there is one. Undefined where the time was over first. */
async function resultOf(
  { client }: TemporalSession,
  workflowId: string,
  input: unknown,
  options: { readonly taskQueue: string; readonly timeoutMs: number; readonly stop: AbortSignal },
): Promise<Report | undefined> {
  if (!(options.timeoutMs >= 0)) throw new RunbookError('INVALID_INPUT', '--timeout is a number of seconds.');
  const handle = await client.workflow.start<(given: unknown) => Promise<Report>>('readiness', {
    workflowId,
    taskQueue: options.taskQueue,
    args: [input],
    // The question is the same: the check that runs answers it.
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    staticSummary: 'readiness',
  });
  const over = new AbortController();
  const signal = AbortSignal.any([options.stop, over.signal]);
  const waited = delay(options.timeoutMs, undefined, { signal }).catch(() => undefined);
  try {
    return await Promise.race([handle.result(), waited]);
  } finally {
    over.abort();
  }
}

/** Points by verdict, the red ones first; under each what it needs and who can do what. */
export function readinessText(given: ReadinessResult): string[] {
  const { switchover, failover, score, comparedWith, changes, candidates, points } = inLines(given);
  const of = (verdict: ReadinessPoint['verdict']): ReadinessPoint[] =>
    points.filter((each) => each.verdict === verdict);
  const before = comparedWith ? ` (${comparedWith.score} at ${comparedWith.at})` : '';
  const several = candidates.length > 1;
  return [
    `Switchover: ${verdictWords(switchover)}. Failover: ${verdictWords(failover)}. Score ${score} of 100${before}.`,
    ...(several
      ? candidates.map(
          (each) =>
            `  to ${each.cluster} (${each.drSet}): switchover ${verdictWords(each.switchover)}, failover ${verdictWords(each.failover)}`,
        )
      : []),
    ...section(
      'Since the last check',
      changes.map(({ change, before: was, now, ...point }) => [change, nameOf(point), `${was} before, ${now} now`]),
    ),
    ...section('Red', of('fail').map(row)),
    ...section('Warnings', of('warn').map(row)),
    ...section('Not checkable', of('not-checkable').map(row)),
    ...section(
      'Good',
      of('ok').map((point) => [nameOf(point), aboutOf(point), point.observed]),
    ),
    '',
    'Nothing was changed.',
  ];
}

function section(title: string, rows: readonly (readonly string[])[]): string[] {
  return rows.length === 0 ? [] : ['', title, ...columns(rows.map((cells) => ['', ...cells]))];
}

function row(point: ReadinessPoint): string[] {
  const { observed, needed, reason, next } = point;
  const why = reason === undefined ? '' : ` (${reason})`;
  return [
    nameOf(point),
    aboutOf(point),
    unmarked(
      `${observed}${why}. Needed: ${needed}.${next === undefined || point.verdict === 'not-checkable' ? '' : ` ${next}`}`,
    ),
  ];
}

function nameOf({ id, cluster }: Pick<ReadinessPoint, 'id' | 'cluster'>): string {
  return cluster === undefined ? id : `${id} (${cluster})`;
}

function aboutOf({ about }: ReadinessPoint): string {
  return about === 'both' ? '' : about;
}
