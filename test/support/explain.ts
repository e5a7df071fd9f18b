import { setTimeout as delay } from 'node:timers/promises';
import type { Report } from '../../src/contracts/report';
import { renderMarkdown } from '../../src/report/render';
import { findCanaries } from './secret-search';

const EXPLAINED_WITHIN_MS = 15_000;

/** Has runs whose reports may explain why a test failed. */
interface Explainable {
  explanation(): Promise<string>;
}

const explained = new WeakSet();

/**
 * Adds the reports of the scenario's runs to the error of a failed test, once, so that a failure on a remote machine
 * can be understood.
 */
export async function explainFailure(error: unknown, scenarios: Iterable<Explainable>): Promise<void> {
  if (!(error instanceof Error) || explained.has(error)) return;
  explained.add(error);
  const timer = new AbortController();
  const late = delay(EXPLAINED_WITHIN_MS, '(the histories of the runs could not be read in time)', {
    signal: timer.signal,
  }).catch(() => '');
  const read = Promise.all([...scenarios].map((each) => each.explanation().catch(() => '(no history can be read)')));
  const text = await Promise.race([read.then((texts) => texts.filter((each) => each !== '').join('\n')), late]);
  timer.abort();
  if (text === '') return;
  const { message, stack = message } = error;
  error.message = `${message}\n\n${text}`;
  error.stack = stack.includes(message) ? stack.replace(message, () => error.message) : `${stack}\n\n${text}`;
}

/** The report of a run; if it contains one of these secrets, only the name of the secret. */
export function timelineOf(report: Report, secrets: ReadonlyMap<string, string>): string {
  const text = renderMarkdown(report);
  const leaked = findCanaries(text, secrets);
  return leaked.length === 0 ? text : `(the report of ${report.runbook} contains secrets: ${leaked.join(', ')})`;
}
