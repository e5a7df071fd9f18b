import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SUMMARIES } from '../../src/cli/command';
import { processContext } from '../../src/cli/context';
import { EXIT } from '../../src/cli/errors';
import { buildProgram } from '../../src/cli/program';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { colored, wrapped } from '../../src/cli/text';
import { atTerminal, cli } from './support';

const DOCUMENTATION = readFileSync(join(__dirname, '..', '..', 'docs', 'cli.md'), 'utf8');
const PLAIN_SHARE = createHash('shake256', { outputLength: 33 }).update('a share').digest('hex');
const NAMES = Object.keys(SUMMARIES);

describe('the command line', () => {
  it('lists every command and the exit codes in its help, and has help for each', async () => {
    const { code, out } = await cli(['--help']);
    expect([code, out]).toEqual([0, expect.stringContaining('Exit codes')]);
    for (const name of NAMES) {
      expect(out).toContain(`  ${name} `);
      expect(await cli([name, '--help'])).toMatchObject({
        code: 0,
        out: expect.stringContaining(`Usage: runbook ${name}`) as string,
      });
    }
  });

  it('groups its commands: every day, holders and approvers, set-up, programs', async () => {
    const { out } = await cli(['--help']);
    const heads = ['Every day:', 'Holders and approvers:', 'Set-up:', 'Programs:'];
    const groups = out.split(/\n(?=\S.*:\n)/).filter((part) => heads.some((head) => part.startsWith(head)));
    expect(groups.map((part) => part.split('\n')[0])).toEqual(heads);
    const groupOf = (name: string) => groups.findIndex((part) => part.includes(`\n  ${name} `));
    expect(['plan', 'report', 'share', 'take-over', 'join', 'policy', 'worker'].map(groupOf)).toEqual([
      0, 0, 1, 1, 2, 2, 3,
    ]);
    expect(NAMES.filter((name) => groupOf(name) < 0)).toEqual([]);
  });

  it.each([['-o', 'json'], ['-ojson'], ['--json']])('accepts %s %s for JSON, also of an error', async (...words) => {
    const { out, err } = await cli(['runbooks', ...words]);
    expect([JSON.parse(out), err]).toEqual([expect.anything(), '']);
    const failed = await cli(['inventory', 'check', '/nonexistent/inventory.yaml', ...words]);
    expect(JSON.parse(failed.err)).toMatchObject({ error: { code: 'INVENTORY_INVALID' } });
    expect((await cli(['runbooks', '-o', 'text'])).out).toMatch(/^drSwitchover /m);
    expect((await cli(['runbooks', '-o', 'yaml'])).code).toBe(2);
  });

  it.each(['watch x', 'plan drSwitchover', 'readiness x', 'approve x --gate plan', 'abort x'])(
    '%s takes durations as the inventory does, a number as seconds, and no other text',
    async (line) => {
      const nowhere = ['--address', '127.0.0.1:1', '--timeout'];
      const given = (timeout: string) => cli([...line.split(' '), ...nowhere, timeout]);
      for (const each of ['30s', '500ms', '10m', '30', '0.2'])
        expect((await given(each)).err).not.toContain('Use a duration');
      for (const each of ['', 'soon', '30 s', '-1', '30x', '99999d'])
        expect([
          each,
          await given(each).then(({ code, err }) => [code, err.includes('Use a duration such as 30s')]),
        ]).toEqual([each, [2, true]]);
    },
  );

  it('accepts -n, -w and -r as the temporal CLI does', async () => {
    const nowhere = ['--address', '127.0.0.1:1'];
    const run = ['-w', 'payments', '-r', 'some-run', '-n', 'runbooks', ...nowhere];
    for (const name of ['status', 'watch', 'report']) expect((await cli([name, ...run])).err).toContain('127.0.0.1:1');
    expect((await cli(['share', '--workflow-id', 'payments', '--holder', 'ada', ...nowhere])).code).toBe(1);
    expect((await cli(['abort', '--workflow-id=payments', '--name', 'ada', ...nowhere])).code).toBe(1);
    expect((await cli(['list', '-w', 'payments', ...nowhere])).code).toBe(2);
  });

  it('help environment lists the variables of docs/cli.md, with those of the service that are set and ignored', async () => {
    const { code, out } = await cli(['help', 'environment'], {
      env: { VAULT_ADDR: 'https://canary.example', VAULT_CACERT: '/canary.pem' },
    });
    expect(code).toBe(0);
    const rows = DOCUMENTATION.slice(DOCUMENTATION.indexOf('## Variables'))
      .split('\n')
      .filter((line) => line.startsWith('| `'));
    expect(rows.length).toBeGreaterThan(10);
    const plain = (text = '') => text.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]|\\(?=\|)/g, '');
    const listed = rows.map((row) => row.split(/(?<!\\)\|/).map((cell) => plain(cell.trim())));
    const shown = out.split('\n').filter((line) => /^ {2}[A-Z]/.test(line));
    expect(shown.map((line) => line.trim())).toEqual(
      listed.map(
        ([, name = '', by = '', fallback = '']) => `${name} (${by})${fallback === '' ? '' : `, default: ${fallback}`}`,
      ),
    );
    for (const [, , , , meaning = ''] of listed) expect(out).toContain(`\n    ${meaning}`);
    expect(out).toContain('Ignored, but set here: VAULT_ADDR, VAULT_CACERT');
    expect(out).not.toContain('canary');
    expect((await cli(['help', 'environment'])).out).not.toContain('set here');
    expect((await cli(['--help'])).out).toContain('runbook help environment');
  });

  it('names the variables of the service that are set, if clusters are called', async () => {
    const env = { VAULT_ADDR: 'https://canary.example' };
    const doctor = await cli(['doctor'], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1', ...env } });
    expect(doctor.out).toContain('VAULT_ADDR is set, and ignored');
    const live = await cli(['inventory', 'check', '/nonexistent.yaml', '--live'], { env });
    expect(live.err).toContain('VAULT_ADDR is set, and ignored');
    expect(doctor.out + live.err).not.toContain('canary');
  });

  it.each([
    [['nonsense']],
    [['start']],
    [['share', 'deployment:payments']],
    [['status']],
    [['status', 'x', '--nonsense']],
    [['list', '--limit', 'few']],
    // Of more milliseconds a timer makes none.
    [['watch', 'x', '--timeout', '2147484']],
  ])('ends with 2 for the wrong command line %j', async (words) => {
    expect((await cli(words, { interactive: false })).code).toBe(2);
  });

  it('names every wrong field of an input before it connects anywhere', async () => {
    const input = JSON.stringify({ deployment: 'Payments', reason: 'planned', color: 'red' });
    const { code, err } = await cli(['start', 'drSwitchover', '--input', input]);
    expect(code).toBe(3);
    expect(err).toContain('deployment:');
    expect(err).toContain('to is required; color is not a known field');
    const short = JSON.stringify({ deployment: 'payments', to: 'west', reason: 'x', go: 'maybe' });
    const said = (await cli(['start', 'drSwitchover', '--input', short])).err;
    expect(said).toContain('reason: at least 3 characters; go must be one of required, auto');
  });

  it.each([
    ['[]', 3],
    ['{"deployment":', 3],
    ['"text"', 3],
    ['@/nonexistent/input.json', 5],
    ['/nonexistent/input.json', 5],
  ])('accepts no input that is %s', async (input, code) => {
    expect((await cli(['start', 'drSwitchover', '--input', input])).code).toBe(code);
  });

  it('names the server that does not answer and what to do, without a stack', async () => {
    const { code, err } = await cli(['list', '--address', '127.0.0.1:1']);
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/TEMPORAL_UNAVAILABLE.*127\.0\.0\.1:1[^]*next: Check that it runs/),
    ]);
    expect(err).not.toMatch(/\n\s+at /);
  });

  it('gives an error as one JSON object with --json, and the stack only with --debug', async () => {
    const words = ['inventory', 'check', '/nonexistent/inventory.yaml'];
    const plain = await cli([...words, '--json']);
    expect(plain.code).toBe(3);
    expect(JSON.parse(plain.err)).toMatchObject({ error: { code: 'INVENTORY_INVALID' } });
    expect((await cli([...words, '--debug'])).err).toMatch(/\n\s+at /);
  });
});

