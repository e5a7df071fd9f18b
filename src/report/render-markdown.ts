import type { Report, ReportStep } from '../contracts/report';
import { oneLine, pieces } from '../contracts/words';
import type { Block, Cell, Row } from './sections';
import { outcomeCell, sectionsOf } from './sections';
import { markOf } from './run-history';
import { betweenText, headlineOf, headlinesBelow, timeText, titleOf } from './headlines';

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

function stepLines(step: ReportStep, report: Report): readonly string[] {
  const ended = report.endedAt !== undefined;
  const duration = step.endedAt === undefined ? '' : `, ${betweenText(step.startedAt, step.endedAt)}`;
  const attempt = step.attempt > 1 ? `, attempt ${step.attempt}` : '';
  const activities = step.activities.map(({ type, cluster, tries, outcome, observed, startedAt, endedAt }) => {
    const where = cluster === undefined ? '' : ` on ${escaped(cluster)}`;
    const tried = tries > 1 ? `, ${tries} tries` : '';
    const took = endedAt === undefined ? '' : `, ${betweenText(startedAt, endedAt)}`;
    const seen = observed === undefined ? '' : `: ${escaped(observed)}`;
    return `  - ${escaped(type)}${where}: ${cell(outcomeCell(outcome, ended))}${tried}${took}${seen}`;
  });
  return [
    `- **${step.number === 0 ? '' : `${step.number}. `}${escaped(step.name)}**${attempt}: ${cell(outcomeCell(step.outcome, ended))}, from ${timeText(step.startedAt)}${duration}`,
    ...activities,
  ];
}

function block(content: Block, report: Report): string {
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
    case 'timeline':
      return report.steps.flatMap((step) => stepLines(step, report)).join('\n') || 'No step began.';
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
    ...sectionsOf(report).flatMap(({ title, blocks }) => [
      `## ${title}`,
      ...blocks.map((content) => block(content, report)),
    ]),
    ...(mark === undefined ? [] : [`<!-- ${mark} -->`]),
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}
