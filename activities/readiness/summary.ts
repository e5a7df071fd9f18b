import { z } from 'zod';
import { readinessPoint, readinessVerdict } from '../../src/contracts/readiness';
import type { ReadinessPoint, ReadinessResult, ReadinessVerdict } from '../../src/contracts/readiness';
import { changeText, isWorse, redFirst } from '../../src/contracts/words';
import type { Notification } from '../../src/contracts/notifications';
import { findDeployment } from '../../src/inventory';
import { redact } from '../../src/keys';
import { currentExecution } from '../execution';
import { notifyTargets } from '../notifications/notifications';
import { RecordTable } from '../record-table';
import type { ActivityDependencies } from '../dependencies';
import { QUESTIONS } from './reading';
import type { Judged, Question, Topology } from './reading';

/** The previous check, as far as it is recorded and compared. */
const earlierReadiness = z.object({
  at: z.string(),
  switchover: readinessVerdict,
  failover: readinessVerdict,
  points: z.array(readinessPoint.pick({ id: true, about: true, cluster: true, verdict: true })),
});
type EarlierReadiness = z.infer<typeof earlierReadiness>;
export const lastCheck = new RecordTable('readiness', earlierReadiness);

/**
 * The points of checks. Several plans make the same check of one cluster: the worst verdict counts. A point whose verdict
 * is the same for both questions is listed once.
 */
export function pointsOf(judged: readonly Judged[]): ReadinessPoint[] {
  const worst = new Map<string, ReadinessPoint>();
  for (const each of judged) {
    for (const about of each.about === undefined ? QUESTIONS : [each.about]) {
      const point = pointOf(each, about);
      const known = worst.get(keyOf(point, about));
      if (known === undefined || isWorse(point.verdict, known.verdict)) worst.set(keyOf(point, about), point);
    }
  }
  return [...worst.values()].flatMap((point) => {
    const twin = worst.get(keyOf(point, point.about === 'switchover' ? 'failover' : 'switchover'));
    if (twin?.verdict !== point.verdict) return [point];
    return point.about === 'switchover' ? [{ ...point, about: 'both' }] : [];
  });
}

function pointOf({ name, observed, ...judged }: Judged, about: Question): ReadinessPoint {
  const id = name.toLowerCase().replaceAll(/[^a-z0-9.]+/g, '-');
  return { id, ...judged, about, observed: redact(observed) };
}

/** The verdict of each level. */
const VERDICTS = readinessVerdict.options;
const NOT_READY = VERDICTS.indexOf('not-ready');

/** Two verdicts, and what changed since the last check. Pure. */
export function summarize(
  { deployment, sets }: Topology,
  points: readonly ReadinessPoint[],
  earlier: EarlierReadiness | undefined,
  at: number,
): ReadinessResult {
  const isCandidate = (cluster: string | undefined) =>
    sets.some(({ secondaries }) => secondaries.some(({ name }) => name === cluster));
  const levelOf = (kind: Question, counts: (point: ReadinessPoint) => boolean): number => {
    const bad = pointsAbout(points, kind).filter((point) => point.verdict !== 'ok' && counts(point));
    if (bad.some(({ verdict }) => verdict === 'fail')) return NOT_READY;
    return bad.every(isBeyondKnowing) ? 0 : 1;
  };
  const general = (kind: Question) => levelOf(kind, ({ cluster }) => !isCandidate(cluster));
  const own = (kind: Question, name: string) => levelOf(kind, ({ cluster }) => cluster === name);
  /** Every set needs one DR secondary that is ready; another one that is not ready is a warning. */
  const ofDeployment = (kind: Question): ReadinessVerdict => {
    const levels = sets.map(({ secondaries }) => {
      const each = secondaries.map(({ name }) => own(kind, name));
      return Math.min(NOT_READY, ...each) === NOT_READY ? NOT_READY : Math.min(1, Math.max(...each));
    });
    return verdictOf(general(kind), ...levels);
  };
  const ofCandidate = (kind: Question, name: string) => verdictOf(general(kind), own(kind, name));
  return {
    schema: 'replication-runbooks/readiness/v1',
    deployment: deployment.name,
    at: new Date(at).toISOString(),
    switchover: ofDeployment('switchover'),
    failover: ofDeployment('failover'),
    candidates: sets.flatMap(({ name: drSet, secondaries }) =>
      secondaries.map(({ name }) => ({
        ...{ drSet, cluster: name },
        switchover: ofCandidate('switchover', name),
        failover: ofCandidate('failover', name),
      })),
    ),
    changes: earlier ? changesSince(earlier.points, points) : [],
    points: redFirst(points),
  };
}

function verdictOf(...levels: readonly number[]): ReadinessVerdict {
  return VERDICTS[Math.max(...levels)] ?? 'not-ready';
}

