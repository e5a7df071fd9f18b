import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunbookName } from '../../src/contracts/names';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { ENDPOINTS } from '../../src/vault';
import { ROOT } from './source-graph';

/** One call of the client. */
export interface EndpointRow {
  /** As the interface document writes it, such as `POST /sys/replication/dr/primary/demote`. */
  readonly endpoint: string;
  /** Its method in the client, such as `dr.primary.demote`. */
  readonly method: string;
}

/** The calls of the client's table whose path is fixed but for parameters. */
export function endpointRows(table: object, name: string): readonly EndpointRow[] {
  return Object.entries(table).flatMap(([member, entry]: [string, object]) => {
    const method = `${name}.${member}`;
    if (!('method' in entry && 'path' in entry)) return endpointRows(entry, method);
    return typeof entry.path === 'string' ? [{ endpoint: `${String(entry.method)} /${entry.path}`, method }] : [];
  });
}

/** The 34 of the interface document. */
export const INTERFACE_ROWS = [
  ...endpointRows(ENDPOINTS.dr, 'dr'),
  ...endpointRows(ENDPOINTS.performance, 'performance'),
];

/** The parameters in the bodies of requests, by the end of the path, as the interface document lists them (4.1, 4.2). */
const JOIN = ['token', 'primary_api_addr', 'ca_file', 'ca_path'];
const OPERATION_TOKEN = ['dr_operation_token'];
const PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  'primary/enable': ['primary_cluster_addr'],
  'primary/secondary-token': ['id', 'ttl', 'secondary_public_key'],
  'primary/revoke-secondary': ['id'],
  'secondary/enable': JOIN,
  'secondary/promote': ['primary_cluster_addr', 'force'],
  'secondary/disable': [],
  'secondary/update-primary': [...JOIN, 'update_primary_addrs'],
  'generate-operation-token/attempt': ['pgp_key'],
  'generate-operation-token/update': ['key', 'nonce'],
  'operation-token/delete': OPERATION_TOKEN,
  'secondary/reindex': [...OPERATION_TOKEN, 'diff', 'force', 'skip_flush'],
  'secondary/merkle-check': OPERATION_TOKEN,
  'primary/paths-filter/:id': ['mode', 'paths'],
};

/** The parameters of a call by the interface document; `:id` stands in its path. */
export function parametersOf(endpoint: string): readonly string[] {
  const end = Object.keys(PARAMETERS).find((each) => endpoint.startsWith('POST ') && endpoint.endsWith(`/${each}`));
  const authorised = /dr\/secondary\/(promote|disable|update-primary)$/.test(endpoint) ? OPERATION_TOKEN : [];
  return end === undefined ? [] : [...authorised, ...(PARAMETERS[end] ?? [])];
}

const SECONDARY_ID = "the secondary's cluster ID";
/** How an operator reaches each parameter. Where that differs by endpoint, the end of the path stands before it. */
const REACHED: Readonly<Record<string, string>> = {
  primary_cluster_addr: 'inventory: `advertisedClusterAddress` of the cluster; `node-address` leaves it to the service',
  'secondary-token id': `${SECONDARY_ID}; input: \`outside.id\` of both onboardings`,
  'revoke-secondary id': `${SECONDARY_ID}, or by which the primary knows it; input: \`id\` of \`secondaryDecommission\``,
  ':id id': `${SECONDARY_ID}; inputs: \`ids\` of \`filterReconciliation\`, \`outside.id\` of \`performanceSecondaryOnboarding\``,
  ttl: 'inventory: `limits.activationToken`, `10m`; input: `outside.ttl` of both onboardings, `30m`',
  secondary_public_key:
    'made by the secondary for each token; inputs: `form` (`public-key`, `wrapped`), `outside.publicKey` of both onboardings',
  'secondary/enable token': 'the activation token, issued by the run, and never shown',
  'secondary/update-primary token':
    'likewise; blank with `secondaryDecommission` and `{"afterwards": "forget-primary"}`',
  primary_api_addr: 'inventory: `apiAddressForPeers` of the primary, with a wrapped token',
  ca_file: 'inventory: `caFileOnPeers` of the primary, with a wrapped token',
  ca_path: 'inventory: `caPathOnPeers`, likewise',
  update_primary_addrs:
    'inputs: `form` (`addresses`) and `addresses` of `secondaryRepointing`; else what is known of the primary',
  dr_operation_token: 'input: `tokenSource`; inventory: `ceremony.tokenSource`, `batchToken`, `batchTokens`',
  'secondary/promote force': 'gate `force` of `drFailover` and of an unplanned `performancePromotion`',
  'secondary/reindex force': 'input: `force` of `drReindex`',
  pgp_key: "the ceremony's own key; a person's: input `recipient` of `operationTokenCeremony`",
  key: 'given by the key holders, sealed: `runbook share`',
  nonce: 'read from the attempt that this run started',
  diff: 'input: `diff` of `drReindex`',
  skip_flush: 'input: `skipFlush` of `drReindex`',
  mode: 'inventory: `pathsFilters`; inputs: `filter` of `performanceSecondaryOnboarding`, `filters` and `ids` of `filterReconciliation`; `allow` where none is given, as in the interface',
  paths: 'as `mode`; an empty list is sent as such',
};

