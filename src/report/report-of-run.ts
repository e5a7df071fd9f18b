import type { ReportStep, Report } from '../contracts/report';
import type { ActivityRecord, Fields, RunRecord } from './run-record';
import {
  beganAt,
  clusterOf,
  factsOf,
  fieldsOf,
  gatesIn,
  isoTime,
  listOf,
  parkingsIn,
  textOf,
  completed,
  shownError,
} from './run-record';
import { alarmsFirst } from '../contracts/run-status';
import { planIn } from '../contracts/plan';
import { planNumber } from '../moves/steps';
import type { Finding } from '../contracts/run-facts';
import { counted, escapeUntrusted } from '../contracts/words';
import { leftToDoOf, tokensOf } from './left-to-do';
import { statesOf } from './readings';
import { objectivesOf, clientsHeldOf, demotedAt, outageOf, withoutDrProtectionOf } from './outage';

type Timed<T> = T & { readonly at: number };

/** The results of the checks that runbooks make before they act: activities whose names begin with `assess`. */
function assessments(run: RunRecord): readonly Fields[] {
  return run.activities
    .filter(({ type, state }) => type.startsWith('assess') && state === 'completed')
    .map(({ result }) => result);
}

function planOf(run: RunRecord): Report['plan'] {
  for (const result of assessments(run).toReversed()) {
    const { digest, text } = fieldsOf(result['plan']);
    const content = planIn(textOf(text) ?? '');
    if (typeof digest === 'string' && content) return { digest, content };
  }
  return undefined;
}

/** Whether the demoted cluster was promoted again, and no other cluster was promoted. */
function isOldPrimaryBack(run: RunRecord): boolean {
  if (run.ending?.outcome === 'rolled-back') return true;
  const demotion = completed(run, 'demotePrimary').at(-1);
  const promotions = completed(run, 'promoteSecondary');
  return promotions.length > 0 && promotions.every((each) => demotion && clusterOf(each) === clusterOf(demotion));
}

/** A promotion that certainly had no effect promoted nothing. */
function mayHavePromoted({ type, failure }: ActivityRecord): boolean {
  return type === 'promoteSecondary' && failure?.outcomeKnown !== true;
}

function lossOf(run: RunRecord): Report['loss'] {
  if (isOldPrimaryBack(run)) {
    const promotedAt = completed(run, 'promoteSecondary').at(-1)?.closedAt;
    const failover = factsOf(run, 'became-failover').findLast(({ at }) => promotedAt !== undefined && at >= promotedAt);
    if (!failover) return { loss: 'none', why: 'the old primary, which holds every write, is the primary.' };
    // That primary was lost later: the writes that it accepted after it was promoted back were never compared.
    if (!run.activities.some((each) => mayHavePromoted(each) && each.scheduledAt >= failover.at)) return undefined;
  }
  // A failover reports its possible loss in advance; a failover that promoted nothing lost nothing.
  const inVain =
    run.activities.some(({ type }) => type === 'assessDrFailover') && !run.activities.some(mayHavePromoted);
  const known = inVain ? undefined : factsOf(run, 'loss').at(-1);
  if (known) return { loss: known.loss, why: known.why, boundWalEntries: known.boundWalEntries };
  const demotion = completed(run, 'demotePrimary').at(-1);
  const compared = completed(run, 'compareAfterDemotion').findLast(
    ({ scheduledAt }) => demotion === undefined || scheduledAt >= demotion.scheduledAt,
  );
  const { loss, why, ...evidence } = compared?.result ?? fieldsOf(demotion?.result['evidence']);
  if (loss !== 'none' && loss !== 'bounded') return undefined;
  return {
    ...{ loss, why: textOf(why) ?? '' },
    boundWalEntries: textOf(evidence['boundWalEntries']),
    oldPrimaryRoot: textOf(evidence['oldPrimaryRoot']),
    newPrimaryRoot: textOf(evidence['newPrimaryRoot']),
  };
}

function gatesOf(run: RunRecord): Report['gates'] {
  return gatesIn(run).map(({ opened, closed }) => {
    const { gate, planDigest, state, by } = closed ?? opened;
    return { gate, planDigest, openedAt: isoTime(opened.at), closedAt: closed && isoTime(closed.at), state, by };
  });
}

function parkingsOf(run: RunRecord): Report['parkings'] {
  return parkingsIn(run).map(({ parked: { step, parkingNo, code, message, at }, decided, ended }) => ({
    ...{ step, parkingNo, at: isoTime(at), ...shownError(code, message) },
    decision: decided && {
      action: decided.action,
      by: decided.by,
      reason: decided.reason,
      at: isoTime(decided.at),
    },
    endedAt: ended && isoTime(ended.at),
  }));
}

type ReportHolder = NonNullable<Report['holders']>[number];

