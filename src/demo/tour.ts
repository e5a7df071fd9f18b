import { connectTemporal } from '../cli/temporal';
import type { TemporalSession } from '../cli/temporal';
import { columns } from '../cli/text';
import { lockWorkflowId } from '../contracts/names';
import { readReport } from '../cli/read-report';
import { Cast, follow } from './cast';
import { DEPLOYMENT } from './payments';
import type { Payments } from './payments';
import { OPERATOR } from './people';
import type { Stage } from './stage';
import type { Act } from './tour-acts';
import { ACTS } from './tour-acts';

interface Ended {
  readonly act: Act;
  readonly outcome: string;
  readonly seconds: number;
  readonly events: number;
  readonly left: readonly string[];
}

/** Every runbook once: started by the command line, all people played. Gives whether each of them completed. */
export async function tour(stage: Stage, say: (line: string) => void, stop: AbortSignal): Promise<boolean> {
  const session = await connectTemporal({}, stage.environment);
  const ended: Ended[] = [];
  try {
    for (const [index, act] of ACTS.entries()) {
      say('');
      say(`=== ${index + 1} of ${ACTS.length}. ${act.runbook}: ${act.title}`);
      const result = await perform(stage, session, act, say, stop);
      ended.push(result);
      if (result.outcome !== 'completed') break;
    }
  } finally {
    await session.close();
  }
  say('');
  for (const line of columns(
    ended.map(({ act, outcome, seconds, events }) => [
      act.runbook,
      outcome,
      `${seconds.toFixed(1)} s`,
      `${events} events`,
      act.title,
    ]),
  ))
    say(line);
  return ended.length === ACTS.length && ended.every(({ outcome }) => outcome === 'completed');
}

async function perform(
  stage: Stage,
  session: TemporalSession,
  act: Act,
  say: (line: string) => void,
  stop: AbortSignal,
): Promise<Ended> {
  const { payments } = stage;
  await act.before?.(payments);
  const asks = act.runbook !== 'walSampler' && act.runbook !== 'readiness';
  const input = {
    deployment: DEPLOYMENT,
    ...(asks ? { reason: `tour: ${act.title}`, requestedBy: OPERATOR } : {}),
    ...(await act.input(payments)),
  };
  const people = new Cast(stage, say, { showAll: false, onAction: () => unsealAll(payments) });
  const begin = Date.now();
  const workflowId = lockWorkflowId(act.runbook, input) ?? `${act.runbook}:${DEPLOYMENT}:tour`;
  if (lockWorkflowId(act.runbook, input) === undefined) {
    await session.client.workflow.start(act.runbook, {
      workflowId,
      taskQueue: stage.environment['RUNBOOKS_TASK_QUEUE'] ?? '',
      args: [input],
    });
  } else if ((await people.play(OPERATOR, ['start', act.runbook, '--input', JSON.stringify(input)])) !== 0) {
    return { act, outcome: 'not started', seconds: 0, events: 0, left: [] };
  }
  const { runId } = await follow(session, workflowId, people, say, stop);
  const seconds = (Date.now() - begin) / 1000;
  const report = await readReport(session, { workflowId, runId });
  for (const { severity, text } of report.findings) say(`  Finding (${severity}): ${text}`);
  for (const left of report.leftToDo) say(`  Left to do: ${left}`);
  say(`  ${act.runbook}: ${report.outcome}, ${seconds.toFixed(1)} s, ${report.historyEvents} events`);
  return { act, outcome: report.outcome, seconds, events: report.historyEvents, left: report.leftToDo };
}

/** What people do while a run waits for sealed standbys. */
function unsealAll({ service }: Payments): void {
  for (const { name, addresses } of service.clusters.values()) {
    addresses.forEach((_, index) => service.cluster(name).unsealNode(index));
  }
}
