import { readReport } from '../../src/cli/read-report';
import type { Report } from '../../src/contracts/report';
import type { TestRun } from './scenario';
import { temporalClient, temporalServer } from './temporal-server';

/** The report of a run, as `runbook report` reads it now. */
export async function reportOf(run: Pick<TestRun, 'handle'> & Partial<Pick<TestRun, 'scenario'>>): Promise<Report> {
  const { workflowId } = run.handle;
  const { runId } = await run.handle.describe();
  const { namespace, address } = temporalServer();
  const client = await temporalClient();
  const report = await readReport(
    { client, namespace, address, close: () => Promise.resolve() },
    { workflowId, runId },
  );
  run.scenario?.shows(JSON.stringify(report));
  return report;
}

/** How far the run came and how it was closed: what differs between two reports of the same deeds. */
const OF_THE_END = ['outcome', 'endedAt', 'historyEvents', 'leftToDo', 'findings', 'outage'];

/** What a report says of what was done. */
export function deeds(report: Report): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(report).filter(([member]) => !OF_THE_END.includes(member)));
}
