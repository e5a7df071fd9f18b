import type { Report, ReportedObjective, OutageSplit } from '../contracts/report';
import type { RunObjectives } from '../contracts/run-facts';
import type { ActivityRecord, RunRecord } from './run-record';
import { beganAt, factsOf, gatesIn, isoTime, parkingsIn } from './run-record';

/** A span of time, epoch milliseconds. */
export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** A time that an activity measured on its host's clock, clamped to the run's times of that activity. */
function measuredAt(activity: ActivityRecord, member: string): number | undefined {
  const at = activity.result[member];
  if (typeof at !== 'number' || !Number.isFinite(at)) return undefined;
  return Math.min(Math.max(at, activity.scheduledAt), activity.closedAt ?? Infinity);
}

/** Whether an activity leaves clients without a primary. */
const demotes = ({ type, input }: ActivityRecord) => type === 'demotePrimary' && input['former'] !== true;

/** When the primary was demoted, or may have been; undefined if this run demoted nothing. */
export function demotedAt(run: RunRecord): number | undefined {
  const tries = run.activities.filter(demotes);
  const done = tries.filter(({ state }) => state === 'completed');
  const calledAt = done.map((activity) => measuredAt(activity, 'calledAt')).find((at) => at !== undefined);
  const [possible, found] = [tries.find(mayHaveDemoted), done[0]];
  // An attempt without its own call found that an earlier one, whose answer was lost, had taken effect.
  return calledAt ?? (possible && beganAt(possible)) ?? (found && (run.outageSince ?? beganAt(found)));
}

/** Whether the call may have taken effect: it was running, or its answer was lost. */
function mayHaveDemoted({ state, failure, startedAt, closedAt }: ActivityRecord): boolean {
  if (state === 'running') return true;
  if (state === 'cancelled') return startedAt !== undefined || closedAt === undefined;
  return state === 'failed' && failure?.outcomeKnown !== true;
}

/** What proves the end of the outage. While a probe still runs there is none: clients are not known to be served. */
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
  const readyAt = probeAt ?? (probing ? undefined : (serviceReadyAt ?? writtenAt));
  // A failover that waited for people saw a primary come back by itself.
  const backAt = first('awaitPrimaryBack', 'backAt');
  if (readyAt === undefined && backAt !== undefined) return { endedAt: backAt, endedBy: 'primary-back' } as const;
  const endedBy = probeAt === undefined ? 'service-ready' : 'probe';
  return { endedAt: readyAt, endedBy, serviceReadyAt, probeAt } as const;
}

/**
 * The time of an activity. After retries only the start of the last attempt is known: the time before it counts as the
 * service's, unless the reason was a lost worker.
 */
function activityInterval(activity: ActivityRecord, until: number): Interval | undefined {
  if (activity.state !== 'running' && activity.startedAt === undefined) return undefined;
  const from = activity.workerLost ? (activity.startedAt ?? activity.scheduledAt) : beganAt(activity);
  return { from, to: activity.closedAt ?? until };
}

/** When the run waited for people: at gates, for decisions, for key shares, and in pauses. */
function waits(run: RunRecord, until: number) {
  const span = ({ at }: { readonly at: number }, end: { readonly at: number } | undefined): Interval => ({
    from: at,
    to: end?.at ?? until,
  });
  // Nobody closes a gate that a take-over ends.
  const takenOverAfter = (since: number) => factsOf(run, 'became-failover').find(({ at }) => at >= since);
  const atGates = gatesIn(run).map(({ opened, closed }) => span(opened, closed ?? takenOverAfter(opened.at)));
  const parked = parkingsIn(run).map((each) => span(each.parked, each.decided ?? each.ended));
  const held = factsOf(run, 'paused');
  const resumed = (since: number) => held.find(({ paused, at }) => !paused && at >= since);
  const pauses = held.filter(({ paused }) => paused).map((begun) => span(begun, resumed(begun.at)));
  const waits = factsOf(run, 'asked');
  const answered = (since: number) => waits.find(({ asked, at }) => !asked && at >= since);
  const ofHolders = waits.filter(({ asked }) => asked).map((begun) => span(begun, answered(begun.at)));
  return { asked: [...atGates, ...parked, ...ofHolders], pauses };
}

