import { alarmsFirst } from '../contracts/alarms';
import type { Attested, Finding, Receipt, RunFact } from '../contracts/run-facts';
import type { ActivityRecord } from './activity-records';
import { shownError } from './activity-records';
import type { RunRecord } from './history-events';
import { fieldsOf, listOf, numberOf, textOf } from './history-values';
import type { Fields } from './history-values';
import { readAll, recordedAttested, recordedFact, recordedFinding } from './recorded-shapes';

type FactOf<K extends RunFact['kind']> = Extract<RunFact, { kind: K }>;

/** Something with the time at which it became true, in epoch milliseconds. */
export type Timed<T> = T & { readonly at: number };

/** The facts that the workflow handed to its activities, in order of time, sorted by what they say. */
export interface RunFacts {
  readonly receipts: readonly Timed<Receipt>[];
  readonly findings: readonly Timed<Finding>[];
  readonly gates: readonly FactOf<'gate'>[];
  readonly parked: readonly FactOf<'parked'>[];
  readonly decided: readonly Timed<Pick<FactOf<'decided'>, 'step' | 'parkingNo' | 'action' | 'by' | 'reason'>>[];
  readonly stepsEnded: readonly FactOf<'step-ended'>[];
  readonly controls: readonly FactOf<'control'>[];
  readonly phases: readonly FactOf<'phase'>[];
  readonly outagesBegan: readonly FactOf<'outage-began'>[];
  readonly losses: readonly FactOf<'loss'>[];
  readonly holdersAsked: readonly FactOf<'holders-asked'>[];
  /** Facts that have none of the known shapes. */
  readonly unread: number;
}

/**
 * Adds the items of `later` that `earlier` does not have yet, each as often as it occurs: two facts that say the same
 * are two facts, and one fact that is carried twice is one.
 */
function mergeCarriedTwice<T>(earlier: readonly T[], later: readonly T[], keyOf: (item: T) => string): readonly T[] {
  const had = new Map<string, number>();
  for (const item of earlier) had.set(keyOf(item), (had.get(keyOf(item)) ?? 0) + 1);
  const added = later.filter((item) => {
    const left = had.get(keyOf(item)) ?? 0;
    had.set(keyOf(item), left - 1);
    return left <= 0;
  });
  return [...earlier, ...added];
}

function carriedFacts(activities: readonly ActivityRecord[]): readonly unknown[] {
  const key = (fact: unknown): string => JSON.stringify(fact);
  let composed: readonly unknown[] = [];
  const inSteps: unknown[] = [];
  for (const { type, input, facts } of activities) {
    if (type !== 'composeReport') inSteps.push(...facts);
    else composed = mergeCarriedTwice(composed, mergeCarriedTwice(facts, listOf(input['facts']), key), key);
  }
  return [...inSteps, ...composed];
}

function ofKind<K extends RunFact['kind']>(facts: readonly RunFact[], kind: K): FactOf<K>[] {
  return facts.filter((fact): fact is FactOf<K> => fact.kind === kind);
}

/** Which signal an activity judges, so that verdicts that no fact carried yet still become receipts. */
const JUDGED_SIGNAL = {
  checkApprovals: 'approve',
  checkDecisions: 'decide',
  checkDeclines: 'decline',
  checkUnaskedShares: 'share',
  openEnvelopes: 'share',
  takeProvidedTokens: 'share',
  openRehearsal: 'share',
  noteRehearsalDeclines: 'decline',
} as const;

/** The result of an activity that judges signals. */
interface Judgement {
  readonly type: string;
  readonly completedAt: number;
  readonly result: Fields;
}

/** The results of the activities that judge signals, in order of time. */
function judgements(run: RunRecord): readonly Judgement[] {
  return run.activities
    .flatMap(({ type, closedAt, result }) =>
      judgedSignal(type) !== undefined && closedAt !== undefined ? [{ type, completedAt: closedAt, result }] : [],
    )
    .toSorted((one, other) => one.completedAt - other.completedAt);
}

function judgedSignal(type: string): Receipt['signal'] | undefined {
  return Object.hasOwn(JUDGED_SIGNAL, type) ? JUDGED_SIGNAL[type as keyof typeof JUDGED_SIGNAL] : undefined;
}

function attestedOf(value: unknown): Attested | undefined {
  const parsed = recordedAttested.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}

