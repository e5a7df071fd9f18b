import { readFile } from 'node:fs/promises';
import { readReport, summaryLines } from '../cli/read-report';
import { activityResults, fetchEvents, runLink } from '../cli/run';
import { connectTemporal } from '../cli/temporal';
import type { TemporalSession } from '../cli/temporal';
import { deploymentWorkflowId } from '../contracts/names';
import { Cast, follow } from './cast';
import { SWITCHOVER } from './guide';
import { DEPLOYMENT } from './payments';
import type { Payments } from './payments';
import type { Stage } from './stage';
import { slotPath, writerState } from './writer';

const WORKFLOW_ID = deploymentWorkflowId(DEPLOYMENT);

/** Plays all the parts of a switchover, each person as a process of its own. Gives whether all went well. */
export async function rehearse(stage: Stage, say: (line: string) => void, stop: AbortSignal): Promise<boolean> {
  const people = new Cast(stage, say);
  say('');
  if ((await people.play('olga', ['start', 'drSwitchover', '--input', JSON.stringify(SWITCHOVER)])) !== 0) return false;
  const session = await connectTemporal({}, stage.environment);
  try {
    const { runId } = await follow(session, WORKFLOW_ID, people, say, stop);
    const report = await readReport(session, { workflowId: WORKFLOW_ID, runId });
    for (const line of summaryLines(report)) say(line);
    const kept = await clientsSawEverything(stage, say);
    const files = await reportFiles(session, runId);
    for (const file of files) say(`  Report: ${file}`);
    say(
      `  Web UI: ${runLink(stage.environment, session.namespace, { workflowId: WORKFLOW_ID, runId }) ?? stage.server.uiAddress}`,
    );
    return report.outcome === 'completed' && kept && files.length > 0;
  } finally {
    await session.close();
  }
}

/** Compares what clients were told with what the new primary has. */
async function clientsSawEverything({ payments, writer }: Stage, say: (line: string) => void): Promise<boolean> {
  await writer.stop();
  const seen = writerState.parse(JSON.parse(await readFile(payments.clientsFiles.writer, 'utf8')));
  const primary = primaryOf(payments);
  const lost = Object.entries(seen.slots).filter(
    ([slot, acknowledged]) => Number(primary?.read(slotPath(slot))?.['sequence'] ?? 0) < acknowledged,
  );
  say(
    `  Clients: ${seen.acknowledged} writes acknowledged, ${seen.failed} refused, longest pause ${(seen.longestGapMs / 1000).toFixed(1)} s`,
  );
  say(
    `  On ${primary?.name ?? 'no primary'}: ${lost.length === 0 ? 'every acknowledged write is there' : `${lost.length} acknowledged writes are MISSING`}`,
  );
  return primary !== undefined && lost.length === 0;
}

function primaryOf({ service }: Payments) {
  return [service.cluster('east'), service.cluster('west'), service.cluster('north')].find(
    (cluster) => cluster.snapshotState().dr.mode === 'primary',
  );
}

/** Paths of the report's files, as the run's last activity gave them. */
async function reportFiles({ client }: TemporalSession, runId: string): Promise<string[]> {
  const last: unknown = activityResults(
    await fetchEvents(client, { workflowId: WORKFLOW_ID, runId }),
    (type) => type === 'writeReportFiles',
  ).at(-1);
  const files: unknown = typeof last === 'object' && last !== null && 'files' in last ? last.files : undefined;
  return Array.isArray(files) ? files.filter((file): file is string => typeof file === 'string') : [];
}
