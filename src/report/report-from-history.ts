import type { temporal } from '@temporalio/proto';
import { runbookPlan } from '../contracts/plan-schema';
import type { RunbookPlan } from '../contracts/plan';
import type { Report } from '../contracts/report';
import type { Finding } from '../contracts/run-facts';
import { said } from '../contracts/words';
import type { ActivityRecord } from './activity-records';
import { holdersOf } from './holders';
import type { RunFacts, Timed } from './facts';
import { collectFacts, sortFindings } from './facts';
import type { RunRecord } from './history-events';
import { readHistory } from './history-events';
import { fieldsOf, isoTime, listOf, textOf, textsOf } from './history-values';
import { derivedLeftToDo, secretsLeft, workLeft } from './left-to-do';
import { demotionOf, outageOf, withoutDrProtectionOf } from './outage';
import { readAll, recordedObservation, recordedOutcome, recordedPrecondition } from './recorded-shapes';
import { askedOf, filtersOf, resultOf } from './run-members';
import { reportedSteps } from './steps';

/** Which run a history is of: a history does not say it itself. */
interface RunIdentity {
  readonly namespace: string;
  readonly workflowId: string;
  readonly runId: string;
}

function completed(run: RunRecord, type: string): readonly ActivityRecord[] {
  return run.activities.filter((activity) => activity.type === type && activity.state === 'completed');
}

/** What runbooks read and judged before they acted: the activities whose names begin with `assess`. */
function assessments(run: RunRecord): readonly ActivityRecord[] {
  return run.activities.filter(({ type, state }) => type.startsWith('assess') && state === 'completed');
}

function planOf(run: RunRecord): Report['plan'] {
  for (const { result } of assessments(run).toReversed()) {
    const document = fieldsOf(result['plan']);
    const digest = textOf(document['digest']);
    const content = parsedPlan(textOf(document['text']));
    if (digest !== undefined && content) return { digest, content };
  }
  return undefined;
}

