import type { SampledReplication, WalSample } from '../../src/contracts/wal-samples';

export type LossBound = ReturnType<typeof lossBound>;

/** What is known of the secondary now, where it still answers. */
interface KnownNow {
  /** Epoch ms. */
  readonly at: number;
  /** `last_remote_wal` of the secondary, of the same set as the samples. */
  readonly received?: string | undefined;
}

/** A change of the lag smaller than this is none, WAL entries per minute. */
const STEADY_PER_MINUTE = 10;

/** Reads DR replication of one cluster out of a sample; undefined where it did not answer or does not replicate. */
function sampledDr(sample: WalSample, cluster: string): SampledReplication | undefined {
  const found = sample.clusters.find((each) => each.cluster === cluster)?.dr;
  return found?.mode === 'unknown' ? undefined : found;
}

/**
 * The samples, oldest first, since the two clusters have had their present roles: WAL indexes from before a change of
 * the primary must not be compared with those after it.
 */
function sinceRoles(samples: readonly WalSample[], primary: string, secondary: string): WalSample[] {
  const sorted = samples.toSorted((a, b) => a.at - b.at);
  const other = sorted.findLastIndex((sample) => {
    const [from, to] = [sampledDr(sample, primary), sampledDr(sample, secondary)];
    return (
      (from && from.mode !== 'primary') ||
      (to && to.mode !== 'secondary') ||
      (from?.setId !== undefined && to?.setId !== undefined && from.setId !== to.setId)
    );
  });
  return sorted.slice(other + 1);
}

/** The lag at each sample that tells both sides, WAL entries. Nothing streamed yet (`0`) is not lag, and gives no point. */
function lagPoints(samples: readonly WalSample[], primary: string, secondary: string) {
  return sinceRoles(samples, primary, secondary).flatMap((sample) => {
    const written = sampledDr(sample, primary)?.lastWal;
    const received = sampledDr(sample, secondary)?.lastRemoteWal;
    if (written === undefined || received === undefined || BigInt(received) === 0n) return [];
    return [{ at: sample.at, entries: atLeastNone(BigInt(written) - BigInt(received)) }];
  });
}

const atLeastNone = (entries: bigint): bigint => (entries > 0n ? entries : 0n);

/** Whether the secondary falls behind, by a line through all samples; not known of fewer than two. */
export function lagTrend(samples: readonly WalSample[], primary: string, secondary: string) {
  const points = lagPoints(samples, primary, secondary);
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last || last.at === first.at) {
    const why = `${points.length} samples tell the WAL of both ${primary} and ${secondary}; a trend needs two`;
    return { trend: 'not-known', why } as const;
  }
  const perMinute = Math.round(slopePerMs(points) * 60_000 * 100) / 100;
  const trend = Math.abs(perMinute) < STEADY_PER_MINUTE ? 'steady' : perMinute > 0 ? 'growing' : 'shrinking';
  const minutes = Math.round((last.at - first.at) / 6_000) / 10;
  const why = `lag ${first.entries} to ${last.entries} WAL entries over ${minutes} minutes, ${perMinute} per minute`;
  return { trend, why } as const;
}

/** Slope of the line of least squares. */
function slopePerMs(points: readonly { readonly at: number; readonly entries: bigint }[]): number {
  const origin = points[0]?.at ?? 0;
  const mean = (of: (x: number, y: number) => number) =>
    points.reduce((sum, { at, entries }) => sum + of(at - origin, Number(entries)), 0) / points.length;
  const [mx, my] = [mean((x) => x), mean((_, y) => y)];
  const spread = mean((x) => (x - mx) ** 2);
  return spread === 0 ? 0 : mean((x, y) => (x - mx) * (y - my)) / spread;
}

/**
 * What a failover to the secondary loses as far as samples prove it: what the primary had written at its last sample
 * and the secondary has not. Never the whole loss: writes after that sample are not known. `bound` is of WAL entries,
 * decimal, and undefined where even this is not known; `sampleAt` is when the primary told its WAL last.
 */
export function lossBound(
  samples: readonly WalSample[],
  primary: string,
  secondary: string,
  now: KnownNow,
): { readonly bound: string | undefined; readonly sampleAt?: number; readonly why: string } {
  if (samples.length === 0) return { bound: undefined, why: 'there are no WAL samples of this deployment' };
  const counting = sinceRoles(samples, primary, secondary);
  const written = counting.flatMap((sample) => {
    const wal = sampledDr(sample, primary)?.lastWal;
    return wal === undefined ? [] : [{ at: sample.at, entries: BigInt(wal) }];
  });
  const told = written.at(-1);
  if (!told) {
    const why = `no WAL sample shows ${primary} as primary and ${secondary} as its secondary since their last change of roles`;
    return { bound: undefined, why };
  }
  const age = `${Math.max(0, Math.round((now.at - told.at) / 1_000))} s old`;
  const receivedThen = counting
    .flatMap((sample) => sampledDr(sample, secondary)?.lastRemoteWal ?? [])
    .reduce((most, each) => (BigInt(each) > most ? BigInt(each) : most), 0n);
  const received = now.received === undefined ? receivedThen : BigInt(now.received);
  const perMinute = Math.max(0, Math.round(slopePerMs(written) * 60_000));
  const rate = written.length < 2 ? '' : ` (it wrote about ${perMinute} entries per minute before)`;
  const wrote = `${primary} had written up to WAL ${told.entries} at its last sample (${age})`;
  const after = `what ${primary} wrote after that sample is not known${rate}`;
  if (received === 0n) {
    const why = `${wrote}; what ${secondary} received is not told; ${after}`;
    return { bound: undefined, sampleAt: told.at, why };
  }
  const missing = told.entries - received;
  const bound = atLeastNone(missing).toString();
  const has = missing > 0n ? `lacks at least ${bound} of these entries` : 'has every entry up to that sample';
  const seen = now.received === undefined ? 'by its last sample' : 'by now';
  const why = `${wrote}; ${secondary} had received up to ${received} ${seen} and ${has}; ${after}`;
  return { bound, sampleAt: told.at, why };
}
