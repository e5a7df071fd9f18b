import { sidesOfSwitchover } from '../contracts/plan';
import { readinessResult } from '../contracts/readiness';
import { verdictWords } from '../contracts/readiness-words';
import type { ReadinessVerdict } from '../contracts/readiness';
import type { Report } from '../contracts/report';
import type { Attested } from '../contracts/run-facts';

/** A duration for people: `0.42 s`, `12.3 s`, `3 min 20 s`, `2 h 05 min`. */
export function durationText(milliseconds: number): string {
  if (milliseconds < 0) return `-${durationText(-milliseconds)}`;
  if (milliseconds === 0) return '0 s';
  if (milliseconds < 9_995) return `${(milliseconds / 1000).toFixed(2)} s`;
  if (milliseconds < 59_950) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  const minutes = Math.floor(seconds / 60);
  const two = (count: number): string => String(count).padStart(2, '0');
  if (minutes < 60) return `${minutes} min ${two(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
}

/** A time for people, UTC: `2026-11-21 00:31:02.123`. */
export function timeText(iso: string): string {
  return iso.replace('T', ' ').replace('Z', '');
}

/** How long from one ISO time to another. */
export function betweenText(from: string, to: string): string {
  return durationText(Date.parse(to) - Date.parse(from));
}

/** Who said something and how that is known. */
export function attestedText({ name, how }: Attested): string {
  switch (how) {
    case 'signed':
      return `${name} (signed)`;
    case 'principal':
      return `${name} (authenticated by the Temporal server)`;
    case 'claimed':
      return `${name} (UNVERIFIED)`;
  }
}

/** Several people, or that there was nobody. */
export function allAttestedText(people: readonly Attested[]): string {
  return people.length === 0 ? 'nobody' : people.map(attestedText).join(', ');
}

/** How good or bad news is. */
export type Tone = 'good' | 'warning' | 'bad' | 'neutral';

/** The outcome in one plain sentence. */
export interface Headline {
  readonly text: string;
  readonly tone: Tone;
}

function count(total: number, noun: string): string {
  return `${total} ${noun}${total === 1 ? '' : 's'}`;
}

function planned(report: Report): string {
  const failed = report.preconditions.filter(({ verdict }) => verdict === 'fail').length;
  return failed === 0 ? 'every checked precondition holds' : `${count(failed, 'precondition')} failed`;
}

/** The runbooks that are about who is primary: a report says of them that there was no outage. */
const CHANGES_PRIMARY: ReadonlySet<string> = new Set(['drSwitchover', 'drFailover', 'performancePromotion']);

function completed({ runbook, deployment, outage, plan, result }: Report): string | undefined {
  const sides = sidesOfSwitchover(plan?.content);
  if (sides && outage) return `${deployment ?? 'the deployment'} was switched over from ${sides.from} to ${sides.to}`;
  const { from, to } = result ?? {};
  if (runbook !== 'drFailover' || typeof from !== 'string' || typeof to !== 'string') return undefined;
  return `${deployment ?? 'the deployment'} failed over from ${from} to ${to}`;
}

const READINESS_TONES: Readonly<Record<ReadinessVerdict, Tone>> = {
  ready: 'good',
  'ready-with-warnings': 'warning',
  'not-ready': 'bad',
};

/** A check that was made is no good news by itself. */
function readinessHeadline({ runbook, result }: Report): Headline | undefined {
  const found = runbook === 'readiness' ? readinessResult.safeParse(result) : undefined;
  if (found?.success !== true) return undefined;
  const { deployment, switchover, failover } = found.data;
  const tones = [switchover, failover].map((verdict) => READINESS_TONES[verdict]);
  return {
    text: `${deployment}: switchover ${verdictWords(switchover)}, failover ${verdictWords(failover)}.`,
    tone: (['bad', 'warning'] as const).find((tone) => tones.includes(tone)) ?? 'good',
  };
}

function endedHeadline(report: Report): Headline {
  const route = sidesOfSwitchover(report.plan?.content);
  const what = `${report.runbook}${report.deployment === undefined ? '' : ` of ${report.deployment}`}`;
  const untouched = report.outage || !CHANGES_PRIMARY.has(report.runbook) ? '' : ' Nothing was demoted or promoted.';
  switch (report.outcome) {
    case 'completed':
      return readinessHeadline(report) ?? { text: `Completed: ${completed(report) ?? what}.`, tone: 'good' };
    case 'planned':
      return { text: `Planned only: nothing was touched, and ${planned(report)}.`, tone: 'neutral' };
    case 'refused':
      return { text: `Refused: ${planned(report)}.${untouched}`, tone: 'bad' };
    case 'aborted':
      return { text: `Aborted: ${what} was ended before it was complete.${untouched}`, tone: 'warning' };
    case 'rolled-back':
      return {
        text: `Rolled back: ${route ? `${route.from} was promoted back` : 'the old primary was promoted back'}; the switchover did not happen.`,
        tone: 'warning',
      };
    case 'handed-over':
      return { text: `Handed over: ${what} goes on as another run.`, tone: 'neutral' };
    case 'running':
      return { text: `Running: ${what}, as of event ${report.asOfEvent}.`, tone: 'neutral' };
    case 'failed':
      return { text: `Failed: ${what} ended with an error.${untouched}`, tone: 'bad' };
    case 'terminated':
      return { text: `Terminated: ${what} was ended from outside and ran no clean-up.${untouched}`, tone: 'bad' };
    case 'cancelled':
      return { text: `Cancelled: ${what} was closed without its clean-up.${untouched}`, tone: 'bad' };
    case 'timed-out':
      return {
        text: `Timed out: ${what} was ended by a server-side time-out and ran no clean-up.${untouched}`,
        tone: 'bad',
      };
  }
}

/** The first line of every rendering. An outage without a proven end is said first of all. */
export function headlineOf(report: Report): Headline {
  const ended = endedHeadline(report);
  if (!report.outage || report.outage.endedAt !== undefined) {
    const critical = report.findings.filter(({ severity }) => severity === 'critical').length;
    return critical > 0 && ended.tone === 'good'
      ? { text: `${ended.text} ${count(critical, 'critical finding')}.`, tone: 'warning' }
      : ended;
  }
  return { text: `${ended.text} Service is not proven to be back.`, tone: 'bad' };
}

/** How long clients had no primary. */
export function outageHeadline({ runbook, outage }: Report): Headline | undefined {
  if (!outage)
    return CHANGES_PRIMARY.has(runbook) ? { text: 'No outage: this run demoted nothing.', tone: 'good' } : undefined;
  const split = `service ${durationText(outage.serviceMs ?? 0)}, machine ${durationText(outage.machineMs ?? 0)}, people ${durationText(outage.peopleMs ?? 0)}`;
  if (outage.totalMs === undefined || outage.endedAt === undefined) {
    return {
      text: `Outage since ${timeText(outage.startedAt)} UTC, no end known. So far: ${split}.`,
      tone: 'bad',
    };
  }
  return {
    text: `Outage ${durationText(outage.totalMs)}: ${split}.`,
    tone: (outage.peopleMs ?? 0) > 0 ? 'warning' : 'neutral',
  };
}

/** What was lost, with the proof; undefined for runs that can lose nothing. */
export function lossHeadline({ runbook, loss, outage }: Report): Headline | undefined {
  if (loss?.loss === 'none') return { text: `Loss none. ${loss.why}`, tone: 'good' };
  if (loss?.loss === 'unknown') return { text: `Loss unknown. ${loss.why}`, tone: 'bad' };
  if (loss) {
    const bound = loss.boundWalEntries === undefined ? '' : ` by ${loss.boundWalEntries} WAL entries at most`;
    return { text: `Loss bounded${bound}. ${loss.why}`, tone: 'warning' };
  }
  if (outage) return { text: 'Loss: nothing was compared.', tone: 'warning' };
  return CHANGES_PRIMARY.has(runbook) ? { text: 'Loss none: nothing was demoted.', tone: 'good' } : undefined;
}

/** How long no DR secondary streamed. */
export function protectionHeadline({ withoutDrProtection }: Report): Headline | undefined {
  if (!withoutDrProtection) return undefined;
  const { from, to, totalMs } = withoutDrProtection;
  return to === undefined || totalMs === undefined
    ? { text: `Without DR protection since ${timeText(from)} UTC.`, tone: 'bad' }
    : { text: `Without DR protection for ${durationText(totalMs)}.`, tone: 'neutral' };
}
