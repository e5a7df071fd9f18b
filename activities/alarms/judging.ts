import { z } from 'zod';
import type { SampledCluster, SampledReplication, WalSample } from '../../src/contracts/observations';
import type { RunbookName } from '../../src/contracts/names';
import { SERVICE_ALARMS } from '../../src/contracts/notifications';
import type { Seen, ServiceAlarm, ServiceAlarmKind } from '../../src/contracts/notifications';
import type { Deployment } from '../../src/inventory';

/* What a sample says about the service, and when people are notified of it. All of it is pure. */

/** The roles in one DR set as they were seen last: a cluster that does not answer has the role that it had. */
export const knownRoles = z.object({ primary: z.string().optional(), secondaries: z.array(z.string()) });
export type KnownRoles = z.infer<typeof knownRoles>;

/** One thing that is good or bad. What a sample does not show has no judgment. */
export interface Judgment {
  /** The same for the beginning and the end. */
  readonly subject: string;
  readonly bad: boolean;
  readonly alarm: ServiceAlarm;
}

type Judged = Pick<Deployment, 'drSets'> & { readonly heartbeatAgeMs: number };

/** Judges one sample. */
export function judgeSample(sample: WalSample, site: Judged, roles: ReadonlyMap<string, KnownRoles>): Judgment[] {
  const sets = [...site.drSets].map(([name, members]) => {
    const of = sample.clusters.filter(({ cluster }) => members.includes(cluster));
    return { name, of, known: roles.get(name) ?? { secondaries: [] } };
  });
  const ofSets = sets.filter(({ of }) => of.length > 1).map((set) => ({ ...set, primaries: primariesOf(set.of) }));
  const judgments = ofSets.flatMap((set) => [...lost(set), ...split(set)]);
  const isLost = judgments.some(({ bad, alarm }) => bad && alarm.kind === 'no-primary');
  // Without a primary no secondary can stream: people are told once.
  const streams = isLost ? [] : sets.flatMap(({ of, known }) => of.flatMap((each) => following(each, known, site)));
  return [...judgments, ...performanceSplit(sample.clusters, site), ...streams];
}

interface DrSet {
  readonly name: string;
  readonly of: readonly SampledCluster[];
  readonly known: KnownRoles;
  readonly primaries: readonly SampledCluster[];
}

const primariesOf = (clusters: readonly SampledCluster[]) => clusters.filter(({ dr }) => dr?.mode === 'primary');

/** Whether the set has no primary although it replicates. */
function lost({ name, of, known, primaries }: DrSet): Judgment[] {
  const replicates = of.some(({ dr }) => dr?.mode === 'secondary') || known.primary !== undefined;
  const ended = of.every(({ answered, dr }) => answered && dr === undefined);
  const bad = primaries.length === 0 && replicates && !ended;
  const alarm = { kind: 'no-primary', drSet: name, seen: of.map(shortly) } as const;
  return [{ subject: `no-primary:${name}`, bad, alarm }];
}

/** Whether the set has several primaries. A primary that does not answer may still serve: then nothing is judged. */
function split({ name, of, known, primaries }: DrSet): Judgment[] {
  const bad = primaries.length > 1;
  if (!bad && of.some(({ answered }) => !answered)) return [];
  const alarm = { kind: 'two-primaries', drSet: name, seen: of.map(shortly), primary: known.primary } as const;
  return [{ subject: `two-primaries:${name}`, bad, alarm }];
}

/** As {@link split}, for clusters of different DR sets that report the same performance set. */
function performanceSplit(clusters: readonly SampledCluster[], { drSets }: Judged): Judgment[] {
  const isActive = ({ dr, performance }: SampledCluster) => dr?.mode !== 'secondary' && performance?.mode === 'primary';
  const active = [...drSets.values()].flatMap(
    (members) => clusters.find((each) => members.includes(each.cluster) && isActive(each)) ?? [],
  );
  const ids = active.map(({ performance }) => performance?.setId);
  const double = active.filter(({ performance }) => {
    const id = performance?.setId;
    return id !== undefined && ids.indexOf(id) !== ids.lastIndexOf(id);
  });
  if (double.length === 0 && clusters.some(({ answered }) => !answered)) return [];
  const seen = double.map(({ cluster }) => ({ cluster, how: 'primary' as const }));
  return [{ subject: 'two-performance-primaries', bad: double.length > 0, alarm: { kind: 'two-primaries', seen } }];
}

/** Whether a secondary of either kind streams. */
function following(sampled: SampledCluster, known: KnownRoles, { heartbeatAgeMs }: Judged): Judgment[] {
  const { cluster, answered, dr, performance } = sampled;
  const of = (how: Seen): Judgment => {
    const bad = how !== 'streams' && how !== 'no-role';
    return { subject: `not-streaming:${cluster}`, bad, alarm: { kind: 'not-streaming', seen: [{ cluster, how }] } };
  };
  if (!answered) return known.secondaries.includes(cluster) ? [of('silent')] : [];
  const kinds = [dr, performance].filter((each) => each?.mode === 'secondary' || each?.mode === 'bootstrapping');
  const seen = kinds.map((each) => howItFollows(each, heartbeatAgeMs));
  return [of(seen.find((how) => how !== 'streams') ?? (seen.length > 0 ? 'streams' : 'no-role'))];
}

