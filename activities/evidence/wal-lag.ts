import type { LagSummary, LagTrendName, SampledReplication, Silence, WalSample } from '../../src/contracts/wal-samples';

type Kind = 'dr' | 'performance';

/** The lag of a secondary at one time, WAL entries. */
interface LagPoint {
  readonly at: number;
  readonly lag: bigint;
}

interface LagTrend {
  readonly trend: LagTrendName;
  /** Change of the lag, WAL entries per minute; absent where it is not known. */
  readonly perMinute?: number;
  readonly samples: number;
  readonly why: string;
}

export interface LossBound {
  /**
   * WAL entries, decimal: what the primary had written at its last sample and the secondary had not received. What was
   * written after that sample comes on top of it and is not known. Absent where even this is not known.
   */
  readonly bound: string | undefined;
  /** When the primary told its WAL last, epoch ms. */
  readonly sampleAt?: number;
  readonly why: string;
}

/** What is known of the secondary now, where it still answers. */
interface KnownNow {
  /** Epoch ms. */
  readonly at: number;
  /** `last_remote_wal` of the secondary, of the same set as the samples. */
  readonly received?: string | undefined;
}

/** A change of the lag smaller than this is none, WAL entries per minute. */
const STEADY_PER_MINUTE = 10;

/** Reads one kind of one cluster out of a sample; undefined where it did not answer or does not replicate. */
function of(sample: WalSample, cluster: string, kind: Kind): SampledReplication | undefined {
  const found = sample.clusters.find((each) => each.cluster === cluster);
  const replication = found?.[kind];
  return replication?.mode === 'unknown' ? undefined : replication;
}

/**
 * The samples, oldest first, since the two clusters have had their present roles: WAL indexes from before a change of
 * the primary must not be compared with those after it.
 */
function sinceRoles(samples: readonly WalSample[], primary: string, secondary: string, kind: Kind): WalSample[] {
  const sorted = samples.toSorted((a, b) => a.at - b.at);
  const other = sorted.findLastIndex((sample) => {
    const [from, to] = [of(sample, primary, kind), of(sample, secondary, kind)];
    return (
      (from && from.mode !== 'primary') ||
      (to && to.mode !== 'secondary') ||
      (from?.setId !== undefined && to?.setId !== undefined && from.setId !== to.setId)
    );
  });
  return sorted.slice(other + 1);
}

/** The lag at each sample that tells both sides. Nothing streamed yet (`0`) is not lag, and gives no point. */
function lagPoints(samples: readonly WalSample[], primary: string, secondary: string, kind: Kind = 'dr'): LagPoint[] {
  return sinceRoles(samples, primary, secondary, kind).flatMap((sample) => {
    const written = of(sample, primary, kind)?.lastWal;
    const received = of(sample, secondary, kind)?.lastRemoteWal;
    if (written === undefined || received === undefined || BigInt(received) === 0n) return [];
    const lag = BigInt(written) - BigInt(received);
    return [{ at: sample.at, lag: lag > 0n ? lag : 0n }];
  });
}

/** Whether the secondary falls behind, by a line through all samples. */
export function lagTrend(
  samples: readonly WalSample[],
  primary: string,
  secondary: string,
  kind: Kind = 'dr',
): LagTrend {
  const points = lagPoints(samples, primary, secondary, kind);
  const [first] = points;
  const last = points.at(-1);
  if (!first || !last || last.at === first.at) {
    const why = `${points.length} samples tell the WAL of both ${primary} and ${secondary}; a trend needs two`;
    return { trend: 'not-known', samples: points.length, why };
  }
  const perMinute = Math.round(slopePerMs(points) * 60_000 * 100) / 100;
  const trend = Math.abs(perMinute) < STEADY_PER_MINUTE ? 'steady' : perMinute > 0 ? 'growing' : 'shrinking';
  const minutes = Math.round((last.at - first.at) / 6_000) / 10;
  return {
    trend,
    perMinute,
    samples: points.length,
    why: `lag ${first.lag} to ${last.lag} WAL entries over ${minutes} minutes, ${perMinute} per minute`,
  };
}

/** Slope of the line of least squares. */
function slopePerMs(points: readonly LagPoint[]): number {
  const origin = points[0]?.at ?? 0;
  const xs = points.map(({ at }) => at - origin);
  const ys = points.map(({ lag }) => Number(lag));
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [mx, my] = [mean(xs), mean(ys)];
  const spread = xs.reduce((sum, x) => sum + (x - mx) ** 2, 0);
  return spread === 0 ? 0 : xs.reduce((sum, x, index) => sum + (x - mx) * ((ys[index] ?? 0) - my), 0) / spread;
}

/**
 * What a failover to the secondary loses as far as samples prove it: what the primary had written at its last sample
 * and the secondary has not. Never the whole loss: writes after that sample are not known.
 */