/** Who was asked for a key share and when, and who gave one: one line for each holder and epoch. */
function holdersOf(run: RunRecord): readonly ReportHolder[] | undefined {
  const [holdersAsked, receipts] = [factsOf(run, 'holders-asked'), factsOf(run, 'receipt')];
  const epochs = [...new Set(holdersAsked.map(({ epoch }) => epoch))];
  const holders = epochs.flatMap((epoch) => {
    const asked = holdersAsked.filter((fact) => fact.epoch === epoch);
    const began = Math.min(...asked.map(({ at }) => at));
    const next = holdersAsked.find((fact) => fact.epoch > epoch)?.at ?? Infinity;
    const answers = receipts.filter(
      ({ at, signal, verdict }) => signal === 'share' && verdict === 'accepted' && at >= began && at < next,
    );
    const named = new Map(asked.flatMap((fact) => fact.names.map((name) => [name, fact] as const)));
    const names = new Set([...named.keys(), ...answers.flatMap(({ from }) => from?.name ?? [])]);
    return [...names].map((name): ReportHolder => {
      const fact = named.get(name);
      const gave = answers.findLast(({ from }) => from?.name === name);
      return {
        ...{ name, epoch },
        // A holder who answered without being asked was invited as a stand-by.
        as: fact?.as ?? 'stand-by',
        askedAt: fact && isoTime(fact.at),
        why: fact?.why,
        gave: gave?.from && { at: isoTime(gave.at), how: gave.from.how },
      };
    });
  });
  return holders.length === 0 ? undefined : holders;
}

/** When the run waited for people who give key shares or tokens, and when a pause held it. */
function waitsOf(run: RunRecord): Report['waits'] {
  const [asked, paused] = [factsOf(run, 'asked'), factsOf(run, 'paused')];
  const span = (from: number, end: { readonly at: number } | undefined) => ({
    from: isoTime(from),
    to: end && isoTime(end.at),
  });
  const waits = [
    ...asked.flatMap(({ asked: begins, at }) => {
      const end = asked.find((each) => !each.asked && each.at >= at);
      return begins ? [{ for: 'key-shares' as const, ...span(at, end) }] : [];
    }),
    ...paused.flatMap(({ paused: begins, at }) => {
      const end = paused.find((each) => !each.paused && each.at >= at);
      return begins ? [{ for: 'resume' as const, ...span(at, end) }] : [];
    }),
  ];
  return waits.length === 0 ? undefined : waits;
}

const LONGEST_SHOWN = 200;

/** The input as the runbook reads it. */
function askedOf(run: RunRecord): Pick<Report, 'asked' | 'reason' | 'takenOver'> {
  const shortened = (value: unknown) =>
    typeof value === 'string' && value.length > LONGEST_SHOWN ? `${value.slice(0, LONGEST_SHOWN)}...` : value;
  const given = Object.entries(run.input).filter(([, value]) => value !== undefined);
  const [became] = factsOf(run, 'became-failover');
  const ordered = factsOf(run, 'control').findLast(({ control }) => control === 'take-over');
  return {
    reason: textOf(run.input['reason']),
    asked: given.length === 0 ? undefined : Object.fromEntries(given.map(([name, value]) => [name, shortened(value)])),
    takenOver: became && ordered && { at: isoTime(became.at), by: ordered.by, reason: ordered.reason },
  };
}

const SEVERITIES = ['critical', 'warning', 'info'] as const;

/** Alarms first, then by severity, and in order of time within one severity. */
function findingsOf(run: RunRecord): Report['findings'] {
  const findings = [...factsOf(run, 'finding'), ...findingOfClose(run)].toSorted(
    (one, other) => SEVERITIES.indexOf(one.severity) - SEVERITIES.indexOf(other.severity) || one.at - other.at,
  );
  return alarmsFirst(findings).map(({ at, severity, code, text, next }) => ({
    severity,
    code,
    text,
    next,
    at: isoTime(at),
  }));
}

/** The finding that follows from how the run was closed, in addition to the findings of the run itself. */
function findingOfClose(run: RunRecord): readonly Timed<Finding>[] {
  const { close } = run;
  if (!close) return [];
  const { at, how } = close;
  const severity = demotedAt(run) !== undefined ? 'critical' : 'warning';
  if (how === 'failed' && !run.ending) {
    const { code, message } = close.failure ?? { code: 'unknown', message: 'no failure recorded' };
    return [{ at, severity, code: 'run-failed', text: `The run failed with ${code}: ${message}` }];
  }
  if (how !== 'terminated' && how !== 'cancelled' && how !== 'timed-out') return [];
  const by = close.by ? ` by ${escapeUntrusted(close.by.name)}` : '';
  const reason = close.reason === undefined ? '' : `, reason given: ${escapeUntrusted(close.reason)}`;
  const waited = run.waitingFor === undefined ? '' : ` It waited for: ${run.waitingFor}.`;
  const ended = how === 'timed-out' ? 'ended by a timeout' : how;
  const text = `The run was ${ended} during phase ${run.phase}${by}${reason}. No clean-up ran.${waited}`;
  return [{ at, severity, code: `run-${how}`, text }];
}

