import type { OutageSplit, Report } from '../contracts/report';
import type { ReplicationKind } from '../contracts/runbook-inputs';
import type { ActivityRecord, RunRecord } from './run-record';
import { beganAt, factsOf, isoTime, kindOf, textOf, timeOf } from './run-record';

/** A span of time, epoch milliseconds. */
export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** The times that lie in at least one of the intervals: in order, apart, none empty. */
export function union(intervals: readonly Interval[]): readonly Interval[] {
  const result: Interval[] = [];
  for (const interval of intervals
    .filter(({ from, to }) => to > from)
    .toSorted((one, other) => one.from - other.from)) {
    const last = result.at(-1);
    if (last && interval.from <= last.to) result.splice(-1, 1, { from: last.from, to: Math.max(last.to, interval.to) });
    else result.push(interval);
  }
  return result;
}

/** The parts of the intervals that lie within the bounds. */
export function clipped(intervals: readonly Interval[], bounds: Interval): readonly Interval[] {
  return intervals
    .map(({ from, to }) => ({ from: Math.max(from, bounds.from), to: Math.min(to, bounds.to) }))
    .filter(({ from, to }) => to > from);
}

/** The times of `intervals` that lie in none of `removed`. Both must be unions. */
export function difference(intervals: readonly Interval[], removed: readonly Interval[]): readonly Interval[] {
  return intervals.flatMap((interval) => {
    const parts: Interval[] = [];
    let { from } = interval;
    for (const gap of clipped(removed, interval)) {
      if (gap.from > from) parts.push({ from, to: gap.from });
      from = gap.to;
    }
    return from < interval.to ? [...parts, { from, to: interval.to }] : parts;
  });
}

/** Milliseconds in all intervals of a union. */
export function lengthOf(intervals: readonly Interval[]): number {
  return intervals.reduce((sum, { from, to }) => sum + to - from, 0);
}

/** What became of the demotion: proven, or possible because the call was under way or its answer was lost. */
interface Demotion {
  readonly kind: ReplicationKind;
  readonly cluster?: string | undefined;
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
  const completed = tries.filter(({ state }) => state === 'completed');
  const done = completed.find((activity) => measuredAt(activity, 'calledAt') !== undefined);
  const possible = tries.find(mayHaveDemoted);
  const last = done ?? completed[0] ?? possible;
  if (!last) return undefined;
  const demotion = { kind: kindOf(last), cluster: textOf(last.input['cluster']), proven: completed.length > 0 };
  const calledAt = done && measuredAt(done, 'calledAt');
  if (calledAt !== undefined && done?.result['outcome'] !== 'already') return { ...demotion, at: calledAt };
  if (!demotion.proven) return { ...demotion, at: beganAt(last) };
  // The call was found to have taken effect: it was an earlier try's, whose answer was lost.
  return {
    ...demotion,
    at: calledAt ?? (possible && beganAt(possible)) ?? run.outageSince ?? beganAt(completed[0] ?? last),
  };
}

function mayHaveDemoted({ state, failure, startedAt, closedAt }: ActivityRecord): boolean {
  if (state === 'running') return true;
  if (state === 'cancelled') return startedAt !== undefined || closedAt === undefined;
  return state === 'failed' && failure?.outcomeKnown !== true;
}

