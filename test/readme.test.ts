import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Command, CommanderError } from 'commander';
import { parse } from 'yaml';
import { processContext } from '../src/cli/context';
import { buildProgram } from '../src/cli/program';
import { RUNBOOK_NAMES } from '../src/contracts/names';
import { RUNBOOK_INPUTS } from '../src/contracts/runbook-inputs';
import { SIGNALS } from '../src/contracts/signals';
import { ERROR_CODES } from '../src/errors';
import type { Page } from './support/documents';
import { ROOT, allPages, codeBlocks, codeSpans, deadLinks, page, shellLines, shellWords } from './support/documents';

const README = page('README.md');
const WEB_UI = page('docs/web-ui.md');
/** What may be followed to the letter; the decisions name what was cut. */
const GUIDES = allPages().filter(({ path }) => path !== 'docs/decisions.md');

const newProgram = () =>
  buildProgram({ context: processContext(new AbortController().signal), finish: () => undefined });
const every = (command: Command): Command[] => [command, ...command.commands.flatMap(every)];

/** What the program itself says against a command line, which need not be complete; undefined where it takes it. */
function mistake(line: string, complete = true): string | undefined {
  const program = newProgram();
  for (const command of every(program)) {
    command.configureOutput({ writeErr: () => undefined });
    if (command.commands.length === 0) command.action(() => undefined);
    if (complete) continue;
    for (const option of command.options) option.makeOptionMandatory(false);
    for (const argument of command.registeredArguments) argument.argOptional();
  }
  const words = shellWords(line)
    .slice(1)
    .filter((word) => word !== '...' && word !== '…');
  // A topic, which is no command.
  if (words.join(' ') === 'help environment') return undefined;
  try {
    program.parse(words, { from: 'user' });
  } catch (error) {
    const { code, message } = error as CommanderError;
    if (complete || code !== 'commander.optionMissingArgument') return `${line}: ${message}`;
  }
  return undefined;
}

/** `runbook` lines of the shell blocks, and spans that give a whole command with an argument. */
function runbookLines(from: Page): string[] {
  return shellLines(from).filter((line) => line.startsWith('runbook '));
}

it('README.md is one page', () => {
  expect(README.text.split('\n').length).toBeLessThanOrEqual(250);
});

it('every image that a page shows exists, is small, and says what it shows', () => {
  const images = allPages().flatMap(({ path, text }) =>
    [...text.matchAll(/!\[([^\]]*)\]\(([^)]+)\)/g)].map(([, title = '', file = '']) => ({
      title,
      file: join(ROOT, dirname(path), file),
    })),
  );
  expect(images.length).toBeGreaterThanOrEqual(1);
  for (const { title, file } of images) {
    expect([file, existsSync(file)]).toEqual([file, true]);
    expect(statSync(file).size).toBeLessThan(250 * 1024);
    expect(title.length).toBeGreaterThan(20);
  }
});

describe('commands', () => {
  it('of `runbook` are ones that it accepts', () => {
    const lines = GUIDES.flatMap(runbookLines);
    expect(lines.length).toBeGreaterThan(15);
    expect(lines.flatMap((line) => mistake(line) ?? [])).toEqual([]);
  });

  it('within a sentence name commands and options that exist', () => {
    const spans = GUIDES.flatMap(codeSpans).filter((span) => /^runbook \w/.test(span));
    expect(spans.length).toBeGreaterThan(10);
    // A mention need not be complete; what gives an option its value is there to be copied.
    const copied = (span: string): boolean => / --[a-z-]+ [^-]/.test(span) && !/\.\.\.|…/.test(span);
    expect(spans.flatMap((span) => mistake(span, copied(span)) ?? [])).toEqual([]);
  });

  it('of docs/cli.md have the options that it names', () => {
    const options = new Set(every(newProgram()).flatMap((each) => each.options.map(({ long }) => long)));
    const named = codeSpans(page('docs/cli.md')).flatMap((span) => /^--[a-z-]+/.exec(span) ?? []);
    expect(named.length).toBeGreaterThan(10);
    expect(
      named.filter((option) => !options.has(option) && !['--help', '--require', '--import'].includes(option)),
    ).toEqual([]);
  });

  it('of npm are scripts of the package', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: object };
    const named = GUIDES.flatMap(({ text }) => [...text.matchAll(/\bnpm (?:run )?([a-z]+(?::[a-z-]+)?)/g)])
      .map(([, name = '']) => name)
      .filter((name) => !['ci', 'and', 'pack', 'install', 'prune'].includes(name));
    expect(new Set(named.filter((name) => !(name in scripts)))).toEqual(new Set());
  });

  it('by curl send JSON that starts a runbook, or a signal that exists', () => {
    const lines = shellLines(WEB_UI).filter((line) => line.startsWith('curl '));
    // Blocks of several lines inside quotes are cut by lines: the start is read from the whole page.
    const [start = ''] = /\{\s*"workflowType"[\s\S]*?\]\}(?=')/.exec(WEB_UI.text) ?? [];
    const { workflowType, taskQueue, input } = JSON.parse(start) as {
      workflowType: { name: keyof typeof RUNBOOK_INPUTS };
      taskQueue: { name: string };
      input: unknown[];
    };
    expect(taskQueue.name).toBe('runbooks');
    expect(input).toHaveLength(1);
    RUNBOOK_INPUTS[workflowType.name].parse(input[0]);
    const signals = lines.flatMap((line) => [...line.matchAll(/\/signal\/([a-z]+)/g)]).map(([, name]) => name);
    expect(signals.length).toBeGreaterThan(0);
    expect(Object.values(SIGNALS)).toEqual(expect.arrayContaining(signals));
  });
});

