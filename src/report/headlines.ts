import { CHANGES_PRIMARY } from '../contracts/names';
import { CHECK_FAILED, criticalOpen } from '../contracts/run-status';
import { readinessResult } from '../contracts/readiness';
import { counted, durationText, verdictsText } from '../contracts/words';
import type { Report } from '../contracts/report';

/** How good or bad news is. */
export type Tone = 'good' | 'warning' | 'bad' | 'neutral';

/** A text, and whether it is good or bad news. */
export interface Toned {
  readonly text: string;
  readonly tone: Tone;
}

export const toned = (text: string, tone: Tone): Toned => ({ text, tone });

/** A time for people, UTC: `2026-11-21 00:31:02`. */
export function timeText(iso: string): string {
  return exactTime(iso).replace(/\.\d+$/, '');
}

/** A time for those who compare it with a log, UTC: `2026-11-21 00:31:02.123`. */
export function exactTime(iso: string): string {
  return iso.replace('T', ' ').replace('Z', '');
}

/** The time of day, with its date if that is not the day on which the run began. The title of a report says that day. */
export function clockText(iso: string, { startedAt }: Pick<Report, 'startedAt'>): string {
  const text = timeText(iso);
  return iso.slice(0, 10) === startedAt.slice(0, 10) ? text.slice(11) : text;
}

/** A duration for people, without milliseconds: `0.3 s`. */
export function shortDuration(milliseconds: number): string {
  if (milliseconds <= 0) return '0 s';
  if (milliseconds < 50) return '< 0.1 s';
  return milliseconds < 1_000 ? `${(milliseconds / 1_000).toFixed(1)} s` : durationText(milliseconds);
}

/** The duration between two ISO times, for people. */
export function betweenText(from: string, to: string): string {
  return shortDuration(Date.parse(to) - Date.parse(from));
}

/** Runbook and deployment. */
export function titleOf({ runbook, deployment }: Report): string {
  return deployment === undefined ? runbook : `${runbook}: ${deployment}`;
}

/** The verdict of a plan: the first failed precondition in full, or why a run that checked nothing was refused. */
function planned({ preconditions, findings }: Report): string {
  const failed = preconditions.filter(({ verdict }) => verdict === 'fail');
  const [first] = failed;
  const refusal = findings.find(({ code }) => code === CHECK_FAILED);
  if (!first) return refusal?.text.replace(/\.$/, '') ?? 'every checked precondition holds';
  const { name, cluster, observed } = first;
  const where = cluster === undefined ? '' : ` (${cluster})`;
  const others = failed.length === 1 ? '' : ', the first';
  return `${counted(failed.length, 'precondition')} failed${others}: ${name}${where}: ${observed.replace(/\.$/, '')}`;
}

/** The old and the new primary. */
function sidesOf({ plan, result = {} }: Report): { readonly from: string; readonly to: string } | undefined {
  const { runbook, operations = [] } = plan?.content ?? {};
  const demotion = runbook === 'drSwitchover' && operations.find(({ endpoint }) => endpoint === 'primary/demote');
  const { from, to } = demotion && demotion.with ? { from: demotion.on.cluster, to: demotion.with.cluster } : result;
  return typeof from === 'string' && typeof to === 'string' ? { from, to } : undefined;
}

/** The verdicts of a readiness check: its tone follows them, not the fact that the check completed. */
function readinessHeadline({ runbook, result }: Report): Toned | undefined {
  const found = runbook === 'readiness' ? readinessResult.safeParse(result) : undefined;
  if (found?.success !== true) return undefined;
  const { deployment, switchover, failover } = found.data;
  const verdicts = [switchover, failover];
  const best = verdicts.includes('ready-with-warnings') ? 'warning' : 'good';
  return toned(`${deployment}: ${verdictsText(found.data)}.`, verdicts.includes('not-ready') ? 'bad' : best);
}

