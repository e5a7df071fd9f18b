/** The layout: names that belong together, and the table of endpoints. Import directions are rules of ESLint. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ACTIVITY_KINDS } from '../src/contracts/activities';
import { RUNBOOK_NAMES } from '../src/contracts/names';
import { RUNBOOK_INPUTS } from '../src/contracts/runbook-inputs';
import { GUARDS } from './support/activity-guards';
import { endpointPage, parametersOf, recordedOnPage, unexplained, writePage } from './support/endpoint-page';
import { ROOT } from './support/documents';
import { importCircles, mutualFolders, readSources } from './support/source-graph';

const sources = readSources('src', 'workflows', 'activities');

describe('names that belong together', () => {
  const declared = Object.keys(ACTIVITY_KINDS);

  it('no activity has two kinds, of which one would not count', () => {
    const text = readFileSync(join(ROOT, 'src', 'contracts', 'activities.ts'), 'utf8');
    const told = declared.map((name) => [name, text.split(`'${name}'`).length - 1]);
    expect(told).toEqual(declared.map((name) => [name, 1]));
  });

  it('no workflow uses a local activity: a query at the wrong moment makes its replay differ', () => {
    const users = [...sources.values()].filter(({ path }) =>
      readFileSync(join(ROOT, path), 'utf8').includes('proxyLocalActivities'),
    );
    expect(users).toEqual([]);
  });

  it('no schema library is in the bundle of the workflows: it would cost each cached run memory', () => {
    const users: string[] = [];
    const visit = (path: string, seen: Set<string>) => {
      if (seen.has(path)) return;
      seen.add(path);
      for (const { target, typeOnly } of sources.get(path)?.imports ?? [])
        if (!typeOnly && target === 'zod') users.push(path);
        else if (!typeOnly) visit(target, seen);
    };
    visit('workflows/index.ts', new Set());
    expect(users).toEqual([]);
  });

  it('every activity of the table is implemented, and no other', () => {
    expect(declared.length).toBeGreaterThan(20);
    expect(Object.keys(GUARDS).sort()).toEqual([...declared].sort());
  });

  it('every activity of the table is called by a workflow', () => {
    const texts = [...sources.values()]
      .filter(({ path }) => path.startsWith('workflows/'))
      .map(({ syntax }) => syntax.text)
      .join('\n');
    expect(declared.filter((name) => !new RegExp(`\\.${name}\\(|\\b${name}\\(\\{`).test(texts))).toEqual([]);
  });

  it('every runbook is exported by the bundle and has an input schema', () => {
    const index = sources.get('workflows/index.ts');
    const exported = (index?.imports ?? []).flatMap(({ target, names }) =>
      target.startsWith('workflows/') ? names : [],
    );
    expect([...exported].sort()).toEqual([...RUNBOOK_NAMES, 'record'].sort());
    expect(Object.keys(RUNBOOK_INPUTS).sort()).toEqual([...RUNBOOK_NAMES].sort());
  });
});

describe('the imports of src, workflows, activities and scripts, those of types included', () => {
  const graph = readSources('src', 'workflows', 'activities', 'scripts');

  it('make no circle of files', () => {
    expect(importCircles(graph)).toEqual([]);
  });

  it('do not connect two folders of one parent in both directions', () => {
    expect(mutualFolders(graph)).toEqual([]);
  });

  it('are followed through types and subfolders', () => {
    const file = (...targets: string[]) => ({
      imports: targets.map((target) => ({ target, typeOnly: true, names: [] })),
    });
    const wrong = new Map([
      ['a/x/1.ts', file('a/x/2.ts', 'zod')],
      ['a/x/2.ts', file('a/y/deep/3.ts')],
      ['a/y/deep/3.ts', file('a/x/1.ts', 'a/top.ts')],
      ['a/top.ts', file()],
    ]);
    expect(importCircles(wrong)).toEqual([['a/x/1.ts', 'a/x/2.ts', 'a/y/deep/3.ts', 'a/x/1.ts']]);
    expect(mutualFolders(wrong)).toEqual([['a/x/2.ts -> a/y/deep/3.ts', 'a/y/deep/3.ts -> a/x/1.ts']]);
  });
});

describe('docs/endpoints.md', () => {
  it('matches the table of the client', () => {
    const recorded = recordedOnPage();
    if (process.env['UPDATE_DOCS'] === '1') writePage(recorded);
    expect(readFileSync(join(ROOT, 'docs', 'endpoints.md'), 'utf8')).toBe(endpointPage(recorded));
  });

  it('has a runbook for each', () => {
    expect([...recordedOnPage()].filter(([, { runbooks }]) => runbooks.length === 0)).toEqual([]);
  });

  it('has every parameter of the interface, sent by an activity in some test, and how an operator reaches it', () => {
    const missing = [...recordedOnPage()].flatMap(([endpoint, { parameters }]) =>
      parametersOf(endpoint)
        .filter((name) => !parameters.includes(name))
        .map((name) => `${endpoint}: ${name}`),
    );
    expect(missing).toEqual([]);
    expect(unexplained()).toEqual([]);
  });
});