describe('JSON objects', () => {
  it('are inputs of a switchover that validate', () => {
    const objects = [README, WEB_UI].flatMap((from) => codeBlocks(from, 'json'));
    expect(objects.length).toBeGreaterThan(1);
    for (const object of objects) RUNBOOK_INPUTS.drSwitchover.parse(JSON.parse(object));
  });

  it('are not given for signals: the table has every one, with the command that prints it', () => {
    const rows = [...WEB_UI.text.matchAll(/^\| `(\w+)` \| .*`runbook [^`]* --print`/gm)];
    expect(new Set(rows.map(([, name]) => name))).toEqual(new Set(Object.values(SIGNALS)));
  });
});

describe('tables', () => {
  it('list every runbook, and every field of the input of a switchover with its default', () => {
    for (const name of RUNBOOK_NAMES) expect(README.text).toContain(`\n| \`${name}\` | `);
    const text = ['dr-switchover', 'README'].map((name) => page(`docs/runbooks/${name}.md`).text).join('\n');
    const defaults = RUNBOOK_INPUTS.drSwitchover.parse({ deployment: 'a', to: 'b', reason: 'abc' });
    for (const field of Object.keys(RUNBOOK_INPUTS.drSwitchover.shape)) {
      const row = new RegExp(`^\\| \`${field}\` \\| (.*?) \\|`, 'm').exec(text)?.[1];
      expect([field, row]).toEqual([field, expect.any(String)]);
      const value: unknown = (defaults as Record<string, unknown>)[field];
      if (!['deployment', 'to', 'reason'].includes(field) && value !== undefined)
        expect([field, row]).toEqual([field, `\`${String(value as string | boolean)}\``]);
    }
  });

  it('name error codes that exist', () => {
    const named = [README, page('docs/on-call.md'), page('docs/operations.md')]
      .flatMap(codeSpans)
      .filter((span) => /^[A-Z]+(_[A-Z]+)+$/.test(span) && !/^(RUNBOOKS|TEMPORAL)_/.test(span));
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((code) => !(code in ERROR_CODES))).toEqual([]);
  });
});

describe('the steps of a switchover', () => {
  it('have the names that the timeline shows', () => {
    const section = README.text.split('## How a switchover goes')[1]?.split('\n## ')[0] ?? '';
    const code = sources('src/moves')
      .replaceAll("\\'", "'")
      .replace(/\$\{[^}]*\}/g, 'CLUSTER');
    const named = [...section.matchAll(/\*\*([^*]+?)\.?\*\*/g)].map(([, name = '']) =>
      name.replace(/\b[ABC]\b/g, 'CLUSTER'),
    );
    expect(named.length).toBeGreaterThan(18);
    expect(named.filter((name) => !['"', "'", '`'].some((quote) => code.includes(`${quote}${name}${quote}`)))).toEqual(
      [],
    );
  });
});

