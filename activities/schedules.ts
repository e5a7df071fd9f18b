import { isDeepStrictEqual } from 'node:util';
import { ScheduleNotFoundError, ScheduleOverlapPolicy } from '@temporalio/client';
import type { Client, ScheduleDescription, ScheduleOptions } from '@temporalio/client';
import { shellLine } from '../src/contracts/next-commands';
import { startMetadata } from '../src/contracts/start-metadata';
import { durationText } from '../src/contracts/words';
import type { WantedSchedule } from '../src/inventory';

/** A longer one would start runs for times that are long gone. */
const CATCH_UP_MS = 60_000;

/** A Schedule as the server has it, compared with what the inventory asks for. */
export interface ScheduleReading {
  readonly wanted: WantedSchedule;
  readonly state: 'as-wanted' | 'missing' | 'paused' | 'differs';
  /** What differs from the inventory, by name: values may be anybody's. */
  readonly differences: readonly string[];
  readonly paused: boolean;
  /** When it starts the next run, epoch ms. */
  readonly next: number | undefined;
}

/** What {@link readSchedule} compares, for `create` and `update`. Pure. */
export function scheduleOf(wanted: WantedSchedule, taskQueue: string) {
  const { runbook, deployment, workflowId, everyMs, offsetMs, input } = wanted;
  return {
    spec: { intervals: [{ every: everyMs, offset: offsetMs }] },
    action: {
      type: 'startWorkflow',
      workflowType: runbook,
      workflowId,
      taskQueue,
      args: [input],
      // As `runbook start` does.
      memo: { runbook, deployment },
      ...startMetadata(runbook, input, 'by its Schedule'),
    },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: CATCH_UP_MS, pauseOnFailure: false },
  } satisfies Omit<ScheduleOptions, 'scheduleId'>;
}

/**
 * Reads one Schedule and compares it.
 *
 * @throws the server's error if it does not answer or denies the request
 */
export async function readSchedule(
  temporal: Client,
  wanted: WantedSchedule,
  taskQueue: string,
): Promise<ScheduleReading> {
  try {
    const found = await temporal.schedule.getHandle(wanted.scheduleId).describe();
    const differences = differencesOf(wanted, taskQueue, found);
    const { paused } = found.state;
    const state = differences.length > 0 ? 'differs' : paused ? 'paused' : 'as-wanted';
    return { wanted, state, differences, paused, next: found.info.nextActionTimes[0]?.getTime() };
  } catch (error) {
    if (!(error instanceof ScheduleNotFoundError)) throw error;
    return { wanted, state: 'missing', differences: [], paused: false, next: undefined };
  }
}

/** Every member that changes what the Schedule does. */
function differencesOf(
  wanted: WantedSchedule,
  taskQueue: string,
  { action, spec, policies, state }: ScheduleDescription,
): string[] {
  const should = scheduleOf(wanted, taskQueue);
  const { calendars = [], intervals = [], skip = [], startAt, endAt, jitter } = spec;
  const members: readonly (readonly [name: string, is: unknown, wanted: unknown])[] = [
    ['interval', intervals, should.spec.intervals],
    ['other times', [calendars.length, skip.length, startAt, endAt, jitter || undefined].filter(Boolean), []],
    ['runbook', action.workflowType, should.action.workflowType],
    ['Workflow ID', action.workflowId, should.action.workflowId],
    ['task queue', action.taskQueue, should.action.taskQueue],
    ['input', action.args, should.action.args],
    // A run with one of these is refused.
    ['timeouts', [action.workflowExecutionTimeout, action.workflowRunTimeout].filter(Boolean), []],
    ['retry policy', action.retry !== undefined, false],
    ['overlap policy', policies.overlap, should.policies.overlap],
    ['catch-up window', policies.catchupWindow, should.policies.catchupWindow],
    ['pause on failure', policies.pauseOnFailure, should.policies.pauseOnFailure],
    ['number of runs', state.remainingActions || undefined, undefined],
  ];
  return members.flatMap(([name, is, wanted]) => (isDeepStrictEqual(asJson(is), asJson(wanted)) ? [] : [name]));
}

/** As it is sent: without members that are undefined, and without classes. */
function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify([value]));
}

/** A Schedule in one line. */
export function scheduleText({ state, differences, paused, wanted, next }: ScheduleReading): string {
  const held = paused ? 'paused' : '';
  switch (state) {
    case 'missing':
      return 'there is no such Schedule';
    case 'paused':
      return held;
    case 'differs':
      return [`differs from the inventory: ${differences.join(', ')}`, held].filter(Boolean).join('; ');
    case 'as-wanted': {
      const then = next === undefined ? '' : `, next ${new Date(next).toISOString()}`;
      return `every ${durationText(wanted.everyMs)}${then}`;
    }
  }
}

/** The command that mends Schedules which are not as wanted. */
export function scheduleFix(readings: readonly Pick<ScheduleReading, 'paused'>[]): string {
  return shellLine('runbook', 'schedules', 'apply', ...(readings.some(({ paused }) => paused) ? ['--unpause'] : []));
}
