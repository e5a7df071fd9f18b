import { readFile } from 'node:fs/promises';
import type { Report } from '../contracts/report';
import { reportSchema } from '../contracts/report';
import { escapeUntrusted } from '../contracts/words';
import { RunbookError, errnoOf } from '../errors';
import type { ReportMark } from '../report/history-digest';
import { digestOf, markIn } from '../report/history-digest';
import { closeOf } from '../report/run-history';
import { isNoRun } from './errors';
import { readReport } from './read-report';
import type { RunReference } from './run';
import type { TemporalSession } from './temporal';
import { shellLine } from './text';

const marked = reportSchema
  .pick({ namespace: true, workflowId: true, runId: true })
  .extend({ history: reportSchema.shape.history.unwrap() });

/** The report of a run, with a digest of its history as it is now. */
export async function readProvableReport(session: TemporalSession, run: RunReference): Promise<Report> {
  const report = await readReport(session, run);
  const { workflowId, runId, outcome, asOfEvent } = report;
  const events = await session.client.workflow.getHandle(workflowId, runId).fetchHistory();
  const closed = outcome !== 'running';
  // What an open run was seen to do, and no more: later events may still be taken back.
  return { ...report, history: { ...digestOf(events, closed ? undefined : asOfEvent), closed } };
}

/**
 * Proves that a report was made beside the history that the server has of the run, and says what the run says.
 *
 * @param render - the rendering of each format but JSON
 * @param say - is given what was proven as soon as it is
 * @returns what was proven: of an open run the history alone, whatever the report claims of it
 * @throws RunbookError `DOCUMENT_INVALID` where something differs, `NOT_FOUND` where the history is gone
 */
export async function verifyReport(
  session: TemporalSession,
  file: string,
  render: Readonly<Record<'md' | 'html', (report: Report) => string>>,
  say: (line: string) => void,
): Promise<'all' | 'history'> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new RunbookError('NOT_FOUND', `${file} cannot be read (${errnoOf(error) ?? 'unknown reason'}).`);
  });
  const { format, mark } = claimedBy(file, text);
  const { namespace, workflowId, runId, history: claimed } = mark;
  if (namespace !== session.namespace)
    throw new RunbookError('INVALID_INPUT', `The report is of namespace ${escapeUntrusted(namespace)}.`, {
      observed: `this command reads namespace ${session.namespace}`,
      next: `Verify again: \`${shellLine('runbook', 'report', '--verify', file, '--namespace', namespace)}\``,
    });
  const found = await historyOf(session, mark);
  const now = digestOf(found, claimed.events);
  if (now.events !== claimed.events || now.sha256 !== claimed.sha256)
    throw differs(
      'The history of the run is not the one of this report.',
      `${now.events} events with SHA-256 ${now.sha256} instead of ${claimed.events} with ${claimed.sha256}`,
    );
  say(
    `History: match. ${escapeUntrusted(workflowId)}, run ${escapeUntrusted(runId)}, events 1 to ${now.events}, SHA-256 ${now.sha256}`,
  );
  const last = found.events?.[claimed.events - 1];
  if (last === undefined || (!claimed.closed && closeOf(last) !== undefined))
    throw differs('The report does not say what it covers.', last ? 'a run that is open at its end' : 'no event');
  if (!claimed.closed) {
    say('Contents: not compared. The run was open when the report was made, and went on.');
    return 'history';
  }
  const fresh = await readProvableReport(session, { workflowId, runId });
  const different =
    format === 'json'
      ? firstDifference(lined(JSON.parse(text)), lined(fresh))
      : firstDifference(text, render[format](fresh));
  if (different !== undefined)
    throw differs('The history matches, but the report does not say what the run says.', different);
  say('Contents: match. The report says what the run says.');
  return 'all';
}

function claimedBy(file: string, text: string) {
  const format = text.trimStart().startsWith('{') ? 'json' : text.trimStart().startsWith('<') ? 'html' : 'md';
  try {
    const claimed: unknown = format === 'json' ? JSON.parse(text) : markIn(text);
    return { format, mark: marked.strip().parse(claimed) } as const;
  } catch (cause) {
    throw new RunbookError('DOCUMENT_INVALID', `${file} carries no digest of a history.`, {
      needed: 'a report as `runbook report` makes it; a file that a worker wrote cannot hold the end of its run',
      next: 'Make one that does: `runbook report WORKFLOW-ID --run-id RUN-ID --output DIRECTORY`',
      cause,
    });
  }
}

async function historyOf({ client }: TemporalSession, { workflowId, runId }: ReportMark) {
  try {
    return await client.workflow.getHandle(workflowId, runId).fetchHistory();
  } catch (error) {
    if (!isNoRun(error)) throw error;
    throw new RunbookError(
      'NOT_FOUND',
      'The server has no history of this run any more: nothing can be proven by it.',
      {
        observed: `${workflowId}, run ${runId}`,
        needed: 'a history within the retention of the namespace, or an archived one',
      },
    );
  }
}

function differs(message: string, observed: string): RunbookError {
  return new RunbookError('DOCUMENT_INVALID', message, {
    observed,
    needed: 'a report that nobody changed, verified by the version of this program that made it',
  });
}

/** The first line of a rendering that differs. */
function firstDifference(given: string, fresh: string): string | undefined {
  const [lines, others] = [given.trimEnd().split('\n'), fresh.trimEnd().split('\n')];
  const at = [...lines, ''].findIndex((line, index) => line !== (others[index] ?? ''));
  return at < 0 ? undefined : `line ${at + 1}: ${escapeUntrusted((lines[at] ?? 'nothing').slice(0, SHOWN))}`;
}

const SHOWN = 80;
const lined = (value: unknown) => JSON.stringify(value, undefined, 2);
