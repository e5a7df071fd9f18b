import type { Report, ReportStep } from '../contracts/report';
import { element, escapedHtml } from './html-elements';
import { outcomeCell } from './report-document';
import { betweenText, durationText, timeText } from './report-words';

/** What a timeline shows: ISO times in epoch milliseconds. */
interface Scale {
  readonly from: number;
  readonly to: number;
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** A span as CSS, in percent of the scale. */
function placed({ from, to }: Span, scale: Scale): string | undefined {
  const start = Math.max(from, scale.from);
  const end = Math.min(to, scale.to);
  if (end < start) return undefined;
  const whole = Math.max(1, scale.to - scale.from);
  const percent = (part: number): string => `${((part / whole) * 100).toFixed(3)}%`;
  return `left:${percent(start - scale.from)};width:${percent(end - start)}`;
}

function bar(span: Span, scale: Scale, tone: string): string {
  const style = placed(span, scale);
  return style === undefined ? '' : `<i class="${tone}" style="${style}"></i>`;
}

function spanOf({ startedAt, endedAt }: { startedAt: string; endedAt?: string }, until: number): Span {
  const from = Date.parse(startedAt);
  return { from, to: endedAt === undefined ? Math.max(from, until) : Date.parse(endedAt) };
}

function activityItem(activity: ReportStep['activities'][number], ended: boolean): string {
  const { type, cluster, tries, outcome, observed, startedAt, endedAt } = activity;
  const { text, tone } = outcomeCell(outcome, ended);
  const details = [
    ...(tries > 1 ? [`${tries} tries`] : []),
    ...(endedAt === undefined ? [] : [betweenText(startedAt, endedAt)]),
    ...(observed === undefined ? [] : [observed]),
  ];
  const where = cluster === undefined ? '' : ` on ${cluster}`;
  return `<li>${escapedHtml(`${type}${where}: `)}${element('span', text, tone)}${escapedHtml(details.length > 0 ? `, ${details.join(', ')}` : '')}</li>`;
}

function stepItem(
  step: ReportStep,
  scale: Scale,
  band: Span | undefined,
  ended: boolean,
  withActivities: boolean,
): string {
  const { text, tone } = outcomeCell(step.outcome, ended);
  const took = step.endedAt === undefined ? '' : `${betweenText(step.startedAt, step.endedAt)} `;
  const attempt = step.attempt > 1 ? `, attempt ${step.attempt}` : '';
  const activities =
    withActivities && step.activities.length > 0
      ? `<ul class="activities">${step.activities.map((activity) => activityItem(activity, ended)).join('')}</ul>`
      : '';
  const track = `${band ? bar(band, scale, 'band') : ''}${bar(spanOf(step, scale.to), scale, tone === 'good' ? '' : (tone ?? ''))}`;
  return `<li><div class="row">${element('span', `${step.number === 0 ? '' : `${step.number}. `}${step.name}${attempt}`, 'name')}<span class="track" aria-hidden="true">${track}</span><span class="took">${escapedHtml(took)}${element('span', text, `badge ${tone ?? 'neutral'}`)}</span></div>${activities}</li>`;
}

function waitItem(name: string, span: Span, scale: Scale, band: Span | undefined): string {
  const track = `${band ? bar(band, scale, 'band') : ''}${bar(span, scale, 'people')}`;
  return `<li><div class="row">${element('span', name, 'name')}<span class="track" aria-hidden="true">${track}</span><span class="took">${escapedHtml(durationText(span.to - span.from))} <span class="badge neutral">people</span></span></div></li>`;
}

/** When people were waited for. */
function waits(report: Report, until: number): readonly { readonly name: string; readonly span: Span }[] {
  return [
    ...report.gates
      .filter(({ state }) => state !== 'not-needed')
      .map(({ gate, openedAt, closedAt }) => ({
        name: `Gate ${gate}`,
        span: spanOf({ startedAt: openedAt, ...(closedAt !== undefined && { endedAt: closedAt }) }, until),
      })),
    ...report.parkings.map(({ step, at, decision }) => ({
      name: `Decision on ${step}`,
      span: spanOf({ startedAt: at, ...(decision && { endedAt: decision.at }) }, until),
    })),
  ];
}

function axis(scale: Scale): string {
  const text = (at: number): string => timeText(new Date(at).toISOString());
  return `<div class="axis" aria-hidden="true"><span>${text(scale.from)}</span><span>${text(scale.to)}</span></div>`;
}

function rows(report: Report, scale: Scale, band: Span | undefined, withActivities: boolean): string {
  const ended = report.endedAt !== undefined;
  const overlaps = ({ from, to }: Span): boolean => from <= scale.to && to >= scale.from;
  const items = [
    ...report.steps
      .map((step) => ({ step, span: spanOf(step, scale.to) }))
      .filter(({ span }) => overlaps(span))
      .map(({ step, span }) => ({ at: span.from, html: stepItem(step, scale, band, ended, withActivities) })),
    ...waits(report, scale.to)
      .filter(({ span }) => overlaps(span))
      .map(({ name, span }) => ({ at: span.from, html: waitItem(name, span, scale, band) })),
  ];
  return `<ul class="timeline">${items
    .toSorted((one, other) => one.at - other.at)
    .map(({ html }) => html)
    .join('')}</ul>`;
}

/** The last time that the report knows of. */
function lastTime(report: Report): number {
  const times = report.steps.flatMap(({ startedAt, endedAt }) => [startedAt, endedAt ?? startedAt]);
  const others = [report.startedAt, report.endedAt, report.outage?.endedAt].flatMap((at) => at ?? []);
  return Math.max(...[...times, ...others].map((at) => Date.parse(at)));
}

/** Share of the run that an outage may have to be worth a timeline of its own. */
const ENLARGED_UP_TO = 0.6;

/** The timeline of the run with bars, and before it, enlarged, that of the outage: seconds vanish beside hours of waiting. */
export function timelineHtml(report: Report): string {
  if (report.steps.length === 0) return '<p>No step began.</p>';
  const whole: Scale = { from: Date.parse(report.startedAt), to: lastTime(report) };
  const { outage } = report;
  if (!outage) return `${axis(whole)}${rows(report, whole, undefined, true)}`;
  const band = spanOf(outage, whole.to);
  const margin = Math.max(500, (band.to - band.from) * 0.05);
  const close: Scale = { from: Math.max(whole.from, band.from - margin), to: Math.min(whole.to, band.to + margin) };
  // A run that began in its outage would be shown twice.
  if (close.to - close.from > ENLARGED_UP_TO * (whole.to - whole.from)) {
    return `${axis(whole)}${rows(report, whole, band, true)}`;
  }
  return `<h3>The outage, enlarged</h3>${axis(close)}${rows(report, close, band, false)}<h3>The whole run</h3>${axis(whole)}${rows(report, whole, band, true)}`;
}
