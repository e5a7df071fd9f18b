import type {
  PointVerdict,
  ReadinessCandidate,
  ReadinessChange,
  ReadinessPoint,
  ReadinessResult,
  ReadinessVerdict,
} from '../../src/contracts/readiness';
import { redFirst } from '../../src/contracts/readiness-words';
import type { Topology } from './topology';

/** The check before, as far as it is compared. */
export interface EarlierReadiness {
  readonly runId: string;
  readonly at: string;
  readonly score: number;
  /** Absent in what an earlier version kept. */
  readonly switchover?: ReadinessVerdict | undefined;
  readonly failover?: ReadinessVerdict | undefined;
  readonly points: readonly Pick<ReadinessPoint, 'id' | 'about' | 'cluster' | 'verdict'>[];
}

type RoleChange = 'switchover' | 'failover';
type Level = 0 | 1 | 2;

const VERDICTS: readonly ReadinessVerdict[] = ['ready', 'ready-with-warnings', 'not-ready'];

/** Two verdicts, a number, and what changed since the last check. Pure. */
export function summarise(
  topology: Topology,
  points: readonly ReadinessPoint[],
  earlier: EarlierReadiness | undefined,
  at: number,
): ReadinessResult {
  return {
    schema: 'replication-runbooks/readiness/v1',
    deployment: topology.deployment.name,
    at: new Date(at).toISOString(),
    switchover: verdictOf(topology, points, 'switchover'),
    failover: verdictOf(topology, points, 'failover'),
    score: scoreOf(points),
    ...(earlier === undefined ? {} : { comparedWith: { at: earlier.at, runId: earlier.runId, score: earlier.score } }),
    candidates: candidatesOf(topology, points),
    changes: earlier === undefined ? [] : changesSince(earlier.points, points),
    points: redFirst(points),
  };
}

/** What can never be known counts neither way; what could be known and was not read counts against. */
export function scoreOf(points: readonly ReadinessPoint[]): number {
  const counted = points.filter((point) => !isBeyondKnowing(point));
  const value = counted.reduce((sum, { verdict }) => sum + (verdict === 'ok' ? 1 : verdict === 'warn' ? 0.5 : 0), 0);
  return counted.length === 0 ? 0 : Math.floor((100 * value) / counted.length);
}

function isBeyondKnowing({ verdict, source }: ReadinessPoint): boolean {
  return verdict === 'not-checkable' && source === 'not-checkable';
}

function levelOf(points: readonly ReadinessPoint[]): Level {
  if (points.some(({ verdict }) => verdict === 'fail')) return 2;
  return points.some((point) => point.verdict !== 'ok' && !isBeyondKnowing(point)) ? 1 : 0;
}

function worse(...levels: readonly Level[]): Level {
  return levels.reduce((worst: Level, each) => (each > worst ? each : worst), 0);
}

function concerning<P extends Pick<ReadinessPoint, 'about'>>(points: readonly P[], kind: RoleChange): P[] {
  return points.filter(({ about }) => about === kind || about === 'both');
}

/** Points that are about no DR secondary in particular. */
function general({ sets }: Topology, points: readonly ReadinessPoint[]): ReadinessPoint[] {
  const candidates = new Set(sets.flatMap(({ secondaries }) => secondaries.map(({ name }) => name)));
  return points.filter(({ cluster }) => cluster === undefined || !candidates.has(cluster));
}

/** Every set needs one DR secondary that is good enough; another one that is not is a warning. */
function verdictOf(topology: Topology, points: readonly ReadinessPoint[], kind: RoleChange): ReadinessVerdict {
  const relevant = concerning(points, kind);
  const levels = topology.sets.map(({ secondaries }): Level => {
    const own = secondaries.map(({ name }) => levelOf(relevant.filter(({ cluster }) => cluster === name)));
    if (own.length === 0) return 2;
    return own.includes(0) || own.includes(1) ? (own.every((level) => level === 0) ? 0 : 1) : 2;
  });
  return VERDICTS[worse(levelOf(general(topology, relevant)), ...levels)] ?? 'not-ready';
}

function candidatesOf(topology: Topology, points: readonly ReadinessPoint[]): ReadinessCandidate[] {
  const verdict = (name: string, kind: RoleChange): ReadinessVerdict => {
    const relevant = concerning(points, kind);
    const level = worse(
      levelOf(general(topology, relevant)),
      levelOf(relevant.filter(({ cluster }) => cluster === name)),
    );
    return VERDICTS[level] ?? 'not-ready';
  };
  return topology.sets.flatMap(({ name: drSet, secondaries }) =>
    secondaries.map(({ name }) => ({
      drSet,
      cluster: name,
      switchover: verdict(name, 'switchover'),
      failover: verdict(name, 'failover'),
    })),
  );
}

const BADNESS: Readonly<Record<PointVerdict, number>> = { ok: 0, 'not-checkable': 1, warn: 2, fail: 3 };

/** Points whose verdict is another one; points that are new or gone are no change. Worse ones first. Pure. */
export function changesSince(before: EarlierReadiness['points'], now: readonly ReadinessPoint[]): ReadinessChange[] {
  const changes = (['switchover', 'failover'] as const).flatMap((kind) => {
    const old = new Map(concerning(before, kind).map((point) => [keyOf(point), point.verdict]));
    return concerning(now, kind).flatMap((point): ReadinessChange[] => {
      const was = old.get(keyOf(point));
      if (was === undefined || was === point.verdict) return [];
      const { id, cluster, verdict } = point;
      const change = BADNESS[verdict] > BADNESS[was] ? 'worse' : 'better';
      return [{ change, id, about: kind, ...(cluster === undefined ? {} : { cluster }), before: was, now: verdict }];
    });
  });
  return joined(changes).toSorted((a, b) => Number(b.change === 'worse') - Number(a.change === 'worse'));
}

/** The same change for both questions is told once. */
function joined(changes: readonly ReadinessChange[]): ReadinessChange[] {
  const byKey = new Map<string, ReadinessChange>();
  for (const change of changes) {
    const key = `${keyOf(change)} ${change.before} ${change.now}`;
    byKey.set(key, byKey.has(key) ? { ...change, about: 'both' } : change);
  }
  return [...byKey.values()];
}

function keyOf({ id, cluster }: Pick<ReadinessPoint, 'id' | 'cluster'>): string {
  return `${id} ${cluster ?? ''}`;
}
