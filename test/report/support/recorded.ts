import { historyFromJSON } from '@temporalio/common/lib/proto-utils';
import type { Report } from '../../../src/contracts/report';
import type { RunFact } from '../../../src/contracts/run-facts';
import { readHistory } from '../../../src/report/run-history';
import type { ActivityRecord, RunRecord, StepPosition } from '../../../src/report/run-record';
import { fieldsOf } from '../../../src/report/run-record';
import { historyText } from '../../support/matrix';

/** What a recorded run ended with: its report, as the version wrote it that recorded the run. */
function resultOf(file: string): Partial<Report> {
  const { events } = JSON.parse(historyText(file)) as { events: readonly Record<string, unknown>[] };
  const completed = fieldsOf(fieldsOf(events.at(-1))['workflowExecutionCompletedEventAttributes']);
  const [payload] = (fieldsOf(completed['result'])['payloads'] ?? []) as readonly { data: string }[];
  return payload ? (JSON.parse(Buffer.from(payload.data, 'base64').toString('utf8')) as Partial<Report>) : {};
}

/** The facts of a run, from its report: gates, parked steps and decisions, holders, receipts. */
function factsFrom({ gates = [], parkings = [], holders = [], receipts = [] }: Partial<Report>): RunFact[] {
  const ms = (iso: string) => Date.parse(iso);
  const facts: RunFact[] = [
    ...gates.flatMap(({ gate, planDigest, openedAt, closedAt, state, by }): RunFact[] => [
      { kind: 'gate', gate, planDigest, by: [], state: 'opened', at: ms(openedAt) },
      ...(closedAt === undefined
        ? []
        : [{ kind: 'gate' as const, gate, planDigest, by, state: state as 'approved', at: ms(closedAt) }]),
    ]),
    ...parkings.flatMap(({ step, parkingNo, code, message, at, decision }): RunFact[] => [
      { kind: 'parked', step, parkingNo, code, message, at: ms(at) },
      ...(decision ? [{ kind: 'decided' as const, step, parkingNo, ...decision, at: ms(decision.at) }] : []),
    ]),
    ...holders.map(({ name, epoch, as, askedAt = '' }): RunFact => ({
      ...{ kind: 'holders-asked', epoch, as, names: [name], why: 'invited', at: ms(askedAt) },
    })),
    ...receipts.map(({ at, ...receipt }): RunFact => ({ kind: 'receipt', ...receipt, at: ms(at) })),
  ];
  return facts.toSorted((one, other) => one.at - other.at);
}

/** A recorded run as this version reports it: its activities and their results come from the history. */
export function recordOf(file: string): RunRecord {
  const { activities, lastEventAt, eventCount } = readHistory(historyFromJSON(JSON.parse(historyText(file))));
  const report = resultOf(file);
  const { runbook = '', workflowId = '', runId = '', deployment, outcome, leftToDo = [], result, endedAt } = report;
  // The n-th activity of a type in the history is the n-th in the steps of the report.
  const positions = new Map<string, StepPosition[]>();
  for (const { activities: ofStep, name, number, attempt } of report.steps ?? [])
    for (const { type } of ofStep) positions.set(type, [...(positions.get(type) ?? []), { name, number, attempt }]);
  const placed = activities.map((each): ActivityRecord => {
    const step = positions.get(each.type)?.shift();
    return { ...each, ...(step && { step }) };
  });
  return {
    ...{ namespace: 'default', workflowId, runId, runbook, ...(deployment !== undefined && { deployment }) },
    ...{
      input: report.asked ?? {},
      startedAt: Date.parse(report.startedAt ?? ''),
      asOf: lastEventAt,
      events: eventCount,
    },
    activities: placed,
    ...{ facts: factsFrom(report), left: [], phase: 'finished' },
    ...(report.requestedBy && { requestedBy: report.requestedBy }),
    ending: { outcome: outcome as 'completed', leftToDo, ...(result && { result }), at: Date.parse(endedAt ?? '') },
  };
}

/** Whether a recorded run has a report. `walSampler` has none. */
export const hasReport = (file: string): boolean => resultOf(file).schema !== undefined;
