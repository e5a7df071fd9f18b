import type { OutageSplit, Report, ReportStep } from '../contracts/report';
import { oneLine, pieces } from '../contracts/words';
import { betweenText, durationText, headlineOf, headlinesBelow, timeText, titleOf } from './headlines';
import type { Toned } from './headlines';
import { markOf } from './run-history';
import type { Interval } from './outage';
import type { Block, Cell } from './sections';
import { outcomeCell, sectionsOf } from './sections';

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Any text as HTML that shows it and nothing else, also inside a quoted attribute. Control characters are dropped. */
function escapedHtml(text: string): string {
  return oneLine(text).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

/** An element with escaped text. `className` is ours, never from a report. */
function element(name: string, text: string, className?: string): string {
  const attribute = className === undefined || className === '' ? '' : ` class="${className}"`;
  return `<${name}${attribute}>${escapedHtml(text)}</${name}>`;
}

/** A text of ours with its commands as code, which one click marks whole. */
function textHtml(text: string): string {
  return pieces(text)
    .map((piece) => (piece.code ? element('code', piece.text) : escapedHtml(piece.text)))
    .join('');
}

function cellHtml(content: Cell): string {
  if (typeof content === 'string') return escapedHtml(content);
  return content.tone === 'neutral' ? escapedHtml(content.text) : element('span', content.text, content.tone);
}

function list({ items }: Extract<Block, { kind: 'list' }>): string {
  const labelled = items.some(({ label }) => label) ? ' labelled' : '';
  const lines = items.map(({ label, text, below }) => {
    const badge = label ? `${element('span', label.text, `badge ${label.tone}`)} ` : '';
    return `<li>${badge}${textHtml(text)}${below === undefined ? '' : `<p class="soft">${textHtml(below)}</p>`}</li>`;
  });
  return `<ul class="items${labelled}">${lines.join('')}</ul>`;
}

/** A table with more columns does not fit on paper: its rows are printed as paragraphs. */
const COLUMNS_ON_PAPER = 6;
/** Longer texts get a width at which they can be read. */
const LONG_TEXT = 30;

/** On a narrow screen each row becomes a card, and the cells say which column they belong to. */
function table({ caption, rows, folded }: Extract<Block, { kind: 'table' }>): string {
  const columns = Object.keys(rows[0] ?? {});
  const head = columns.map((column) => `<th scope="col">${escapedHtml(column)}</th>`).join('');
  const cell = ([column, content]: readonly [string, Cell]): string => {
    const { length } = typeof content === 'string' ? content : content.text;
    const long = length > LONG_TEXT ? ' class="long"' : '';
    return `<td data-column="${escapedHtml(column)}"${long}>${cellHtml(content)}</td>`;
  };
  const body = rows.map((row) => `<tr>${Object.entries(row).map(cell).join('')}</tr>`).join('');
  const many = columns.length > COLUMNS_ON_PAPER ? ' class="many"' : '';
  const title = folded ? '' : element('caption', caption);
  const wide = `<div class="wide"><table${many}>${title}<thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
  return folded ? `<details>${element('summary', caption)}${wide}</details>` : wide;
}

/** A bar at its place, in percent of the scale. */
function bar(span: Interval, scale: Interval, tone: string): string {
  const start = Math.max(span.from, scale.from);
  const end = Math.min(span.to, scale.to);
  if (end < start) return '';
  const percent = (part: number): string => `${((part / Math.max(1, scale.to - scale.from)) * 100).toFixed(3)}%`;
  return `<i class="${tone}" style="left:${percent(start - scale.from)};width:${percent(end - start)}"></i>`;
}

function spanOf(startedAt: string, endedAt: string | undefined, until: number): Interval {
  const from = Date.parse(startedAt);
  return { from, to: endedAt === undefined ? Math.max(from, until) : Date.parse(endedAt) };
}

/** What is drawn: a span of time, the outage within it, and whether the run has ended. */
interface Drawing {
  readonly scale: Interval;
  readonly outage: Interval | undefined;
  readonly ended: boolean;
  readonly withActivities: boolean;
}

function row({ scale, outage }: Drawing, name: string, span: Interval, tone: string, took: string): string {
  const track = `${outage ? bar(outage, scale, 'band') : ''}${bar(span, scale, tone)}`;
  return `<div class="row">${element('span', name, 'name')}<span class="track" aria-hidden="true">${track}</span><span class="took">${took}</span></div>`;
}

function stepItem(step: ReportStep, span: Interval, drawing: Drawing): string {
  const { text, tone } = outcomeCell(step.outcome, drawing.ended);
  const name = `${step.number === 0 ? '' : `${step.number}. `}${step.name}${step.attempt > 1 ? `, attempt ${step.attempt}` : ''}`;
  const took = step.endedAt === undefined ? '' : `${betweenText(step.startedAt, step.endedAt)} `;
  const badge = element('span', text, `badge ${tone}`);
  const activities = drawing.withActivities ? step.activities.map((each) => activityItem(each, drawing.ended)) : [];
  const below = activities.length === 0 ? '' : `<ul class="activities">${activities.join('')}</ul>`;
  return `<li>${row(drawing, name, span, tone === 'good' ? '' : tone, `${escapedHtml(took)}${badge}`)}${below}</li>`;
}

function activityItem(activity: ReportStep['activities'][number], ended: boolean): string {
  const { type, cluster, tries, outcome, observed, startedAt, endedAt } = activity;
  const { text, tone } = outcomeCell(outcome, ended);
  const where = cluster === undefined ? '' : ` on ${cluster}`;
  const details = [
    tries > 1 ? `, ${tries} tries` : '',
    endedAt === undefined ? '' : `, ${betweenText(startedAt, endedAt)}`,
    observed === undefined ? '' : `, ${observed}`,
  ].join('');
  return `<li>${escapedHtml(`${type}${where}: `)}${element('span', text, tone)}${escapedHtml(details)}</li>`;
}

function waitItem(name: string, span: Interval, drawing: Drawing): string {
  const took = `${escapedHtml(durationText(span.to - span.from))} <span class="badge neutral">people</span>`;
  return `<li>${row(drawing, name, span, 'people', took)}</li>`;
}

/** Steps, and when people were waited for, as far as they lie within the scale. */
function rows({ steps, gates, parkings }: Report, drawing: Drawing): string {
  const { scale } = drawing;
  const items = [
    ...steps.map((step) => {
      const span = spanOf(step.startedAt, step.endedAt, scale.to);
      return { span, html: stepItem(step, span, drawing) };
    }),
    ...[
      ...gates
        .filter(({ state }) => state !== 'not-needed')
        .map(({ gate, openedAt, closedAt }) => ({ name: `Gate ${gate}`, span: spanOf(openedAt, closedAt, scale.to) })),
      ...parkings.map(({ step, at, decision }) => ({
        name: `Decision on ${step}`,
        span: spanOf(at, decision?.at, scale.to),
      })),
    ].map(({ name, span }) => ({ span, html: waitItem(name, span, drawing) })),
  ];
  const shown = items
    .filter(({ span }) => span.from <= scale.to && span.to >= scale.from)
    .toSorted((one, other) => one.span.from - other.span.from);
  const time = (at: number): string => timeText(new Date(at).toISOString());
  const axis = `<div class="axis" aria-hidden="true"><span>${time(scale.from)}</span><span>${time(scale.to)}</span></div>`;
  return `${axis}<ul class="timeline">${shown.map(({ html }) => html).join('')}</ul>`;
}

/** The last time that the report knows of. */
function lastTime({ steps, startedAt, endedAt, outage }: Report): number {
  const times = steps.flatMap((step) => [step.startedAt, step.endedAt]);
  const known = [startedAt, endedAt, outage?.endedAt, ...times].filter((at) => at !== undefined);
  return Math.max(...known.map((at) => Date.parse(at)));
}

/** Share of the run that an outage may have to be worth a timeline of its own. */
const ENLARGED_UP_TO = 0.6;

/** The timeline of the run with bars, and before it, enlarged, that of the outage: seconds vanish beside hours of waiting. */
function timelineHtml(report: Report): string {
  if (report.steps.length === 0) return '<p>No step began.</p>';
  const whole: Interval = { from: Date.parse(report.startedAt), to: lastTime(report) };
  const outage = report.outage && spanOf(report.outage.startedAt, report.outage.endedAt, whole.to);
  const drawing = { scale: whole, outage, ended: report.endedAt !== undefined, withActivities: true };
  if (!outage) return rows(report, drawing);
  const margin = Math.max(500, (outage.to - outage.from) * 0.05);
  const close = { from: Math.max(whole.from, outage.from - margin), to: Math.min(whole.to, outage.to + margin) };
  // A run that began in its outage would be shown twice.
  if (close.to - close.from > ENLARGED_UP_TO * (whole.to - whole.from)) return rows(report, drawing);
  const enlarged = rows(report, { ...drawing, scale: close, withActivities: false });
  return `<h3>The outage, enlarged</h3>${enlarged}<h3>The whole run</h3>${rows(report, drawing)}`;
}

function block(content: Block, report: Report): string {
  switch (content.kind) {
    case 'paragraph':
      return `<p>${textHtml(content.text)}</p>`;
    case 'list':
      return list(content);
    case 'facts':
      return `<dl>${content.entries.map(([name, value]) => `${element('dt', name)}<dd>${cellHtml(value)}</dd>`).join('')}</dl>`;
    case 'table':
      return table(content);
    case 'timeline':
      return timelineHtml(report);
  }
}

function split({ beforeRunMs = 0, serviceMs = 0, machineMs = 0, peopleMs = 0 }: OutageSplit): string {
  const parts = [
    ...(beforeRunMs === 0 ? [] : [{ name: 'before', what: 'this run began', ms: beforeRunMs }]),
    { name: 'service', what: 'calls to the service and waiting for its state', ms: serviceMs },
    { name: 'machine', what: 'Temporal and the workers', ms: machineMs },
    { name: 'people', what: 'waiting for people', ms: peopleMs },
  ];
  const bars = parts.map(({ name, ms }) => `<span class="${name}" style="flex-grow:${Math.max(0, ms)}"></span>`);
  const legend = parts.map(
    ({ name, what, ms }) =>
      `<li><i class="${name}"></i>${name} <b>${durationText(ms)}</b> <span class="soft">${what}</span></li>`,
  );
  return `<div class="split" aria-hidden="true">${bars.join('')}</div><ul class="legend">${legend.join('')}</ul>`;
}

function endOf({ startedAt, startedBecause, endedAt, endedBy, serviceReadyAt }: OutageSplit): string {
  const why = startedBecause === undefined ? '' : ` Counted from there: ${startedBecause}.`;
  if (endedAt === undefined) return `Since ${timeText(startedAt)} UTC.${why} No end is known; the split is so far.`;
  const probed = endedBy === 'probe';
  const by = probed ? 'the first success through the clients’ address' : 'the new primary serving a write';
  const ready =
    probed && serviceReadyAt !== undefined ? ` The primary served a write at ${timeText(serviceReadyAt)}.` : '';
  return `From ${timeText(startedAt)} to ${timeText(endedAt)} UTC, ended by ${by}.${ready}${why}`;
}

/** The outage with its split, which says in a picture what the first of the headlines says in words. */
function outageSection(report: Report): string {
  const { outage } = report;
  const lines = (headlines: readonly Toned[]) =>
    headlines.map(({ text, tone }) => element('p', text, tone === 'neutral' ? undefined : tone)).join('');
  const headlines = headlinesBelow(report);
  if (headlines.length === 0) return '';
  const [total, tone] =
    outage?.totalMs === undefined ? ['not ended', 'total bad'] : [durationText(outage.totalMs), 'total'];
  const content = outage
    ? `${element('p', total, tone)}${element('p', endOf(outage), 'soft')}${split(outage)}${lines(headlines.slice(1))}`
    : lines(headlines);
  return `<section id="outage"><h2>Outage</h2>${content}</section>`;
}

/**
 * The report as one page that needs nothing else: no script, no outside resource, light and dark, and fit to print.
 * Every text is escaped, and the page forbids itself to load or run anything.
 * @param report as `reportOf` makes it
 */
export function renderHtml(report: Report): string {
  const title = titleOf(report);
  const headline = headlineOf(report);
  const mark = markOf(report);
  const contents = sectionsOf(report);
  const idOf = (each: string) => each.toLowerCase().replaceAll(' ', '-');
  const outage = outageSection(report);
  const titles = [...(outage === '' ? [] : ['Outage']), ...contents.map((each) => each.title)];
  const links = titles.map((each) => `<a href="#${idOf(each)}">${escapedHtml(each)}</a>`);
  const sections = contents.map((section) => {
    const id = idOf(section.title);
    const blocks = section.blocks.map((content) => block(content, report)).join('');
    return `<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${escapedHtml(section.title)}</h2>${blocks}</section>`;
  });
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    ...(mark === undefined ? [] : [`<meta name="report" content="${mark}">`]),
    element('title', `${title}, ${report.outcome}`),
    `<style>${STYLE}</style>`,
    '</head>',
    '<body>',
    '<main>',
    element('h1', `${title} · ${timeText(report.startedAt)} UTC · ${report.outcome}`),
    element('p', headline.text, `headline ${headline.tone}`),
    `<nav aria-label="Contents">${links.join(' ')}</nav>`,
    outage,
    ...sections,
    '</main>',
    '</body>',
    '</html>',
    '',
  ].join('\n');
}

/** The style of the page: readable at night and on paper, no outside resource. */
const STYLE = `
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b2430; --soft: #55606e; --line: #d8dde4;
  --good: #14713d; --warning: #8a5300; --bad: #b3201f; --neutral: #33506f;
  --good-fill: #d9f0e2; --warning-fill: #fdecc8; --bad-fill: #fbdcda; --neutral-fill: #e3ebf4;
  --service: #2f6fb3; --machine: #8792a0; --people: #d2691e; --bar: #2f6fb3; --band: #d2691e22; }
@media screen and (prefers-color-scheme: dark) { :root {
  --page: #12161b; --card: #1b2128; --text: #e6eaf0; --soft: #9aa6b4; --line: #333c47;
  --good: #6fd59a; --warning: #f0b95a; --bad: #ff8d86; --neutral: #a9c4e2;
  --good-fill: #163524; --warning-fill: #3d2e10; --bad-fill: #451c1b; --neutral-fill: #22303f;
  --service: #5b9fe6; --machine: #6b7684; --people: #e98a45; --bar: #5b9fe6; --band: #e98a4526; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1rem; font-weight: 600; color: var(--soft); margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .75rem; }
.headline { font-size: 1.5rem; line-height: 1.3; font-weight: 650; margin: 0; padding: 1rem 1.25rem; border-radius: .5rem; border-left: .4rem solid; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem 1.25rem; margin-top: 1rem; }
.good { color: var(--good); } .warning { color: var(--warning); } .bad { color: var(--bad); } .neutral { color: var(--neutral); }
.headline.good, .badge.good { background: var(--good-fill); } .headline.warning, .badge.warning { background: var(--warning-fill); }
.headline.bad, .badge.bad { background: var(--bad-fill); } .headline.neutral, .badge.neutral { background: var(--neutral-fill); }
.badge { display: inline-block; border-radius: .3rem; padding: 0 .45rem; font-size: .85em; font-weight: 600; }
.total { font-size: 2.6rem; line-height: 1.1; font-weight: 700; font-variant-numeric: tabular-nums; margin: 0 0 .25rem; }
code { user-select: all; overflow-wrap: anywhere; } .soft { color: var(--soft); } p { margin: .25rem 0; overflow-wrap: anywhere; }
.split { display: flex; height: 1.75rem; border-radius: .3rem; overflow: hidden; margin: .75rem 0 .5rem; background: var(--line); }
.split span { min-width: 0; } .service { background: var(--service); } .machine { background: var(--machine); } .people { background: var(--people); } .before { background: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .75rem 0 0; font-size: .9rem; } a { color: var(--neutral); }
details { margin-bottom: .75rem; } summary { cursor: pointer; padding: .35rem 0; color: var(--good); font-weight: 600; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; padding: 0; margin: 0; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem; margin-right: .4rem; }
.legend b { font-variant-numeric: tabular-nums; }
ul.items { margin: 0; padding-left: 1.25rem; } ul.items li { margin: .3rem 0; overflow-wrap: anywhere; }
ul.items.labelled { list-style: none; padding: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: 0 0 .5rem; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin-bottom: .75rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; } caption { text-align: left; color: var(--soft); padding-bottom: .35rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-top: 1px solid var(--line); overflow-wrap: break-word; }
th { font-weight: 600; border-top: 0; white-space: nowrap; } td.long { min-width: 11rem; overflow-wrap: anywhere; }
.many td.long { min-width: 0; } .many th { white-space: normal; }
.timeline { list-style: none; margin: 0 0 1rem; padding: 0; }
.timeline > li { border-top: 1px solid var(--line); padding: .4rem 0; break-inside: avoid; }
.row { display: grid; grid-template-columns: 17rem 1fr 11rem; gap: 1rem; align-items: center; }
.name { font-weight: 600; overflow-wrap: anywhere; } .took { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.track { position: relative; height: 1rem; background: linear-gradient(var(--line), var(--line)) center / 100% 1px no-repeat; }
.track i { position: absolute; top: 0; bottom: 0; border-radius: .2rem; background: var(--bar); min-width: 3px; }
.track i.band { background: var(--band); top: -.4rem; bottom: -.4rem; border-radius: 0; }
.track i.bad { background: var(--bad); } .track i.warning { background: var(--warning); } .track i.people { background: var(--people); }
.activities { list-style: none; margin: .15rem 0 0; padding: 0 0 0 1rem; font-size: .85rem; color: var(--soft); }
.activities li { overflow-wrap: anywhere; } .axis { display: flex; justify-content: space-between; font-size: .85rem; color: var(--soft); padding-left: 18rem; padding-right: 12rem; }
h3 { font-size: 1rem; margin: .5rem 0; }
@media (max-width: 46rem) { .row { grid-template-columns: 1fr auto; } .track { grid-column: 1 / -1; order: 3; } .axis { padding: 0; } }
@media screen and (max-width: 46rem) { dl { grid-template-columns: 1fr; } dt { margin-top: .3rem; } thead { display: none; } table, caption, tbody, tr, td { display: block; }
  tr { border-top: 1px solid var(--line); padding: .4rem 0; } td { border: 0; padding: .1rem 0; overflow-wrap: anywhere; } td:empty { display: none; }
  td::before { content: attr(data-column) ": "; color: var(--soft); } }
@media print { body { background: #fff; font-size: 11pt; } main { max-width: none; padding: 0; } section { border: 0; border-top: 1px solid #999; border-radius: 0; padding: .5rem 0; }
  nav { display: none; } details::details-content { content-visibility: visible; display: block; block-size: auto; } summary { list-style: none; }
  tr, li { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; } table { font-size: .8rem; } td.long { min-width: 0; }
  .many thead { display: none; } .many, .many caption, .many tbody, .many tr, .many td { display: block; } .many tr { border-top: 1px solid var(--line); padding: .2rem 0; }
  .many td { display: inline; border: 0; padding: 0 .75rem 0 0; } .many td:empty { display: none; } .many td::before { content: attr(data-column) ": "; color: var(--soft); } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
`;
