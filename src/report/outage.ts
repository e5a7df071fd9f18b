import type { OutageSplit, Report } from '../contracts/report';
import type { Interval } from './intervals';
import { clipped, difference, lengthOf, union } from './intervals';
import type { ActivityRecord, RunRecord } from './run-record';
import { beganAt, factsOf, isoTime, textOf, timeOf } from './run-record';

/** What became of the demotion: proven, or possible because the call was under way or its answer was lost. */
interface Demotion {
  readonly cluster?: string;
  readonly at: number;
  readonly proven: boolean;
}

/** A time that an activity measured on its host's clock, held within the run's times of that activity. */
function measuredAt(activity: ActivityRecord, member: string): number | undefined {
  const at = timeOf(activity.result[member]);
  if (at === undefined) return undefined;
  return Math.min(Math.max(at, activity.scheduledAt), activity.closedAt ?? Infinity);
}

/** Whether an activity leaves clients without a primary. */
const demotes = ({ type, input }: ActivityRecord) => type === 'demotePrimary' && input['former'] !== true;

/** When the primary was demoted; `undefined` where this run demoted nothing. */
export function demotionOf(run: RunRecord): Demotion | undefined {
  const tries = run.activities.filter(demotes);
  const done = tries.find(
    (activity) => activity.state === 'completed' && measuredAt(activity, 'calledAt') !== undefined,
  );
  const possible = tries.find(mayHaveDemoted);
  const already = tries.find(({ state }) => state === 'completed');
  const cluster = textOf((done ?? already ?? possible)?.input['cluster']);
  const named = cluster === undefined ? {} : { cluster };
  const calledAt = done && measuredAt(done, 'calledAt');
  if (calledAt !== undefined && done?.result['outcome'] !== 'already') return { ...named, at: calledAt, proven: true };
  if (already) {
    // The call was found to have taken effect: it was an earlier try's, whose answer was lost.
    const at = calledAt ?? (possible && beganAt(possible)) ?? run.outageSince;
    return { ...named, at: at ?? beganAt(already), proven: true };
  }
  return possible && { ...named, at: beganAt(possible), proven: false };
}

function mayHaveDemoted({ state, failure, startedAt, closedAt }: ActivityRecord): boolean {
  if (state === 'running') return true;
  if (state === 'cancelled') return startedAt !== undefined || closedAt === undefined;
  return state === 'failed' && failure?.outcomeKnown !== true;
}

interface OutageEnd {
  readonly at: number;
  readonly by: 'probe' | 'service-ready';
}

interface OutageEvidence {
  readonly end?: OutageEnd;
  readonly serviceReadyAt?: number;
  readonly probeAt?: number;
}

/** A probe that still runs keeps the outage open: clients are not known to be served. */
function evidenceOfEnd(run: RunRecord, since: number): OutageEvidence {
  const later = run.activities.filter(({ scheduledAt }) => scheduledAt >= since);
  const first = (wanted: string, member: string): number | undefined =>
    later
      .filter((activity) => activity.type === wanted && activity.state === 'completed')
      .map((activity) => measuredAt(activity, member))
      .find((at) => at !== undefined && at >= since);
  const serviceReadyAt = first('awaitServiceReady', 'readyAt');
  const probeAt = first('probeService', 'firstSuccessAt');
  const probing = later.some(({ type, state }) => type === 'probeService' && state === 'running');
  const end: OutageEnd | undefined =
    probeAt !== undefined
      ? { at: probeAt, by: 'probe' }
      : serviceReadyAt !== undefined && !probing
        ? { at: serviceReadyAt, by: 'service-ready' }
        : undefined;
  return {
    ...(end && { end }),
    ...(serviceReadyAt !== undefined && { serviceReadyAt }),
    ...(probeAt !== undefined && { probeAt }),
  };
}

/**
 * When an activity served the run. Of one that Temporal tried again only the last try's start is known: the time before
 * it counts as the service's, except where a lost worker was the reason.
 */
function activityInterval(activity: ActivityRecord, until: number): Interval | undefined {
  if (activity.state !== 'running' && activity.startedAt === undefined) return undefined;
  const from = activity.workerLost ? (activity.startedAt ?? activity.scheduledAt) : beganAt(activity);
  return { from, to: activity.closedAt ?? until };
}

