import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { walSamplerIdPrefix } from '../../src/contracts/observations';
import { findDeployment } from '../../src/inventory';
import { RecordTable } from '../record-table';
import type { ActivityDependencies } from '../dependencies';
import { tellAlarm } from './watch';

/** The last sample before people were notified that none came any more, epoch ms, and a mark of who notified them. */
const entrySchema = z.object({ since: z.number(), by: z.string() });
type Entry = z.infer<typeof entrySchema>;
const noSamples = new RecordTable('no-samples', entrySchema);

/** Intervals of the Schedule without a result. */
const INTERVALS = 3;
const DEADLINE_MS = 5_000;
/** Runs that are looked at: each failed one is a minute without samples. */
const RUNS = 50;

type Dependencies = Pick<ActivityDependencies, 'inventory' | 'log' | 'records' | 'temporal'>;

/**
 * Notifies people, once, that `walSampler` records nothing any more, and once that it does again. For the workers' sweep:
 * a sampler that is dead cannot report it. A deployment that has never been sampled is a point of readiness.
 *
 * @param upSince - when this worker started, epoch ms: the samples that were missed while no worker ran are over
 */
export async function watchSampler(
  dependencies: Dependencies,
  ns: string,
  deployment: string,
  upSince: number,
): Promise<void> {
  const { inventory, records } = dependencies;
  const { walSampler: everyMs } = findDeployment(inventory, deployment).schedules;
  const { last, runsFail } = everyMs === undefined ? {} : await lastSample(dependencies, deployment);
  // Without any result in sight, what people know stays as it is.
  if (everyMs !== undefined && last === undefined) return;
  const now = Date.now();
  const open = await noSamples.get(records, deployment);
  const isLate = everyMs !== undefined && last !== undefined && now - Math.max(last, upSince) > INTERVALS * everyMs;
  if (isLate === (open !== undefined)) return;
  const since = open?.since ?? last ?? now;
  const alarm = { kind: 'no-samples', seen: [], ...(runsFail === true && { runsFail }) } as const;
  const due = isLate ? ('tell' as const) : ('end' as const);
  const run = { ns, wid: `${walSamplerIdPrefix(deployment)}watch`, rid: '' };
  // Two writes of the same content would count as one.
  const entry: Entry = { since, by: randomUUID() };
  const [from, to] = isLate ? [undefined, entry] : [entry, undefined];
  const change = (now: Entry | undefined, counts?: (known: Entry | undefined) => boolean) =>
    noSamples.put(records, deployment, '', now, counts);
  // Of several workers that sweep, the one whose write succeeds sends the notification.
  if (!(await change(to, (known) => (known === undefined) === isLate))) return;
  const told = await tellAlarm(dependencies, deployment, { subject: 'no-samples', alarm, since, at: now, due }, run);
  // Nobody has it: the next sweep tries again.
  if (!told) await change(from);
}

/** When a run of the sampler ended last with a result, and whether runs have begun since. Nothing if there was never one. */
async function lastSample({ temporal, records }: Dependencies, deployment: string) {
  const query = `WorkflowType = "walSampler" AND WorkflowId STARTS_WITH "${walSamplerIdPrefix(deployment)}"`;
  return temporal.withDeadline(Date.now() + DEADLINE_MS, async () => {
    let failed = 0;
    // The newest come first.
    for await (const { status, closeTime, taskQueue } of temporal.workflow.list({ query, pageSize: RUNS })) {
      if (taskQueue !== records.taskQueue) continue;
      if (status.name === 'COMPLETED' && closeTime) return { last: closeTime.getTime(), runsFail: failed > 0 };
      if (status.name !== 'RUNNING') failed += 1;
    }
    return {};
  });
}
