import type { Report } from '../../src/contracts/report';
import { reportFromHistory } from '../../src/report';
import type { TestRun } from './scenario';
import { temporalServer } from './temporal-server';

/** The report of a run as its history tells it now. */
export async function reportOf(run: Pick<TestRun, 'handle'>): Promise<Report> {
  const { runId } = await run.handle.describe();
  return reportFromHistory(await run.handle.fetchHistory(), {
    namespace: temporalServer().namespace,
    workflowId: run.handle.workflowId,
    runId,
  });
}

/** How far the history reached and how the run was closed: what differs between two reports of the same deeds. */
const OF_THE_END = ['outcome', 'endedAt', 'asOfEvent', 'historyEvents', 'leftToDo', 'findings', 'outage'];

/** What a report says of what was done. */
export function deeds(report: Report): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(report).filter(([member]) => !OF_THE_END.includes(member)));
}
