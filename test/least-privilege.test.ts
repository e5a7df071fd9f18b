/** The policies that `runbook policy` prints: derived from what the activities call, and no more than that. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { askedBy, BATCH_TOKEN_GRANTS, CALLS_OF, markerPaths, policyFor } from '../activities/tokens/policies';
import { RUNBOOK_NAMES } from '../src/contracts/names';
import { findDeployment } from '../src/inventory';
import { ServiceClient } from '../src/vault';
import { ENDPOINTS } from '../src/vault';
import { Secret } from '../src/secret';
import { startSimulatedService } from '../src/simulator';
import { endpointRows, INTERFACE_ROWS, recordedOnPage } from './support/endpoint-page';
import { askedByService, exampleInventory, printedRules, writePrintedPolicy } from './support/least-privilege';
import { ROOT } from './support/documents';
import { readSources } from './support/source-graph';

/** Calls of the client that need no token (facts 1.5, 1.6), or any token with a right below the mount (facts 12). */
const WITHOUT_TOKEN = [
  'sys.licenseStatus',
  'sys.health',
  'sys.leader',
  'sys.sealStatus',
  'sys.replicationStatus',
  'sys.login',
  'sys.mountOf',
];
/** In the policy of every token. */
const ELSEWHERE = ['lookupSelf', 'capabilitiesSelf', 'renewSelf', 'revokeSelf'].map((each) => `sys.${each}`);

const inventory = exampleInventory(true);
const rules = (...options: [Parameters<typeof printedRules>[2]?, Parameters<typeof printedRules>[3]?]) =>
  printedRules(inventory, 'payments', ...options);
