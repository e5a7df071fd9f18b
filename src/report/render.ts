import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import type { Report } from '../contracts/report';
import { escapeMarkdown, oneLine, pieces, prose } from '../contracts/words';
import { headlineOf, headlinesBelow, timeText, titleOf } from './headlines';
import { markOf } from './run-history';
import { sectionsOf } from './sections';
import type { Block, Cell, Row } from './sections';

/* Renders a report as Markdown, as a page, and as files. All have the same content (`sections.ts`). */

const MARKS = { good: '', warning: '⚠ ', bad: '✗ ', neutral: '' } as const;

function markdownCell(content: Cell): string {
  if (typeof content === 'string') return escapeMarkdown(content);
  return `${content.text === '' ? '' : MARKS[content.tone]}${escapeMarkdown(content.text)}`;
}

function markdownTable(rows: readonly Row[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const columns = Object.keys(rows[0] ?? {});
  return [
    line(columns),
    line(columns.map(() => '---')),
    ...rows.map((row) => line(Object.values(row).map(markdownCell))),
  ].join('\n');
}

function markdownBlock(content: Block): string {
  switch (content.kind) {
    case 'paragraph':
      return prose(content.text);
    case 'list':
      return content.items
        .map(({ label, text, below }) => {
          const first = `- ${label ? `**${escapeMarkdown(label.text)}** ` : ''}${prose(text)}`;
          return below === undefined ? first : `${first}\n  ${prose(below)}`;
        })
        .join('\n');
    case 'facts':
      return content.entries.map(([name, value]) => `- ${name}: ${markdownCell(value)}`).join('\n');
    case 'table':
      return `${content.caption}\n\n${markdownTable(content.rows)}`;
  }
}

/**
 * The report as Markdown: first outcome, outage and loss, then what to do, then the evidence. Text that people wrote is
 * escaped, so that it can neither change the layout nor become HTML. Addresses stay unescaped: a terminal shows this text
 * unrendered, and people copy them.
 * @param report - the result of `reportOf`
 */
export function renderMarkdown(report: Report): string {
  const mark = markOf(report);
  const parts = [
    `# ${escapeMarkdown(titleOf(report))}`,
    `**${escapeMarkdown(headlineOf(report).text)}**`,
    headlinesBelow(report)
      .map((line) => `- ${markdownCell(line)}`)
      .join('\n'),
    ...sectionsOf(report).flatMap(({ title, blocks }) => [`## ${title}`, ...blocks.map(markdownBlock)]),
    ...(mark === undefined ? [] : [`<!-- ${mark} -->`]),
  ];
  const text = parts.filter((part) => part !== '').join('\n\n');
  return `${text.replace(/\\(?=:\/\/)|(?<=www)\\(?=\.)/gi, '')}\n`;
}

/** Any text as HTML that shows only that text, also inside a quoted attribute. Control characters are dropped. */
function escapedHtml(text: string): string {
  return oneLine(text).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** An element with escaped text. `className` is a constant, never text from a report. */
function element(name: string, text: string, className?: string): string {
  const attribute = className === undefined || className === '' ? '' : ` class="${className}"`;
  return `<${name}${attribute}>${escapedHtml(text)}</${name}>`;
}

/** One of our own texts, with its commands as code that one click selects completely. */
function textHtml(text: string): string {
  return pieces(text)
    .map((piece) => (piece.code ? element('code', piece.text) : escapedHtml(piece.text)))
    .join('');
}

function cellHtml(content: Cell): string {
  if (typeof content === 'string') return escapedHtml(content);
  return content.tone === 'neutral' ? escapedHtml(content.text) : element('span', content.text, content.tone);
}

function htmlList({ items }: Extract<Block, { kind: 'list' }>): string {
  const labelled = items.some(({ label }) => label) ? ' labelled' : '';
  const lines = items.map(({ label, text, below }) => {
    const badge = label ? `${element('span', label.text, `badge ${label.tone}`)} ` : '';
    return `<li>${badge}${textHtml(text)}${below === undefined ? '' : `<p class="soft">${textHtml(below)}</p>`}</li>`;
  });
  return `<ul class="items${labelled}">${lines.join('')}</ul>`;
}

/** A table with more columns does not fit on paper: its rows are printed as paragraphs. */
const COLUMNS_ON_PAPER = 6;
/** Longer texts get a readable width; shorter ones, such as times, stay on one line. */
const LONG_TEXT = 24;

/** On a narrow screen each row becomes a card, and each cell shows the name of its column. */
function htmlTable({ caption, rows, folded }: Extract<Block, { kind: 'table' }>): string {
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

function htmlBlock(content: Block): string {
  switch (content.kind) {
    case 'paragraph':
      return `<p>${textHtml(content.text)}</p>`;
    case 'list':
      return htmlList(content);
    case 'facts':
      return `<dl>${content.entries.map(([name, value]) => `${element('dt', name)}<dd>${cellHtml(value)}</dd>`).join('')}</dl>`;
    case 'table':
      return htmlTable(content);
  }
}

/**
 * The report as one self-contained page: no script, no external resource, light and dark, and printable. Every text is
 * escaped, and the page's policy forbids it to load or run anything.
 * @param report - the result of `reportOf`
 */
export function renderHtml(report: Report): string {
  const title = titleOf(report);
  const headline = headlineOf(report);
  const mark = markOf(report);
  const contents = sectionsOf(report);
  const idOf = (each: string) => each.toLowerCase().replaceAll(' ', '-');
  const below = headlinesBelow(report).map(({ text, tone }) => element('p', text, tone === 'neutral' ? '' : tone));
  const links = contents.map((each) => `<a href="#${idOf(each.title)}">${escapedHtml(each.title)}</a>`);
  const sections = contents.map((section) => {
    const id = idOf(section.title);
    const blocks = section.blocks.map(htmlBlock).join('');
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
    ...below,
    `<nav aria-label="Contents">${links.join(' ')}</nav>`,
    ...sections,
    '</main>',
    '</body>',
    '</html>',
    '',
  ].join('\n');
}

/** The style of the page: readable at night and on paper, no external resource. */
const STYLE = `
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b2430; --soft: #55606e; --line: #d8dde4;
  --good: #14713d; --warning: #8a5300; --bad: #b3201f; --neutral: #33506f;
  --good-fill: #d9f0e2; --warning-fill: #fdecc8; --bad-fill: #fbdcda; --neutral-fill: #e3ebf4; }
@media screen and (prefers-color-scheme: dark) { :root {
  --page: #12161b; --card: #1b2128; --text: #e6eaf0; --soft: #9aa6b4; --line: #333c47;
  --good: #6fd59a; --warning: #f0b95a; --bad: #ff8d86; --neutral: #a9c4e2;
  --good-fill: #163524; --warning-fill: #3d2e10; --bad-fill: #451c1b; --neutral-fill: #22303f; } }
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
p { margin: .25rem 0; overflow-wrap: anywhere; } .headline + p { margin-top: .75rem; }
.badge { display: inline-block; border-radius: .3rem; padding: 0 .45rem; font-size: .85em; font-weight: 600; }
code { user-select: all; overflow-wrap: anywhere; } .soft { color: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .75rem 0 0; font-size: .9rem; } a { color: var(--neutral); }
details { margin-bottom: .75rem; } summary { cursor: pointer; padding: .35rem 0; color: var(--good); font-weight: 600; }
ul.items { margin: 0; padding-left: 1.25rem; } ul.items li { margin: .3rem 0; overflow-wrap: anywhere; }
ul.items.labelled { list-style: none; padding: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: 0 0 .5rem; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin-bottom: .75rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; } caption { text-align: left; color: var(--soft); padding-bottom: .35rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-top: 1px solid var(--line); overflow-wrap: break-word; }
th { font-weight: 600; border-top: 0; } td, th { white-space: nowrap; } td.long { min-width: 11rem; white-space: normal; overflow-wrap: anywhere; }
.many td.long { min-width: 0; } .many th { white-space: normal; }
@media screen and (max-width: 46rem) { dl { grid-template-columns: 1fr; } dt { margin-top: .3rem; } thead { display: none; } table, caption, tbody, tr, td { display: block; }
  tr { border-top: 1px solid var(--line); padding: .4rem 0; } td { border: 0; padding: .1rem 0; white-space: normal; overflow-wrap: anywhere; } td:empty { display: none; }
  td::before { content: attr(data-column) ": "; color: var(--soft); } }
@media print { body { background: #fff; font-size: 11pt; } main { max-width: none; padding: 0; } section { border: 0; border-top: 1px solid #999; border-radius: 0; padding: .5rem 0; }
  nav { display: none; } details::details-content { content-visibility: visible; display: block; block-size: auto; } summary { list-style: none; }
  tr, li { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; } table { font-size: .8rem; } td { white-space: normal; } td.long { min-width: 0; }
  .many thead { display: none; } .many, .many caption, .many tbody, .many tr, .many td { display: block; } .many tr { border-top: 1px solid var(--line); padding: .2rem 0; }
  .many td { display: inline; border: 0; padding: 0 .75rem 0 0; } .many td:empty { display: none; } .many td::before { content: attr(data-column) ": "; color: var(--soft); } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
`;

const LONGEST_NAME = 150;

/** A file name that is unique for each ID and safe on every file system; `deployment:payments` stays readable. */
function fileName(id: string): string {
  const name = id.replace(/^\.|[^A-Za-z0-9.-]/gu, (found) =>
    found === ':' ? '_' : `%${Buffer.from(found).toString('hex')}`,
  );
  if (name !== '' && name.length <= LONGEST_NAME) return name;
  return `${name.slice(0, LONGEST_NAME)}%${createHash('sha256').update(id).digest('hex').slice(0, 32)}`;
}

/**
 * Writes a report as JSON, Markdown and HTML, so that it outlives the namespace's retention: to
 * `<directory>/<namespace>/<Workflow ID>/<Run ID>.{json,md,html}`, each readable only by its owner, each replaced atomically.
 * @param report - the result of `reportOf`
 * @param directory - created if it does not exist
 * @returns the absolute paths: JSON, Markdown, HTML
 * @throws the file system's error if a file cannot be written
 */
export async function writeReportFiles(report: Report, directory: string): Promise<string[]> {
  const folder = join(resolve(directory), fileName(report.namespace), fileName(report.workflowId));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const base = join(folder, fileName(report.runId));
  const contents = [
    ['json', `${JSON.stringify(report, null, 2)}\n`],
    ['md', renderMarkdown(report)],
    ['html', renderHtml(report)],
  ] as const;
  const paths: string[] = [];
  for (const [extension, text] of contents) {
    const path = `${base}.${extension}`;
    await writeFileAtomic(path, text, { mode: 0o600 });
    paths.push(path);
  }
  return paths;
}
