import type {
  PointVerdict,
  ReadinessCandidate,
  ReadinessChange,
  ReadinessPoint,
  ReadinessResult,
  ReadinessVerdict,
} from '../../src/contracts/readiness';
import { redFirst } from '../../src/contracts/readiness-words';
import type { Earlier } from './earlier';
import type { World } from './world';

type Asked = 'switchover' | 'failover';
type Level = 0 | 1 | 2;

const VERDICTS: readonly ReadinessVerdict[] = ['ready', 'ready-with-warnings', 'not-ready'];

/** Two verdicts, a number, and what changed since the last check. Pure. */
export function summarise(
  world: World,
  points: readonly ReadinessPoint[],
  earlier: Earlier | undefined,
  at: number,
): ReadinessResult {
  return {
    schema: 'replication-runbooks/readiness/v1',
    deployment: world.deployment.name,
    at: new Date(at).toISOString(),
    switchover: verdictOf(world, points, 'switchover'),
    failover: verdictOf(world, points, 'failover'),
    score: scoreOf(points),
    ...(earlier === undefined ? {} : { comparedWith: { at: earlier.at, runId: earlier.runId, score: earlier.score } }),
    candidates: candidatesOf(world, points),
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

function concerning<P extends Pick<ReadinessPoint, 'about'>>(points: readonly P[], asked: Asked): P[] {
  return points.filter(({ about }) => about === asked || about === 'both');
}

/** Points that are about no DR secondary in particular. */
function general({ sets }: World, points: readonly ReadinessPoint[]): ReadinessPoint[] {
  const candidates = new Set(sets.flatMap(({ secondaries }) => secondaries.map(({ name }) => name)));
  return points.filter(({ cluster }) => cluster === undefined || !candidates.has(cluster));
}

/** Every set needs one DR secondary that is good enough; another one that is not is a warning. */
function verdictOf(world: World, points: readonly ReadinessPoint[], asked: Asked): ReadinessVerdict {
  const relevant = concerning(points, asked);
  const levels = world.sets.map(({ secondaries }): Level => {
    const own = secondaries.map(({ name }) => levelOf(relevant.filter(({ cluster }) => cluster === name)));
    if (own.length === 0) return 2;
    return own.includes(0) || own.includes(1) ? (own.every((level) => level === 0) ? 0 : 1) : 2;
  });
  return VERDICTS[worse(levelOf(general(world, relevant)), ...levels)] ?? 'not-ready';
}

function candidatesOf(world: World, points: readonly ReadinessPoint[]): ReadinessCandidate[] {
  const verdict = (name: string, asked: Asked): ReadinessVerdict => {
    const relevant = concerning(points, asked);
    const level = worse(levelOf(general(world, relevant)), levelOf(relevant.filter(({ cluster }) => cluster === name)));
    return VERDICTS[level] ?? 'not-ready';
  };
  return world.sets.flatMap(({ name: drSet, secondaries }) =>
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
export function changesSince(before: Earlier['points'], now: readonly ReadinessPoint[]): ReadinessChange[] {
  const changes = (['switchover', 'failover'] as const).flatMap((asked) => {
    const old = new Map(concerning(before, asked).map((point) => [keyOf(point), point.verdict]));
    return concerning(now, asked).flatMap((point): ReadinessChange[] => {
      const was = old.get(keyOf(point));
      if (was === undefined || was === point.verdict) return [];
      const { id, cluster, verdict } = point;
      const change = BADNESS[verdict] > BADNESS[was] ? 'worse' : 'better';
      return [{ change, id, about: asked, ...(cluster === undefined ? {} : { cluster }), before: was, now: verdict }];
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