it('an error has a color on a terminal that shows some, and none in a pipe, a file or if NO_COLOR is set', async () => {
  const red = '\u001b[31m';
  expect((await cli(['start', 'drFailback'], { colors: true })).err).toContain(`${red}\u001b[1mError UNKNOWN_RUNBOOK`);
  expect((await cli(['start', 'drFailback'])).err).not.toContain('\u001b');
  const colorsOf = () => processContext(new AbortController().signal).colors?.().err;
  const { NO_COLOR: given } = process.env;
  await atTerminal(() => {
    delete process.env['NO_COLOR'];
    const plain = colorsOf();
    process.env['NO_COLOR'] = '1';
    expect([plain, colorsOf()]).toEqual([true, false]);
    return Promise.resolve();
  });
  if (given === undefined) delete process.env['NO_COLOR'];
  else process.env['NO_COLOR'] = given;
  expect(colorsOf()).toBeFalsy();
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
])('%s: first shows %s', (line, first) => {
  expect(colored(line).includes('\u001b[31m')).toBe(first);
});

it('the end of an outage is shown in green', () => {
  expect(colored('12:00:24Z == BACK: clients have a primary again')).toContain('\u001b[32m');
  expect(colored('  Reason: == BACK: nothing')).not.toContain('\u001b');
});