/** What can never be known does not count. */
function isBeyondKnowing({ verdict }: ReadinessPoint): boolean {
  return verdict === 'not-checkable';
}

function pointsAbout<P extends Pick<ReadinessPoint, 'about'>>(points: readonly P[], kind: Question): P[] {
  return points.filter(({ about }) => about === kind || about === 'both');
}

/** Points whose verdict changed; points that are new or gone are no change. Worse ones first. Pure. */
export function changesSince(before: EarlierReadiness['points'], now: readonly ReadinessPoint[]) {
  const changes = now.flatMap((point) => {
    const { id, about, cluster, verdict } = point;
    const old = before.filter((each) => keyOf(each) === keyOf(point));
    const was = QUESTIONS.filter((question) => pointsAbout([point], question).length > 0)
      .flatMap((question) => pointsAbout(old, question))
      .find((each) => each.verdict !== verdict)?.verdict;
    if (was === undefined) return [];
    const change = isWorse(verdict, was) ? ('worse' as const) : ('better' as const);
    return [{ change, id, about, cluster, before: was, now: verdict }];
  });
  return changes.toSorted((a, b) => Number(b.change === 'worse') - Number(a.change === 'worse'));
}

function keyOf({ id, cluster }: Pick<ReadinessPoint, 'id' | 'cluster'>, about = ''): string {
  return `${id} ${cluster ?? ''} ${about}`;
}

/** What expires by itself: people are notified when that nears, even if the overall verdict stays the same. */
const ENDS = new Set([
  'credential-lives-long-enough',
  'batch-token',
  'batch-token-lives-long-enough',
  'recorded-tokens',
]);

/** Notifies people that a verdict is better or worse than at the last check; also of a first one that is not ready. */
export async function notifyChange(readiness: ReadinessResult, earlier: EarlierReadiness | undefined): Promise<void> {
  const { deployment, at, switchover, failover, changes } = readiness;
  const before = earlier && { switchover: earlier.switchover, failover: earlier.failover };
  const ending = changes.filter(({ change, id }) => change === 'worse' && ENDS.has(id));
  const red = switchover === 'not-ready' || failover === 'not-ready';
  const changed = before ? before.switchover !== switchover || before.failover !== failover : red;
  if (!changed && ending.length === 0) return;
  const worse = red || changes.some(({ change }) => change === 'worse');
  const notification: Notification = {
    ...({ event: 'readiness-changed', runbook: 'readiness', number: 1, subject: 'readiness' } as const),
    ...{ severity: worse ? 'warning' : 'info', at: Date.parse(at), ...(!worse && { closes: ['readiness'] }) },
    readiness: { switchover, failover, ...(before && { before }) },
    // Space is limited: what expires soon comes first.
    leftToDo: [...new Set([...ending, ...changes])].map(changeText),
  };
  const execution = currentExecution();
  await notifyTargets(execution, deployment, notification, execution.run);
}

const OVERDUE_SENT = 'readiness-overdue';

/**
 * Notifies people, once for each last check, that none has ended since: the Schedule is dead, or each of its runs fails; and
 * once that checks end again.
 * For the workers' sweep, which does not depend on a Schedule.
 */
export async function notifyOverdueReadiness(
  dependencies: Pick<ActivityDependencies, 'inventory' | 'log' | 'records'>,
  ns: string,
  deployment: string,
): Promise<void> {
  const { overdueAfterMs } = findDeployment(dependencies.inventory, deployment).readiness;
  let since: string | undefined;
  let late = false;
  // Of several workers that sweep, the one whose write succeeds sends the notification.
  const noted = await dependencies.records.change(deployment, (values) => {
    since = lastCheck.from(values)?.at;
    late = since !== undefined && Date.now() - Date.parse(since) > overdueAfterMs;
    const sent = values.get(OVERDUE_SENT);
    if (late) return sent === since ? undefined : { put: { [OVERDUE_SENT]: since } };
    return sent === undefined || since === undefined ? undefined : { removed: [OVERDUE_SENT] };
  });
  if (!noted || since === undefined) return;
  if (late) dependencies.log.warn({ deployment }, `no readiness check has ended since ${since}`);
  const subject = 'readiness-overdue';
  const notification: Notification = {
    ...({ event: 'readiness-overdue', runbook: 'readiness', number: 1, subject } as const),
    ...{ severity: late ? 'warning' : 'info', at: Date.now(), since: Date.parse(since) },
    ...(!late && { closes: [subject] }),
  };
  const run = { ns, wid: `readiness:${deployment}`, rid: '', id: `${since}${late ? '' : '/over'}` };
  await notifyTargets(dependencies, deployment, notification, run);
}