describe('names of things', () => {
  it('environment variables are read by our code, or by the Temporal SDK', () => {
    const code = ['src', 'scripts', 'deploy', 'test/real', 'test/ceremony'].map(sources).join('\n');
    const sdk =
      readFileSync(join(ROOT, 'node_modules/@temporalio/envconfig/lib/envconfig-toml.js'), 'utf8') +
      sources('node_modules/@temporalio/envconfig/lib');
    const named = new Set(GUIDES.flatMap(({ text }) => text.match(/\b(?:RUNBOOKS|TEMPORAL)_[A-Z_]+\b/g) ?? []));
    expect(named.size).toBeGreaterThan(12);
    expect([...named].filter((name) => !code.includes(name) && !sdk.includes(name))).toEqual([]);
  });

  it('steps, findings and limits are those of the code', () => {
    const code = ['workflows', 'activities', 'src'].map(sources).join('\n');
    const known = code.replace(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, '...');
    const named = GUIDES.filter(({ path }) => path.startsWith('docs/'))
      .flatMap(codeSpans)
      .filter((span) => /^[A-Z][a-z]+ .*\.\.\.|^[a-z]+(-[a-z]+)+$|^limits\.\w+$/.test(span));
    expect(named.length).toBeGreaterThan(60);
    // A point of readiness is called after its check.
    const isKnown = (span: string) => known.includes(span) || known.includes(span.replaceAll('-', ' '));
    expect(named.filter((span) => !isKnown(span.replace('limits.', '')))).toEqual([]);
  });

  it('files of the project exist', () => {
    const named = GUIDES.flatMap(codeSpans).filter(
      (span) =>
        /^(src|test|docs|deploy|scripts|tools|workflows|activities)\/[\w./-]*$/.test(span) ||
        /^[\w.-]+\.(yml|mjs|cjs)$/.test(span) ||
        span === 'Dockerfile',
    );
    expect(named.length).toBeGreaterThan(10);
    // The build makes this one.
    const known = (name: string) => name === 'runbook.cjs' || existsSync(join(ROOT, name));
    expect([...new Set(named)].filter((name) => !known(name))).toEqual([]);
  });

  it('dynamic configuration is the one that is deployed', () => {
    const deployed = parse(readFileSync(join(ROOT, 'deploy/dynamic-config.yaml'), 'utf8')) as object;
    const named = codeSpans(page('docs/operations.md')).filter((span) => /^(history|system)\./.test(span));
    expect(new Set(named)).toEqual(new Set(Object.keys(deployed)));
  });

  it('relative links of every page lead somewhere, headings included', () => {
    expect(allPages().flatMap((each) => deadLinks(each).map((target) => `${each.path}: ${target}`))).toEqual([]);
  });
});

describe.each(['SECURITY.md', 'test/behaviours.md'])('%s', (path) => {
  it('names tests that exist, each by words of it', () => {
    let file = '';
    const checked: string[] = [];
    const missing: string[] = [];
    // A quoted name belongs to the test file that was named last before it.
    for (const [, named, words] of page(path).text.matchAll(/`(test\/[\w./-]+\.ts)`|"([^"\n]+)"/g)) {
      if (named !== undefined) file = named;
      const source = existsSync(join(ROOT, file)) ? readFileSync(join(ROOT, file), 'utf8').replaceAll("\\'", "'") : '';
      if (words !== undefined) checked.push(words);
      if (source === '' || (words !== undefined && !source.includes(words))) missing.push(`${file}: ${words ?? ''}`);
    }
    expect(missing).toEqual([]);
    expect(checked.length).toBeGreaterThan(40);
  });
});

describe('decisions', () => {
  it('that code and pages name are on their page', () => {
    const decided = [...page('docs/decisions.md').text.matchAll(/^\*\*(\d+)\. [^*]+\*\*/gm)].map(
      ([, number]) => number,
    );
    expect(decided.length).toBeGreaterThan(15);
    const text = [...allPages().map((each) => each.text), ...['src', 'workflows', 'activities'].map(sources)].join(
      '\n',
    );
    const named = [...text.matchAll(/\bdecision (\d+)\b/g)].map(([, number]) => number);
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter((number) => !decided.includes(number))).toEqual([]);
  });
});

/** All source text below a folder. */
function sources(folder: string): string {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|js|mjs|sh|ya?ml)$/.test(entry.name))
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
    .join('\n');
}
