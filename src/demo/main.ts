import { resolve } from 'node:path';
import { processContext } from '../cli/context';
import { printError } from '../cli/errors';
import { readReport, summaryLines } from '../cli/read-report';
import { connectTemporal } from '../cli/run';
import type { TemporalSession } from '../cli/run';
import { lockWorkflowId, webUiLink } from '../contracts/names';
import type { RunbookName } from '../contracts/names';
import { writeReportFiles } from '../report/render';
import { slotPath } from './clients';
import { PLAIN } from './payments';
import type { Payments } from './payments';
import { Cast, DEPLOYMENT, follow, OPERATOR } from './people';
import { startStage } from './stage';
import type { Stage } from './stage';

/** Compares what clients were told with what the new primary has. */
async function clientsSawEverything({ payments }: Stage, say: (line: string) => void): Promise<boolean> {
  const { clients, service } = payments;
  // What was acknowledged before this is read; clients may go on.
  const acknowledgedUntilNow = [...clients.slots];
  const primary = ['east', 'west', 'north']
    .flatMap((name) => service.clusters.get(name) ?? [])
    .find((cluster) => cluster.snapshotState().dr.mode === 'primary');
  const lost = acknowledgedUntilNow.filter(
    ([slot, acknowledged]) => Number(primary?.read(slotPath(slot))?.['sequence'] ?? 0) < acknowledged,
  );
  say(
    `  Clients: ${clients.acknowledged} writes acknowledged, ${clients.refused} refused, longest pause ${(clients.longestGapMs / 1000).toFixed(1)} s`,
  );
  say(
    `  On ${primary?.name ?? 'no primary'}: ${lost.length === 0 ? 'every acknowledged write is there' : `${lost.length} acknowledged writes are MISSING`}`,
  );
  return primary !== undefined && lost.length === 0;
}

/** One run of a demonstration. */
interface Act {
  readonly runbook: RunbookName;
  /** Why now, in a few words. */
  readonly title: string;
  /** The input, beside deployment, reason and requester. */
  readonly input: Readonly<Record<string, unknown>>;
  /** What happens to the simulated clusters before it. */
  readonly before?: (payments: Payments) => void | Promise<void>;
  /** Every write that clients were told of must be there afterwards. */
  readonly losesNothing?: boolean;
  /** What each person does and sees is shown, and where the report lies. */
  readonly isShown?: boolean;
}

/** The demonstration itself. */
const SWITCHOVER_ACTS: readonly Act[] = [
  {
    runbook: 'drSwitchover',
    title: 'demonstration of a planned switchover',
    input: { to: 'west' },
    losesNothing: true,
    isShown: true,
  },
];

/** A site without hooks: a switchover that loses nothing, a failover, and the failed primary that comes back. */
export const PLAIN_ACTS: readonly Act[] = [
  {
    runbook: 'walSampler',
    title: 'samples, for the loss bound of a failover',
    input: { samples: 4, everySeconds: 0.25 },
  },
  { runbook: 'readiness', title: 'would a switchover and a failover start now?', input: {} },
  {
    runbook: 'drSwitchover',
    title: "to west; the service's own quota holds the clients, nothing may be lost",
    input: { to: 'west' },
    losesNothing: true,
  },
  {
    runbook: 'walSampler',
    title: 'samples of the new primary',
    input: { samples: 4, everySeconds: 0.25 },
  },
  {
    runbook: 'drFailover',
    title: 'west is gone, with clients that write',
    before: async ({ service }) => service.cluster('west').kill(),
    input: { to: 'east' },
  },
  {
    runbook: 'drRejoin',
    title: 'west is back, and thinks that it is primary',
    before: async ({ service }) => service.cluster('west').restart(),
    input: { cluster: 'west' },
  },
];

