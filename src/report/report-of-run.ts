import { alarmsFirst } from '../contracts/alarms';
import { planIn } from '../contracts/plan';
import type { RunbookPlan } from '../contracts/plan';
import type { Report } from '../contracts/report';
import type { Finding } from '../contracts/run-facts';
import { escapeUntrusted } from '../contracts/words';
import { derivedLeftToDo, secretsLeft, workLeft } from './left-to-do';
import { demotionOf, outageOf, withoutDrProtectionOf } from './outage';
import type { ActivityRecord, Fields, RunRecord } from './run-record';
import { factsOf, fieldsOf, isoTime, listOf, shownError, textOf, textsOf } from './run-record';
import { reportedSteps } from './steps';

type Timed<T> = T & { readonly at: number };

function completed(run: RunRecord, type: string): readonly ActivityRecord[] {
  return run.activities.filter((activity) => activity.type === type && activity.state === 'completed');
}

/** What runbooks read and judged before they acted: the activities whose names begin with `assess`. */
function assessments(run: RunRecord): readonly ActivityRecord[] {
  return run.activities.filter(({ type, state }) => type.startsWith('assess') && state === 'completed');
}

function planOf(run: RunRecord): Report['plan'] {
  for (const { result } of assessments(run).toReversed()) {
    const { digest, text } = fieldsOf(result['plan']);
    const content = planIn(textOf(text) ?? '');
    if (typeof digest === 'string' && content) return { digest, content };
  }
  return undefined;
}

function lossOf(run: RunRecord): Report['loss'] {
  const ran = (types: RegExp): boolean => run.activities.some(({ type }) => types.test(type));
  // A failover says beforehand what it may lose; one that promoted nothing has lost nothing.
  const inVain = ran(/^assessDrFailover$/) && !ran(/^(promote|forcePromote)/);
  const told = inVain ? undefined : factsOf(run, 'loss').at(-1);
  if (told) {
    const { loss, why, boundWalEntries } = told;
    return { loss, why, ...(boundWalEntries !== undefined && { boundWalEntries }) };
  }
  const evidence = completed(run, 'compareAfterDemotion').at(-1)?.result;
  const loss = evidence?.['loss'];
  if (!evidence || (loss !== 'none' && loss !== 'bounded')) return undefined;
  const optional = Object.fromEntries(
    ['boundWalEntries', 'oldPrimaryRoot', 'newPrimaryRoot'].flatMap((name) => {
      const text = textOf(evidence[name]);
      return text === undefined ? [] : [[name, text] as const];
    }),
  );
  return { loss, why: textOf(evidence['why']) ?? '', ...optional };
}

function tokensOf(run: RunRecord): Report['tokens'] {
  const told = (disposal: Fields) => ({
    cluster: textOf(disposal['cluster']) ?? 'unknown',
    state: textOf(disposal['state']) ?? 'unproven',
    text: textOf(disposal['text']) ?? '',
  });
  const last = new Map<string, Report['tokens'][number]>();
  const generated = ['startGeneration', 'completeGeneration', 'settleGeneration'].flatMap((type) =>
    completed(run, type),
  );
  for (const { input } of generated.filter(({ result }) => result['sealed'] !== undefined)) {
    const cluster = textOf(input['cluster']) ?? 'unknown';
    last.set(cluster, { cluster, state: 'unproven', text: 'generated; the run did not delete it' });
  }
  for (const { result } of completed(run, 'deleteOperationTokens'))
    for (const disposal of listOf(result['disposals']).map(fieldsOf).map(told)) last.set(disposal.cluster, disposal);
  // Tokens that earlier runs left in the ledger: each on its own.
  return [...last.values(), ...completed(run, 'disposeLedgerToken').map(({ result }) => told(result))];
}

function gatesOf(run: RunRecord): Report['gates'] {
  const gates = factsOf(run, 'gate');
  const used = new Set<(typeof gates)[number]>();
  return gates.flatMap((opening) => {
    if (used.has(opening)) return [];
    const closing =
      opening.state === 'opened'
        ? gates.find(
            (fact) => fact.gate === opening.gate && fact.state !== 'opened' && fact.at >= opening.at && !used.has(fact),
          )
        : opening;
    if (closing) used.add(closing);
    const { gate, planDigest, state, by } = closing ?? opening;
    const closedAt = closing && { closedAt: isoTime(closing.at) };
    return [{ gate, planDigest, openedAt: isoTime(opening.at), ...closedAt, state, by }];
  });
}

function parkingsOf(run: RunRecord): Report['parkings'] {
  const decided = factsOf(run, 'decided');
  return factsOf(run, 'parked').map(({ step, parkingNo, code, message, at }) => {
    const decision = decided.find((fact) => fact.step === step && fact.parkingNo === parkingNo);
    return {
      ...{ step, parkingNo, at: isoTime(at) },
      ...shownError(code, message),
      ...(decision && {
        decision: { action: decision.action, by: decision.by, reason: decision.reason, at: isoTime(decision.at) },
      }),
    };
  });
}

