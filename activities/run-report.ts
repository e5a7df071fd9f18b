import type { RunbookActivities } from '../src/contracts/activities';
import { shellLine } from '../src/contracts/next-commands';
import { RUNBOOK_NAMES } from '../src/contracts/names';
import { SIGNALS } from '../src/contracts/signals';
import type { DrFailoverInput } from '../src/contracts/runbook-inputs';
import { RunbookError } from '../src/errors';
import { findDeployment } from '../src/inventory';
import { reportFromHistory, writeReportFiles } from '../src/report';
import type { ActivityDependencies } from './dependencies';
import { demandControl } from './support/approvals/controls';
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

    requestTakeOver: execute(async ({ workflowId, runId, input }, { run }) => {
      const { deployment, takeOverDocument } = input;
      const { laboratory } = findDeployment(inventory, deployment);
      // The run verifies it again. Here it is refused where people see it: in the failover that asks.
      if (takeOverDocument !== undefined)
        await demandControl(inventory, deployment, takeOverDocument, {
          run: { ns: run.ns, wid: workflowId, rid: runId },
          action: 'takeOver',
        });
      else if (!laboratory) throw noDocument(input);
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

function noDocument({ deployment, reason }: DrFailoverInput): RunbookError {
  const start = ['drFailover', '--deployment', deployment, '--reason', reason, '--take-over', '--name', 'YOUR-NAME'];
  return new RunbookError(
    'NOT_APPROVED',
    'A take-over needs a document of somebody who may decide. Nothing was touched.',
    {
      observed: 'no takeOverDocument',
      needed: 'the document that the command makes',
      next: `\`${shellLine('runbook', 'start', ...start)}\`, with \`--print\` for the Web UI`,
    },
  );
}
