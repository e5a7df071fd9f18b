import type { ReportStep } from '../contracts/report';
import type { ActivityRecord } from './activity-records';
import { beganAt } from './activity-records';
import type { RunFacts } from './facts';
import type { Fields } from './history-values';
import { fieldsOf, isoTime, listOf, numberOf, textOf } from './history-values';

type ReportedActivity = ReportStep['activities'][number];

/** How a step begins and ends in epoch milliseconds, before it becomes a line of the report. */
interface StepRecord {
  readonly name: string;
  readonly number: number;
  readonly attempt: number;
  readonly activities: readonly ActivityRecord[];
  readonly startedAt: number;
  readonly endedAt?: number;
  readonly outcome: ReportStep['outcome'];
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function preconditionCount(result: Fields): string | undefined {
  const verdicts = listOf(result['preconditions']).map((item) => fieldsOf(item)['verdict']);
  if (verdicts.length === 0) return undefined;
  const failed = verdicts.filter((verdict) => verdict === 'fail').length;
  return failed === 0
    ? `${plural(verdicts.length, 'precondition')} checked`
    : `${failed} of ${plural(verdicts.length, 'precondition')} failed`;
}

/** What the result of an activity says, in a few words, for the activities whose result has no `observed`. */
const OBSERVED: Readonly<Record<string, (result: Fields) => string | undefined>> = {
  assessDrSwitchover: preconditionCount,
  assessCeremony: preconditionCount,
  assessRootTokenCeremony: preconditionCount,
  readDeployment: ({ observations }) => `${plural(listOf(observations).length, 'cluster')} read`,
  createCeremony: ceremonyRound,
  createRootTokenCeremony: ceremonyRound,
  openEnvelopes: ({ verdicts }) =>
    `${listOf(verdicts).filter((item) => fieldsOf(item)['code'] === 'accepted').length} of ${plural(listOf(verdicts).length, 'envelope')} accepted`,
  generateOperationToken: tokenGenerated,
  generateRootToken: tokenGenerated,
  destroyCeremonyKeys: ({ text }) => textOf(text),
  deleteOperationTokens: ({ disposals }) =>
    listOf(disposals)
      .map(fieldsOf)
      .map(({ cluster, state }) => `${textOf(cluster) ?? '?'}: ${textOf(state) ?? '?'}`)
      .join(', '),
  disposeLedgerToken: ({ cluster, state }) => `${textOf(cluster) ?? '?'}: ${textOf(state) ?? '?'}`,
  assessMerkleCheck: preconditionCount,
  assessPrimaryEnablement: preconditionCount,
  assessDrSecondaryOnboarding: preconditionCount,
  assessPerformanceSecondaryOnboarding: preconditionCount,
  assessDrReindex: preconditionCount,
  assessTokenDisposal: preconditionCount,
  probeMerkleTree: ({ text }) => textOf(text),
  writeMarker: ({ wal }) => `marker written, WAL ${textOf(wal) ?? '?'}`,
  awaitCatchUp: ({ reached, target, samples }) =>
    `WAL ${textOf(reached) ?? '?'} reached, ${textOf(target) ?? '?'} needed, ${plural(numberOf(samples) ?? 0, 'sample')}`,
  compareAfterDemotion: ({ loss, why }) => `loss ${textOf(loss) ?? '?'}: ${textOf(why) ?? ''}`,
  awaitServiceReady: ({ stableActiveNode, markerReadAt }) =>
    `active node ${textOf(stableActiveNode) ?? '?'}, written${markerReadAt === undefined ? '' : ', marker read'}`,
  probeService: ({ tries }) =>
    `first success after ${numberOf(tries) === 1 ? '1 try' : `${numberOf(tries) ?? '?'} tries`}`,
  issueActivationToken: activationToken,
  awaitPerformanceSecondaries: ({ following }) =>
    listOf(following)
      .map(fieldsOf)
      .map(({ cluster, follows }) => `${textOf(cluster) ?? '?'} ${follows === true ? 'follows' : 'does not follow'}`)
      .join(', '),
};

function ceremonyRound({ epoch, holders, threshold }: Fields): string {
  return `round ${numberOf(epoch) ?? '?'}, ${numberOf(threshold) ?? '?'} of ${listOf(holders).length} holders needed`;
}

function tokenGenerated({ attempts }: Fields): string {
  return `token generated in ${plural(numberOf(attempts) ?? 1, 'attempt')}`;
}

function activationToken({ id, form }: Fields): string {
  if (form === 'none') return 'none needed: it follows already';
  return `activation token ${textOf(id) ?? '?'} issued, ${textOf(form) ?? '?'}`;
}

function observedOf(activity: ActivityRecord): string | undefined {
  if (activity.failure) return `${activity.failure.code}: ${activity.failure.message}`;
  if (activity.state !== 'completed') return undefined;
  return (
    textOf(activity.result['observed']) ??
    textOf(Object.hasOwn(OBSERVED, activity.type) ? OBSERVED[activity.type]?.(activity.result) : undefined)
  );
}

function outcomeOf(activity: ActivityRecord): ReportedActivity['outcome'] {
  if (activity.state !== 'completed') return activity.state;
  const outcome = activity.result['outcome'];
  return outcome === 'already' || outcome === 'not-done' ? outcome : 'done';
}

/** The cluster that an activity acts on. */
export function clusterOf({ input }: ActivityRecord): string | undefined {
  return textOf(input['cluster']) ?? textOf(input['secondary']) ?? textOf(input['newPrimary']);
}

function reportedActivity(activity: ActivityRecord): ReportedActivity {
  const cluster = clusterOf(activity);
  const observed = observedOf(activity);
  return {
    type: activity.type,
    ...(cluster !== undefined && { cluster }),
    startedAt: isoTime(beganAt(activity)),
    ...(activity.closedAt !== undefined && { endedAt: isoTime(activity.closedAt) }),
    tries: activity.tries,
    outcome: outcomeOf(activity),
    ...(observed !== undefined && { observed }),
  };
}

function outcomeFromActivities(activities: readonly ActivityRecord[]): ReportStep['outcome'] {
  const outcomes = activities.map(outcomeOf);
  if (outcomes.includes('running')) return 'running';
  const last = outcomes.at(-1);
  if (last === 'failed' || last === 'cancelled' || last === 'not-done') return 'failed';
  const changes = activities.filter(({ result }) => result['outcome'] === 'done' || result['outcome'] === 'already');
  return changes.length > 0 && changes.every(({ result }) => result['outcome'] === 'already') ? 'already' : 'done';
}

function stepsWithActivities(activities: readonly ActivityRecord[]): StepRecord[] {
  const groups = new Map<string, ActivityRecord[]>();
  for (const activity of activities) {
    // The last activity carries the report, and would report itself as running.
    if (!activity.step || activity.type === 'composeReport') continue;
    const key = JSON.stringify([activity.step.number, activity.step.name, activity.step.attempt]);
    groups.set(key, [...(groups.get(key) ?? []), activity]);
  }
  return [...groups.values()].flatMap((group) => {
    const step = group[0]?.step;
    if (!step) return [];
    const ends = group.map(({ closedAt }) => closedAt ?? Infinity);
    const endedAt = Math.max(...ends);
    return [
      {
        ...step,
        activities: group,
        startedAt: Math.min(...group.map(beganAt)),
        ...(Number.isFinite(endedAt) && { endedAt }),
        outcome: outcomeFromActivities(group),
      },
    ];
  });
}

/** Gives each end that the workflow recorded to the last attempt of that name that had begun by then. */
function withRecordedEnds(steps: StepRecord[], ends: RunFacts['stepsEnded']): StepRecord[] {
  const result = [...steps];
  const withoutActivities: RunFacts['stepsEnded'][number][] = [];
  const ended = new Set<number>();
  for (const fact of ends) {
    const candidates = result
      .map((step, index) => ({ step, index }))
      .filter(({ step, index }) => step.name === fact.step && step.startedAt <= fact.at && !ended.has(index));
    const chosen = candidates.toSorted((one, other) => other.step.startedAt - one.step.startedAt)[0];
    if (!chosen) {
      withoutActivities.push(fact);
      continue;
    }
    ended.add(chosen.index);
    result[chosen.index] = {
      ...chosen.step,
      outcome: fact.outcome,
      endedAt: Math.max(fact.at, ...chosen.step.activities.flatMap(({ closedAt }) => closedAt ?? [])),
    };
  }
  return [...result, ...withNumbers(withoutActivities, result)];
}

/** Steps are numbered from 1 without gaps, so the missing numbers are those of the steps that called no activity. */
function withNumbers(ends: readonly RunFacts['stepsEnded'][number][], known: readonly StepRecord[]): StepRecord[] {
  const taken = new Set(known.map(({ number }) => number));
  let next = 1;
  return ends.map(({ step, outcome, at }) => {
    while (taken.has(next)) next += 1;
    taken.add(next);
    return { name: step, number: next, attempt: 1, activities: [], startedAt: at, endedAt: at, outcome };
  });
}

/**
 * The steps of a run in the order in which they began, one entry for each attempt that an operator decided on. Number 0
 * is what went on beside the steps, such as the check of what people sent.
 */
export function reportedSteps(activities: readonly ActivityRecord[], facts: RunFacts): readonly ReportStep[] {
  return withRecordedEnds(stepsWithActivities(activities), facts.stepsEnded)
    .toSorted(
      (one, other) => one.startedAt - other.startedAt || one.number - other.number || one.attempt - other.attempt,
    )
    .map((step) => ({
      number: step.number,
      name: step.name,
      attempt: step.attempt,
      activities: step.activities.map(reportedActivity),
      startedAt: isoTime(step.startedAt),
      ...(step.endedAt !== undefined && { endedAt: isoTime(step.endedAt) }),
      outcome: step.outcome,
    }));
}
