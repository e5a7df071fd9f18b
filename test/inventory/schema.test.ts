/** docs/inventory.schema.json, which editors use: the file that `runbook init` writes names it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';
import { inventoryJsonSchema } from '../../src/inventory/json-schema';
import { ROOT } from '../support/documents';
import { EXAMPLE } from './example';

const SCHEMA = join(ROOT, 'docs', 'inventory.schema.json');
const parsed = (text: string): unknown => parse(text, { merge: true });
const validator = () => {
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats(ajv);
  return ajv.compile(JSON.parse(readFileSync(SCHEMA, 'utf8')) as object);
};
const read = (...path: readonly string[]) => readFileSync(join(ROOT, ...path), 'utf8');

it('docs/inventory.schema.json is made from the schema of the sources (UPDATE_DOCS=1 writes it again)', () => {
  const text = `${JSON.stringify(inventoryJsonSchema(), undefined, 2)}\n`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(SCHEMA, text);
  expect(readFileSync(SCHEMA, 'utf8')).toBe(text);
});

it.each([
  ['the example of the tests', EXAMPLE],
  ['the laboratory', read('deploy', 'inventory.yaml')],
  ['the example of the page', /```yaml\n([\s\S]*?)```/.exec(read('docs', 'inventory.md'))?.[1] ?? ''],
])('%s fits it', (_name, text) => {
  const validate = validator();
  expect([validate(parsed(text)), validate.errors]).toEqual([true, null]);
});

it.each([
  ['a member too many', EXAMPLE.replace('version: 1', 'version: 1\nsurprise: 1')],
  ['another version', EXAMPLE.replace('version: 1', 'version: 2')],
  ['a name with a capital letter', EXAMPLE.replace(/^people:$/m, 'people:\n  Ada: {}')],
])('%s does not', (_name, text) => {
  expect(text).not.toBe(EXAMPLE);
  expect(validator()(parsed(text))).toBe(false);
});

it('the laboratory names it for editors', () => {
  expect(read('deploy', 'inventory.yaml')).toMatch(
    /^# yaml-language-server: \$schema=\.\.\/docs\/inventory\.schema\.json$/m,
  );
});
