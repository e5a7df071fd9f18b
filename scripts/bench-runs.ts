import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle, Client } from '@temporalio/client';
import { processContext } from '../src/cli/context';
import { EXIT } from '../src/cli/errors';
import { runCli } from '../src/cli/program';
import { approveWords, DEPLOYMENT, shareWords } from '../src/demo/people';
import type { Site } from '../src/demo/payments';
import { startStage } from '../src/demo/stage';
import type { RunStatus } from '../src/contracts/run-status';
import { QUERIES } from '../src/contracts/signals';
import { ceremonyWorkflowId, deploymentWorkflowId } from '../src/contracts/names';
import type { Report } from '../src/contracts/report';
import { readHistory, timestampMs } from '../src/report/run-history';

/** One DR primary and one DR secondary of three nodes each, switched over and back without a pause. */
const SITE: Site = {
  topology: {
    seed: 23,
    pace: 'quick',
    // No time beyond its calls, so that what a run takes longer than its calls is the runbook's own.
    timing: {
      restartMs: 0,
      electionMs: 0,
      standbyModeLagMs: 0,
      secondaryTokenRefusedMs: 0,
      streamDelayMs: 0,
      merkleDiffMs: 0,
      merkleSyncMs: 0,
    },
    clusters: [{ name: 'east' }, { name: 'west' }],
    dr: [{ primary: 'east', secondaries: ['west'] }],
  },
  members: () => ({
    drSets: { main: ['east', 'west'] },
    quiesce: 'attested',
    limits: { coolDown: '1ms', walStill: '1ms' },
  }),
};

/** Name of the cluster that is the DR secondary now: each switchover changes it. */
function secondaryOf({ service }: Laboratory): 'east' | 'west' {
  return service.cluster('west').snapshotState().dr.mode === 'secondary' ? 'west' : 'east';
}

/** Starts the laboratory; nothing of it stays behind after {@link Laboratory.stop}. */
export async function startLaboratory(say: (line: string) => unknown) {
  const reportDirectory = await mkdtemp(join(tmpdir(), 'replication-runbooks-bench-'));
  const stage = await startStage({ site: SITE, reportDirectory, say });
  const { server, payments, worker, environment } = stage;
  const stop = async (): Promise<void> => {
    await stage.stop();
    await rm(reportDirectory, { recursive: true, force: true });
  };
  const { service, people } = payments;
  return {
    server,
    service,
    environment,
    people: [...people.values()],
    workerPeakBytes: () => peakBytes(worker.pid),
    stop,
  };
}

/** The site, its people, and a worker process. */
export type Laboratory = Awaited<ReturnType<typeof startLaboratory>>;

