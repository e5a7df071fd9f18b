import { walSamplerIdPrefix } from '../contracts/observations';
import type { InputOf } from '../contracts/runbook-inputs';
import type { Deployment } from './schema';

/** A Schedule that the inventory asks for: it starts a run that nobody waits for. */
export interface WantedSchedule {
  readonly scheduleId: string;
  readonly runbook: ScheduledRunbook;
  readonly deployment: string;
  /** The server adds the time. Not the lock of the runbook: the run hands over to it. */
  readonly workflowId: string;
  readonly everyMs: number;
  /** After the beginning of each interval. */
  readonly offsetMs: number;
  /** As `runbook start` sends it. */
  readonly input: object;
}

export const SCHEDULED_RUNBOOKS = ['walSampler', 'readiness', 'batchTokenRotation'] as const;
type ScheduledRunbook = (typeof SCHEDULED_RUNBOOKS)[number];

/** Prefix of the IDs of the Schedules of a deployment for one runbook. */
export function scheduleIdOf(runbook: ScheduledRunbook, deployment: string): string {
  return `${runbook}:${deployment}`;
}

const SAMPLE_EVERY_MS = 5_000;
/** A run must end before the next one begins, also if its last sample waits for clusters that do not answer. */
const BEFORE_NEXT_MS = 10_000;
/** Limit of the input. */
const MOST_SAMPLES = 200;

/** The Schedules of a deployment. One batch token for each DR set that has one. Pure. */
export function wantedSchedules({ name, schedules, batchTokens }: Deployment): WantedSchedule[] {
  const { walSampler, readiness, batchTokenRotation } = schedules;
  const wanted = (runbook: ScheduledRunbook, everyMs: number | undefined, workflowId: string, input: object) =>
    everyMs === undefined
      ? []
      : [
          {
            scheduleId: scheduleIdOf(runbook, name),
            runbook,
            deployment: name,
            workflowId,
            everyMs,
            offsetMs: 0,
            input,
          },
        ];
  const sets = Object.keys(batchTokens);
  const rotations = sets.flatMap((drSet, index) => {
    const input = { deployment: name, reason: 'scheduled rotation', when: 'due' } as const;
    const [rotation] = wanted('batchTokenRotation', batchTokenRotation, `batch-token-scheduled:${name}`, input);
    if (rotation === undefined || sets.length === 1) return rotation ?? [];
    // The rotations of a deployment have one lock: they must not start at the same time.
    const offsetMs = Math.floor((index * rotation.everyMs) / sets.length / 1_000) * 1_000;
    const ids = { scheduleId: `${rotation.scheduleId}:${drSet}`, workflowId: `${rotation.workflowId}:${drSet}` };
    return {
      ...rotation,
      ...ids,
      offsetMs,
      input: { ...input, drSet } satisfies Partial<InputOf<'batchTokenRotation'>>,
    };
  });
  const samples = Math.min(MOST_SAMPLES, Math.floor(((walSampler ?? 0) - BEFORE_NEXT_MS) / SAMPLE_EVERY_MS) + 1);
  return [
    ...wanted('walSampler', walSampler, `${walSamplerIdPrefix(name)}scheduled`, { deployment: name, samples }),
    ...wanted('readiness', readiness, `readiness-scheduled:${name}`, { deployment: name }),
    ...rotations,
  ];
}
