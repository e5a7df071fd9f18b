/** Whatever a holder is refused, they read what to do next: in receipts, in the terminal and on the page. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as ts from 'typescript';
import { ENVELOPE_VERDICTS, nextOfShare } from '../../src/contracts/receipts';
import { projectRoot } from '../../src/dev-server/locations';

const sent = { workflowId: "deployment:o'hara", holder: 'ada' };
const SHARE = "runbook share 'deployment:o'\\''hara' --holder ada";
const STATUS = "`runbook status 'deployment:o'\\''hara'`";

/** Where it is not the command that gives an envelope again. */
const OTHERS: Readonly<Record<string, string>> = {
  undecodable: 'json/plain',
  'plain-text-share': 'finish this run, rekey, then delete',
  'plain-text-token': 'end that token now',
  'not-invited': STATUS,
  'not-signed': `${SHARE} --key-file`,
  'wrong-signer': `${SHARE} --key-file`,
  expired: STATUS,
  'other-kind': STATUS,
  'wrong-cluster': STATUS,
  'same-share-as-another': 'by voice',
  repeated: 'nothing is left to do',
  superseded: 'nothing is left to do',
  'keys-gone': `when you are asked anew: \`${SHARE}\``,
  'no-ceremony': STATUS,
};

describe('a receipt', () => {
  const codes = [...Object.keys(ENVELOPE_VERDICTS), 'undecodable', 'no-ceremony', 'not-checked'];

  it.each(codes.filter((code) => code !== 'accepted'))(
    'of an envelope that does not count (%s) names the next step of this person',
    (code) => expect(nextOfShare(code, sent)).toContain(OTHERS[code] ?? SHARE),
  );

  it('has a next step for every verdict but the good one; without a name for whoever it is', () => {
    expect(nextOfShare('accepted', sent)).toBeUndefined();
    expect(nextOfShare('malformed', { workflowId: 'w' })).toContain('runbook share w');
    expect(nextOfShare('wrong-signer', { ...sent, how: 'principal' })).toContain('with your own login');
  });
});

/** Where a holder's refusals are made. `documents.ts` is read by the workers, too: its callers add the next step. */
const FOLDERS = ['src/documents', 'src/holder-page'];
const COMMANDS = ['share', 'statements', 'keys'];
const HELPERS = ['invitation', 'secret-input', 'signals'];
const FILES = [
  ...FOLDERS.flatMap((folder) => readdirSync(join(projectRoot(), folder)).map((name) => `${folder}/${name}`)),
  ...COMMANDS.map((name) => `src/cli/commands/${name}.ts`),
  ...HELPERS.map((name) => `src/cli/${name}.ts`),
  'src/keys/holder-keys.ts',
].filter((file) => file.endsWith('.ts') && file !== 'src/documents/documents.ts');

/** Each `new RunbookError(...)` of a file, and whether it gives `next`. */
function refusalsIn(file: string): { readonly where: string; readonly next: boolean }[] {
  const source = ts.createSourceFile(
    file,
    readFileSync(join(projectRoot(), file), 'utf8'),
    ts.ScriptTarget.Latest,
    true,
  );
  const found: { readonly where: string; readonly next: boolean }[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isNewExpression(node) && node.expression.getText() === 'RunbookError') {
      const [, , options] = node.arguments ?? [];
      const next =
        options !== undefined &&
        ts.isObjectLiteralExpression(options) &&
        options.properties.some((property) => property.name?.getText() === 'next');
      const { line } = source.getLineAndCharacterOfPosition(node.getStart());
      found.push({ where: `${file}:${line + 1}`, next });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

it('every refusal of the terminal and the page gives a next step', () => {
  const refusals = FILES.flatMap(refusalsIn);
  expect(refusals.length).toBeGreaterThan(40);
  expect(refusals.filter(({ next }) => !next).map(({ where }) => where)).toEqual([]);
});
