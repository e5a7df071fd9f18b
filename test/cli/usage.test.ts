import { SUMMARIES } from '../../src/cli/command-table';
import { cli } from './support';

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
    expect((await cli(words)).code).toBe(2);
  });

  it('refuses an unknown runbook and names those that there are', async () => {
    const { code, err } = await cli(['start', 'drFailback']);
    expect(code).toBe(3);
    expect(err).toContain('UNKNOWN_RUNBOOK');
    expect(err).toContain('drSwitchover');
  });

  it('names every wrong field of an input before it connects anywhere', async () => {
    const input = JSON.stringify({ deployment: 'Payments', reason: 'planned', color: 'red' });
    const { code, err } = await cli(['start', 'drSwitchover', '--input', input]);
    expect(code).toBe(3);
    expect(err).toContain('deployment:');
    expect(err).toContain('to:');
    expect(err).toContain('color');
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
    expect((await cli(['start', 'drSwitchover', '--input', '@/nonexistent/input.json'])).code).toBe(5);
  });
});
