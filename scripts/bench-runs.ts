import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle, Client } from '@temporalio/client';
import { processContext } from '../src/cli/context';
import { EXIT } from '../src/cli/errors';
import { runCli } from '../src/cli/program';
import { approveWords, DEPLOYMENT, shareWords } from '../src/cli/demo/people';
import type { Site } from '../src/cli/demo/payments';
import { startStage } from '../src/cli/demo/stage';
import type { RunStatus } from '../src/contracts/run-status';
import { QUERIES } from '../src/contracts/signals';
import { ceremonyWorkflowId, deploymentWorkflowId } from '../src/contracts/names';
import type { Report } from '../src/contracts/report';
import { readHistory, timestampMs } from '../src/report/run-history';

/** One DR primary and one DR secondary with three nodes each, switched over and back without a pause. */
const SITE: Site = {
  topology: {
    seed: 23,
    pace: 'quick',
    // The service adds no time beyond its calls, so any time beyond the calls is the runbook's own.
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

/** Name of the current DR secondary, which changes with each switchover. */
function secondaryOf({ service }: Laboratory): 'east' | 'west' {
  return service.cluster('west').snapshotState().dr.mode === 'secondary' ? 'west' : 'east';
}

/** Starts the laboratory. {@link Laboratory.stop} removes all of it. */
export async function startLaboratory(say: (line: string) => unknown) {
  // As a worker is by default: without report files.
  const { server, payments, worker, environment, stop } = await startStage({ site: SITE, say });
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

/** The simulated deployment, its people, and a worker process. */
export type Laboratory = Awaited<ReturnType<typeof startLaboratory>>;

/** Peak resident memory of a process, in bytes; undefined if the system does not report it. */
async function peakBytes(pid: number | undefined): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid ?? 0}/status`, 'utf8').catch(() => '');
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}

const DEADLINE_MS = 300_000;
/** Each query is work for server and worker: more frequent queries would distort the measurement. */
const POLL_MS = 150;

/** Polls the status of the run until `find` returns a value. */
async function waitFor<T>(handle: WorkflowHandle, find: (status: RunStatus) => T | undefined): Promise<T> {
  const deadline = Date.now() + DEADLINE_MS;
  while (Date.now() < deadline) {
    const status = await handle.query<RunStatus | null>(QUERIES.status);
    const found = status ? find(status) : undefined;
    if (found !== undefined) return found;
    if (status?.outcome !== undefined) throw new Error(`The run ended as ${status.outcome} too early.`);
    await delay(POLL_MS);
  }
  throw new Error(`The run did not ask for people within ${DEADLINE_MS / 1000} s.`);
}

/** The people in a group; holders in the order of their shares. */
const groupOf = ({ people }: Laboratory, group: string) => people.filter(({ groups }) => groups.includes(group));

/** Runs `runbook` in this process as a person. Does not wait for a receipt: its queries would distort the measurement. */
async function give({ environment }: Laboratory, words: readonly string[]): Promise<void> {
  const output: string[] = [];
  const keep = (line: string): void => void output.push(line);
  const context = { ...processContext(new AbortController().signal), env: environment, out: keep, err: keep };
  const code = await runCli([...words, '--timeout', '0'], context);
  if (code !== EXIT.pending) throw new Error(output.join('\n'));
}

/** In milliseconds, both from the same clock. */
type Interval = readonly [from: number, to: number];

/** Deployment, reason, and requester of each run. */
const REQUEST = { deployment: DEPLOYMENT, reason: 'benchmark', requestedBy: 'bench' };

/** Performs one switchover with three holders and one approver, who answer at once. */
export async function switchOver(client: Client, laboratory: Laboratory) {
  const { service } = laboratory;
  const workflowId = deploymentWorkflowId(DEPLOYMENT);
  const to = secondaryOf(laboratory);
  service.calls.length = 0;
  const handle = await client.workflow.start('drSwitchover', {
    workflowId,
    taskQueue: laboratory.environment['RUNBOOKS_TASK_QUEUE'] ?? '',
    args: [{ ...REQUEST, to, go: 'auto' }],
  });
  await answerAsPeople(handle, laboratory, to);
  const report = (await handle.result()) as Report;
  if (report.outcome !== 'completed') throw new Error(`The switchover ended as ${report.outcome}.`);
  const calls = service.calls.flatMap(({ at, answeredAt }): Interval[] =>
    answeredAt === undefined ? [] : [[at, answeredAt]],
  );
  return { calls: calls.length, events: report.historyEvents, ...measure(report, calls) };
}

async function answerAsPeople(handle: WorkflowHandle, laboratory: Laboratory, to: string): Promise<void> {
  const { workflowId } = handle;
  const approve = async () => {
    const { gate, planDigest } = await waitFor(handle, ({ waiting }) =>
      waiting.find((each) => each.for === 'approval'),
    );
    for (const approver of groupOf(laboratory, 'approvers').slice(0, 1))
      await give(laboratory, approveWords(approver, gate, workflowId, planDigest));
  };
  const giveShares = async () => {
    await waitFor(handle, ({ waiting }) => waiting.find((each) => each.for === 'shares'));
    for (const holder of groupOf(laboratory, 'holders').slice(0, THRESHOLD))
      await give(laboratory, shareWords(holder, workflowId, to));
  };
  await Promise.all([approve(), giveShares()]);
}

/** Measurements of one switchover. */
export type Switchover = Awaited<ReturnType<typeof switchOver>>;

function measure(report: Report, busy: readonly Interval[]) {
  const time = (text: string | undefined): number => Date.parse(text ?? '');
  const [start, end] = [time(report.startedAt), time(report.endedAt)];
  // From the opening of the first gate to the last signal, the run waits for people and makes no long calls.
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
    /** From start to end of the run, without the time that it waited for people. */
    wholeMs: end - start - (people[1] - people[0]),
    /** The part of `wholeMs` in which at least one call to the service was in progress. */
    inCallsMs: within(start, people[0]) + within(people[1], end),
    /** For each step that called the service: its duration without the time in which a call was in progress. */
    stepOverheadsMs,
  };
}

/** How many milliseconds of a window are covered by at least one of the intervals. */
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
/** Pause before the next query: a query is work for server and worker, and would distort a check that is in progress. */
const NEXT_QUERY_MS = 150;

/** Durations of one ceremony with three shares, in milliseconds between events that the Temporal server recorded. */
export type CeremonyTimes = Awaited<ReturnType<typeof holdCeremony>>;

/** Performs one `operationTokenCeremony`. Each holder answers after the previous share is accepted. */
export async function holdCeremony(client: Client, laboratory: Laboratory) {
  const cluster = secondaryOf(laboratory);
  const handle = await client.workflow.start('operationTokenCeremony', {
    workflowId: ceremonyWorkflowId(cluster),
    taskQueue: laboratory.environment['RUNBOOKS_TASK_QUEUE'] ?? '',
    args: [{ ...REQUEST, cluster, uses: ['dr.promote'], keepFor: '1h' }],
  });
  for (const [index, holder] of groupOf(laboratory, 'holders').slice(0, THRESHOLD).entries()) {
    await waitFor(handle, ({ waiting }) => waiting.find((each) => each.for === 'shares' && each.held.length === index));
    await give(laboratory, shareWords(holder, handle.workflowId, cluster));
    await delay(NEXT_QUERY_MS);
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
    throw new Error('The ceremony did not take its usual course.');
  return {
    /** From the signal of each share to the verdict on it. */
    shareCheckedMs: signals.map((at, index) => (checks[index]?.closedAt ?? Number.NaN) - (at ?? 0)),
    /** From the scheduling of the generation to the available token. */
    generationMs: ended - began,
  };
}
