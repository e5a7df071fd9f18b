import type { OutageSplit, Report } from '../contracts/report';
import { element, escapedHtml, textHtml } from './html-elements';
import { STYLE } from './html-style';
import { timelineHtml } from './html-timeline';
import type { Block, Cell } from './report-document';
import { sectionsOf } from './report-sections';
import type { Headline } from './report-words';
import { durationText, headlineOf, lossHeadline, outageHeadline, protectionHeadline, timeText } from './report-words';

function toneText({ text, tone }: Cell): string {
  return tone === undefined || tone === 'neutral' ? escapedHtml(text) : element('span', text, tone);
}

function list(content: Extract<Block, { kind: 'list' }>): string {
  const labelled = content.items.some(({ label }) => label);
  const items = content.items.map(({ label, text, below }) => {
    const badge = label ? `${element('span', label.text, `badge ${label.tone ?? 'neutral'}`)} ` : '';
    return `<li>${badge}${textHtml(text)}${below === undefined ? '' : `<p class="soft">${textHtml(below)}</p>`}</li>`;
  });
  return `<ul class="items${labelled ? ' labelled' : ''}">${items.join('')}</ul>`;
}

/** A table with more columns does not fit on paper: its rows are printed as paragraphs. */
const COLUMNS_ON_PAPER = 6;
/** Longer texts get a width at which they can be read. */
const LONG_TEXT = 30;

/** On a narrow screen each row becomes a card, and the cells say which column they belong to. */
function table({ caption, columns, rows }: Extract<Block, { kind: 'table' }>): string {
  const head = columns.map((column) => `<th scope="col">${escapedHtml(column)}</th>`).join('');
  const cell = (content: Cell, column: number): string => {
    const long = content.text.length > LONG_TEXT ? ' class="long"' : '';
    return `<td data-column="${escapedHtml(columns[column] ?? '')}"${long}>${toneText(content)}</td>`;
  };
  const body = rows.map((row) => `<tr>${row.map(cell).join('')}</tr>`).join('');
  const many = columns.length > COLUMNS_ON_PAPER ? ' class="many"' : '';
  return `<div class="wide"><table${many}>${element('caption', caption)}<thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
}

function block(content: Block, report: Report): string {
  switch (content.kind) {
    case 'paragraph':
      return `<p>${textHtml(content.text)}</p>`;
    case 'list':
      return list(content);
    case 'facts':
      return `<dl>${content.entries.map(({ name, value }) => `${element('dt', name)}<dd>${toneText(value)}</dd>`).join('')}</dl>`;
    case 'table':
      return table(content);
    case 'timeline':
      return timelineHtml(report);
  }
}

const PARTS = [
  {
    name: 'service',
    what: 'calls to the service and waiting for its state',
    of: ({ serviceMs }: OutageSplit) => serviceMs ?? 0,
  },
  { name: 'machine', what: 'Temporal and the workers', of: ({ machineMs }: OutageSplit) => machineMs ?? 0 },
  { name: 'people', what: 'waiting for people', of: ({ peopleMs }: OutageSplit) => peopleMs ?? 0 },
] as const;

function split(outage: OutageSplit): string {
  const bars = PARTS.map(
    ({ name, of }) => `<span class="${name}" style="flex-grow:${Math.max(0, of(outage))}"></span>`,
  ).join('');
  const legend = PARTS.map(
    ({ name, what, of }) =>
      `<li><i class="${name}"></i>${name} <b>${durationText(of(outage))}</b> <span class="soft">${what}</span></li>`,
  ).join('');
  return `<div class="split" aria-hidden="true">${bars}</div><ul class="legend">${legend}</ul>`;
}

function endOf({ startedAt, startedBecause, endedAt, endedBy, serviceReadyAt }: OutageSplit): string {
  const why = startedBecause === undefined ? '' : ` Counted from there: ${startedBecause}.`;
  if (endedAt === undefined) return `Since ${timeText(startedAt)} UTC.${why} No end is known; the split is so far.`;
  const by = endedBy === 'probe' ? 'the first success through the clients’ address' : 'the new primary serving a write';
  const ready =
    endedBy === 'probe' && serviceReadyAt !== undefined
      ? ` The primary served a write at ${timeText(serviceReadyAt)}.`
      : '';
  return `From ${timeText(startedAt)} to ${timeText(endedAt)} UTC, ended by ${by}.${ready}${why}`;
}

function paragraphOf({ text, tone }: Headline): string {
  return element('p', text, tone === 'neutral' ? undefined : tone);
}

function outageSection(report: Report): string {
  const { outage } = report;
  const lines = (...headlines: readonly (Headline | undefined)[]) =>
    headlines.flatMap((line) => (line ? [paragraphOf(line)] : [])).join('');
  const after = lines(lossHeadline(report), protectionHeadline(report));
  if (!outage) {
    const said = lines(outageHeadline(report)) + after;
    return said === '' ? '' : `<section id="outage"><h2>Outage</h2>${said}</section>`;
  }
  const total =
    outage.totalMs === undefined
      ? element('p', 'not ended', 'total bad')
      : element('p', durationText(outage.totalMs), 'total');
  return `<section id="outage"><h2>Outage</h2>${total}${element('p', endOf(outage), 'soft')}${split(outage)}${after}</section>`;
}

/**
 * The report as one page that needs nothing else: no script, no outside resource, light and dark, and fit to print.
 * Every text is escaped, and the page forbids itself to load or run anything.
 * @param report as `reportOf` makes it
 */
export function renderHtml(report: Report): string {
  const title = `${report.runbook}${report.deployment === undefined ? '' : `: ${report.deployment}`}`;
  const headline = headlineOf(report);
  const sections = sectionsOf(report).map(
    (section) =>
      `<section id="${section.id}" aria-labelledby="${section.id}-title"><h2 id="${section.id}-title">${escapedHtml(section.title)}</h2>${section.blocks.map((content) => block(content, report)).join('')}</section>`,
  );
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    element('title', `${title}, ${report.outcome}`),
    `<style>${STYLE}</style>`,
    '</head>',
    '<body>',
    '<main>',
    element('h1', `${title} · ${timeText(report.startedAt)} UTC · ${report.outcome}`),
    element('p', headline.text, `headline ${headline.tone}`),
    outageSection(report),
    ...sections,
    '</main>',
    '</body>',
    '</html>',
    '',
  ].join('\n');
}