export function lossBound(
  samples: readonly WalSample[],
  primary: string,
  secondary: string,
  now: KnownNow,
  kind: Kind = 'dr',
): LossBound {
  if (samples.length === 0) return { bound: undefined, why: 'there are no WAL samples of this deployment' };
  const counting = sinceRoles(samples, primary, secondary, kind);
  const told = counting.findLast((sample) => of(sample, primary, kind)?.lastWal !== undefined);
  const written = told && of(told, primary, kind)?.lastWal;
  if (!told || written === undefined) {
    const why = `no WAL sample shows ${primary} as primary and ${secondary} as its secondary since their last change of roles`;
    return { bound: undefined, why };
  }
  const age = `${Math.max(0, Math.round((now.at - told.at) / 1_000))} s old`;
  const receivedThen = counting
    .flatMap((sample) => of(sample, secondary, kind)?.lastRemoteWal ?? [])
    .reduce((most, each) => (BigInt(each) > most ? BigInt(each) : most), 0n);
  const received = now.received === undefined ? receivedThen : BigInt(now.received);
  const after = `what ${primary} wrote after that sample is not known${rateInWords(counting, primary, kind)}`;
  if (received === 0n) {
    return {
      bound: undefined,
      sampleAt: told.at,
      why: `${primary} had written up to WAL ${written} at its last sample (${age}); what ${secondary} received is not told; ${after}`,
    };
  }
  const missing = BigInt(written) - received;
  const bound = (missing > 0n ? missing : 0n).toString();
  const has = missing > 0n ? `lacks at least ${bound} of these entries` : 'has every entry up to that sample';
  const seen = now.received === undefined ? 'by its last sample' : 'by now';
  return {
    bound,
    sampleAt: told.at,
    why: `${primary} had written up to WAL ${written} at its last sample (${age}); ${secondary} had received up to ${received} ${seen} and ${has}; ${after}`,
  };
}

function rateInWords(samples: readonly WalSample[], primary: string, kind: Kind): string {
  const points = samples.flatMap((sample) => {
    const wal = of(sample, primary, kind)?.lastWal;
    return wal === undefined ? [] : [{ at: sample.at, lag: BigInt(wal) }];
  });
  if (points.length < 2) return '';
  return ` (it wrote about ${Math.max(0, Math.round(slopePerMs(points) * 60_000))} entries per minute before)`;
}

/** One summary for each secondary behind each primary of its set that the samples show. */
export function summariseLags(samples: readonly WalSample[]): LagSummary[] {
  const names = [...new Set(samples.flatMap((sample) => sample.clusters.map(({ cluster }) => cluster)))];
  const links = (['dr', 'performance'] as const).flatMap((kind) =>
    names.flatMap((primary) =>
      names
        .filter((secondary) => secondary !== primary && isLink(samples, primary, secondary, kind))
        .map((secondary) => ({ kind, primary, secondary })),
    ),
  );
  return links.map(({ kind, primary, secondary }) => {
    const lags = lagPoints(samples, primary, secondary, kind).map(({ lag }) => lag);
    const { trend, perMinute } = lagTrend(samples, primary, secondary, kind);
    const least = lags.reduce((least, each) => (each < least ? each : least), lags[0] ?? 0n);
    const most = lags.reduce((most, each) => (each > most ? each : most), 0n);
    return {
      kind,
      primary,
      secondary,
      samples: lags.length,
      ...(lags.length === 0 ? {} : { min: String(least), max: String(most), last: String(lags.at(-1)) }),
      trend,
      ...(perMinute === undefined ? {} : { perMinute }),
    };
  });
}

/** Whether some sample shows the two as primary and secondary of one set. */
function isLink(samples: readonly WalSample[], primary: string, secondary: string, kind: Kind): boolean {
  return samples.some((sample) => {
    const [from, to] = [of(sample, primary, kind), of(sample, secondary, kind)];
    if (from?.mode !== 'primary' || to?.mode !== 'secondary') return false;
    return from.setId === undefined || to.setId === undefined || from.setId === to.setId;
  });
}

/** The times in which a cluster did not answer. */
export function silencesOf(samples: readonly WalSample[]): Silence[] {
  const silences: Silence[] = [];
  const names = [...new Set(samples.flatMap((sample) => sample.clusters.map(({ cluster }) => cluster)))];
  for (const cluster of names) {
    let lastAnswerAt: number | undefined;
    let open: Silence | undefined;
    for (const { at, clusters } of samples) {
      const seen = clusters.find((each) => each.cluster === cluster);
      if (!seen) continue;
      if (seen.answered) {
        if (open) silences.push({ ...open, answeredAgainAt: at });
        open = undefined;
        lastAnswerAt = at;
      } else {
        const before = lastAnswerAt === undefined ? {} : { lastAnswerAt };
        open = open ? { ...open, samples: open.samples + 1 } : { cluster, ...before, silentSince: at, samples: 1 };
      }
    }
    if (open) silences.push(open);
  }
  return silences;
}
