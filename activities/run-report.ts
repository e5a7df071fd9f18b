import type { RunbookActivities } from '../src/contracts/activities';
import { RUNBOOK_NAMES } from '../src/contracts/names';
import { SIGNALS } from '../src/contracts/signals';
import { reportFromHistory, writeReportFiles } from '../src/report';
import type { ActivityDependencies } from './dependencies';
import { execute } from './support/execution';

/** The report of the run that this activity belongs to: a pure function of its history, also kept as files. */
export function createRunReportActivities(
  dependencies: ActivityDependencies,
): Pick<RunbookActivities, 'composeReport' | 'describeRun' | 'requestTakeOver'> {
  const { temporal, inventory } = dependencies;
  return {
    composeReport: execute(async (_input, { run }) => {
      const history = await temporal.workflow.getHandle(run.wid, run.rid).fetchHistory();
      const report = reportFromHistory(history, { namespace: run.ns, workflowId: run.wid, runId: run.rid });
      const files = await writeReportFiles(report, dependencies.reportDirectory);
      return { report, files };
    }),

    requestTakeOver: execute(async ({ workflowId, runId, input }) => {
      await temporal.workflow.getHandle(workflowId, runId).signal(SIGNALS.takeOver, input);
    }),

    describeRun: execute(async ({ workflowId }, { run }) => {
      const description = await temporal.workflow.getHandle(workflowId).describe();
      const { uiAddress } = inventory.temporal;
      // A run that a failover took over is one, whatever it was started as.
      const now = RUNBOOK_NAMES.find((name) => name === description.memo?.['runbook']);
      return {
        type: now ?? description.type,
        runId: description.runId,
        status: description.status.name,
        link:
          uiAddress &&
          `${uiAddress.replace(/\/$/, '')}/namespaces/${run.ns}/workflows/${encodeURIComponent(workflowId)}/${description.runId}`,
      };
    }),
  };
}