it('a terminal without a width gets whole lines', () => {
  const line = 'No precondition failed. Nothing was changed.';
  expect([wrapped(line, 0), wrapped(line, undefined), wrapped(line, 30).length]).toEqual([[line], [line], 2]);
});

it('prints the runbooks, one as columns, and an unknown one with the list of the known', async () => {
  const all = JSON.parse((await cli(['runbooks', '--json'])).out) as { schema: string; runbooks: { name: string }[] };
  expect(all.schema).toBe('replication-runbooks/runbooks/v1');
  expect(all.runbooks.map(({ name }) => name)).toEqual([...RUNBOOK_NAMES]);
  const { out } = await cli(['runbooks', 'drFailover'], {});
  expect(out).toMatch(/fencing +one of auto, hook, attested +default "auto"/);
  const { code, err } = await cli(['runbooks', 'drFailOver'], {});
  expect(code).not.toBe(0);
  expect(err).toContain('drFailover');
});

it.each([
  [['start', 'drswitchover'], /Did you mean drSwitchover\?/],
  [['plan', 'dr-failover'], /Did you mean drFailover\?/],
  [['runbooks', 'readyness'], /Did you mean readiness\?/],
  [['start', 'backup'], /`?runbook runbooks`? lists them|runbook runbooks\n/],
  [['approve', 'payments', '--gate', 'plam'], /Did you mean plan\? Allowed choices are plan, go/],
  [['approve', 'payments', '--gate', 'Promote'], /Did you mean promote\?/],
])('a mistyped word gets the closest match: %j', async (words, says) => {
  const { code, err } = await cli(words);
  expect([code === 2 || code === 3, err]).toEqual([true, expect.stringMatching(says)]);
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
    'start drSwitchover --deployment payments --to west',
    'plan drSwitchover --deployment payments --to west',
    'pause deployment:payments --name grace',
    'abort deployment:payments --name grace',
  ])('does not leave the machine: %s', async (command) => {
    // There is no server: what would be sent would fail to connect.
    const words = [...command.split(' '), '--reason', `it is ${PLAIN_SHARE}`];
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
