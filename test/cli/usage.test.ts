import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SUMMARIES } from '../../src/cli/command-table';
import { processContext } from '../../src/cli/context';
import { EXIT } from '../../src/cli/errors';
import { buildProgram } from '../../src/cli/program';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { coloured } from '../../src/cli/text';
import { atTerminal, cli } from './support';

const DOCUMENTATION = readFileSync(join(__dirname, '..', '..', 'docs', 'cli.md'), 'utf8');
const PLAIN_SHARE = createHash('shake256', { outputLength: 33 }).update('a share').digest('hex');
const NAMES = Object.keys(SUMMARIES);

describe('the command line', () => {
  it('lists every command and the exit codes in its help, and ends well', async () => {
    const { code, out } = await cli(['--help']);
    expect(code).toBe(0);
    for (const name of NAMES) expect(out).toContain(`  ${name} `);
    expect(out).toContain('Exit codes');
  });

  it.each(NAMES)('shows help for %s', async (name) => {
    const { code, out } = await cli([name, '--help']);
    expect(code).toBe(0);
    expect(out).toContain(`Usage: runbook ${name}`);
  });

  it.each([
    [['nonsense']],
    [['start']],
    [['share', 'deployment:payments']],
    [['status']],
    [['status', 'x', '--nonsense']],
  ])('ends with 2 for the wrong command line %j', async (words) => {
    expect((await cli(words, { interactive: false })).code).toBe(2);
  });

  it('names every wrong field of an input before it connects anywhere', async () => {
    const input = JSON.stringify({ deployment: 'Payments', reason: 'planned', color: 'red' });
    const { code, err } = await cli(['start', 'drSwitchover', '--input', input]);
    expect(code).toBe(3);
    expect(err).toContain('deployment:');
    expect(err).toContain('to is required; color is no field of it');
    const short = JSON.stringify({ deployment: 'payments', to: 'west', reason: 'x', go: 'maybe' });
    const said = (await cli(['start', 'drSwitchover', '--input', short])).err;
    expect(said).toContain('reason: at least 3 characters; go is one of required, auto');
  });

  it.each([['[]'], ['{"deployment":'], ['"text"']])('refuses the input %s', async (input) => {
    expect((await cli(['start', 'drSwitchover', '--input', input])).code).toBe(3);
  });

  it('says which server does not answer and what to do, without a stack', async () => {
    const { code, err } = await cli(['list', '--address', '127.0.0.1:1']);
    expect(code).toBe(1);
    expect(err).toContain('TEMPORAL_UNAVAILABLE');
    expect(err).toContain('127.0.0.1:1');
    expect(err).toContain('next:');
    expect(err).not.toMatch(/\n\s+at /);
  });

  it('gives an error as one JSON object with --json, and the stack only with --debug', async () => {
    const words = ['inventory', 'check', '/nonexistent/inventory.yaml'];
    const plain = await cli([...words, '--json']);
    expect(plain.code).toBe(3);
    expect(JSON.parse(plain.err)).toMatchObject({ error: { code: 'INVENTORY_INVALID' } });
    expect((await cli([...words, '--debug'])).err).toMatch(/\n\s+at /);
  });

  it('ends with 5 where a named file does not exist', async () => {
    for (const file of ['@/nonexistent/input.json', '/nonexistent/input.json'])
      expect((await cli(['start', 'drSwitchover', '--input', file])).code).toBe(5);
  });
});

it('an error has a colour on a terminal that shows some, and none in a pipe, a file or where NO_COLOR is set', async () => {
  const red = '\u001b[31m';
  expect((await cli(['start', 'drFailback'], { colours: true })).err).toContain(`${red}\u001b[1mError UNKNOWN_RUNBOOK`);
  expect((await cli(['start', 'drFailback'])).err).not.toContain('\u001b');
  const coloursOf = () => processContext(new AbortController().signal).colours?.().err;
  const { NO_COLOR: given } = process.env;
  await atTerminal(() => {
    delete process.env['NO_COLOR'];
    const plain = coloursOf();
    process.env['NO_COLOR'] = '1';
    expect([plain, coloursOf()]).toEqual([true, false]);
    return Promise.resolve();
  });
  if (given === undefined) delete process.env['NO_COLOR'];
  else process.env['NO_COLOR'] = given;
  expect(coloursOf()).toBeFalsy();
});