/** A signal is answered by its receipt. */
function signalsOf(run: RunRecord): Report['signals'] {
  const answered = new Set(
    factsOf(run, 'receipt').flatMap(({ signal, arrival, alsoFor = [] }) =>
      [arrival, ...alsoFor].map((each) => `${signal} ${each}`),
    ),
  );
  return run.signals.map(({ signal, arrival, at }) => ({
    ...{ signal, arrival, at: isoTime(at) },
    answered: answered.has(`${signal} ${arrival}`),
  }));
}

type ReportHolder = NonNullable<Report['holders']>[number];

/** Who was asked for a key share and when, who declined, who gave: one line for each holder and epoch. */
function holdersOf(run: RunRecord): { readonly holders?: readonly ReportHolder[] } {
  const [holdersAsked, receipts] = [factsOf(run, 'holders-asked'), factsOf(run, 'receipt')];
  const epochs = [...new Set(holdersAsked.map(({ epoch }) => epoch))];
  const holders = epochs.flatMap((epoch) => {
    const asked = holdersAsked.filter((fact) => fact.epoch === epoch);
    const began = Math.min(...asked.map(({ at }) => at));
    const next = holdersAsked.find((fact) => fact.epoch > epoch);
    const within = receipts.filter(
      ({ at, verdict }) => verdict === 'accepted' && at >= began && (next === undefined || at < next.at),
    );
    const accepted = (signal: 'share' | 'decline', name: string) =>
      within.findLast((each) => each.signal === signal && each.from?.name === name);
    const named = asked.flatMap((fact) => fact.names.map((name) => ({ name, fact })));
    const answered = within.flatMap(({ from, signal }) =>
      from && (signal === 'share' || signal === 'decline') ? [from.name] : [],
    );
    const early = [...new Set(answered)].filter((name) => !named.some((each) => each.name === name));
    return [...named, ...early.map((name) => ({ name, fact: undefined }))].map(({ name, fact }): ReportHolder => {
      const gave = accepted('share', name);
      const declined = accepted('decline', name);
      return {
        ...{ name, epoch },
        // Who answered without being asked was invited, and stood by.
        as: fact?.as ?? 'stand-by',
        ...(fact && { askedAt: isoTime(fact.at), why: fact.why }),
        ...(declined?.from && { declined: { at: isoTime(declined.at), how: declined.from.how, text: declined.text } }),
        ...(gave?.from && { gave: { at: isoTime(gave.at), how: gave.from.how } }),
      };
    });
  });
  return holders.length === 0 ? {} : { holders };
}

const LONGEST_SHOWN = 200;

/** The input as the runbook reads it. */
function askedOf(run: RunRecord): Pick<Report, 'asked' | 'reason' | 'ticket' | 'window' | 'takenOver'> {
  const shortened = (value: unknown) =>
    typeof value === 'string' && value.length > LONGEST_SHOWN ? `${value.slice(0, LONGEST_SHOWN)}...` : value;
  const given = Object.entries(run.input).filter(([, value]) => value !== undefined);
  const asked = Object.fromEntries(given.map(([name, value]) => [name, shortened(value)]));
  const { ticket, window } = run.input as Pick<Report, 'ticket' | 'window'>;
  const reason = textOf(run.input['reason']);
  const takeOver = factsOf(run, 'control').find(({ control }) => control === 'take-over');
  return {
    ...(reason !== undefined && { reason }),
    ...(given.length > 0 && { asked }),
    ...(ticket !== undefined && { ticket }),
    ...(window && { window }),
    ...(takeOver && { takenOver: { at: isoTime(takeOver.at), by: takeOver.by, reason: takeOver.reason } }),
  };
}

/** What each paths filter was when it was first read, and what it was written to be last. */
function filtersOf(run: RunRecord): Report['filters'] {
  const filters = new Map<string, { secondary?: string; before?: string; after?: string }>();
  const about = run.activities.filter(({ type, state }) => state === 'completed' && /(Paths|Dynamic)Filter/.test(type));
  for (const { type, input, result } of about) {
    const id = textOf(result['id']) ?? textOf(input['id']);
    if (id === undefined) continue;
    const filter = filters.get(id) ?? {};
    filters.set(id, filter);
    const secondary = textOf(input['secondary']);
    if (secondary !== undefined) filter.secondary ??= secondary;
    if (type === 'readPathsFilter') filter.before ??= filterText(result['filter']);
    if (result['before'] !== undefined) filter.before ??= filterText(result['before']);
    if (type === 'writePathsFilter') filter.after = filterText(input['filter']);
    if (type === 'deletePathsFilter') filter.after = filterText(undefined);
  }
  return [...filters].map(([id, filter]) => ({ id, ...filter }));
}

function filterText(value: unknown): string {
  const filter = fieldsOf(value);
  const mode = textOf(filter['mode']);
  return mode === undefined ? 'none' : `${mode} ${textsOf(filter['paths']).join(', ') || 'nothing'}`;
}