/** The clusters that a run acted on, as far as it knows them. */
function clustersText(report: Report): string {
  const sides = sidesOf(report);
  if (sides) return ` (${sides.from} to ${sides.to})`;
  const { primary, secondary, cluster, to } = report.asked ?? {};
  const one = secondary ?? cluster ?? to;
  if (typeof one !== 'string') return '';
  return ` (${one}${secondary && typeof primary === 'string' ? ` of ${primary}` : ''})`;
}

/** Outcomes whose headline is a fixed text. */
const ENDED: Readonly<
  Record<Exclude<Report['outcome'], 'completed' | 'planned' | 'refused' | 'rolled-back' | 'running'>, EndText>
> = {
  aborted: ['Aborted', 'was ended before it was complete', 'warning'],
  'handed-over': ['Handed over', 'continues as another run', 'neutral'],
  failed: ['Failed', 'ended with an error', 'bad'],
  terminated: ['Terminated', 'was ended from outside and ran no clean-up', 'bad'],
  cancelled: ['Cancelled', 'was closed without its clean-up', 'bad'],
  'timed-out': ['Timed out', 'was ended by a server-side timeout and ran no clean-up', 'bad'],
};
type EndText = readonly [how: string, what: string, tone: Tone];

function endedHeadline(report: Report): Toned {
  const of = report.deployment === undefined ? '' : ` of ${report.deployment}${clustersText(report)}`;
  const what = `${report.runbook}${of}`;
  const untouched = report.outage || !CHANGES_PRIMARY.has(report.runbook) ? '' : ' Nothing was demoted or promoted.';
  switch (report.outcome) {
    case 'completed':
      return readinessHeadline(report) ?? toned(`Completed: ${what}.`, 'good');
    case 'planned':
      return toned(`Planned only: ${what}. Nothing was changed, and ${planned(report)}.`, 'neutral');
    case 'refused':
      return toned(`Refused: ${what}. ${planned(report)}.${untouched}`, 'bad');
    case 'rolled-back': {
      const old = sidesOf(report)?.from ?? 'the old primary';
      const all = report.steps.flatMap(({ activities }) => activities);
      const demoted = all.filter(({ type }) => type === 'demotePrimary').map(({ cluster }) => cluster);
      const isBack = all.some(
        (each) => each.type === 'promoteSecondary' && each.outcome === 'done' && demoted.includes(each.cluster),
      );
      const became = isBack ? 'was promoted back' : report.outage ? 'serves' : 'was not demoted and still serves';
      return toned(`Rolled back: ${what}. ${old} ${became}; the switchover did not happen.`, 'warning');
    }
    case 'running': {
      const now = report.carryingOut ? ` ${report.carryingOut}` : '';
      return toned(`Running: ${what}, as of event ${report.historyEvents}.${now}`, 'neutral');
    }
    default: {
      const [how, happened, tone] = ENDED[report.outcome];
      return toned(`${how}: ${what} ${happened}.${untouched}`, tone);
    }
  }
}

/** The first line of every rendering: the outcome in one plain sentence. It always mentions an outage without a proven end. */
export function headlineOf(report: Report): Toned {
  const ended = endedHeadline(report);
  if (report.outage && report.outage.endedAt === undefined)
    return toned(`${ended.text} Service is not proven to be back.`, 'bad');
  if (ended.tone !== 'good') return ended;
  const critical = criticalOpen(report).length;
  if (critical > 0) return toned(`${ended.text} ${counted(critical, 'critical finding')}.`, 'warning');
  return isPlainSuccess(report) ? ended : toned(ended.text, 'warning');
}

/** A changed primary with a possible loss, or still without DR protection, is no plain success. */
function isPlainSuccess(report: Report): boolean {
  if (!CHANGES_PRIMARY.has(report.runbook)) return true;
  const loss = lossHeadline(report)?.tone ?? 'good';
  return loss === 'good' && protectionHeadline(report)?.tone !== 'bad';
}