const during = (spans: readonly Interval[], from: number, to: number) =>
  spans.some((span) => span.from <= from && to <= span.to);

/**
 * Splits the outage. Time spent waiting for people counts as theirs even if a parallel branch works, so that the figure is
 * never too favorable; a pause counts only while nothing runs. The time before this run began is a separate part. The parts
 * add up to the total.
 */
function split(run: RunRecord, outage: Interval) {
  const within = (spans: readonly Interval[]) => spans.filter(({ from, to }) => from < outage.to && to > outage.from);
  const activities = within(run.activities.flatMap((activity) => activityInterval(activity, outage.to) ?? []));
  const { asked, pauses } = waits(run, outage.to);
  const [waited, paused] = [within(asked), within(pauses)];
  // Nothing begins or ends between two adjacent edges.
  const edges = [outage, { from: outage.from, to: run.startedAt }, ...activities, ...waited, ...paused]
    .flatMap(({ from, to }) => [from, to])
    .map((at) => Math.min(Math.max(at, outage.from), outage.to))
    .toSorted((one, other) => one - other);
  const parts = { beforeRunMs: 0, serviceMs: 0, machineMs: 0, peopleMs: 0 };
  let from = outage.from;
  for (const to of edges) {
    const works = during(activities, from, to);
    const forPeople = during(waited, from, to) || (!works && during(paused, from, to));
    const idle = to <= run.startedAt ? 'beforeRunMs' : 'machineMs';
    parts[forPeople ? 'peopleMs' : works ? 'serviceMs' : idle] += to - from;
    from = to;
  }
  const { beforeRunMs, ...rest } = parts;
  return { ...(beforeRunMs > 0 && { beforeRunMs }), ...rest };
}

/** When clients lost their primary: this run found it gone (the last time counts), or demoted it. */
function beganOutage(run: RunRecord) {
  const began = factsOf(run, 'outage-began').at(-1);
  const at = began?.since ?? demotedAt(run);
  if (at === undefined) return undefined;
  // Evidence from before the run knew of an outage that it did not cause does not prove the end of that outage.
  return { at, began, knownAt: Math.max(at, began?.at ?? run.startedAt) };
}

/** The outage with its split; without end and total if it is not proven that service came back. */
export function outageOf(run: RunRecord): OutageSplit | undefined {
  const outage = beganOutage(run);
  if (!outage) return undefined;
  const { at, began, knownAt } = outage;
  const { endedAt, endedBy, serviceReadyAt, probeAt } = evidenceOfEnd(run, knownAt);
  return {
    startedAt: isoTime(at),
    ...(began && { startedBecause: began.why, ...(began.atLeast && { atLeast: true }) }),
    ...(endedAt !== undefined && { endedAt: isoTime(endedAt), endedBy, totalMs: endedAt - at }),
    ...(serviceReadyAt !== undefined && { serviceReadyAt: isoTime(serviceReadyAt) }),
    ...(probeAt !== undefined && { probeAt: isoTime(probeAt) }),
    ...split(run, { from: at, to: Math.max(at, endedAt ?? run.asOf) }),
  };
}

/** When clients were paused: each time from the order to quiesce until their release. */
export function clientsHeldOf(run: RunRecord): Report['clientsHeld'] {
  const orders = factsOf(run, 'clients');
  const from = orders.find(({ held }) => held)?.at;
  if (from === undefined) return undefined;
  const held = orders.flatMap((each, index) => (each.held ? [{ from: each.at, to: orders[index + 1]?.at }] : []));
  const to = held.at(-1)?.to;
  const spans = held.map((each) => ({
    from: isoTime(each.from),
    to: each.to === undefined ? undefined : isoTime(each.to),
  }));
  const several = spans.length > 1 ? { spans } : {};
  if (to === undefined) return { from: isoTime(from), ...several };
  return {
    from: isoTime(from),
    to: isoTime(to),
    totalMs: held.reduce((sum, each) => sum + (each.to ?? to) - each.from, 0),
    ...several,
  };
}

