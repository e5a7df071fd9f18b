import { setTimeout as delay } from 'node:timers/promises';
import type { Report } from '../../src/contracts/report';
import { renderMarkdown } from '../../src/report/render';
import { findCanaries } from './secret-search';

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

/** The report of a run; where one of these secrets stands in it all the same, nothing but its name is told. */
export function timelineOf(report: Report, secrets: ReadonlyMap<string, string>): string {
  const text = renderMarkdown(report);
  const leaked = findCanaries(text, secrets);
  return leaked.length === 0 ? text : `(the report of ${report.runbook} holds secrets: ${leaked.join(', ')})`;
}
