import type { Report } from '../contracts/report';
import { oneLine, pieces } from '../contracts/words';
import type { Block, Cell, Row } from './sections';
import { sectionsOf } from './sections';
import { markOf } from './run-history';
import { headlineOf, headlinesBelow, titleOf } from './headlines';

/** Text that people wrote, as Markdown that shows it and nothing else. */
function escaped(text: string): string {
  return escapedPiece(oneLine(text)).trim();
}

function escapedPiece(text: string): string {
  return text
    .replace(/&/g, '&amp;')
    .replace(/[\\`*[\]|~]/g, '\\$&')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/(^|\W)_|_(?=\W|$)/g, (match) => match.replace('_', '\\_'));
}

/** Text of ours: its commands stay code. */
function escapedText(text: string): string {
  return pieces(text)
    .map((piece) => (piece.code ? `\`${piece.text}\`` : escapedPiece(piece.text)))
    .join('')
    .trim();
}

const MARKS = { good: '', warning: '⚠ ', bad: '✗ ', neutral: '' } as const;

function cell(content: Cell): string {
  if (typeof content === 'string') return escaped(content);
  return `${content.text === '' ? '' : MARKS[content.tone]}${escaped(content.text)}`;
}

function table(rows: readonly Row[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const columns = Object.keys(rows[0] ?? {});
  return [line(columns), line(columns.map(() => '---')), ...rows.map((row) => line(Object.values(row).map(cell)))].join(
    '\n',
  );
}

function block(content: Block): string {
  switch (content.kind) {
    case 'paragraph':
      return escapedText(content.text);
    case 'list':
      return content.items
        .map(({ label, text, below }) => {
          const first = `- ${label ? `**${escaped(label.text)}** ` : ''}${escapedText(text)}`;
          return below === undefined ? first : `${first}\n  ${escapedText(below)}`;
        })
        .join('\n');
    case 'facts':
      return content.entries.map(([name, value]) => `- ${name}: ${cell(value)}`).join('\n');
    case 'table':
      return `${content.caption}\n\n${table(content.rows)}`;
  }
}

/**
 * The report as Markdown: the outcome, outage and loss first, then what to do, then the evidence. What people wrote is
 * escaped, so that it can neither change the layout nor become a link or HTML.
 * @param report as `reportOf` makes it
 */
export function renderMarkdown(report: Report): string {
  const mark = markOf(report);
  const parts = [
    `# ${escaped(titleOf(report))}`,
    `**${escaped(headlineOf(report).text)}**`,
    headlinesBelow(report)
      .map((line) => `- ${cell(line)}`)
      .join('\n'),
    ...sectionsOf(report).flatMap(({ title, blocks }) => [`## ${title}`, ...blocks.map(block)]),
    ...(mark === undefined ? [] : [`<!-- ${mark} -->`]),
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}