function parsedPlan(text: string | undefined): RunbookPlan | undefined {
  if (text === undefined) return undefined;
  try {
    const parsed = runbookPlan.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

function preconditionsOf(run: RunRecord): Report['preconditions'] {
  const last = assessments(run).at(-1);
  return readAll(recordedPrecondition, listOf(last?.result['preconditions'])).read;
}

function lossOf(run: RunRecord, facts: RunFacts): Report['loss'] {
  const evidence = completed(run, 'compareAfterDemotion').at(-1)?.result;
  const ran = (types: RegExp): boolean => run.activities.some(({ type }) => types.test(type));
  // A failover says beforehand what it may lose; one that promoted nothing has lost nothing.
  const told = ran(/^assessDrFailover$/) && !ran(/^(promote|forcePromote)/) ? undefined : facts.losses.at(-1);
  if (told) {
    const { loss, why, boundWalEntries } = told;
    return { loss, why, ...(boundWalEntries !== undefined && { boundWalEntries }) };
  }
  const loss = evidence?.['loss'];
  if (!evidence || (loss !== 'none' && loss !== 'bounded')) return undefined;
  const optional = (member: 'boundWalEntries' | 'oldPrimaryRoot' | 'newPrimaryRoot'): Record<string, string> => {
    const text = textOf(evidence[member]);
    return text === undefined ? {} : { [member]: text };
  };
  return {
    loss,
    why: textOf(evidence['why']) ?? '',
    ...optional('boundWalEntries'),
    ...optional('oldPrimaryRoot'),
    ...optional('newPrimaryRoot'),
  };
}

function tokensOf(run: RunRecord): Report['tokens'] {
  const last = new Map<string, Report['tokens'][number]>();
  for (const { input } of completed(run, 'generateOperationToken')) {
    const cluster = textOf(input['cluster']) ?? 'unknown';
    last.set(cluster, { cluster, state: 'unproven', text: 'generated; no deletion is in the history' });
  }
  for (const { result } of completed(run, 'deleteOperationTokens')) {
    for (const disposal of listOf(result['disposals']).map(fieldsOf)) {
      const cluster = textOf(disposal['cluster']) ?? 'unknown';
      last.set(cluster, {
        cluster,
        state: textOf(disposal['state']) ?? 'unproven',
        text: textOf(disposal['text']) ?? '',
      });
    }
  }
  // Tokens that earlier runs left in the ledger: each on its own.
  const ofLedger = completed(run, 'disposeLedgerToken').map(({ result }) => ({
    cluster: textOf(result['cluster']) ?? 'unknown',
    state: textOf(result['state']) ?? 'unproven',
    text: textOf(result['text']) ?? '',
  }));
  return [...last.values(), ...ofLedger];
}

/** The last reading of the whole deployment; where there is none, the one that the plan was made from. */
function finalStateOf(run: RunRecord): Report['finalState'] {
  const last = completed(run, 'readDeployment').at(-1) ?? assessments(run).at(-1);
  return readAll(recordedObservation, listOf(last?.result['observations'])).read;
}

interface Ending {
  readonly outcome: Report['outcome'];
  readonly endedAt?: number;
  /** What the run itself said was left; absent where it could not say it. */
  readonly leftToDo?: readonly string[];
}

/** The run's own word counts before how Temporal closed it: the last activity carries it. */
function endingOf(run: RunRecord): Ending {
  const composed = run.activities.findLast(({ type }) => type === 'composeReport');
  const result = run.close?.result ?? {};
  const said = recordedOutcome.safeParse(composed?.input['outcome'] ?? result['outcome']);
  const endedAt = run.close?.at ?? composed?.scheduledAt;
  const ended = endedAt === undefined ? {} : { endedAt };
  if (said.success) {
    const left = composed?.input['leftToDo'] ?? result['leftToDo'];
    return { outcome: said.data, ...ended, ...(Array.isArray(left) && { leftToDo: textsOf(left) }) };
  }
  if (!run.close) return { outcome: 'running' };
  return { outcome: run.close.how === 'continued' ? 'handed-over' : run.close.how, ...ended };
}

function gatesOf({ gates }: RunFacts): Report['gates'] {
  const closings = gates.filter(({ state }) => state !== 'opened');
  const used = new Set<RunFacts['gates'][number]>();
  const opened = gates
    .filter(({ state }) => state === 'opened')
    .map((opening) => {
      const closing = closings.find((fact) => fact.gate === opening.gate && fact.at >= opening.at && !used.has(fact));
      if (closing) used.add(closing);
      return { opening, closing };
    });
  const direct = closings.filter((fact) => !used.has(fact)).map((fact) => ({ opening: fact, closing: fact }));
  return [...opened, ...direct]
    .toSorted((one, other) => one.opening.at - other.opening.at)
    .map(({ opening, closing }) => ({
      gate: opening.gate,
      planDigest: (closing ?? opening).planDigest,
      openedAt: isoTime(opening.at),
      ...(closing && { closedAt: isoTime(closing.at) }),
      state: (closing ?? opening).state,
      by: (closing ?? opening).by,
    }));
}

function parkingsOf({ parked, decided }: RunFacts): Report['parkings'] {
  return parked.map(({ step, parkingNo, code, message, at }) => {
    const decision = decided.find((fact) => fact.step === step && fact.parkingNo === parkingNo);
    return {
      step,
      parkingNo,
      at: isoTime(at),
      code,
      message,
      ...(decision && {
        decision: { action: decision.action, by: decision.by, reason: decision.reason, at: isoTime(decision.at) },
      }),
    };
  });
}

/** Of a flood the rest is a count, among the findings: a report must stay small enough to be a result. */
const SIGNALS_SHOWN = 1_000;

/** A signal is answered by its receipt; pause, resume and abort also by the control that they became. */
function signalsOf(run: RunRecord, { receipts, controls }: RunFacts): Report['signals'] {
  const answered = new Set(
    receipts.flatMap(({ signal, arrival, alsoFor = [] }) => [arrival, ...alsoFor].map((each) => `${signal} ${each}`)),
  );
  const became = (signal: string): number => controls.filter(({ control }) => control === signal).length;
  return run.signals.slice(0, SIGNALS_SHOWN).map(({ signal, arrival, at, sender }) => ({
    signal,
    arrival,
    at: isoTime(at),
    ...(sender && { sender }),
    answered: answered.has(`${signal} ${arrival}`) || arrival <= became(signal),
  }));
}

/** What the events prove beside the findings that the run itself recorded. */
function derivedFindings(run: RunRecord, facts: RunFacts): readonly Timed<Finding>[] {
  const findings: Timed<Finding>[] = [];
  if (run.inputUndecodable !== undefined) {
    findings.push({
      at: run.startedAt,
      severity: 'warning',
      code: 'start-input-undecodable',
      text: `The start input could not be read (encoding ${run.inputUndecodable}).`,
      next: 'Start the run again with one JSON object (encoding json/plain).',
    });
  }
  const { close } = run;
  // A run that composed its report has said how it ended, also where it then closed as failed.
  const silent = !run.activities.some(({ type }) => type === 'composeReport');
  const severity = demotionOf(run) ? 'critical' : 'warning';
  if (close?.how === 'failed' && silent) {
    const { code, message } = close.failure ?? { code: 'unknown', message: 'no failure recorded' };
    findings.push({ at: close.at, severity, code: 'run-failed', text: `The run failed with ${code}: ${message}` });
  }
  if (close && ['terminated', 'cancelled', 'timed-out'].includes(close.how)) {
    const by = close.by ? ` by ${said(close.by.name)}` : '';
    const reason = close.reason === undefined ? '' : `, reason given: ${said(close.reason)}`;
    const phase = textOf(run.memo['phase']);
    const during = phase === undefined ? '' : ` during phase ${phase}`;
    const waitingFor = textOf(run.memo['waitingFor']);
    const waited = waitingFor === undefined ? '' : ` It waited for: ${waitingFor}.`;
    findings.push({
      at: close.at,
      severity,
      code: `run-${close.how}`,
      text: `The run was ${close.how === 'timed-out' ? 'ended by a time-out' : close.how}${during}${by}${reason}. No clean-up ran.${waited}`,
    });
  }
  const next = textOf(close?.result['workflowId']);
  if (close && close.result['outcome'] === 'handed-over' && next !== undefined) {
    findings.push({
      at: close.at,
      severity: 'info',
      code: 'handed-over',
      text: `The run goes on as ${next}, Run ID ${textOf(close.result['runId']) ?? 'unknown'}.`,
      next: `Watch it with: runbook status ${next}`,
    });
  }
  if (facts.unread > 0) {
    findings.push({
      at: run.lastEventAt,
      severity: 'warning',
      code: 'facts-unreadable',
      text: `${facts.unread} recorded facts have an unknown shape and are left out of this report.`,
      next: 'Make the report with the release that ran the workflow.',
    });
  }
  return findings;
}

/** What the run said itself, what the history proves beside it, and secrets that are not proven gone. */
function leftToDoOf(run: RunRecord, facts: RunFacts, ending: Ending, plan: RunbookPlan | undefined): readonly string[] {
  if (!ending.leftToDo) return derivedLeftToDo(run, facts, plan);
  const work = ending.outcome === 'aborted' ? workLeft(run, plan) : [];
  return [...ending.leftToDo, ...work, ...secretsLeft(run)];
}

/**
 * Says what a run did, from its history alone: no clock, no I/O, so that a live run, a finished one and one that was
 * terminated are told by the same function, and the same history always gives the same report.
 *
 * The input of a signal is never read, and of a failure that is not from our error family only the name is shown.
 * @param history all events of the run, from the first
 * @param identity the namespace, Workflow ID and Run ID of the run
 * @returns the report; members that the history does not prove are absent. Times are ISO text, durations milliseconds.
 * @throws nothing: events of an unknown shape are left out and counted in a finding
 */
export function reportFromHistory(history: temporal.api.history.v1.IHistory, identity: RunIdentity): Report {
  const run = readHistory(history);
  const facts = collectFacts(run);
  const plan = planOf(run);
  const ending = endingOf(run);
  const deployment = textOf(run.input['deployment']) ?? textOf(run.memo['deployment']);
  const reason = textOf(run.input['reason']);
  const outage = outageOf(run, facts);
  const loss = lossOf(run, facts);
  const withoutDrProtection = withoutDrProtectionOf(run, facts);
  return {
    schema: 'replication-runbooks/report/v1',
    runbook: run.runbook,
    namespace: identity.namespace,
    workflowId: identity.workflowId,
    runId: identity.runId,
    ...(deployment !== undefined && { deployment }),
    outcome: ending.outcome,
    ...(reason !== undefined && { reason }),
    ...(run.requestedBy && { requestedBy: run.requestedBy }),
    ...askedOf(run, facts),
    startedAt: isoTime(run.startedAt),
    ...(ending.endedAt !== undefined && { endedAt: isoTime(ending.endedAt) }),
    asOfEvent: run.lastEventId,
    ...(plan && { plan }),
    preconditions: preconditionsOf(run),
    steps: reportedSteps(run.activities, facts),
    gates: gatesOf(facts),
    parkings: parkingsOf(facts),
    ...holdersOf(facts),
    receipts: facts.receipts.map(({ at, signal, arrival, verdict, code, text, from }) => ({
      signal,
      arrival,
      verdict,
      code,
      text,
      ...(from && { from }),
      at: isoTime(at),
    })),
    signals: signalsOf(run, facts),
    controls: facts.controls.map(({ control, by, reason: why, at }) => ({ control, by, reason: why, at: isoTime(at) })),
    findings: sortFindings([...facts.findings, ...derivedFindings(run, facts)]).map(
      ({ at, severity, code, text, next }) => ({
        severity,
        code,
        text,
        ...(next !== undefined && { next }),
        at: isoTime(at),
      }),
    ),
    ...(outage && { outage }),
    ...(loss && { loss }),
    ...(withoutDrProtection && { withoutDrProtection }),
    filters: filtersOf(run),
    tokens: tokensOf(run),
    finalState: finalStateOf(run),
    ...resultOf(run),
    leftToDo: leftToDoOf(run, facts, ending, plan?.content),
    historyEvents: run.eventCount,
  };
}
