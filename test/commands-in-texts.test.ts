/**
 * Commands in texts that people read in the Web UI. Its Markdown changes the dashes and quotes of what does not stand in
 * backticks: a command that is copied from there fails.
 */
import ts from 'typescript';
import { SUMMARIES } from '../src/cli/command';
import { readSources } from './support/source-graph';

const NAMES = Object.keys(SUMMARIES).join('|');
/** A command of ours or of the service, a line of its configuration, an option, what a function made, a value to look up. */
const COMMAND = new RegExp(
  `\\brunbook (?:${NAMES})\\b|\\bvault (?:operator|write|policy|token)\\b|\\benable_unauthenticated_access =|(?<=\\S\\s)--[a-z]|\\{command\\}|\\bWORKFLOW-ID\\b`,
  'g',
);
/** Functions whose result is a command, for a terminal or for somebody who puts the backticks; one brings its own. */
const MAKERS = /^(?:(?:nextCommandOf\.\w+|shellLine|(?!teardownCommand\b)\w+Command)\(|command$)/;

const sources = readSources('workflows', 'activities', 'src/contracts');

/** A literal's text; what is filled in stands in braces. */
function textOf(node: ts.Node, file: ts.SourceFile): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  const filled = (expression: ts.Expression) => (MAKERS.test(expression.getText(file)) ? '{command}' : '{}');
  return node.head.text + node.templateSpans.map((span) => filled(span.expression) + span.literal.text).join('');
}

/** Whether a literal is the whole of a command, not a text: the result of a maker, the value of `command`, or put into code. */
function isCommandItself(node: ts.Node, file: ts.SourceFile): boolean {
  const { parent } = node;
  if (ts.isPropertyAssignment(parent)) return parent.name.getText(file) === 'command';
  if (ts.isCallExpression(parent)) return parent.expression.getText(file) === 'code';
  if (!ts.isReturnStatement(parent)) return false;
  const maker = ts.findAncestor(parent, ts.isFunctionDeclaration);
  return maker?.name !== undefined && MAKERS.test(`${maker.name.text}(`);
}

function outsideOfCode(text: string): string[] {
  return [...text.matchAll(COMMAND)]
    .filter(({ index, 0: what }) => what === 'WORKFLOW-ID' || text.slice(0, index).split('`').length % 2 === 1)
    .map(([what]) => what);
}

it('every command in a text is in backticks, with real values', () => {
  const found: string[] = [];
  let seen = 0;
  for (const { path, syntax } of sources.values()) {
    // Mail and chat leave a text as it is.
    if (path.startsWith('activities/notifications/')) continue;
    const visit = (node: ts.Node): void => {
      const text = textOf(node, syntax);
      if (text !== undefined && COMMAND.test(text)) seen += 1;
      COMMAND.lastIndex = 0;
      if (text !== undefined && !isCommandItself(node, syntax))
        for (const what of outsideOfCode(text)) {
          const { line } = syntax.getLineAndCharacterOfPosition(node.getStart(syntax));
          found.push(`${path}:${line + 1}: "${what}" in "${text}"`);
        }
      ts.forEachChild(node, visit);
    };
    visit(syntax);
  }
  expect(found).toEqual([]);
  expect(seen).toBeGreaterThan(40);
});

/** Members that people write, filled into a text. */
const PEOPLES_WORDS = /^[\w.?#]*(?:\.reason|\.comment|\.by|\bby\.name)$/;

it('text of people is never inserted into a text as it is: backticks would make a command of it', () => {
  const found: string[] = [];
  const wrapped: string[] = [];
  for (const { path, syntax } of [...sources.values(), ...readSources('src/report').values()]) {
    const visit = (node: ts.Node): void => {
      if (ts.isTemplateExpression(node))
        for (const { expression } of node.templateSpans) {
          const text = expression.getText(syntax);
          const inner = /^(?:escapeUntrusted|escapeMarkdown)\((.*)\)$/.exec(text)?.[1];
          if (inner !== undefined && PEOPLES_WORDS.test(inner)) wrapped.push(inner);
          if (PEOPLES_WORDS.test(text)) found.push(`${path}: \${${text}}`);
        }
      ts.forEachChild(node, visit);
    };
    visit(syntax);
  }
  expect(found).toEqual([]);
  expect(wrapped.length).toBeGreaterThan(10);
});
