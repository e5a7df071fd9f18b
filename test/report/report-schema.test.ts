/** The published JSON Schema is the one that the reports have. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { reportJsonSchema } from '../../src/contracts/report';
import { reportOf } from '../../src/report/report-of-run';
import { finishedSwitchover } from './support/switchover';

const FILE = join(__dirname, '..', '..', 'docs', 'report.schema.json');

it('docs/report.schema.json is made from the schema of the sources (UPDATE_DOCS=1 writes it anew)', () => {
  const text = `${JSON.stringify(reportJsonSchema(), undefined, 2)}\n`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(FILE, text);
  expect(readFileSync(FILE, 'utf8')).toBe(text);
});

it('a report of a run fits it, and one with a member too many does not', () => {
  const validate = new Ajv2020({ strict: false }).compile(JSON.parse(readFileSync(FILE, 'utf8')) as object);
  const report = reportOf(finishedSwitchover().build());
  expect(validate(JSON.parse(JSON.stringify(report)))).toBe(true);
  expect(validate({ ...report, surprise: true })).toBe(false);
});
