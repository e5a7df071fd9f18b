/**
 * What becomes of approvals that an activity finds too old right before a change: `docs/operations.md` says it for each
 * activity, and every call of one is looked at here.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { activityTexts } from '../../support/endpoint-usage';
import { ROOT, readSources } from '../../support/source-graph';

const sources = readSources('workflows');
/** Activities that reach the judgement of age, in the order of their names. */
const judging = [...activityTexts()]
  .filter(([, text]) => /\bdemand(?:InTime|SameOutage)\(/.test(text))
  .map(([name]) => name)
  .sort();

/** What is passed to them is carried out inside of `RenewedApprovals.begin`. */
const INSIDE: readonly string[] = ['begin', 'enableSecondary', 'repeatUnit'];

const AFTER = 'it comes after what was judged, and is never refused for age';
const ASKED_BY_RUNBOOK = 'nothing was begun: its step ends, and the runbook opens the gate again outside of the outage';
/** Every other call, with what becomes of it. */
const OTHERWISE: Readonly<Record<string, string>> = {
  'building-blocks/re-protection.ts writePathsFilter': AFTER,
  'dr-failover-outage.ts forcePromoteAfterFailover': ASKED_BY_RUNBOOK,
  'dr-failover-outage.ts promoteAfterFailover': ASKED_BY_RUNBOOK,
  'dr-switchover-outage.ts demoteDrPrimary': ASKED_BY_RUNBOOK,
  'performance-promotion-followers.ts updatePerformancePrimaryByAddresses': AFTER,
  'performance-promotion-followers.ts writePathsFilter': AFTER,
  'performance-promotion-outage.ts demotePerformancePrimary': ASKED_BY_RUNBOOK,
  'performance-promotion-outage.ts promotePerformanceSecondary': AFTER,
  'performance-secondary-onboarding.ts writePathsFilter': AFTER,
};

/** `file activity` of every call in a runbook that is not carried out inside of one of {@link INSIDE}. */
function callsOutside(): string[] {
  const found = new Set<string>();
  for (const { path, syntax } of sources.values()) {
    const visit = (node: ts.Node, inside: boolean): void => {
      if (ts.isCallExpression(node)) {
        const { expression } = node;
        const name = ts.isPropertyAccessExpression(expression) ? expression.name.text : expression.getText();
        if (judging.includes(name) && !inside) found.add(`${path.replace('workflows/', '')} ${name}`);
        visit(expression, inside);
        for (const each of node.arguments) visit(each, inside || INSIDE.includes(name));
        return;
      }
      ts.forEachChild(node, (each) => visit(each, inside));
    };
    visit(syntax, false);
  }
  return [...found].sort();
}

it('docs/operations.md says of every activity that judges the age of approvals what then becomes of the run', () => {
  const page = readFileSync(join(ROOT, 'docs', 'operations.md'), 'utf8');
  const [, section = ''] = page.split('## Approvals that grew too old\n');
  const [table = ''] = section.split('\n## ');
  const named = table
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((line) => [...(line.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name));
  expect(judging.length).toBeGreaterThan(10);
  expect([...named].sort()).toEqual(judging);
});

it('every call of one is inside of approvals that are renewed, or it is known what becomes of it', () => {
  expect(callsOutside()).toEqual(Object.keys(OTHERWISE).sort());
});

it('what carries out a part inside of renewed approvals does', () => {
  const declared = (name: string) => [...sources.values()].flatMap(({ declarations }) => declarations.get(name) ?? []);
  for (const name of INSIDE.filter((each) => each !== 'begin'))
    expect(declared(name).map((node) => /\bbegin\(/.test(node.getText()))).toEqual([true]);
});