/** How long clients had no primary, what data was lost and the evidence, and how long no DR secondary streamed. */
export function headlinesBelow(report: Report): readonly Toned[] {
  return [outageHeadline(report), heldHeadline(report), lossHeadline(report), protectionHeadline(report)].filter(
    (line) => line !== undefined,
  );
}

/** "Service" is the time of its calls and of waiting for its state; "machine" is the time of Temporal and the workers. */
function outageHeadline({ runbook, outage }: Report): Toned | undefined {
  if (!outage) return CHANGES_PRIMARY.has(runbook) ? toned('No outage: this run demoted nothing.', 'good') : undefined;
  const { startedAt, startedBecause, endedAt, endedBy, serviceReadyAt, totalMs, atLeast } = outage;
  const { beforeRunMs = 0, serviceMs = 0, machineMs = 0, peopleMs = 0 } = outage;
  const before = beforeRunMs === 0 ? '' : `before this run began ${shortDuration(beforeRunMs)}, `;
  const split = `${before}service ${shortDuration(serviceMs)}, machine ${shortDuration(machineMs)}, people ${shortDuration(peopleMs)}`;
  const why = startedBecause === undefined ? '' : ` Start of the outage: ${startedBecause}.`;
  if (totalMs === undefined || endedAt === undefined)
    return toned(`Outage since ${timeText(startedAt)} UTC, no end known. So far: ${split}.${why}`, 'bad');
  const seen = serviceReadyAt === undefined ? 'accepted a write from the workers' : 'was observed to be ready';
  const by = {
    probe: 'by the first success through the clients’ address',
    'service-ready': `when a primary ${seen}`,
    'primary-back': 'when a primary was confirmed to serve again, without a change by this run',
  }[endedBy ?? 'service-ready'];
  const times = `From ${timeText(startedAt)} to ${clockText(endedAt, { startedAt })} UTC, ended ${by}.`;
  const least = atLeast ? 'at least ' : '';
  return toned(
    `Outage of ${least}${shortDuration(totalMs)}: ${split}. ${times}${why}`,
    peopleMs > 0 ? 'warning' : 'neutral',
  );
}

/** Clients experience more than the outage: they are paused before it begins, and released after it. */
function heldHeadline({ clientsHeld }: Report): Toned | undefined {
  if (!clientsHeld) return undefined;
  const { from, totalMs } = clientsHeld;
  return totalMs === undefined
    ? toned(`Clients paused since ${timeText(from)} UTC: this run did not release them.`, 'bad')
    : toned(`Clients paused for ${shortDuration(totalMs)}, from the quiesce to their release.`, 'neutral');
}

function lossHeadline({ runbook, loss, outage }: Report): Toned | undefined {
  if (!loss) {
    if (outage) return toned('Data loss unknown: nothing was compared.', 'warning');
    return CHANGES_PRIMARY.has(runbook) ? toned('No data lost: nothing was demoted.', 'good') : undefined;
  }
  const why = loss.why.replace(/\.?$/, '.');
  if (loss.loss === 'none') return toned(`No data lost: ${why}`, 'good');
  if (loss.loss === 'unknown') return toned(`Data loss unknown: ${why}`, 'bad');
  if (loss.boundWalEntries === undefined) return toned(`Data loss bounded: ${why}`, 'warning');
  const bound = `at most ${loss.boundWalEntries}`;
  return runbook === 'drFailover'
    ? toned(`Data may be lost: ${bound} of the sampled WAL entries, and all later writes. ${why}`, 'warning')
    : toned(`Data loss ${bound} WAL entries: ${why}`, 'warning');
}

function protectionHeadline({ withoutDrProtection }: Report): Toned | undefined {
  if (!withoutDrProtection) return undefined;
  const { from, totalMs } = withoutDrProtection;
  return totalMs === undefined
    ? toned(`Without DR protection since ${timeText(from)} UTC.`, 'bad')
    : toned(`Without DR protection for ${shortDuration(totalMs)}.`, 'neutral');
}
