import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { projectRoot } from '../../src/dev-server/locations';
import { codeBlocks, page } from '../support/documents';
import { temporaryDirectory } from '../support/directory';
import { Program } from '../support/program';
import { temporalServer } from '../support/temporal-server';

jest.setTimeout(240_000);

const home = temporaryDirectory('newcomer');
const DEMO = join(projectRoot(), 'dist/src/cli/demo/main.js');
/** Without what differs from run to run: on a slow machine, milliseconds become seconds. */
const alike = (line: string) => line.replace(/\d+(\.\d+)?/g, '0').replace(/\b0 ms\b/g, '0 s');

function demo(words: readonly string[], name: string, variables: Readonly<Record<string, string>> = {}): Program {
  const { address, namespace } = temporalServer();
  const env = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, ...variables };
  return new Program(join(home, name), env, words, 'terminal', DEMO);
}

it('shows a newcomer who did what, the outage in color, the result and a link to the report, in forty lines', async () => {
  const run = demo([], 'brief', { TERM: 'xterm' });
  expect([await run.ended, run.output]).toEqual([0, expect.any(String)]);
  const lines = run.output.trimEnd().split(/\r?\n/);
  const plain = lines.map(stripVTControlCharacters);
  expect(plain.length).toBeLessThanOrEqual(40);
  const shows = (...texts: readonly string[]) =>
    texts.forEach((text) => expect(plain).toContainEqual(expect.stringContaining(text)));
  shows('olga starts drSwitchover', 'grace approves gate plan', 'grace approves gate go', 'Completed: drSwitchover');
  shows(...['ada', 'bert', 'cleo'].map((name) => `${name} gives a key share`));
  const begins = (text: string) => lines.find((line) => line.includes(text))?.slice(0, 5);
  expect([begins('== OUTAGE: '), begins('== BACK: ')]).toEqual(['\u001b[31m', '\u001b[32m']);
  const order = ['== OUTAGE: ', ' Demote east', ' Promote west', '== BACK: '];
  const places = order.map((text) => plain.findIndex((line) => line.includes(text)));
  expect(places).toEqual([...places].sort((a, b) => a - b));
  const link = plain.find((line) => /^ +file:.*\.html$/.test(line))?.trim() ?? 'no link';
  expect(existsSync(fileURLToPath(link))).toBe(true);
  expect(plain.filter((line) => /worker:|undefined/.test(line))).toEqual([]);

  // README.md shows a part of it.
  const [shown = ''] = codeBlocks(page('README.md'), 'text');
  const expected = shown.split('\n').filter((line) => line !== '');
  expect(expected.length).toBeGreaterThan(8);
  const isShown = (line: string): boolean =>
    plain.some((each) =>
      line.endsWith('...') ? alike(each).startsWith(alike(line.slice(0, -3))) : alike(each) === alike(line),
    );
  expect(expected.filter((line) => !isShown(line))).toEqual([]);
});

it('names its options for a wrong one', async () => {
  const wrong = demo(['--nonsense'], 'wrong');
  expect([await wrong.ended, wrong.output]).toEqual([2, expect.stringContaining('npm run demo -- --verbose')]);
});