it.each([
  ['12:00:00Z == OUTAGE: no primary serves clients', true],
  ['CRITICAL: a token may exist', true],
  ['  fail  DR primary (east)', true],
  ['Refused: drSwitchover of payments.', true],
  ['  ok    DR primary (east): primary', false],
  ['12:00:00Z 7. Demote east ...', false],
  // Words of others, in the middle of a line of ours.
  ['  Reason: OUTAGE: CRITICAL', false],
])('%s: seen first %s', (line, first) => {
  expect(coloured(line).includes('\u001b[31m')).toBe(first);
});

it('prints the runbooks, one as columns, and an unknown one with the list of the known', async () => {
  const all = JSON.parse((await cli(['runbooks', '--json'])).out) as { name: string }[];
  expect(all.map(({ name }) => name)).toEqual([...RUNBOOK_NAMES]);
  const { out } = await cli(['runbooks', 'drFailover'], {});
  expect(out).toMatch(/fencing +one of auto, hook, attested +default "auto"/);
  const { code, err } = await cli(['runbooks', 'drFailOver'], {});
  expect(code).not.toBe(0);
  expect(err).toContain('drFailover');
});

it('--set gives any field, as JSON or as text, and names a mistake before anything is started', async () => {
  const words = ['start', 'drReindex', '--deployment', 'payments', '--reason', 'x'];
  const { code, err } = await cli([...words, '--set', 'diff=maybe', '--set', 'cluster=west']);
  expect(code).toBe(3);
  expect(err).toContain('diff');
  expect(err).not.toContain('cluster:');
});

describe('a key share in plain text on a command line', () => {
  it.each([
    [
      'start',
      ['start', 'drSwitchover', '--deployment', 'payments', '--to', 'west', '--reason', `it is ${PLAIN_SHARE}`],
    ],
    ['plan', ['plan', 'drSwitchover', '--deployment', 'payments', '--to', 'west', '--reason', PLAIN_SHARE]],
    ['pause', ['pause', 'deployment:payments', '--name', 'grace', '--reason', PLAIN_SHARE]],
    ['abort', ['abort', 'deployment:payments', '--name', 'grace', '--reason', PLAIN_SHARE]],
  ])('does not leave the machine: %s', async (_what, words) => {
    // There is no server: what would be sent would fail to connect.
    const { code, err } = await cli(words, { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
    expect([code, err]).toEqual([3, expect.stringContaining('Nothing was sent')]);
    expect(err).not.toContain(PLAIN_SHARE);
  });
});

describe('docs/cli.md', () => {
  it('names every command and sub-command', () => {
    const context = processContext(new AbortController().signal);
    const program = buildProgram({ context, finish: () => undefined });
    const names = program.commands.flatMap((command) =>
      command.commands.length === 0
        ? [command.name()]
        : command.commands.map((sub) => `${command.name()} ${sub.name()}`),
    );
    expect(new Set(program.commands.map((command) => command.name()))).toEqual(new Set(Object.keys(SUMMARIES)));
    for (const name of names) expect(DOCUMENTATION).toContain(`\`${name}`);
    // The help says this without loading the commands.
    expect(SUMMARIES).toEqual(Object.fromEntries(program.commands.map((each) => [each.name(), each.description()])));
  });

  it('names every exit code', () => {
    for (const code of Object.values(EXIT)) expect(DOCUMENTATION).toContain(`\n| ${code} | `);
  });

  it('names every variable that the worker and the command line read', () => {
    const sources = ['worker/settings.ts', 'cli/run.ts', 'cli/invitation.ts', 'cli/signals.ts'].map((file) =>
      readFileSync(join(__dirname, '..', '..', 'src', file), 'utf8'),
    );
    const variables = new Set(sources.join('\n').match(/RUNBOOKS_[A-Z_]+/g));
    expect(variables.size).toBeGreaterThan(8);
    for (const variable of variables) expect(DOCUMENTATION).toContain(`| \`${variable}\` |`);
  });
});
