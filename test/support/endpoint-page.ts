import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunbookName } from '../../src/contracts/names';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { ENDPOINTS } from '../../src/vault';
import { ROOT } from './documents';

/** One call of the client. */
export interface EndpointRow {
  /** As in the interface document, such as `POST /sys/replication/dr/primary/demote`. */
  readonly endpoint: string;
  /** Its method in the client, such as `dr.primary.demote`. */
  readonly method: string;
}

/** The calls in the client's table whose path is fixed except for parameters. */
export function endpointRows(table: object, name: string): readonly EndpointRow[] {
  return Object.entries(table).flatMap(([member, entry]: [string, object]) => {
    const method = `${name}.${member}`;
    if (!('method' in entry && 'path' in entry)) return endpointRows(entry, method);
    return typeof entry.path === 'string' ? [{ endpoint: `${String(entry.method)} /${entry.path}`, method }] : [];
  });
}

/** The 34 endpoints of the interface document. */
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

/** The parameters in the body of a call, according to the interface document; `:id` is in the path. */
export function parametersOf(endpoint: string): readonly string[] {
  const end = Object.keys(PARAMETERS).find((each) => endpoint.startsWith('POST ') && endpoint.endsWith(`/${each}`));
  const authorised = /dr\/secondary\/(promote|disable|update-primary)$/.test(endpoint) ? OPERATION_TOKEN : [];
  return end === undefined ? [] : [...authorised, ...(PARAMETERS[end] ?? [])];
}

const PAGE = join(ROOT, 'docs', 'endpoints.md');

/** How tests used one call. */
export interface RecordedCall {
  readonly runbooks: readonly RunbookName[];
  /** The member names in its bodies; never a value. */
  readonly parameters: readonly string[];
}

/** The recorded calls in docs/endpoints.md, by endpoint. */
export function recordedOnPage(): ReadonlyMap<string, RecordedCall> {
  const page = readFileSync(PAGE, 'utf8');
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

const HEAD = '| endpoint | client method | parameters that were sent | runbooks |\n|---|---|---|---|\n';

/** The page with the recorded calls in its table of endpoints; people write the rest. */
export function endpointPage(recorded: ReadonlyMap<string, RecordedCall>): string {
  const calls = INTERFACE_ROWS.map(({ endpoint, method }) => {
    const { runbooks = [], parameters = [] } = recorded.get(endpoint) ?? {};
    return `| \`${endpoint}\` | \`${method}\` | ${inCode(parameters)} | ${inCode(runbooks) || 'not yet'} |\n`;
  });
  const [before = '', after = ''] = readFileSync(PAGE, 'utf8').split(HEAD);
  return `${before}${HEAD}${calls.join('')}${after.replace(/^(\|.*\n)*/, '')}`;
}

export function writePage(recorded: ReadonlyMap<string, RecordedCall>): void {
  writeFileSync(PAGE, endpointPage(recorded));
}

/** Parameters that the page does not explain, and explanations for parameters that no call has. */
export function unexplained(): readonly string[] {
  const rows = [...readFileSync(PAGE, 'utf8').matchAll(/^\| `(\w+)`(?: of `([\w/-]+)`| in a (path))? \| ./gm)];
  const explained = rows.map(([, name = '', end = '', inPath]) => ({ name, end: inPath === undefined ? end : ':id' }));
  const asked = INTERFACE_ROWS.flatMap(({ endpoint }) =>
    [...(endpoint.endsWith('/:id') ? ['id'] : []), ...parametersOf(endpoint)].map((name) => ({ endpoint, name })),
  );
  const fits = (row: (typeof explained)[number], call: (typeof asked)[number]) =>
    row.name === call.name && call.endpoint.endsWith(row.end);
  return [
    ...asked
      .filter((call) => !explained.some((row) => fits(row, call)))
      .map(({ endpoint, name }) => `${endpoint}: ${name}`),
    ...explained.filter((row) => !asked.some((call) => fits(row, call))).map(({ name, end }) => `${name} of ${end}`),
  ];
}