function gateIntervals(run: RunRecord, until: number): Interval[] {
  const gates = factsOf(run, 'gate');
  return gates
    .filter(({ state }) => state === 'opened')
    .map((opened) => ({
      from: opened.at,
      to:
        gates.find(({ gate, state, at }) => gate === opened.gate && state !== 'opened' && at >= opened.at)?.at ?? until,
    }));
}

function parkingIntervals(run: RunRecord, until: number): Interval[] {
  const decided = factsOf(run, 'decided');
  return factsOf(run, 'parked').map(({ step, parkingNo, at }) => ({
    from: at,
    to:
      decided.find((decision) => decision.step === step && decision.parkingNo === parkingNo && decision.at >= at)?.at ??
      until,
  }));
}

function pauseIntervals(run: RunRecord, until: number): Interval[] {
  const controls = factsOf(run, 'control');
  return (
    controls
      // A run never holds before a step inside of an outage, so a pause before a named step holds nothing here.
      .filter(({ control, before }) => control === 'pause' && before === undefined)
      .map(({ at }) => ({
        from: at,
        to: controls.find((other) => other.control !== 'pause' && other.at >= at)?.at ?? until,
      }))
  );
}

/**
 * Splits the outage. A time in which people are waited for counts as theirs even where a parallel branch works, so that
 * the figure never flatters; a pause counts only where nothing runs. The three parts add up to the whole.
 */
function split(run: RunRecord, outage: Interval): Pick<OutageSplit, 'serviceMs' | 'machineMs' | 'peopleMs'> {
  const activities = union(run.activities.flatMap((activity) => activityInterval(activity, outage.to) ?? []));
  const pauses = difference(union(pauseIntervals(run, outage.to)), activities);
  const waits = [...gateIntervals(run, outage.to), ...parkingIntervals(run, outage.to), ...pauses];
  const people = clipped(union(waits), outage);
  const service = difference(clipped(activities, outage), people);
  const peopleMs = lengthOf(people);
  const serviceMs = lengthOf(service);
  return { serviceMs, peopleMs, machineMs: outage.to - outage.from - serviceMs - peopleMs };
}

/** The outage with its split; without end and total where it is not proven that service came back. */
export function outageOf(run: RunRecord): OutageSplit | undefined {
  const [began] = factsOf(run, 'outage-began');
  const at = demotionOf(run)?.at ?? began?.since;
  if (at === undefined) return undefined;
  // What was seen before the run knew of an outage that it did not cause says nothing of its end.
  const { end, serviceReadyAt, probeAt } = evidenceOfEnd(run, Math.max(at, run.startedAt));
  const until = Math.max(at, end?.at ?? run.asOf);
  return {
    startedAt: isoTime(at),
    ...(began?.since === at && { startedBecause: began.why }),
    ...(end && { endedAt: isoTime(end.at), endedBy: end.by, totalMs: end.at - at }),
    ...(serviceReadyAt !== undefined && { serviceReadyAt: isoTime(serviceReadyAt) }),
    ...(probeAt !== undefined && { probeAt: isoTime(probeAt) }),
    ...split(run, { from: at, to: until }),
  };
}

/** From the demotion until a DR secondary streams again. */
export function withoutDrProtectionOf(run: RunRecord): Report['withoutDrProtection'] {
  const performance = run.runbook === 'performancePromotion';
  const at = demotionOf(run)?.at ?? factsOf(run, 'outage-began')[0]?.since;
  if (at === undefined || performance) return undefined;
  const demotion = { at };
  const streaming = run.activities
    .filter(
      ({ type, state, scheduledAt }) =>
        type === 'awaitDrStreaming' && state === 'completed' && scheduledAt >= demotion.at,
    )
    .map((activity) => measuredAt(activity, 'at') ?? activity.closedAt ?? activity.scheduledAt);
  const first = streaming.length > 0 ? Math.max(demotion.at, Math.min(...streaming)) : undefined;
  return {
    from: isoTime(demotion.at),
    ...(first !== undefined && { to: isoTime(first), totalMs: first - demotion.at }),
  };
}
