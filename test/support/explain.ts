import { setTimeout as delay } from 'node:timers/promises';
import type { Report } from '../../src/contracts/report';
import { findCanaries } from './canaries';

const MOST_LINES = 150;
const EXPLAINED_WITHIN_MS = 15_000;

/** Whose runs may tell why a test failed. */
interface Explainable {
  explanation(): Promise<string>;
}

const explained = new WeakSet();

/**
 * Adds to the error of a failed test what the reports of the scenario's runs say, once: a failure on a machine that
 * nobody can look at explains itself.
 */
export async function explainFailure(error: unknown, scenarios: Iterable<Explainable>): Promise<void> {
  if (!(error instanceof Error) || explained.has(error)) return;
  explained.add(error);
  const timer = new AbortController();
  const late = delay(EXPLAINED_WITHIN_MS, '(the histories of the runs were not read in time)', {
    signal: timer.signal,
  }).catch(() => '');
  const told = Promise.all([...scenarios].map((each) => each.explanation().catch(() => '(no history can be read)')));
  const text = await Promise.race([told.then((texts) => texts.filter((each) => each !== '').join('\n')), late]);
  timer.abort();
  if (text === '') return;
  const { message, stack = message } = error;
  error.message = `${message}\n\n${text}`;
  error.stack = stack.includes(message) ? stack.replace(message, () => error.message) : `${stack}\n\n${text}`;
}

/**
 * What a run did and when, in lines: steps with what failed, parkings, findings. Redacted as its report is; where one of
 * these secrets stands in it all the same, nothing but its name is told.
 */
export function timelineOf(report: Report, secrets: ReadonlyMap<string, string>): string {
  const text = inLines(report);
  const leaked = findCanaries(text, secrets);
  return leaked.length === 0 ? text : `(the report of ${report.runbook} holds secrets: ${leaked.join(', ')})`;
}

function inLines(report: Report): string {
  const began = Date.parse(report.startedAt);
  const at = (time: string | undefined) =>
    time === undefined ? '     ...' : `${((Date.parse(time) - began) / 1000).toFixed(1).padStart(8)}`;
  const lines = [
    ...report.steps.flatMap((step): (readonly [string, string])[] => [
      [step.startedAt, `until ${at(step.endedAt)}  ${step.name} (${step.attempt}): ${step.outcome}`],
      ...step.activities
        .filter(({ outcome, tries }) => tries > 1 || (outcome !== 'done' && outcome !== 'already'))
        .map(({ startedAt, endedAt, type, cluster = '', outcome, tries, observed = '' }): [string, string] => [
          startedAt,
          `until ${at(endedAt)}    ${type} ${cluster}: ${outcome}, tries ${tries}: ${observed}`,
        ]),
    ]),
    ...report.parkings.map(({ at: time, step, parkingNo, code, message, decision }): [string, string] => [
      time,
      `parked "${step}" (${parkingNo}) ${code}: ${message} Decided: ${decision?.action ?? 'nothing'}`,
    ]),
    ...report.findings.map(({ at: time, severity, code, text }): [string, string] => [
      time,
      `finding ${severity} ${code}: ${text}`,
    ]),
  ].sort(([one], [other]) => one.localeCompare(other));
  const { runbook, workflowId, runId, outcome, startedAt, loss } = report;
  const failed = report.preconditions.filter(({ verdict }) => verdict === 'fail');
  return [
    `${runbook} ${workflowId} ${runId}: ${outcome}. Seconds since ${startedAt}:`,
    ...lines.slice(-MOST_LINES).map(([time, text]) => `${at(time)} ${text}`),
    ...failed.map(
      ({ name, cluster = '', observed, needed }) =>
        `refused ${cluster}: ${name}: observed ${observed}, needed ${needed}`,
    ),
    ...(loss === undefined ? [] : [`loss ${loss.loss}: ${loss.why}`]),
  ].join('\n');
}