const COMPARING: readonly unknown[] = ['merkle-diff', 'merkle-sync'];

/** `stream-wals` alone proves nothing: it stays with a dead primary. */
function howItFollows(replication: SampledReplication | undefined, heartbeatAgeMs: number): Seen {
  const { state, connected, heartbeatAgeMs: age } = replication ?? {};
  // Absent if the service does not report it.
  if (connected === false) return 'not-connected';
  if (age !== undefined && age > heartbeatAgeMs) return 'no-heartbeat';
  if (state === 'stream-wals') return 'streams';
  return COMPARING.includes(state) ? 'comparing' : 'not-in-step';
}

function shortly({ cluster, answered, dr }: SampledCluster): ServiceAlarm['seen'][number] {
  if (!answered || dr?.mode === 'unknown') return { cluster, how: 'silent' };
  if (dr?.mode === 'primary') return { cluster, how: 'primary' };
  return { cluster, how: dr === undefined ? 'no-role' : 'secondary' };
}

/** The roles in a set after a sample. Only a sample with one primary says which one it is. */
export function rolesAfter(
  before: KnownRoles | undefined,
  sample: WalSample,
  members: readonly string[],
): KnownRoles | undefined {
  const of = sample.clusters.filter(({ cluster }) => members.includes(cluster));
  const primaries = primariesOf(of);
  const [primary] = primaries;
  if (primary === undefined) return before;
  const isPrimary = (name: string) => primaries.some(({ cluster }) => cluster === name);
  if (primaries.length > 1)
    return before && { ...before, secondaries: before.secondaries.filter((each) => !isPrimary(each)) };
  const secondaries = of
    .filter(({ cluster, answered, dr }) =>
      answered ? dr?.mode === 'secondary' : before?.secondaries.includes(cluster),
    )
    .map(({ cluster }) => cluster);
  return { primary: primary.cluster, secondaries };
}

/* Runs of ours: what they cause themselves. */

const CHANGING: readonly unknown[] = ['working', 'outage', 're-protecting', 'finishing'];
/** In its first phases a planned run has changed nothing: what happens then, it did not cause. */
const CAUSED: Readonly<Partial<Record<RunbookName, readonly ServiceAlarmKind[]>>> = {
  drSwitchover: ['no-primary', 'not-streaming'],
  drFailover: ['not-streaming'],
  performancePromotion: ['not-streaming'],
  secondaryRepointing: ['not-streaming'],
  filterReconciliation: ['not-streaming'],
  secondaryDecommission: ['not-streaming'],
  primaryEnablement: ['not-streaming'],
  replicationTeardown: ['no-primary', 'not-streaming'],
  drReindex: ['not-streaming'],
};
/** Who started one of these knows about it; some wait for people in the middle of their changes. */
const KNOWN: Readonly<Partial<Record<RunbookName, readonly ServiceAlarmKind[]>>> = {
  drFailover: ['no-primary'],
  drRejoin: ['two-primaries', 'not-streaming'],
  performanceRejoin: ['two-primaries', 'not-streaming'],
  drSecondaryOnboarding: ['not-streaming'],
  performanceSecondaryOnboarding: ['not-streaming'],
};

/** Whether an open run of the deployment explains what was seen, so that it notifies people itself. */
export function isExplained(
  kind: ServiceAlarmKind,
  run: { readonly runbook: RunbookName; readonly phase?: string | undefined } | undefined,
): boolean {
  if (run === undefined) return false;
  const caused = CHANGING.includes(run.phase) && CAUSED[run.runbook]?.includes(kind) === true;
  return caused || KNOWN[run.runbook]?.includes(kind) === true;
}

/* Between samples. */

/** A subject that is, or was lately, bad. */
export const alarmState = z.object({
  kind: z.enum(SERVICE_ALARMS),
  /** The first bad sample, epoch ms. */
  since: z.number(),
  /** Bad samples in a row, until people were notified. */
  bad: z.number(),
  /** Good samples in a row since. */
  good: z.number(),
  told: z.boolean(),
});
export type AlarmState = z.infer<typeof alarmState>;

/** An end is told later than a beginning, so that a link that flaps is one alarm. */
const GOOD_SAMPLES = 6;

/** What follows from one more judgment. `tell`: its beginning; `end`: its end. */
export function afterJudgment(
  before: AlarmState | undefined,
  { bad, alarm: { kind } }: Pick<Judgment, 'bad' | 'alarm'>,
  at: number,
  afterSamples: number,
): { readonly state?: AlarmState; readonly due?: 'tell' | 'end' } {
  if (bad) {
    const count = (before?.bad ?? 0) + 1;
    const state = { kind, since: before?.since ?? at, bad: count, good: 0, told: before?.told ?? false };
    if (state.told) return { state: { ...state, bad: before?.bad ?? count } };
    return { state, ...(count >= afterSamples && { due: 'tell' }) };
  }
  if (before?.told !== true) return {};
  const good = before.good + 1;
  return { state: { ...before, good }, ...(good >= Math.max(GOOD_SAMPLES, afterSamples) && { due: 'end' }) };
}
