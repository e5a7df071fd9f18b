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

/** Checks that the new primary has every write that was acknowledged to the clients. */
async function clientsSawEverything({ payments }: Stage, say: (line: string) => void): Promise<boolean> {
  const { clients, service } = payments;
  // Writes acknowledged so far; the clients may continue to write while the primary is read.
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

/** One run in a demonstration. */
interface Act {
  readonly runbook: RunbookName;
  /** Short title; also the reason that the run gives. */
  readonly title: string;
  /** The input, without deployment, reason, and requester. */
  readonly input: Readonly<Record<string, unknown>>;
  /** Changes the simulated clusters before the run starts. */
  readonly before?: (payments: Payments) => void | Promise<void>;
  /** Every acknowledged write must be on the primary afterwards. */
  readonly losesNothing?: boolean;
  /** Whether to show what each person does and sees, and where the report is. */
  readonly isShown?: boolean;
}

/** `npm run demo`: one planned switchover. */
const SWITCHOVER_ACTS: readonly Act[] = [
  {
    runbook: 'drSwitchover',
    title: 'demonstration of a planned switchover',
    input: { to: 'west' },
    losesNothing: true,
    isShown: true,
  },
];

/** `npm run demo -- --plain`: without hooks, a switchover without loss, a failover, and the rejoin of the failed primary. */
export const PLAIN_ACTS: readonly Act[] = [
  {
    runbook: 'walSampler',
    title: 'record samples, so that a failover can bound the loss',
    input: { samples: 4, everySeconds: 0.25 },
  },
  { runbook: 'readiness', title: 'would a switchover or a failover start now?', input: {} },
  {
    runbook: 'drSwitchover',
    title: 'switch to west; a rate-limit quota pauses the clients, and no write may be lost',
    input: { to: 'west' },
    losesNothing: true,
  },
  {
    runbook: 'walSampler',
    title: 'record samples of the new primary',
    input: { samples: 4, everySeconds: 0.25 },
  },
  {
    runbook: 'drFailover',
    title: 'west is down, and clients were still writing to it',
    before: async ({ service }) => service.cluster('west').kill(),
    input: { to: 'east' },
  },
  {
    runbook: 'drRejoin',
    title: 'west is back, and still considers itself the primary',
    before: async ({ service }) => service.cluster('west').restart(),
    input: { cluster: 'west' },
  },
];

/** Performs the acts in order: starts each run with the command line and plays every person. Returns whether all succeeded. */
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

/** Returns whether the run completed and, if required, no acknowledged write is missing. */
async function perform(
  stage: Stage,
  session: TemporalSession,
  act: Act,
  say: (line: string) => void,
  stop: AbortSignal,
): Promise<boolean> {
  const { payments } = stage;
  await act.before?.(payments);
  const hasRequester = act.runbook !== 'walSampler' && act.runbook !== 'readiness';
  const input = {
    deployment: DEPLOYMENT,
    ...(hasRequester ? { reason: act.title, requestedBy: OPERATOR } : {}),
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
  say(`  ${act.runbook}: ${kept ? report.outcome : 'acknowledged writes are MISSING'} after ${seconds.toFixed(1)} s`);
  return kept && report.outcome === 'completed';
}

const USAGE = `npm run demo             planned switchover of a simulated deployment; plays every person, then exits
npm run demo -- --plain  switchover, failover, and rejoin without hooks: rate-limit quota, AppRole, policies, canaries
runbook dev              the deployment of the first demo, but you play the people; runs until Ctrl-C`;

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
  say('A simulated Vault deployment with a real Temporal server. The demo plays every person, then exits.\n');
  const stage = await startStage({ reportDirectory: resolve('reports'), say, ...(plain && { site: PLAIN }) });
  try {
    const passed = await demonstrate(stage, plain ? PLAIN_ACTS : SWITCHOVER_ACTS, say, stop.signal);
    say(`  Demonstration: ${passed ? 'passed' : 'FAILED'} after ${((Date.now() - begin) / 1000).toFixed(1)} s`);
    return passed ? 0 : 1;
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