/** Greatest resident memory that a process has had; undefined where the system does not tell. */
async function peakBytes(pid: number | undefined): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid ?? 0}/status`, 'utf8').catch(() => '');
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}

const DEADLINE_MS = 300_000;
/** A look is a task of server and worker: more of them would be measured too. */
const POLL_MS = 150;

/** What the run's status gives, as soon as it gives something. */
async function lookFor<T>(handle: WorkflowHandle, look: (status: RunStatus) => T | undefined): Promise<T> {
  const deadline = Date.now() + DEADLINE_MS;
  while (Date.now() < deadline) {
    const status = await handle.query<RunStatus | null>(QUERIES.status);
    const found = status ? look(status) : undefined;
    if (found !== undefined) return found;
    if (status?.outcome !== undefined) throw new Error(`the run ended as ${status.outcome} before it asked`);
    await delay(POLL_MS);
  }
  throw new Error(`the run did not ask within ${DEADLINE_MS / 1000} s`);
}

/** The people of a group; holders in the order of their shares. */
const groupOf = ({ people }: Laboratory, group: string) => people.filter(({ groups }) => groups.includes(group));

/** As a person: `runbook` in this process. It waits for no receipt, whose looks at the run would be measured too. */
async function give({ environment }: Laboratory, words: readonly string[]): Promise<void> {
  const told: string[] = [];
  const keep = (line: string): void => void told.push(line);
  const context = { ...processContext(new AbortController().signal), env: environment, out: keep, err: keep };
  const code = await runCli([...words, '--timeout', '0'], context);
  if (code !== EXIT.pending) throw new Error(told.join('\n'));
}

/** Milliseconds of one clock. */
type Interval = readonly [from: number, to: number];

/** Who asks, and why. */
const ASKED = { deployment: DEPLOYMENT, reason: 'benchmark', requestedBy: 'bench' };

/** Does one switchover with three holders and one approver, who answer at once. */
export async function switchOver(client: Client, laboratory: Laboratory) {
  const { service } = laboratory;
  const workflowId = deploymentWorkflowId(DEPLOYMENT);
  const to = secondaryOf(laboratory);
  service.calls.length = 0;
  const handle = await client.workflow.start('drSwitchover', {
    workflowId,
    taskQueue: laboratory.environment['RUNBOOKS_TASK_QUEUE'] ?? '',
    args: [{ ...ASKED, to, go: 'auto' }],
  });
  await answerAsPeople(handle, laboratory, to);
  const report = (await handle.result()) as Report;
  if (report.outcome !== 'completed') throw new Error(`the switchover ended as ${report.outcome}`);
  const calls = service.calls.flatMap(({ at, answeredAt }): Interval[] =>
    answeredAt === undefined ? [] : [[at, answeredAt]],
  );
  return { calls: calls.length, events: report.historyEvents, ...measure(report, calls) };
}

async function answerAsPeople(handle: WorkflowHandle, laboratory: Laboratory, to: string): Promise<void> {
  const { workflowId } = handle;
  const approve = async () => {
    const { gate, planDigest } = await lookFor(handle, ({ waiting }) =>
      waiting.find((each) => each.for === 'approval'),
    );
    for (const approver of groupOf(laboratory, 'approvers').slice(0, 1))
      await give(laboratory, approveWords(approver, gate, workflowId, planDigest));
  };
  const giveShares = async () => {
    await lookFor(handle, ({ waiting }) => waiting.find((each) => each.for === 'shares'));
    for (const holder of groupOf(laboratory, 'holders').slice(0, THRESHOLD))
      await give(laboratory, shareWords(holder, workflowId, to));
  };
  await Promise.all([approve(), giveShares()]);
}

/** What one switchover did. */
export type Switchover = Awaited<ReturnType<typeof switchOver>>;

function measure(report: Report, busy: readonly Interval[]) {
  const time = (text: string | undefined): number => Date.parse(text ?? '');
  const [start, end] = [time(report.startedAt), time(report.endedAt)];
  // From the first gate's opening to the last signal the run waits for people; no call is made for long then.
  const asked = Math.min(...report.gates.map(({ openedAt }) => time(openedAt)));
  const answered = Math.max(...report.receipts.map(({ at }) => time(at)));
  const people: Interval = [asked, Math.max(asked, answered)];
  const within = (from: number, to: number): number => overlap(busy, [from, to]);
  const stepOverheadsMs = report.steps.flatMap((step) => {
    const [from, to] = [time(step.startedAt), time(step.endedAt)];
    const inCalls = within(from, to);
    return inCalls === 0 || (from < people[1] && to > people[0]) ? [] : [to - from - inCalls];
  });
  return {
    /** From the run's start to its end without the time from the invitation to the last answer of a person. */
    wholeMs: end - start - (people[1] - people[0]),
    /** Within that: at least one call to the service was under way. */
    inCallsMs: within(start, people[0]) + within(people[1], end),
    /** Of each step that made a call to the service: what it took beyond the time in which one was under way. */
    stepOverheadsMs,
  };
}

/** How much of `window` is covered by at least one of the intervals. */
function overlap(intervals: readonly Interval[], [from, to]: Interval): number {
  let covered = 0;
  let reached = from;
  for (const [begin, end] of [...intervals].sort((a, b) => a[0] - b[0])) {
    const first = Math.max(begin, reached);
    const last = Math.min(end, to);
    if (last <= first) continue;
    covered += last - first;
    reached = last;
  }
  return covered;
}

const THRESHOLD = 3;
/** A look at the run is a task of server and worker: one in the middle of a check would be measured with it. */
const NEXT_LOOK_MS = 150;

/** What one ceremony of three shares took, in milliseconds between events that the Temporal server recorded. */
export type CeremonyTimes = Awaited<ReturnType<typeof holdCeremony>>;

/** One `operationTokenCeremony`; each holder answers when the one before has their receipt. */
export async function holdCeremony(client: Client, laboratory: Laboratory) {
  const cluster = secondaryOf(laboratory);
  const handle = await client.workflow.start('operationTokenCeremony', {
    workflowId: ceremonyWorkflowId(cluster),
    taskQueue: laboratory.environment['RUNBOOKS_TASK_QUEUE'] ?? '',
    args: [{ ...ASKED, cluster, uses: ['dr.promote'], keepFor: '1h' }],
  });
  for (const [index, holder] of groupOf(laboratory, 'holders').slice(0, THRESHOLD).entries()) {
    await lookFor(handle, ({ waiting }) => waiting.find((each) => each.for === 'shares' && each.held.length === index));
    await give(laboratory, shareWords(holder, handle.workflowId, cluster));
    await delay(NEXT_LOOK_MS);
  }
  await handle.result();
  const history = await handle.fetchHistory();
  const { activities } = readHistory(history);
  const checks = activities.filter(({ type }) => type === 'openEnvelopes');
  const signals = (history.events ?? []).flatMap((event) =>
    event.workflowExecutionSignaledEventAttributes?.signalName === 'share' ? [timestampMs(event.eventTime)] : [],
  );
  const began = activities.find(({ type }) => type === 'startGeneration')?.scheduledAt;
  const ended = activities.find(({ type }) => type === 'completeGeneration')?.closedAt;
  if (checks.length !== THRESHOLD || began === undefined || ended === undefined)
    throw new Error('the ceremony did not take its usual course');
  return {
    /** From the signal of each share to the verdict on it. */
    shareCheckedMs: signals.map((at, index) => (checks[index]?.closedAt ?? Number.NaN) - (at ?? 0)),
    /** From the order of the generation to the token in hand. */
    generationMs: ended - began,
  };
}
