/** The layout of the design: import directions, names that belong together, and the table of endpoints. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ACTIVITY_KINDS } from '../src/contracts/activity-kinds';
import { RUNBOOK_NAMES } from '../src/contracts/names';
import { RUNBOOK_INPUTS } from '../src/contracts/runbook-inputs';
import { GUARDS } from './support/activity-guards';
import { callersOnPage, endpointPage, INTERFACE_ROWS, writePage } from './support/endpoint-page';
import { readSources, ROOT } from './support/source-graph';

const sources = readSources('src', 'workflows', 'activities');

/** What the files of a folder may import of the project (design section 2), beside their own folder. */
const MAY_IMPORT: Readonly<Record<string, readonly RegExp[]>> = {
  'src/contracts/': [],
  'src/vault/': [/^src\/(errors|secret)\.ts$/],
  'src/simulator/': [],
  'src/documents/': [/^src\/(errors|secret)\.ts$/, /^src\/contracts\//],
  'src/holder-page/': [/^src\/(errors|secret)\.ts$/, /^src\/documents\//],
  'src/keys/': [/^src\/(errors|secret)\.ts$/, /^src\/(contracts|documents)\//],
  'src/inventory/': [/^src\/(errors|secret)\.ts$/, /^src\/contracts\//, /^src\/keys\//],
  'src/report/': [/^src\/(errors|secret)\.ts$/, /^src\/contracts\//, /^src\/keys\//],
  'workflows/': [/^src\/contracts\//],
  // Knows Temporal and people; then what knows replication and serves several runbooks.
  'workflows/engine/': [/^src\/contracts\//, /^workflows\/procedures\/operation-tokens\.ts$/],
  'workflows/procedures/': [/^src\/contracts\//, /^workflows\/engine\//],
  'activities/': [/^src\/(errors|secret)\.ts$/, /^src\/(contracts|vault|keys|documents|inventory|report)\//],
};
/** Beside these, as types only: nothing of it is in the bundle of the workflows. */
const MAY_IMPORT_TYPES: Readonly<Record<string, RegExp>> = {
  'workflows/': /^activities\//,
  'workflows/engine/': /^activities\//,
  'workflows/procedures/': /^activities\//,
};
const PACKAGES_NOT_FOR: Readonly<Record<string, RegExp>> = {
  'src/contracts/': /^(node:|@temporalio\/(client|worker|workflow|activity))/,
  'src/vault/': /^@temporalio\//,
  'src/simulator/': /^@temporalio\//,
  // What a holder's tool does runs in a browser as it does in Node.
  'src/documents/': /^(node:|openpgp$|@temporalio\/)/,
  'src/holder-page/': /^(node:|openpgp$|@temporalio\/)/,
  'src/keys/': /^@temporalio\//,
  'src/inventory/': /^@temporalio\//,
  'workflows/': /^(node:|undici|@temporalio\/(client|worker|activity|testing))/,
  'activities/': /^@temporalio\/(worker|workflow|testing)/,
};
/** Beside tests: the programs that start the simulated service. */
const MAY_START_SIMULATOR = /^src\/(cli|demo|simulator|bench)\//;

describe('import directions', () => {
  it.each(Object.entries(MAY_IMPORT))('%s imports of the project what the design lets it import', (folder, allowed) => {
    const files = [...sources.values()].filter(({ path }) => path.startsWith(folder));
    expect(files.length).toBeGreaterThan(0);
    const wrong = files.flatMap(({ path, imports }) =>
      imports
        .filter(({ target }) => /^(src|workflows|activities)\//.test(target))
        .filter(({ target }) => !target.startsWith(folder) && !allowed.some((each) => each.test(target)))
        .filter(({ target, typeOnly }) => !typeOnly || !MAY_IMPORT_TYPES[folder]?.test(target))
        .map(({ target }) => `${path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  it.each(Object.entries(PACKAGES_NOT_FOR))('%s keeps clear of the packages of other layers', (folder, forbidden) => {
    const wrong = [...sources.values()]
      .filter(({ path }) => path.startsWith(folder))
      .flatMap(({ path, imports }) =>
        imports
          .filter(({ target, typeOnly }) => forbidden.test(target) && !typeOnly)
          .map(({ target }) => `${path} imports ${target}`),
      );
    expect(wrong).toEqual([]);
  });

  it('nothing but the programs that start it imports the simulated service', () => {
    const wrong = [...sources.values()]
      .filter(({ path }) => !MAY_START_SIMULATOR.test(path))
      .filter(({ imports }) => imports.some(({ target }) => target.startsWith('src/simulator/')));
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });

  it('every relative import leads to a file', () => {
    const wrong = [...sources.values()].flatMap(({ path, imports }) =>
      imports
        .filter(({ target }) => /^(src|workflows|activities)\//.test(target) && !/\.(ts|json)$/.test(target))
        .map(({ target }) => `${path}: ${target}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe('names that belong together', () => {
  const declared = Object.keys(ACTIVITY_KINDS);

  it('no workflow uses a local activity: a query at the wrong moment makes its replay differ', () => {
    const users = [...sources.values()].filter(({ path }) =>
      readFileSync(join(ROOT, path), 'utf8').includes('proxyLocalActivities'),
    );
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
      target.startsWith('workflows/') ? [...names.keys()] : [],
    );
    expect([...exported].sort()).toEqual([...RUNBOOK_NAMES].sort());
    expect(Object.keys(RUNBOOK_INPUTS).sort()).toEqual([...RUNBOOK_NAMES].sort());
  });
});

describe('docs/endpoints.md', () => {
  it('has the 34 endpoints of the interface document: 18 and 16', () => {
    const of = (kind: string) =>
      INTERFACE_ROWS.filter(({ endpoint }) => endpoint.includes(`/sys/replication/${kind}/`));
    const endpoints = new Set(INTERFACE_ROWS.map(({ endpoint }) => endpoint));
    expect([of('dr').length, of('performance').length, endpoints.size]).toEqual([18, 16, 34]);
  });

  it('is as the table of the client has them', () => {
    const callers = callersOnPage();
    if (process.env['UPDATE_DOCS'] === '1') writePage(callers);
    expect(readFileSync(join(ROOT, 'docs', 'endpoints.md'), 'utf8')).toBe(endpointPage(callers));
  });

  it('has a runbook for each', () => {
    expect([...callersOnPage()].filter(([, names]) => names.length === 0)).toEqual([]);
  });
});
