import { readReport } from '../../src/cli/read-report';
import type { Report } from '../../src/contracts/report';
import type { TestRun } from './scenario';
import { temporalClient, temporalServer } from './temporal-server';

/** The current report of a run, as `runbook report` reads it. */
export async function reportOf(run: TestRun): Promise<Report> {
  const { workflowId } = run.handle;
  const { runId } = await run.handle.describe();
  const { namespace, address } = temporalServer();
  const client = await temporalClient();
  const report = await readReport(
    { client, namespace, address, close: () => Promise.resolve(), explain: (error) => Promise.resolve(error) },
    { workflowId, runId },
  );
  run.scenario.shows(JSON.stringify(report));
  return report;
}

/** Members about progress and end of the run, which differ between two reports of the same actions. */
const OF_THE_END = ['outcome', 'endedAt', 'historyEvents', 'leftToDo', 'findings', 'outage'];

/** The members of a report about the actions of the run. */
export function deeds(report: Report): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(report).filter(([member]) => !OF_THE_END.includes(member)));
}
