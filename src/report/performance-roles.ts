import { demotionOf } from './outage';
import type { ActivityRecord, RunRecord } from './run-record';
import { kindOf, textOf } from './run-record';
import { isUndecided } from './unsettled-changes';

const STATUS = 'sys/replication/performance/status';
const PROMOTE = 'promoteSecondary';

/** Whether the run is about the performance primary, which no DR operation token promotes. */
export function changesPerformancePrimary(run: RunRecord): boolean {
  return run.activities.some(
    (each) => (each.type === PROMOTE || each.type === 'demotePrimary') && kindOf(each) === 'performance',
  );
}

/** Which cluster is the performance primary now, as far as the run knows it, and what follows for people. */
export function performanceRoles(run: RunRecord): readonly string[] {
  const demotion = demotionOf(run);
  const promotions = run.activities.filter((each) => each.type === PROMOTE && kindOf(each) === 'performance');
  const promoted = promotions.filter(({ state }) => state === 'completed').at(-1);
  if (promoted) return servesUnproven(run, promoted);
  const open = promotions.findLast(isUndecided);
  if (open) {
    const [cluster, other] = [nameOf(open, 'cluster'), nameOf(open, 'otherCluster')];
    return [
      `The promotion of ${cluster} was under way and its outcome was not recorded: read ${STATUS} of ${cluster} and ${other} first. Only one of them may be performance primary.`,
    ];
  }
  if (!demotion) return [];
  const from = demotion.cluster ?? 'the old primary';
  return demotion.proven
    ? [
        `${from} is demoted and nothing was promoted: no cluster is performance primary. Promote ${from} back, which holds every write, or another secondary, never both; then re-point every secondary by token.`,
      ]
    : [
        `The demotion of ${from} was under way and its outcome was not recorded: read ${STATUS} of ${from}. If it is a secondary, no cluster is performance primary: promote it back, or another secondary, never both.`,
      ];
}

function servesUnproven(run: RunRecord, promoted: ActivityRecord): readonly string[] {
  const cluster = nameOf(promoted, 'cluster');
  const ready = run.activities.some(
    ({ type, state, scheduledAt }) =>
      type === 'awaitServiceReady' && state === 'completed' && scheduledAt >= promoted.scheduledAt,
  );
  return [
    ...(ready ? [] : [`${cluster} was promoted, but no write on it was confirmed: check that it serves clients.`]),
    `A promotion forgets the secondaries: see in ${STATUS} which ones follow ${cluster}, and re-point the others with secondaryRepointing.`,
  ];
}

function nameOf({ input }: ActivityRecord, member: string): string {
  return textOf(input[member]) ?? 'unknown cluster';
}