const entryFor = (endpoint: string, parameter: string) =>
  Object.entries(REACHED).find(([key]) => {
    const [end = '', name = end] = key.split(' ');
    return name === parameter && (end === name || endpoint.endsWith(end));
  });

/** How an operator reaches each parameter of a call, the one in its path included. */
export function reachedBy(endpoint: string): readonly (readonly [parameter: string, how: string | undefined])[] {
  const names = [...(endpoint.endsWith('/:id') ? ['id'] : []), ...parametersOf(endpoint)];
  return names.map((name) => [name, entryFor(endpoint, name)?.[1]]);
}

/** What is explained, and by which no parameter of any call is reached. */
export const EXPLAINED_IN_VAIN: readonly string[] = Object.keys(REACHED).filter(
  (key) =>
    !INTERFACE_ROWS.some(({ endpoint }) => reachedBy(endpoint).some(([name]) => entryFor(endpoint, name)?.[0] === key)),
);

const PAGE = join(ROOT, 'docs', 'endpoints.md');

/** What tests really did with one call. */
export interface RecordedCall {
  readonly runbooks: readonly RunbookName[];
  /** The names that stood in its bodies; never a value. */
  readonly parameters: readonly string[];
}

/** What is recorded by endpoint, as docs/endpoints.md has it. */
export function recordedOnPage(): ReadonlyMap<string, RecordedCall> {
  const page = existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : '';
  return new Map(
    INTERFACE_ROWS.map(({ endpoint }) => {
      const cells = page.split('\n').find((line) => line.startsWith(`| \`${endpoint}\` |`)) ?? '';
      const [parameters = '', runbooks = ''] = cells.split('|').slice(-3);
      const recorded = {
        runbooks: RUNBOOK_NAMES.filter((name) => runbooks.includes(`\`${name}\``)),
        parameters: parametersOf(endpoint).filter((name) => parameters.includes(`\`${name}\``)),
      };
      return [endpoint, recorded];
    }),
  );
}

const inCode = (names: readonly string[]) => names.map((each) => `\`${each}\``).join(', ');

/** docs/endpoints.md with what is recorded. */
export function endpointPage(recorded: ReadonlyMap<string, RecordedCall>): string {
  const calls = INTERFACE_ROWS.map(({ endpoint, method }) => {
    const { runbooks = [], parameters = [] } = recorded.get(endpoint) ?? {};
    return `| \`${endpoint}\` | \`${method}\` | ${inCode(parameters)} | ${inCode(runbooks) || 'not yet'} |`;
  });
  const reached = Object.entries(REACHED).map(([key, how]) => {
    const [end = '', name] = key.split(' ');
    const where = end === ':id' ? ' in a path' : ` of \`${end}\``;
    return `| \`${name ?? end}\`${name === undefined ? '' : where} | ${how} |`;
  });
  return `# Endpoints

The 34 endpoints of the replication administration interface. Endpoints and methods come from the client's table;
parameters and runbooks are what activities really sent in the tests, which fail where one is missing.
\`rm docs/endpoints.md && UPDATE_DOCS=1 npx jest -w 1 test/workflows test/activities\` records them again. A run that a
failover took over counts as what it was started as: so \`drReindex\` stands at the promotion.

| endpoint | client method | parameters that were sent | runbooks |
|---|---|---|---|
${calls.join('\n')}

## How an operator reaches each parameter

| parameter | by |
|---|---|
${reached.join('\n')}
`;
}

export function writePage(recorded: ReadonlyMap<string, RecordedCall>): void {
  writeFileSync(PAGE, endpointPage(recorded));
}
