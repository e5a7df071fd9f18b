import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import type { Report } from '../contracts/report';
import { escapeMarkdown, pieces, prose } from '../contracts/words';
import { headlineOf, headlinesBelow, timeText, titleOf } from './headlines';
import { markOf } from './run-history';
import { STYLE } from './page-style';
import { sectionsOf } from './sections';
import type { Block, Cell, Row, Section } from './sections';
import { escapedHtml } from './svg';

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
    case 'figures':
      return markdownTable(
        content.figures.map(({ name, value, objective = '' }) => ({
          Figure: name,
          Value: value,
          Objective: objective,
        })),
      );
    case 'pictures':
      return content.text.length === 0 ? '' : ['```text', ...content.text, '```'].join('\n');
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
  const title = folded === false ? element('caption', caption) : '';
  const wide = `<div class="wide"><table${many}>${title}<thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
  return folded === false ? wide : `<details class="${folded}">${element('summary', caption)}${wide}</details>`;
}

function htmlBlock(content: Block): string {
  switch (content.kind) {
    case 'paragraph':
      return `<p>${textHtml(content.text)}</p>`;
    case 'list':
      return htmlList(content);
    case 'facts':
      return `<dl>${content.entries.map(([name, value]) => `${element('dt', name)}<dd>${cellHtml(value)}</dd>`).join('')}</dl>`;
    case 'figures':
      return htmlFigures(content);
    case 'pictures':
      return htmlPictures(content);
    case 'table':
      return htmlTable(content);
  }
}

function htmlFigures({ figures }: Extract<Block, { kind: 'figures' }>): string {
  const cards = figures.map(({ name, value, objective }) => {
    const wanted = objective ? `<dd class="objective ${objective.tone}">${escapedHtml(objective.text)}</dd>` : '';
    return `<div>${element('dt', name)}<dd class="figure ${value.tone}">${escapedHtml(value.text)}</dd>${wanted}</div>`;
  });
  return `<dl class="figures">${cards.join('')}</dl>`;
}

/** Drawings are made here, with every text in them escaped. */
function htmlPictures({ pictures, legend }: Extract<Block, { kind: 'pictures' }>): string {
  const drawn = pictures.map(({ title, svg }) => {
    const heading = title === undefined ? '' : `<figcaption>${escapedHtml(title)}</figcaption>`;
    return `<figure>${heading}${svg}</figure>`;
  });
  const entries = legend.map(
    ([className, text]) => `<li><span class="sample ${className}"></span>${escapedHtml(text)}</li>`,
  );
  const explained = entries.length === 0 ? '' : `<ul class="legend" aria-hidden="true">${entries.join('')}</ul>`;
  return `<div class="pictures">${drawn.join('')}</div>${explained}`;
}

const idOf = (title: string) => title.toLowerCase().replaceAll(' ', '-');

/** A folded section opens when a link leads into it: the link's target is inside. */
function htmlSection({ title, blocks, folded }: Section): string {
  const id = idOf(title);
  const heading = element('h2', title).replace('<h2', `<h2 id="${id}-title"`);
  const body = blocks.map(htmlBlock).join('');
  const labelled = `aria-labelledby="${id}-title"`;
  return folded
    ? `<section ${labelled}><details class="${folded}"><summary>${heading}</summary><div id="${id}">${body}</div></details></section>`
    : `<section id="${id}" ${labelled}>${heading}${body}</section>`;
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
  const below = headlinesBelow(report).map(({ text, tone }) => element('p', text, tone === 'neutral' ? '' : tone));
  const [figures = '', ...sections] = contents.map(htmlSection);
  const links = contents.slice(1).map(({ title: each }) => `<a href="#${idOf(each)}">${escapedHtml(each)}</a>`);
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
    figures,
    `<div class="below">${below.join('')}</div>`,
    `<nav aria-label="Contents">${links.join(' ')}</nav>`,
    ...sections,
    '</main>',
    '</body>',
    '</html>',
    '',
  ].join('\n');
}

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
