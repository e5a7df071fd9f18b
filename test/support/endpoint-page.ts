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

const PAGE = join(ROOT, 'docs', 'endpoints.md');

/** Runbooks by endpoint, as docs/endpoints.md has them. */
export function callersOnPage(): ReadonlyMap<string, readonly RunbookName[]> {
  const page = existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : '';
  return new Map(
    INTERFACE_ROWS.map(({ endpoint }) => {
      const cells = page.split('\n').find((line) => line.startsWith(`| \`${endpoint}\` |`)) ?? '';
      const callers = cells.split('|').at(-2) ?? '';
      return [endpoint, RUNBOOK_NAMES.filter((name) => callers.includes(`\`${name}\``))];
    }),
  );
}

/** docs/endpoints.md with these callers. */
export function endpointPage(callers: ReadonlyMap<string, readonly string[]>): string {
  const lines = INTERFACE_ROWS.map(({ endpoint, method }) => {
    const names = callers.get(endpoint) ?? [];
    return `| \`${endpoint}\` | \`${method}\` | ${names.map((each) => `\`${each}\``).join(', ') || 'not yet'} |`;
  });
  return `# Endpoints

The 34 endpoints of the replication administration interface: the method of the client that calls each, and the runbooks
whose activities really called it in the tests.

Rows and methods come from the client's table. The runbooks are recorded: a test fails when a runbook makes a call that is
not listed here. \`rm docs/endpoints.md && UPDATE_DOCS=1 npx jest -w 1 test/workflows\` records them again. A run that a
failover took over counts as what it was started as: so \`drReindex\` stands at the promotion.

| endpoint | client method | runbooks |
|---|---|---|
${lines.join('\n')}
`;
}

export function writePage(callers: ReadonlyMap<string, readonly string[]>): void {
  writeFileSync(PAGE, endpointPage(callers));
}