const pathOf = (endpoint: string) => endpoint.replace(/^\w+ \//, '');

it.each(['credential', 'batchToken', 'ceremonyCredential'] as const)(
  'a printed policy for %s changes only on purpose',
  (kind) => {
    expect(rules(kind).map(({ path, capabilities }) => `${path}: ${capabilities.join(', ')}`)).toMatchSnapshot();
  },
);

it('no activity makes a call with a token that no policy covers', () => {
  const texts = [...readSources('activities').values()].map(({ syntax }) => syntax.text).join('\n');
  const made = new Set([...texts.matchAll(/client\.((?:sys|keyValue)\.\w+)/g)].map(([, call = '']) => call));
  expect(made.size).toBeGreaterThan(5);
  const known = [...Object.values(CALLS_OF).flat(), ...ELSEWHERE, ...WITHOUT_TOKEN];
  expect([...made].filter((call) => !known.some((each) => each === call || each.startsWith(`${call}.`)))).toEqual([]);
});

it('the policy of each runbook allows every call that it made', () => {
  const recorded = recordedOnPage();
  const missing = INTERFACE_ROWS.filter(({ endpoint }) =>
    ['token', 'sudo'].includes(askedBy({ path: pathOf(endpoint) })),
  ).flatMap(({ endpoint, method }) =>
    (recorded.get(endpoint)?.runbooks ?? [])
      .filter((name) => !CALLS_OF[name].includes(method))
      .map((name) => [name, method]),
  );
  // A run that a failover took over counts as what it was started as.
  expect(missing.filter(([name]) => name !== 'drReindex')).toEqual([]);
});

it('every call requires the capability that the service requires', () => {
  const rows = [...INTERFACE_ROWS, ...endpointRows(ENDPOINTS.sys, 'sys')].flatMap(({ endpoint }) => {
    const [method = ''] = endpoint.split(' ');
    const asked = askedByService(method, pathOf(endpoint));
    return asked === undefined ? [] : [[endpoint, asked]];
  });
  expect(rows.length).toBeGreaterThan(40);
  expect(rows).toEqual(rows.map(([endpoint = '']) => [endpoint, askedBy({ path: pathOf(endpoint) })]));
});

it('every policy is HCL that names exact paths; sudo only if the service requires it', () => {
  const deployment = findDeployment(inventory, 'payments');
  for (const kind of ['credential', 'batchToken', 'ceremonyCredential'] as const) {
    const printed = rules(kind, RUNBOOK_NAMES);
    expect(printed.map(({ path }) => path)).toEqual(
      policyFor(deployment, kind, RUNBOOK_NAMES).grants.map(({ path }) => path),
    );
    expect(printed.filter(({ path }) => path.includes('*'))).toEqual([]);
    for (const { path, capabilities } of printed)
      expect([path, capabilities.includes('sudo')]).toEqual([path, /secondary-token$|sys\/audit$/.test(path)]);
  }
});

it('the policy that a rotation demands and writes is the printed one, and no other makes tokens', () => {
  expect(rules('batchToken')).toEqual(BATCH_TOKEN_GRANTS);
  const broad = rules('credential', RUNBOOK_NAMES).filter(({ path }) =>
    /^sys\/policies|^auth\/token\/(roles|create)/.test(path),
  );
  expect(broad).toEqual([]);
});

it('calls that wipe, cut off or end replication are allowed only if their runbook is named', () => {
  const dangerous = /enable$|disable$|generate-root/;
  expect(rules().filter(({ path }) => dangerous.test(path))).toEqual([]);
  expect(rules('credential', RUNBOOK_NAMES).filter(({ path }) => dangerous.test(path)).length).toBeGreaterThan(5);
  const changing = rules('credential', ['readiness', 'walSampler']).filter(
    ({ path, capabilities }) =>
      !capabilities.some((each) => each === 'read' || each === 'list') &&
      !/^(sys\/capabilities|auth\/token\/re(new|voke))-self$/.test(path),
  );
  expect(changing).toEqual([]);
});

it('the marker has the paths of both versions of the engine, wherever its mount ends', () => {
  expect(markerPaths('kv/runbooks-marker')).toEqual(['kv/runbooks-marker', 'kv/data/runbooks-marker']);
  expect(markerPaths('team/kv/marker')).toEqual(['team/kv/marker', 'team/data/kv/marker', 'team/kv/data/marker']);
});

/** An administrator has one there. */
const MAY_HOLD_A_ROOT_TOKEN = [
  'test/cli/first-hour.test.ts',
  'test/cli/init.test.ts',
  'test/long/first-hour-page.test.ts',
];

it('no worker of a scenario, bench, demo, benchmark, laboratory or test on a real server is given a root token', () => {
  const given =
    /(writeFile(Sync)?|give|file|env\[\w+\] =)\W[^;]*rootToken|credential:[^,;]*rootToken|return [^;=\n]*rootToken(?!Ceremony| =)/;
  const sources = ['test', 'src/cli/demo', 'scripts'].flatMap((folder) => [...readSources(folder)]);
  expect(sources.length).toBeGreaterThan(200);
  const deployed = readdirSync(join(ROOT, 'deploy'), { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => [`deploy/${name}`, readFileSync(join(ROOT, 'deploy', name), 'utf8')] as const);
  expect(deployed.map(([name]) => name)).toContain('deploy/prepare-laboratory.sh');
  const files = [...sources.map(([name, { syntax }]) => [name, syntax.text] as const), ...deployed];
  const found = files.filter(([, text]) => given.test(text)).map(([name]) => name);
  expect(found.filter((name) => !MAY_HOLD_A_ROOT_TOKEN.includes(name) && !name.startsWith('test/simulator/'))).toEqual(
    [],
  );
});

it('from version 2.0 an orphan batch token with the policy for ceremonies authorizes one, and no other call', async () => {
  const service = await startSimulatedService({
    clusters: ['east', 'west'].map((name) => ({ name, nodes: 1, version: '2.0.3+ent' })),
    dr: [{ primary: 'east', secondaries: ['west'] }],
  });
  const west = new ServiceClient({ name: 'west', addresses: service.cluster('west').addresses });
  try {
    const east = service.cluster('east');
    writePrintedPolicy(east, 'runbooks-ceremony', rules('ceremonyCredential'));
    const token = new Secret('batch-token', east.createToken({ policies: ['runbooks-ceremony'], type: 'batch' }));
    service.advanceClock(1_000);
    const { generateOperationToken } = west.dr.secondary;
    expect((await generateOperationToken.startAttempt({}, { token })).started).toBe(true);
    expect((await generateOperationToken.readAttempt({ token })).started).toBe(true);
    await generateOperationToken.cancelAttempt({ token });
    const promotion = west.dr.secondary.promote({ drOperationToken: token });
    await expect(promotion).rejects.toMatchObject({ httpStatus: 403 });
  } finally {
    await west.close();
    await service.stop();
  }
});