/** A probe that still runs keeps the outage open: clients are not known to be served. */
function evidenceOfEnd(run: RunRecord, since: number) {
  const later = run.activities.filter(({ scheduledAt }) => scheduledAt >= since);
  const first = (wanted: string, member: string): number | undefined =>
    later
      .filter(({ type, state }) => type === wanted && state === 'completed')
      .map((activity) => measuredAt(activity, member))
      .find((at) => at !== undefined && at >= since);
  const serviceReadyAt = first('awaitServiceReady', 'readyAt');
  const probeAt = first('probeService', 'firstSuccessAt');
  const writtenAt = first('proveWrite', 'writtenAt');
  const probing = later.some(({ type, state }) => type === 'probeService' && state === 'running');
  const endedAt = probeAt ?? (probing ? undefined : (serviceReadyAt ?? writtenAt));
  return { endedAt, endedBy: probeAt === undefined ? 'service-ready' : 'probe', serviceReadyAt, probeAt } as const;
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

/** When people were waited for: at gates, for decisions, in pauses. */
function waits(run: RunRecord, until: number) {
  const [gates, decided, controls] = [factsOf(run, 'gate'), factsOf(run, 'decided'), factsOf(run, 'control')];
  const interval = ({ at: from }: { readonly at: number }, end: { readonly at: number } | undefined): Interval => ({
    from,
    to: end?.at ?? until,
  });
  const atGates = gates
    .filter(({ state }) => state === 'opened')
    .map((opened) =>
      interval(
        opened,
        gates.find(({ gate, state, at }) => gate === opened.gate && state !== 'opened' && at >= opened.at),
      ),
    );
  const parked = factsOf(run, 'parked').map((fact) =>
    interval(
      fact,
      decided.find(({ parkingNo }) => parkingNo === fact.parkingNo),
    ),
  );
  // A run never holds before a step inside of an outage, so a pause before a named step holds nothing here.
  const pauses = controls
    .filter(({ control, before }) => control === 'pause' && before === undefined)
    .map((pause) =>
      interval(
        pause,
        controls.find(({ control, at }) => control !== 'pause' && at >= pause.at),
      ),
    );
  return { asked: [...atGates, ...parked], pauses };
}

/**
 * Splits the outage. A time in which people are waited for counts as theirs even where a parallel branch works, so that
 * the figure never flatters; a pause counts only where nothing runs. What passed before this run began is told apart. The
 * parts add up to the whole.
 */
function split(run: RunRecord, outage: Interval) {
  const activities = union(run.activities.flatMap((activity) => activityInterval(activity, outage.to) ?? []));
  const { asked, pauses } = waits(run, outage.to);
  const people = clipped(union([...asked, ...difference(union(pauses), activities)]), outage);
  const peopleMs = lengthOf(people);
  const serviceMs = lengthOf(difference(clipped(activities, outage), people));
  const beforeRunMs = Math.max(0, Math.min(outage.to, run.startedAt) - outage.from);
  const machineMs = outage.to - outage.from - beforeRunMs - serviceMs - peopleMs;
  return { ...(beforeRunMs > 0 && { beforeRunMs }), serviceMs, machineMs, peopleMs };
}

/** When clients lost their primary: this run demoted it, or found it gone. */
function beganOutage(run: RunRecord): number | undefined {
  return demotionOf(run)?.at ?? factsOf(run, 'outage-began')[0]?.since;
}

/** The outage with its split; without end and total where it is not proven that service came back. */
export function outageOf(run: RunRecord): OutageSplit | undefined {
  const [began] = factsOf(run, 'outage-began');
  const at = beganOutage(run);
  if (at === undefined) return undefined;
  // What was seen before the run knew of an outage that it did not cause says nothing of its end.
  const { endedAt, endedBy, serviceReadyAt, probeAt } = evidenceOfEnd(run, Math.max(at, run.startedAt));
  return {
    startedAt: isoTime(at),
    ...(began?.since === at && { startedBecause: began.why, ...(began.atLeast && { atLeast: true }) }),
    ...(endedAt !== undefined && { endedAt: isoTime(endedAt), endedBy, totalMs: endedAt - at }),
    ...(serviceReadyAt !== undefined && { serviceReadyAt: isoTime(serviceReadyAt) }),
    ...(probeAt !== undefined && { probeAt: isoTime(probeAt) }),
    ...split(run, { from: at, to: Math.max(at, endedAt ?? run.asOf) }),
  };
}

/** When clients were held, each time: from the order to hold off until they were let through. */
export function clientsHeldOf(run: RunRecord): Report['clientsHeld'] {
  const orders = factsOf(run, 'clients');
  const from = orders.find(({ held }) => held)?.at;
  if (from === undefined) return undefined;
  const held = orders.flatMap((each, index) => (each.held ? [{ from: each.at, to: orders[index + 1]?.at }] : []));
  const to = held.at(-1)?.to;
  if (to === undefined) return { from: isoTime(from) };
  return {
    from: isoTime(from),
    to: isoTime(to),
    totalMs: held.reduce((sum, each) => sum + (each.to ?? to) - each.from, 0),
  };
}

/** From the demotion until a DR secondary streams again. */
export function withoutDrProtectionOf(run: RunRecord): Report['withoutDrProtection'] {
  const from = beganOutage(run);
  if (from === undefined || run.runbook === 'performancePromotion') return undefined;
  const streaming = run.activities
    .filter(
      ({ type, state, scheduledAt }) => type === 'awaitDrStreaming' && state === 'completed' && scheduledAt >= from,
    )
    .map((activity) => measuredAt(activity, 'at') ?? activity.closedAt ?? activity.scheduledAt);
  if (streaming.length === 0) return { from: isoTime(from) };
  const to = Math.max(from, Math.min(...streaming));
  return { from: isoTime(from), to: isoTime(to), totalMs: to - from };
}
