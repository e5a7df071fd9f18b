import type { Finding, Receipt } from '../contracts/run-facts';
import type { CarryingOut, RunStatus, TimelineStep } from '../contracts/run-status';
import { CHECK_FAILED, urgentFindings } from '../contracts/alarms';
import { askedNow } from '../contracts/asked';
import { attestedName } from '../contracts/words';
import type { Statement, Time } from './waiting';
import { waitingText } from './waiting';

/*
 * A run's status in words: the one place that says them. Current details, command line and notifications show them, each
 * as its surface can.
 */

export const PHASE_WORDS: Readonly<Record<RunStatus['phase'], string>> = {
  checking: 'Reads and checks; nothing is touched',
  'waiting-for-people': 'Waits for people; service is up',
  preparing: 'Last checks; service is up',
  working: 'Changes are being made; service is up',
  outage: 'OUTAGE: no primary serves clients',
  're-protecting': 'Protection is being restored',
  finishing: 'Cleaning up',
  finished: 'Finished',
};

/** Whether no cluster serves clients, as far as the run knows. */
export function inOutage(status: RunStatus): status is RunStatus & { readonly outageSince: number } {
  return status.outageSince !== undefined && status.serviceBackAt === undefined;
}

/** What the run is at; never that service is up while it is not, nor where the run looks at no cluster. */
export function phaseText(status: RunStatus): string {
  const { phase, runbook, outcome } = status;
  if (phase === 'finished' && outcome !== undefined) return `Finished, ${outcome}`;
  const unknown = inOutage(status) || runbook === 'ceremonyRehearsal';
  return unknown ? PHASE_WORDS[phase].replace('; service is up', '') : PHASE_WORDS[phase];
}

/**
 * What people must know first, in this order: alarms and what is critical, that it is paused, the outage, what parked,
 * what key holders are asked for, whom else it waits for, what is left to do, what else was found.
 */
export function statusText(status: RunStatus, time: Time): readonly Statement[] {
  const urgent = urgentFindings(status);
  const asked = askedNow(status).map((text) => ({ text }));
  const waits = (parked: boolean) =>
    status.waiting
      .filter((each) => (each.for === 'decision') === parked)
      .map((each) => waitingText(status.workflowId, each, time));
  const bySeverity = (['critical', 'warning', 'info'] as const).flatMap((severity) =>
    status.findings.filter((finding) => finding.severity === severity && !urgent.includes(finding)),
  );
  return [
    ...urgent.map(findingText),
    ...(status.paused ? [statement('Paused.')] : []),
    ...(inOutage(status)
      ? [statement('OUTAGE', ` since ${time(status.outageSince)}: no primary serves clients.`)]
      : []),
    ...waits(true),
    ...(status.carryingOut ?? []).map((each) => carryingOutText(each, time)),
    ...(asked.length > 0 ? [{ ...statement('What key holders are asked for'), lines: asked }] : []),
    ...waits(false),
    ...(status.leftToDo ?? []).map((left) => statement('Left to do', `: ${left}`)),
    ...bySeverity.map(findingText),
  ];
}

/** Nobody is waited for any more: what was decided is done now. */
export function carryingOutText({ step, action, by, at }: CarryingOut, time: Time): Statement {
  const who = `${attestedName(by)}, at ${time(at)}`;
  return statement(`"${action}" of "${step}" is being carried out`, `: accepted, decided by ${who}.`);
}

const statement = (title: string, text = ''): Statement => ({ title, text, lines: [] });

/** Something that people must know, and what they do next. */
export function findingText({ severity, code, text, next }: Finding): Statement {
  const whole = /[.!?]$/.test(text) ? text : `${text}.`;
  const failed = code === CHECK_FAILED ? 'FAILED' : 'Warning';
  const title = severity === 'critical' ? 'CRITICAL' : severity === 'warning' ? failed : 'Note';
  return statement(title, `: ${whole}${next === undefined ? '' : ` Next: ${next}`}`);
}

/** What became of a signal. */
export function receiptText({ signal, arrival, verdict, code, text, from }: Receipt): Statement {
  const sender = from === undefined ? '' : ` from ${attestedName(from)}`;
  const why = text.startsWith(`${verdict}: `) ? text.slice(verdict.length + 2) : text;
  const how = code === verdict ? '' : ` (${code})`;
  return statement(`${signal} ${arrival}${sender}: ${verdict}`, `${how}${why === verdict ? '' : `. ${why}`}`);
}

/**
 * A line of the timeline, after its number.
 *
 * @param ended - the run has ended, from outside where a step is still under way
 */
export function stepText({ name, state, attempt, startedAt, endedAt, note }: TimelineStep, ended = false): Statement {
  const took = endedAt === undefined ? '' : ` in ${((endedAt - startedAt) / 1000).toFixed(1)} s`;
  const cut = ended && (state === 'running' || state === 'parked') ? ' when the run ended' : '';
  const again = attempt > 1 ? `, attempt ${attempt}` : '';
  return statement(name, `: ${state}${cut}${took}${again}${note ? `. ${note}` : ''}`);
}