function outcomeOf({ ending, close }: RunRecord): Report['outcome'] {
  if (ending) return ending.outcome;
  if (!close) return 'running';
  return close.how === 'continued' ? 'handed-over' : close.how;
}

/**
 * The report of what a run did, from what the run knows: no clock and no I/O, so that one function reports a live run, a
 * finished run and a terminated run.
 *
 * @param given - includes the tail if the run was closed from outside
 * @returns the report; members that the run knows nothing about are absent. Times are ISO text, durations milliseconds.
 */
export function reportOf(given: RunRecord): Report {
  const run = { ...given, activities: given.activities.filter(({ state }) => state !== 'not-ordered') };
  const { namespace, workflowId, runId, runbook, deployment, requestedBy, ending, close } = run;
  const plan = planOf(run);
  const steps = reportedSteps(given);
  const endedAt = close?.at ?? (ending && lastEnd(ending.at, steps));
  const assessed = assessments(run).at(-1) ?? {};
  const findings = findingsOf(run);
  const measured = {
    outage: outageOf(run),
    clientsHeld: clientsHeldOf(run),
    loss: lossOf(run),
    withoutDrProtection: withoutDrProtectionOf(run),
  };
  return {
    schema: 'replication-runbooks/report/v1',
    ...{ runbook, namespace, workflowId, runId, deployment },
    outcome: outcomeOf(run),
    requestedBy,
    ...askedOf(run),
    startedAt: isoTime(run.startedAt),
    endedAt: endedAt === undefined ? undefined : isoTime(endedAt),
    plan,
    preconditions: listOf(assessed['preconditions']) as Report['preconditions'],
    steps,
    gates: gatesOf(run),
    parkings: parkingsOf(run),
    holders: holdersOf(run),
    waits: waitsOf(run),
    receipts: factsOf(run, 'receipt').map(({ kind: _kind, at, ...receipt }) => ({ ...receipt, at: isoTime(at) })),
    controls: factsOf(run, 'control').map(({ control, by, reason, at }) => ({ control, by, reason, at: isoTime(at) })),
    findings,
    ...measured,
    objectives: run.objectives && objectivesOf(run.objectives, { runbook, ...measured }, endedAt ?? run.asOf),
    tokens: tokensOf(run),
    ...statesOf(run),
    result: ending?.result,
    carryingOut: close || ending ? undefined : run.carryingOut,
    leftToDo: leftToDoOf(run, findings),
    historyEvents: run.events,
  };
}

/** The run writes its report after it recorded its ending. */
function lastEnd(at: number, steps: readonly ReportStep[]): number {
  return Math.max(at, ...steps.map(({ endedAt }) => Date.parse(endedAt ?? '') || 0));
}

type ReportedActivity = ReportStep['activities'][number];

function preconditionCount(result: Fields): string | undefined {
  const verdicts = listOf(result['preconditions']).map((item) => fieldsOf(item)['verdict']);
  if (verdicts.length === 0) return undefined;
  const failed = verdicts.filter((verdict) => verdict === 'fail').length;
  return failed === 0
    ? `${counted(verdicts.length, 'precondition')} checked`
    : `${failed} of ${counted(verdicts.length, 'precondition')} failed`;
}

const of = (value: unknown) => (typeof value === 'number' ? String(value) : (textOf(value) ?? '?'));
const clustersIn = (list: unknown, textOfItem: (item: Fields) => string) =>
  listOf(list)
    .map(fieldsOf)
    .map((item) => `${of(item['cluster'])}${textOfItem(item)}`)
    .join('; ');
/** Equal items of a list only once, with how many there are. */
function eachOnce(texts: string): string {
  const all = texts.split('; ');
  const times = (text: string) => all.filter((each) => each === text).length;
  return [...new Set(all)].map((text) => (times(text) === 1 ? text : `${text} (${times(text)})`)).join('; ');
}
const modeOf = (replication: unknown) => textOf(fieldsOf(replication)['mode']) ?? 'not read';
const generationEnded = ({ next }: Fields) =>
  next === 'token' ? 'token generated' : next === 'next-set' ? 'these key shares yield no token' : 'no token available';

