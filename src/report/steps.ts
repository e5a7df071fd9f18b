import type { ReportStep } from '../contracts/report';
import type { ActivityRecord, Fields, RunRecord } from './run-record';
import { beganAt, clusterOf, factsOf, fieldsOf, isoTime, listOf, numberOf, textOf } from './run-record';

type ReportedActivity = ReportStep['activities'][number];

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

const of = (value: unknown) => textOf(value) ?? '?';
const clustersIn = (list: unknown, inWords: (item: Fields) => string) =>
  listOf(list)
    .map(fieldsOf)
    .map((item) => `${of(item['cluster'])}${inWords(item)}`)
    .join(', ');
const generationEnded = ({ next }: Fields) =>
  next === 'token' ? 'token generated' : next === 'next-set' ? 'these key shares make no token' : 'no token in hand';

const tokenState = ({ cluster, state }: Fields) => `${of(cluster)}: ${of(state)}`;

/** What the result of an activity says, in a few words, for the activities whose result has no `observed`. */
const OBSERVED: Readonly<Record<string, (result: Fields) => string | undefined>> = {
  readDeployment: ({ observations }) => `${plural(listOf(observations).length, 'cluster')} read`,
  createCeremony: ({ epoch, holders, threshold }) =>
    `round ${numberOf(epoch) ?? '?'}, ${numberOf(threshold) ?? '?'} of ${listOf(holders).length} holders needed`,
  openEnvelopes: ({ verdicts }) =>
    `${listOf(verdicts).filter((item) => fieldsOf(item)['code'] === 'accepted').length} of ${plural(listOf(verdicts).length, 'envelope')} accepted`,
  startGeneration: ({ attempts }) => `shares given, ${plural(numberOf(attempts) ?? 1, 'attempt')}`,
  completeGeneration: generationEnded,
  settleGeneration: generationEnded,
  destroyCeremonyKeys: ({ text }) => textOf(text),
  deleteOperationTokens: ({ disposals }) => clustersIn(disposals, ({ state }) => `: ${of(state)}`),
  disposeLedgerToken: tokenState,
  forgetLedgerToken: tokenState,
  probeMerkleTree: ({ text }) => textOf(text),
  writeMarker: ({ wal, reached }) =>
    `marker written, WAL ${of(wal)}${reached === undefined ? '' : `, ${of(reached)} reached`}`,
  compareAfterDemotion: ({ loss, why }) => `loss ${of(loss)}: ${textOf(why) ?? ''}`,
  awaitServiceReady: ({ stableActiveNode, markerReadAt }) =>
    `active node ${of(stableActiveNode)}${markerReadAt === undefined ? '' : ', marker read'}`,
  probeService: ({ tries }) =>
    `first success after ${numberOf(tries) === 1 ? '1 try' : `${numberOf(tries) ?? '?'} tries`}`,
  awaitPerformanceSecondaries: ({ following }) =>
    clustersIn(following, ({ follows }) => (follows === true ? ' follows' : ' was not seen to follow')),
};

function observedOf({ type, state, result, failure }: ActivityRecord): string | undefined {
  if (failure) return `${failure.code}: ${failure.message}`;
  if (state !== 'completed') return undefined;
  const inWords = type.startsWith('assess') ? preconditionCount : Object.hasOwn(OBSERVED, type) && OBSERVED[type];
  return textOf(result['observed']) ?? (inWords ? textOf(inWords(result)) : undefined);
}

function outcomeOf(activity: ActivityRecord): ReportedActivity['outcome'] {
  if (activity.state !== 'completed') return activity.state;
  return activity.result['outcome'] === 'already' ? 'already' : 'done';
}

function reportedActivity(activity: ActivityRecord): ReportedActivity {
  const { type, tries, closedAt } = activity;
  return {
    type,
    cluster: clusterOf(activity),
    startedAt: isoTime(beganAt(activity)),
    endedAt: closedAt === undefined ? undefined : isoTime(closedAt),
    tries,
    outcome: outcomeOf(activity),
    observed: observedOf(activity),
  };
}

function outcomeFromActivities(activities: readonly ActivityRecord[]): ReportStep['outcome'] {
  const outcomes = activities.map(outcomeOf).filter((outcome) => outcome !== 'not-ordered');
  if (outcomes.length === 0) return 'not-ordered';
  if (outcomes.includes('running')) return 'running';
  const last = outcomes.at(-1);
  if (last === 'failed' || last === 'cancelled') return 'failed';
  const changes = activities.filter(({ result }) => result['outcome'] === 'done' || result['outcome'] === 'already');
  return changes.length > 0 && changes.every(({ result }) => result['outcome'] === 'already') ? 'already' : 'done';
}

function stepOf(activities: readonly ActivityRecord[]): ReportStep {
  const { name, number, attempt } = activities[0]?.step ?? { name: '', number: 0, attempt: 1 };
  const endedAt = Math.max(...activities.map(({ closedAt }) => closedAt ?? Infinity));
  return {
    ...{ number, name, attempt },
    activities: activities.map(reportedActivity),
    startedAt: isoTime(Math.min(...activities.map(({ scheduledAt }) => scheduledAt))),
    ...(Number.isFinite(endedAt) && { endedAt: isoTime(endedAt) }),
    outcome: outcomeFromActivities(activities),
  };
}

/**
 * The steps of a run in the order in which they began, one entry for each attempt that an operator decided on. Number 0
 * is what went on beside the steps, such as the check of what people sent.
 */
export function reportedSteps(run: RunRecord): readonly ReportStep[] {
  const keyOf = ({ name, number, attempt }: Pick<ReportStep, 'name' | 'number' | 'attempt'>) =>
    JSON.stringify([number, name, attempt]);
  const groups = new Map<string, ActivityRecord[]>();
  for (const activity of run.activities) {
    if (!activity.step) continue;
    const key = keyOf(activity.step);
    groups.set(key, [...(groups.get(key) ?? []), activity]);
  }
  const steps = new Map([...groups].map(([key, group]) => [key, stepOf(group)]));
  for (const { step: name, number, attempt, outcome, startedAt, at } of factsOf(run, 'step-ended')) {
    const key = keyOf({ name, number, attempt });
    const known = steps.get(key);
    // It ended in the run's memory alone: what it would have ordered was never taken.
    if (known?.outcome === 'not-ordered') continue;
    const step = known ?? { number, name, attempt, activities: [], startedAt: isoTime(startedAt) };
    steps.set(key, { ...step, endedAt: isoTime(Math.max(at, Date.parse(known?.endedAt ?? '') || at)), outcome });
  }
  return [...steps.values()].toSorted(
    (one, other) =>
      Date.parse(one.startedAt) - Date.parse(other.startedAt) ||
      one.number - other.number ||
      one.attempt - other.attempt,
  );
}
