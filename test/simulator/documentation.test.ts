import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { HARSH_READINGS, timingOf } from '../../src/simulator';

const page = readFileSync(join(__dirname, '../../docs/simulator.md'), 'utf8');

/** First cell without backticks to the other cells, of the table under a heading. */
function tableUnder(heading: string): Map<string, string[]> {
  const section = page.split(/^## /m).find((part) => part.startsWith(heading)) ?? '';
  const rows = [...section.matchAll(/^\| `([^`]+)` \|(.*)\|$/gm)];
  return new Map(rows.map(([, name = '', cells = '']) => [name, cells.split('|').map((cell) => cell.trim())]));
}

it('the page lists every reading with its default', () => {
  const documented = [...tableUnder('Harsh readings')].map(([name, [value = '']]) => [name, value.split(' ')[0]]);
  expect(Object.fromEntries(documented)).toEqual(
    Object.fromEntries(Object.entries(HARSH_READINGS).map(([name, value]) => [name, String(value)])),
  );
});

it('the page lists every timing value of both paces', () => {
  const realistic = new Map<string, number>(Object.entries(timingOf('realistic')));
  const expected = Object.entries(timingOf('quick')).map(([name, quick]) => [
    name,
    [`${quick}`, `${realistic.get(name)}`],
  ]);
  expect(Object.fromEntries(tableUnder('Timing'))).toEqual(Object.fromEntries(expected));
});
