import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { processContext } from '../context';
import { printError } from '../errors';
import { lineByLine } from '../program';
import { readReport, summaryLines } from '../read-report';
import { Progress } from '../render-status';
import { connectTemporal } from '../run';
import type { TemporalSession } from '../run';
import { lockWorkflowId, webUiLink } from '../../contracts/names';
import type { RunbookName } from '../../contracts/names';
import type { Report } from '../../contracts/report';
import { clock } from '../../contracts/words';
import { writeReportFiles } from '../../report/render';
import { slotPath } from './clients';
import { demonstrateIncident } from './incident';
import { PLAIN } from './payments';
import type { Payments, Site } from './payments';
import { DEPLOYMENT, OPERATOR } from './people';
import { startStage } from './stage';
import type { Showing, Stage } from './stage';
import { Story } from './story';
import { Cast, follow } from './cast';

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
  /** Whether to show in full what each person sees, where everything is shown, and where the report is. */
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
export async function demonstrate(stage: Stage, acts: readonly Act[], showing: Showing): Promise<boolean> {
  const { say } = showing;
  const session = await connectTemporal({}, stage.environment);
  try {
    for (const [index, act] of acts.entries()) {
      say('');
      if (acts.length > 1) say(`=== ${index + 1} of ${acts.length}. ${act.runbook}: ${act.title}`);
      if (!(await perform(stage, session, act, showing))) return false;
    }
    return true;
  } finally {
    await session.close();
  }
}

/** Returns whether the run completed and, if required, no acknowledged write is missing. */
async function perform(stage: Stage, session: TemporalSession, act: Act, showing: Showing): Promise<boolean> {
  const { say, verbose, stop } = showing;
  await act.before?.(stage.payments);
  const hasRequester = act.runbook !== 'walSampler' && act.runbook !== 'readiness';
  const input = {
    deployment: DEPLOYMENT,
    ...(hasRequester ? { reason: act.title, requestedBy: OPERATOR } : {}),
    ...act.input,
  };
  const people = new Cast(stage, say, verbose && act.isShown === true);
  const lock = lockWorkflowId(act.runbook, input);
  const workflowId = lock ?? `${act.runbook}:${DEPLOYMENT}:demo`;
  if (lock === undefined) {
    const taskQueue = stage.environment['RUNBOOKS_TASK_QUEUE'] ?? '';
    await session.client.workflow.start(act.runbook, { workflowId, taskQueue, args: [input] });
  } else {
    if (!verbose)
      say(`${clock(Date.now())} ${OPERATOR} starts ${[act.runbook, ...aboutOf(act)].join(' ')} (runbook start)`);
    if ((await people.play(OPERATOR, ['start', act.runbook, '--input', JSON.stringify(input)])) !== 0) return false;
  }
  const { runId } = await follow(session, workflowId, people, say, stop, verbose ? new Progress() : new Story());
  const report = await readReport(session, { workflowId, runId });
  for (const line of summaryLines(report, { brief: !verbose })) say(line);
  const kept = !act.losesNothing || (await clientsSawEverything(stage, say));
  if (act.isShown) await showReport(stage, report, showing);
  return kept && report.outcome === 'completed';
}

/** The cluster that a run is about, in words. */
function aboutOf({ input: { to, cluster } }: Act): string[] {
  return typeof to === 'string' ? ['to', to] : typeof cluster === 'string' ? ['of', cluster] : [];
}

/** Writes the report and says where it is: files as links that a terminal opens. */
async function showReport({ environment, server }: Stage, report: Report, { say, verbose }: Showing): Promise<void> {
  const files = await writeReportFiles(report, environment['RUNBOOKS_REPORT_DIR'] ?? '');
  const links = files.filter((file) => verbose || file.endsWith('.html')).map((file) => pathToFileURL(file).href);
  // A server of this demonstration ends with it.
  const isOwn = server.pid !== undefined;
  const webUi = webUiLink(server.uiAddress, report.namespace, report.workflowId, report.runId);
  say(isOwn ? '  Report:' : '  Report, and the run in the Web UI:');
  for (const link of [...links, ...(isOwn ? [] : [webUi])]) say(`    ${link}`);
}

const USAGE = `npm run demo                planned switchover of a simulated deployment; plays every person, then exits
npm run demo -- --plain     switchover, failover, and rejoin without hooks: rate-limit quota, AppRole, policies, canaries
npm run demo -- --verbose   shows everything: what each person sees, each step, the workers' warnings
npm run demo -- --incident  the primary is killed: notification, webhook, failover, resolved alerts, and the times of each
runbook dev                 the deployment of the first demo, but you play the people; runs until Ctrl-C`;

const NEXT = '"npm run demo -- --verbose" shows everything; with "node dist/src/cli/main.js dev" you play the people.';

const OPTIONS = {
  plain: { type: 'boolean' },
  incident: { type: 'boolean' },
  verbose: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

/** The options of a command line; undefined for a wrong one. */
function optionsIn(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS }).values;
  } catch {
    return undefined;
  }
}

/** Starts a stage, plays the acts on it, and stops it. */
async function onStage(
  acts: readonly Act[],
  site: Site | undefined,
  reportDirectory: string,
  showing: Showing,
): Promise<boolean> {
  const { say, verbose } = showing;
  const stage = await startStage({
    reportDirectory,
    say,
    workerLog: verbose ? 'warn' : 'error',
    ...(site && { site }),
  });
  try {
    return await demonstrate(stage, acts, showing);
  } finally {
    await stage.stop();
  }
}

async function main(words: readonly string[]): Promise<number> {
  const options = optionsIn(words);
  const { plain = false, incident: isIncident = false, verbose = false, help = false } = options ?? {};
  const stop = new AbortController();
  const { out: say, err } = lineByLine(processContext(stop.signal));
  if (help || options === undefined) {
    USAGE.split('\n').forEach(help ? say : err);
    return help ? 0 : 2;
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());
  const begin = Date.now();
  say('A simulated Vault deployment with a real Temporal server. The demo plays every person, then exits.');
  const showing = { say, verbose, stop: stop.signal };
  const reports = resolve('reports');
  try {
    const passed = isIncident
      ? await demonstrateIncident(reports, showing)
      : await (plain
          ? onStage(PLAIN_ACTS, PLAIN, reports, showing)
          : onStage(SWITCHOVER_ACTS, undefined, reports, showing));
    const seconds = ((Date.now() - begin) / 1000).toFixed(1);
    say(`Demonstration ${passed ? 'passed' : 'FAILED'} after ${seconds} s. ${NEXT}`);
    return passed ? 0 : 1;
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    return 130;
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