/** Acts one after the other: started by the command line, all people played. Gives whether each of them completed. */
export async function demonstrate(
  stage: Stage,
  acts: readonly Act[],
  say: (line: string) => void,
  stop: AbortSignal,
): Promise<boolean> {
  const session = await connectTemporal({}, stage.environment);
  try {
    for (const [index, act] of acts.entries()) {
      say('');
      if (acts.length > 1) say(`=== ${index + 1} of ${acts.length}. ${act.runbook}: ${act.title}`);
      if (!(await perform(stage, session, act, say, stop))) return false;
    }
    return true;
  } finally {
    await session.close();
  }
}

/** Whether it completed, with every write. */
async function perform(
  stage: Stage,
  session: TemporalSession,
  act: Act,
  say: (line: string) => void,
  stop: AbortSignal,
): Promise<boolean> {
  const { payments } = stage;
  await act.before?.(payments);
  const asks = act.runbook !== 'walSampler' && act.runbook !== 'readiness';
  const input = {
    deployment: DEPLOYMENT,
    ...(asks ? { reason: act.title, requestedBy: OPERATOR } : {}),
    ...act.input,
  };
  const people = new Cast(stage, say, act.isShown === true);
  const begin = Date.now();
  const workflowId = lockWorkflowId(act.runbook, input) ?? `${act.runbook}:${DEPLOYMENT}:demo`;
  if (lockWorkflowId(act.runbook, input) === undefined) {
    await session.client.workflow.start(act.runbook, {
      workflowId,
      taskQueue: stage.environment['RUNBOOKS_TASK_QUEUE'] ?? '',
      args: [input],
    });
  } else if ((await people.play(OPERATOR, ['start', act.runbook, '--input', JSON.stringify(input)])) !== 0) {
    return false;
  }
  const { runId } = await follow(session, workflowId, people, say, stop);
  const seconds = (Date.now() - begin) / 1000;
  const report = await readReport(session, { workflowId, runId });
  for (const line of summaryLines(report)) say(line);
  const kept = !act.losesNothing || (await clientsSawEverything(stage, say));
  if (act.isShown) {
    for (const file of await writeReportFiles(report, stage.environment['RUNBOOKS_REPORT_DIR'] ?? ''))
      say(`  Report: ${file}`);
    say(`  Web UI: ${webUiLink(stage.server.uiAddress, session.namespace, workflowId, runId)}`);
  }
  say(`  ${act.runbook}: ${kept ? report.outcome : 'writes are missing'}, ${seconds.toFixed(1)} s`);
  return kept && report.outcome === 'completed';
}

const USAGE = `npm run demo             a planned switchover of a simulated deployment, all people played; ends by itself
npm run demo -- --plain  without hooks: the service's own quota, AppRole, policies, canaries; a switchover, a failover, a rejoin
runbook dev              the same deployment as the first, but you play the people; runs until Ctrl-C`;

async function main(words: readonly string[]): Promise<number> {
  const [option, ...more] = words;
  const plain = option === '--plain';
  if ((option !== undefined && !plain) || more.length > 0) {
    console.error(USAGE);
    return option === '--help' ? 0 : 2;
  }
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());
  const say = (line: string): void => console.log(line);
  const begin = Date.now();
  const stage = await startStage({ reportDirectory: resolve('reports'), say, ...(plain && { site: PLAIN }) });
  try {
    const well = await demonstrate(stage, plain ? PLAIN_ACTS : SWITCHOVER_ACTS, say, stop.signal);
    const how = well ? 'all as it should be' : 'NOT as it should be';
    say(`  Demonstration: ${how}, ${((Date.now() - begin) / 1000).toFixed(1)} s`);
    return well ? 0 : 1;
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    return 130;
  } finally {
    await stage.stop();
  }
}

if (require.main === module)
  main(process.argv.slice(2)).then(
    (code) => (process.exitCode = code),
    (error: unknown) => {
      printError(processContext(new AbortController().signal), error, { json: false, debug: true });
      process.exitCode = 1;
    },
  );
