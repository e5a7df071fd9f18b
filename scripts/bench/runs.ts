import { setTimeout as delay } from 'node:timers/promises';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { ceremonyWorkflowId, deploymentWorkflowId } from '../../src/contracts/names';
import type { Report } from '../../src/contracts/report';
import { SIGNALS } from '../../src/contracts/signals';
import { DOCUMENT_TYPES, signDocument } from '../../src/keys';
import { readHistory, timestampMs } from '../../src/report/run-history';
import { DEPLOYMENT } from '../../src/demo/people';
import { answer, APPROVER, giveShare, HOLDERS, personsKey, secondaryOf } from './laboratory';
import type { Laboratory } from './laboratory';

/** Milliseconds of one clock. */
type Interval = readonly [from: number, to: number];

/** Who asks, and why. */
const ASKED = { deployment: DEPLOYMENT, reason: 'benchmark', requestedBy: 'bench' };

/** Does one switchover with three holders and one approver, who answer at once. */
export async function switchOver(client: Client, laboratory: Laboratory, namespace: string) {
  const { service } = laboratory;
  const workflowId = deploymentWorkflowId(DEPLOYMENT);
  const to = secondaryOf(laboratory);
  service.calls.length = 0;
  const handle = await client.workflow.start('drSwitchover', {
    workflowId,
    taskQueue: laboratory.taskQueue,
    args: [{ ...ASKED, to, go: 'auto' }],
  });
  await answerAsPeople(handle, laboratory, namespace, workflowId);
  const report = (await handle.result()) as Report;
  if (report.outcome !== 'completed') throw new Error(`the switchover ended as ${report.outcome}`);
  const calls = service.calls.flatMap(({ at, answeredAt }): Interval[] =>
    answeredAt === undefined ? [] : [[at, answeredAt]],
  );
  return { calls: calls.length, events: report.historyEvents, ...measure(report, calls) };
}

async function answerAsPeople(
  handle: WorkflowHandle,
  laboratory: Laboratory,
  namespace: string,
  workflowId: string,
): Promise<void> {
  const approved = answer(handle, 'approval', async ({ planDigest, gate }, { runId: rid }) => {
    const key = personsKey(laboratory, APPROVER);
    const iat = Math.floor(Date.now() / 1000);
    const document = await signDocument(
      DOCUMENT_TYPES.approval,
      { ns: namespace, wid: workflowId, rid, gate, planDigest, verdict: 'approve', comment: '', name: APPROVER, iat },
      key,
    );
    await handle.signal(SIGNALS.approve, { document });
  });
  const shared = answer(handle, 'shares', async ({ threshold }, { invitation = '' }) => {
    for (const holder of HOLDERS.slice(0, threshold)) await giveShare(handle, laboratory, holder, invitation);
  });
  await Promise.all([approved, shared]);
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
    taskQueue: laboratory.taskQueue,
    args: [{ ...ASKED, cluster, uses: ['dr.promote'], keepFor: '1h' }],
  });
  for (const [index, holder] of HOLDERS.slice(0, THRESHOLD).entries()) {
    await answer(
      handle,
      'shares',
      async (_waiting, { invitation = '' }) => {
        await giveShare(handle, laboratory, holder, invitation);
        await delay(NEXT_LOOK_MS);
      },
      ({ held }) => held.length === index,
    );
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