function receiptsOfVerdicts(judged: Judgement): readonly Timed<Receipt>[] {
  const signal = judgedSignal(judged.type);
  if (signal === undefined) return [];
  return listOf(judged.result['verdicts']).flatMap((item) => {
    const verdict = fieldsOf(item);
    const arrival = numberOf(verdict['arrival']);
    const code = textOf(verdict['code']);
    if (arrival === undefined || code === undefined) return [];
    const accepted = verdict['accepted'] === true || code === 'accepted';
    const from = attestedOf(verdict['by'] ?? verdict['holder']);
    return [
      {
        at: judged.completedAt,
        signal,
        arrival,
        verdict: accepted ? ('accepted' as const) : ('refused' as const),
        code,
        text: textOf(verdict['text']) ?? code,
        ...(from && { from }),
      },
    ];
  });
}

function decisionsOfVerdicts(judged: Judgement): RunFacts['decided'] {
  if (judged.type !== 'checkDecisions') return [];
  return listOf(judged.result['verdicts']).flatMap((item) => {
    const verdict = fieldsOf(item);
    if (verdict['accepted'] !== true) return [];
    const decision = fieldsOf(verdict['decision']);
    const parsed = recordedFact.safeParse({ ...decision, kind: 'decided', at: judged.completedAt, by: verdict['by'] });
    return parsed.success && parsed.data.kind === 'decided' ? [parsed.data] : [];
  });
}

/** Adds what the judgements prove and no fact carried, because the run ended before. The last judgement counts. */
function withUncarried<T>(carried: readonly T[], derived: readonly T[], keyOf: (item: T) => string): readonly T[] {
  const known = new Set(carried.map(keyOf));
  const last = new Map(derived.map((item) => [keyOf(item), item]));
  return [...carried, ...[...last].filter(([key]) => !known.has(key)).map(([, item]) => item)];
}

function resultFindings(activities: readonly ActivityRecord[]): {
  findings: readonly Timed<Finding>[];
  unread: number;
} {
  let unread = 0;
  const findings = activities.flatMap((activity) => {
    const found = readAll(recordedFinding, listOf(activity.result['findings']));
    unread += found.unread;
    return found.read.map((finding) => ({ ...finding, at: activity.closedAt ?? activity.scheduledAt }));
  });
  return { findings, unread };
}

const SEVERITIES = ['critical', 'warning', 'info'] as const;

/** Tokens that nobody holds, then what else is critical, and within one severity in order of time. */
export function sortFindings(findings: readonly Timed<Finding>[]): readonly Timed<Finding>[] {
  return alarmsFirst(
    findings.toSorted(
      (one, other) => SEVERITIES.indexOf(one.severity) - SEVERITIES.indexOf(other.severity) || one.at - other.at,
    ),
  );
}

const byTime = (one: { at: number }, other: { at: number }): number => one.at - other.at;

/** Gathers the facts of a run: from activity inputs and results. */
export function collectFacts(run: RunRecord): RunFacts {
  const { read, unread } = readAll(recordedFact, carriedFacts(run.activities));
  const inResults = resultFindings(run.activities);
  const keyOfFinding = ({ severity, code, text, next }: Finding): string =>
    JSON.stringify([severity, code, text, next]);
  return {
    receipts: withUncarried<Timed<Receipt>>(
      ofKind(read, 'receipt'),
      judgements(run).flatMap(receiptsOfVerdicts),
      ({ signal, arrival }) => `${signal} ${arrival}`,
    ).toSorted(byTime),
    findings: sortFindings(mergeCarriedTwice(inResults.findings, ofKind(read, 'finding'), keyOfFinding)),
    gates: ofKind(read, 'gate').toSorted(byTime),
    parked: ofKind(read, 'parked')
      .map((fact) => ({ ...fact, ...shownError(fact.code, fact.message) }))
      .toSorted(byTime),
    decided: withUncarried<RunFacts['decided'][number]>(
      ofKind(read, 'decided'),
      judgements(run).flatMap(decisionsOfVerdicts),
      ({ step, parkingNo }) => `${parkingNo} ${step}`,
    ).toSorted(byTime),
    stepsEnded: ofKind(read, 'step-ended').toSorted(byTime),
    controls: ofKind(read, 'control').toSorted(byTime),
    phases: ofKind(read, 'phase').toSorted(byTime),
    outagesBegan: ofKind(read, 'outage-began').toSorted(byTime),
    losses: ofKind(read, 'loss').toSorted(byTime),
    holdersAsked: ofKind(read, 'holders-asked').toSorted(byTime),
    unread: unread + inResults.unread,
  };
}
