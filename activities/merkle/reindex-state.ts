import { RunbookError } from '../../src/errors';
import type { ClusterAccess } from '../clusters';

/** Versions leave the epoch out of single answers: so many are read before it counts as not told. */
const EPOCH_READS = 4;

/** What the status says of a reindex (facts 3.1, 7). */
export interface ReindexState {
  readonly mode: string;
  readonly inProgress: boolean;
  readonly stage?: string | undefined;
  readonly progress?: number | undefined;
  readonly total?: number | undefined;
  /** `last_reindex_epoch`, seconds; 0: never, or one is under way. Absent where it is not told. */
  readonly epoch?: number | undefined;
  readonly corrupted?: boolean | undefined;
}

/**
 * Reads the state of the active node, found anew.
 *
 * @throws RunbookError SERVICE_UNAVAILABLE, which may be tried again, where the node restarts and tells no mode
 */
export async function readReindex({ client, entry }: ClusterAccess, signal: AbortSignal): Promise<ReindexState> {
  client.forgetActiveNode();
  const node = await client.activeNode({ signal });
  for (let reads = 1; ; reads += 1) {
    const status = await client.dr.status({ node, signal });
    switch (status.mode) {
      case 'unknown':
        throw new RunbookError('SERVICE_UNAVAILABLE', `${entry.name} does not tell its mode: it restarts.`, {
          cluster: entry.name,
          observed: 'mode unknown',
          needed: 'a mode',
        });
      case 'disabled':
      case 'unsupported':
        return { mode: status.mode, inProgress: false };
      default: {
        const { mode, lastReindexEpoch: epoch, reindexInProgress: inProgress = false } = status;
        if (epoch === undefined && !inProgress && reads < EPOCH_READS) continue;
        return {
          mode,
          inProgress,
          stage: status.reindexStage,
          progress: status.reindexBuildingProgress,
          total: status.reindexBuildingTotal,
          epoch: epoch === 'never' ? 0 : epoch,
          corrupted: status.corruptedMerkleTree,
        };
      }
    }
  }
}

export function describeReindex({ mode, inProgress, stage, progress, total, epoch }: ReindexState): string {
  if (inProgress) {
    const share = progress === undefined || total === undefined ? '' : `, ${progress} of ${total}`;
    return `${mode}, reindex in progress: ${stage ?? 'stage not told'}${share}`;
  }
  return `${mode}, no reindex in progress, last_reindex_epoch ${epoch ?? 'not told'}`;
}

/** Whether the state shows a reindex that began after `epochBefore` was read. */
export function showsReindexSince({ inProgress, epoch }: ReindexState, epochBefore: number | undefined): boolean {
  return inProgress || (epoch !== undefined && epochBefore !== undefined && epoch !== epochBefore);
}

/** Follows a reindex: its stages, and from the service's own count a rate and what is left. */
export class ReindexProgress {
  readonly #stages: {
    readonly stage: string;
    readonly since: number;
    until: number;
    /** The first count that was told. */
    counted?: Count;
  }[] = [];

  /** Takes one reading; gives it in words with rate and estimate. */
  note(state: ReindexState, now: number): string {
    if (!state.inProgress) return describeReindex(state);
    const stage = state.stage ?? 'stage not told';
    let current = this.#stages.at(-1);
    if (current) current.until = now;
    if (current?.stage !== stage) this.#stages.push((current = { stage, since: now, until: now }));
    const { progress, total } = state;
    if (progress === undefined) return describeReindex(state);
    const { counted } = current;
    current.counted ??= { progress, at: now };
    return [describeReindex(state), ...(counted ? estimate(counted, { progress, at: now }, total) : [])].join(', ');
  }

  get stages(): readonly { readonly stage: string; readonly seenForMs: number }[] {
    return this.#stages.map(({ stage, since, until }) => ({ stage, seenForMs: until - since }));
  }
}

interface Count {
  readonly progress: number;
  readonly at: number;
}

function estimate(first: Count, now: Count, total: number | undefined): string[] {
  const perSecond = ((now.progress - first.progress) * 1_000) / (now.at - first.at);
  if (!Number.isFinite(perSecond) || perSecond <= 0) return [];
  const rate = `${perSecond.toFixed(1)} per second`;
  return total === undefined
    ? [rate]
    : [rate, `about ${inWords((total - now.progress) / perSecond)} left in this stage`];
}

function inWords(seconds: number): string {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3_600).toFixed(1)} h`;
}