/** From the demotion until a DR secondary streams again. */
export function withoutDrProtectionOf(run: RunRecord): Report['withoutDrProtection'] {
  const outage = beganOutage(run);
  if (!outage || run.runbook === 'performancePromotion') return undefined;
  const { at: from, knownAt } = outage;
  // The primary that came back has its secondaries: nothing was taken from them.
  if (evidenceOfEnd(run, knownAt).endedBy === 'primary-back') return undefined;
  const streaming = run.activities
    .filter(
      ({ type, state, scheduledAt }) => type === 'awaitDrStreaming' && state === 'completed' && scheduledAt >= knownAt,
    )
    .map((activity) => measuredAt(activity, 'at') ?? activity.closedAt ?? activity.scheduledAt);
  if (streaming.length === 0) return { from: isoTime(from) };
  const to = Math.max(from, Math.min(...streaming));
  return { from: isoTime(from), to: isoTime(to), totalMs: to - from };
}

/*
 * The inventory's objectives for a change of the primary, compared with what was measured. Only a measured objective counts
 * as met: a condition that still lasts is "missed" once it lasts too long, and "not measured" before that.
 */

type Measured = Pick<Report, 'runbook' | 'outage' | 'clientsHeld' | 'loss' | 'withoutDrProtection'>;

/** @param asOf - the time until which conditions without an end are known to last, epoch ms */
export function objectivesOf(wanted: RunObjectives, report: Measured, asOf: number): Report['objectives'] {
  const { outage, clientsHeld: held, withoutDrProtection: unprotected } = report;
  if (!outage) return undefined;
  const lasted = (from: string, ms: number | undefined) => ms ?? Math.max(0, asOf - Date.parse(from));
  const known = outage.atLeast !== true;
  const over = outage.totalMs !== undefined && (!held || held.to !== undefined);
  // Paused clients have no service either: count from the first of both until the last has ended.
  const from = held ? Math.min(Date.parse(held.from), Date.parse(outage.startedAt)) : Date.parse(outage.startedAt);
  const outageEnd = Date.parse(outage.startedAt) + lasted(outage.startedAt, outage.totalMs);
  const heldEnd = held?.to === undefined ? (held ? asOf : 0) : Date.parse(held.to);
  const felt = Math.max(outageEnd, heldEnd) - from;
  const without = unprotected && lasted(unprotected.from, unprotected.totalMs);
  const judged = [
    ...judge('outage', wanted.outageMs, felt, over && known),
    ...judge('loss', wanted.lossWalEntries, ...lost(report)),
    ...judge('unprotected', wanted.unprotectedMs, without, known && unprotected?.totalMs !== undefined),
  ];
  return judged.length === 0 ? undefined : judged;
}

/** The bound of a failover comes from a sample: later writes are unknown. */
function lost({ loss, runbook }: Measured): [entries: number | undefined, isAll: boolean] {
  if (loss?.loss === 'none') return [0, true];
  const bound = loss?.boundWalEntries;
  if (bound === undefined || !/^\d+$/.test(bound)) return [undefined, false];
  return [Number(bound), runbook !== 'drFailover' && bound !== '0'];
}

/** @param isAll - whether the figure can no longer grow */
function judge(
  objective: ReportedObjective['objective'],
  atMost: number | undefined,
  observed: number | undefined,
  isAll: boolean,
): ReportedObjective[] {
  if (atMost === undefined) return [];
  if (observed === undefined) return [{ objective, atMost, verdict: 'not-measured' }];
  return [{ objective, atMost, observed, verdict: observed > atMost ? 'missed' : isAll ? 'met' : 'not-measured' }];
}