const SEVERITIES = ['critical', 'warning', 'info'] as const;

/** Tokens that nobody holds, then what else is critical, and within one severity in order of time. */
function sortFindings(findings: readonly Timed<Finding>[]): readonly Timed<Finding>[] {
  return alarmsFirst(
    findings.toSorted(
      (one, other) => SEVERITIES.indexOf(one.severity) - SEVERITIES.indexOf(other.severity) || one.at - other.at,
    ),
  );
}

/** What the way in which the run was closed says, beside the findings of the run itself. */
function findingOfClose(run: RunRecord): readonly Timed<Finding>[] {
  const { close } = run;
  if (!close) return [];
  const { at, how } = close;
  const severity = demotionOf(run) ? 'critical' : 'warning';
  if (how === 'failed' && !run.ending) {
    const { code, message } = close.failure ?? { code: 'unknown', message: 'no failure recorded' };
    return [{ at, severity, code: 'run-failed', text: `The run failed with ${code}: ${message}` }];
  }
  if (how !== 'terminated' && how !== 'cancelled' && how !== 'timed-out') return [];
  const by = close.by ? ` by ${escapeUntrusted(close.by.name)}` : '';
  const reason = close.reason === undefined ? '' : `, reason given: ${escapeUntrusted(close.reason)}`;
  const waited = run.waitingFor === undefined ? '' : ` It waited for: ${run.waitingFor}.`;
  const ended = how === 'timed-out' ? 'ended by a time-out' : how;
  const text = `The run was ${ended} during phase ${run.phase}${by}${reason}. No clean-up ran.${waited}`;
  return [{ at, severity, code: `run-${how}`, text }];
}

/** What the run said itself, what its deeds prove beside it, and secrets that are not proven gone. */
function leftToDoOf(run: RunRecord, plan: RunbookPlan | undefined): readonly string[] {
  const { ending } = run;
  if (!ending) return derivedLeftToDo(run, plan);
  const work = ending.outcome === 'aborted' ? workLeft(run, plan) : [];
  return [...ending.leftToDo, ...work, ...secretsLeft(run)];
}

function outcomeOf({ ending, close }: RunRecord): Report['outcome'] {
  if (ending) return ending.outcome;
  if (!close) return 'running';
  return close.how === 'continued' ? 'handed-over' : close.how;
}

/**
 * Says what a run did, from what it knows of itself: no clock, no I/O, so that a live run, a finished one and one that
 * was terminated are told by the same function.
 *
 * @param given - of a run that was closed from outside, with its tail
 * @returns the report; members of which the run knows nothing are absent. Times are ISO text, durations milliseconds.
 */
export function reportOf(given: RunRecord): Report {
  const run = { ...given, activities: given.activities.filter(({ state }) => state !== 'not-ordered') };
  const { namespace, workflowId, runId, runbook, deployment, requestedBy, ending, close } = run;
  const plan = planOf(run);
  const endedAt = close?.at ?? ending?.at;
  const [outage, loss, withoutDrProtection] = [outageOf(run), lossOf(run), withoutDrProtectionOf(run)];
  const assessed = assessments(run).at(-1)?.result ?? {};
  const state = completed(run, 'readDeployment').at(-1)?.result ?? assessed;
  return {
    schema: 'replication-runbooks/report/v1',
    ...{ runbook, namespace, workflowId, runId },
    ...(deployment !== undefined && { deployment }),
    outcome: outcomeOf(run),
    ...(requestedBy && { requestedBy }),
    ...askedOf(run),
    startedAt: isoTime(run.startedAt),
    ...(endedAt !== undefined && { endedAt: isoTime(endedAt) }),
    asOfEvent: run.events,
    ...(plan && { plan }),
    preconditions: listOf(assessed['preconditions']) as Report['preconditions'],
    steps: reportedSteps(given),
    gates: gatesOf(run),
    parkings: parkingsOf(run),
    ...holdersOf(run),
    receipts: factsOf(run, 'receipt').map(({ at, signal, arrival, verdict, code, text, from }) => ({
      ...{ signal, arrival, verdict, code, text },
      ...(from && { from }),
      at: isoTime(at),
    })),
    signals: signalsOf(run),
    controls: factsOf(run, 'control').map(({ control, by, reason, at }) => ({ control, by, reason, at: isoTime(at) })),
    findings: sortFindings([...factsOf(run, 'finding'), ...findingOfClose(run)]).map(
      ({ at, severity, code, text, next }) => ({
        ...{ severity, code, text },
        ...(next !== undefined && { next }),
        at: isoTime(at),
      }),
    ),
    ...(outage && { outage }),
    ...(loss && { loss }),
    ...(withoutDrProtection && { withoutDrProtection }),
    filters: filtersOf(run),
    tokens: tokensOf(run),
    finalState: listOf(state['observations']) as Report['finalState'],
    ...(ending?.result && { result: ending.result }),
    leftToDo: leftToDoOf(run, plan?.content),
    historyEvents: run.events,
  };
}
