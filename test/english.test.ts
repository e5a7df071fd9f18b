import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { ROOT, allPages } from './support/documents';
import { readSources } from './support/source-graph';

/**
 * Wording that people stumble over at night, in every text that they see and in the titles of the tests. Only patterns that a
 * machine can find with few false alarms; codes, names of states and identifiers are no wording.
 */

interface Wording {
  readonly pattern: RegExp;
  readonly instead: string;
}

const EVERYWHERE: readonly Wording[] = [
  { pattern: /\bKNOW THIS\b/, instead: 'IMPORTANT' },
  { pattern: /\b(?:it is|is|are|was) not known\b/i, instead: 'unknown, "unknown whether ..."' },
  {
    pattern: /\b(?:was|were|been|is|not) seen (?:to|as|streaming|following|connected|sealed)\b|\bnot seen within\b/i,
    instead: 'confirmed to, observed, reported',
  },
  { pattern: /\banew\b|\bin hand\b/i, instead: 'again; collected, held' },
  { pattern: /\btouch(?:es|ed)? (?:nothing|no)\b|\bnothing (?:was|is) touched\b/i, instead: 'Nothing was changed' },
  {
    pattern: /\b(?:for|to|of|by|from|with|asks|tells|wakes|stops|serves|hears|blames|notifies) nobody\b/i,
    instead: 'a negated verb: does not wait for people',
  },
  {
    pattern:
      /\b(?:promot|demot|send|clos|hid|end|park|prov|keep|repeat|copi|tell|ask|stop|reach|replicat|forward|overwrit)e?s nothing\b/i,
    instead: 'a negated verb: does not promote a cluster',
  },
  { pattern: /\bgo(?:es)? on\b|\blooks? on\b/i, instead: 'continues; keeps checking' },
  { pattern: /\btold\b|\btells (?:a|the|it|that|of|no|what|which|nobody)\b/i, instead: 'reported, notified' },
  { pattern: /\bheard\b|\bhears?\b/i, instead: 'received a heartbeat, responded, read' },
  { pattern: /\btakes? (?:itself|themselves) for\b/i, instead: 'reports primary' },
  { pattern: /(?<![-\w`'"])silent(?![-\w`])/, instead: 'does not respond' },
  { pattern: /\b(?:life|lifetimes?)\b/i, instead: 'TTL, expires, valid' },
  { pattern: /\b(?:dead|dies|died)\b/i, instead: 'invalid, lost, stopped, down' },
  { pattern: /\bwhoever\b/i, instead: 'anyone who, the person who' },
];

/** In a sentence about a system, `where` is nearly always `if`. */
const IN_TITLES: readonly Wording[] = [
  { pattern: /(?<!\bfrom )\bwhere\b(?! (?:and why|to|a proxy|seal keys|the run is))/i, instead: 'if' },
  { pattern: /\bknows?\b/i, instead: 'lists, reports, has' },
  { pattern: /\bnobody (?:is|was|knows|can|gets|does)\b/i, instead: 'no run, no cluster, no one' },
  { pattern: /\btells?\b/i, instead: 'reports, shows' },
];

/** Texts that must be as they are. */
const EXCEPTIONS: readonly (readonly [RegExp, string])[] = [
  [/^trace, debug, info, warn, error, silent$/, 'a log level'],
  [/\b(?:what|that) you were told\b/, 'said by voice, by the operators'],
];

function oddIn(text: string, wordings: readonly Wording[]): string[] {
  const judged = EXCEPTIONS.reduce((rest, [pattern]) => rest.replace(pattern, ''), text);
  return wordings.flatMap(({ pattern, instead }) => {
    const found = pattern.exec(judged);
    return found === null ? [] : [`"${found[0]}" (${instead}) in: ${text.trim().slice(0, 160)}`];
  });
}

/** The fixed parts of a string, with ${} for what is filled in. Undefined for a node that is no string. */
function textOf(node: ts.Node): string | undefined {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  return [node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join('${}');
}

/** Strings of a file that are sentences: names, codes and paths have no space. */
function sentences(syntax: ts.SourceFile): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const text = textOf(node);
    if (text?.includes(' ') === true) found.push(text);
    ts.forEachChild(node, visit);
  };
  visit(syntax);
  return found;
}

function titles(syntax: ts.SourceFile): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && /^(?:it|test|describe)\b/.test(node.expression.getText(syntax))) {
      const [title] = node.arguments;
      const text = title === undefined ? undefined : textOf(title);
      if (text !== undefined) found.push(text);
    }
    ts.forEachChild(node, visit);
  };
  visit(syntax);
  return found;
}

/** Files that people read or copy besides the pages: comments in configuration, templates, the page of the holders. */
function shippedFiles(): string[] {
  const below = readdirSync(join(ROOT, 'deploy'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return [
    ...below,
    join(ROOT, 'docker-compose.yml'),
    ...['holder.html', 'approver.html'].map((name) => join(ROOT, 'src', 'pages', name)),
  ];
}

it('every text that a person sees avoids wording that has to be read twice', () => {
  const texts = [...readSources('src', 'workflows', 'activities').values()]
    // The simulated service answers in the words of the service.
    .filter(({ path }) => !path.startsWith('src/simulator/'))
    .flatMap(({ path, syntax }) => sentences(syntax).map((text) => ({ path, text })));
  expect(texts.length).toBeGreaterThan(1_500);
  expect(texts.flatMap(({ path, text }) => oddIn(text, EVERYWHERE).map((odd) => `${path}: ${odd}`))).toEqual([]);
});

it('every page, template and configuration file avoids it too', () => {
  const lines = [
    ...allPages().flatMap(({ path, text }) => text.split('\n').map((line) => ({ path, line }))),
    ...shippedFiles().flatMap((path) =>
      readFileSync(path, 'utf8')
        .split('\n')
        .map((line) => ({ path, line })),
    ),
  ];
  // Titles of tests are quoted on some pages; they are judged where they stand.
  const withoutNames = (line: string) => line.replaceAll(/"[^"]*"|`[^`]*`/g, '');
  const odd = lines.flatMap(({ path, line }) =>
    oddIn(withoutNames(line), EVERYWHERE).map((each) => `${path}: ${each}`),
  );
  expect(odd).toEqual([]);
});

it('every title of a test is a plain sentence', () => {
  const found = [...readSources('test').values()].flatMap(({ path, syntax }) =>
    titles(syntax).flatMap((text) => oddIn(text, [...EVERYWHERE, ...IN_TITLES]).map((odd) => `${path}: ${odd}`)),
  );
  expect(found).toEqual([]);
});