/** A short text of an activity's result, for the activities whose result has neither `observed` nor `text`. */
const OBSERVED: Readonly<Record<string, (result: Fields) => string | undefined>> = {
  assessReadiness: ({ readiness }) => {
    const { switchover, failover, points } = fieldsOf(readiness);
    const failed = listOf(points)
      .map(fieldsOf)
      .filter(({ verdict }) => verdict === 'fail')
      .map(({ id, cluster }) => `${of(id)}${cluster === undefined ? '' : ` (${of(cluster)})`}`);
    const which = failed.length === 0 ? '' : `; failed: ${[...new Set(failed)].join(', ')}`;
    return `switchover ${of(switchover)}, failover ${of(failover)}${which}`;
  },
  readDeployment: ({ observations }) =>
    clustersIn(observations, ({ dr, performance }) => ` DR ${modeOf(dr)}, performance ${modeOf(performance)}`),
  readDeploymentStatus: ({ clusters }) =>
    clustersIn(clusters, ({ dr, performance }) => ` DR ${modeOf(dr)}, performance ${modeOf(performance)}`),
  createCeremony: ({ epoch, holders, threshold }) =>
    `round ${of(epoch)}, ${of(threshold)} of ${listOf(holders).length} holders needed`,
  createRehearsal: ({ holders }) => `${listOf(holders).length} people asked; no key share is asked for`,
  openEnvelopes: ({ verdicts }) =>
    `${listOf(verdicts).filter((item) => fieldsOf(item)['code'] === 'accepted').length} of ${counted(listOf(verdicts).length, 'envelope')} accepted`,
  startGeneration: ({ attempt, next }) => {
    const { length } = listOf(fieldsOf(attempt)['set']);
    return attempt === undefined ? generationEnded({ next }) : `${length - 1} of ${length} key shares given`;
  },
  completeGeneration: generationEnded,
  settleGeneration: generationEnded,
  // A cluster may have several: one of this run, and those that earlier runs left.
  deleteOperationTokens: ({ disposals }) => eachOnce(clustersIn(disposals, ({ state }) => `: ${of(state)}`)),
  rotateBatchToken: ({ expiresAt }) => `valid until ${of(expiresAt)}`,
  writeMarker: ({ wal, reached }) =>
    `marker written, WAL ${of(wal)}${reached === undefined ? '' : `, ${of(reached)} reached`}`,
  compareAfterDemotion: ({ loss, why }) => `loss ${of(loss)}: ${textOf(why) ?? ''}`,
  awaitPerformanceSecondaries: ({ following }) =>
    clustersIn(following, ({ follows }) => (follows === true ? ' follows' : ' has not been confirmed to follow')),
};

/** A short text of what an activity observed, or how it failed: for the timeline of a live run, and for its report. */
export function observedOf({ type, state, result, failure }: ActivityRecord): string | undefined {
  if (failure) return `${failure.code}: ${failure.message}`;
  if (state !== 'completed') return undefined;
  const observe = Object.hasOwn(OBSERVED, type) ? OBSERVED[type] : type.startsWith('assess') && preconditionCount;
  return textOf(result['observed']) ?? textOf(result['text']) ?? (observe ? textOf(observe(result)) : undefined);
}

function outcomeOfActivity(activity: ActivityRecord): ReportedActivity['outcome'] {
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
    outcome: outcomeOfActivity(activity),
    observed: observedOf(activity),
  };
}

function outcomeFromActivities(activities: readonly ActivityRecord[]): ReportStep['outcome'] {
  const outcomes = activities.map(outcomeOfActivity).filter((outcome) => outcome !== 'not-ordered');
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

/** Where each step stands in the plan. Steps from before a failover took the run over belong to another plan. */
function inPlan(run: RunRecord, steps: readonly ReportStep[]): readonly ReportStep[] {
  const plan = planOf(run);
  const since = factsOf(run, 'became-failover').at(-1)?.at ?? 0;
  return steps.map((step): ReportStep => {
    if (!plan || step.number === 0 || Date.parse(step.startedAt) < since) return step;
    const planned = planNumber(plan.content.steps, step.name);
    return planned === undefined ? { ...step, unforeseen: true } : { ...step, planned };
  });
}

/**
 * The steps of a run in the order in which they began, one entry for each attempt that an operator decided on. Number 0
 * stands for work beside the steps, such as checking what people sent.
 */
function reportedSteps(run: RunRecord): readonly ReportStep[] {
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
    // The step ended only in the run's memory: Temporal never accepted its commands.
    if (known?.outcome === 'not-ordered') continue;
    const step = known ?? { number, name, attempt, activities: [], startedAt: isoTime(startedAt) };
    steps.set(key, { ...step, endedAt: isoTime(Math.max(at, Date.parse(known?.endedAt ?? '') || at)), outcome });
  }
  return inPlan(run, [...steps.values()]).toSorted(
    (one, other) =>
      Date.parse(one.startedAt) - Date.parse(other.startedAt) ||
      one.number - other.number ||
      one.attempt - other.attempt,
  );
}
