import { channel } from 'node:diagnostics_channel';
import { Context } from '@temporalio/activity';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { callersOnPage, INTERFACE_ROWS, writePage } from './endpoint-page';

interface OutgoingRequest {
  readonly method: string;
  readonly path: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
}

/** Of each request, as the HTTP library tells of it where it is made. */
const requests = channel('undici:request:create');
const rows = INTERFACE_ROWS.map(({ endpoint }) => ({
  endpoint,
  pattern: new RegExp(`^${endpoint.replace(' /', ' /v1/').replace(/:\w+/g, '[^/]+')}$`),
}));

/**
 * Which runbook made which calls of the interface while the tests of a file ran: docs/endpoints.md must have them. With
 * UPDATE_DOCS=1 they are added to it.
 */
export function recordEndpointCalls(): void {
  const made = new Map<string, Set<string>>();
  const record = (message: unknown): void => {
    const { request } = message as { readonly request: OutgoingRequest };
    // The client's own: tests call the service by hand too.
    if (!request.headers.some((each) => each.toLowerCase() === 'x-vault-request')) return;
    const runbook = RUNBOOK_NAMES.find((name) => name === runOfThisCall());
    const row = rows.find(({ pattern }) => pattern.test(`${request.method} ${request.path}`));
    if (runbook !== undefined && row !== undefined)
      made.set(row.endpoint, (made.get(row.endpoint) ?? new Set()).add(runbook));
  };
  requests.subscribe(record);
  afterAll(() => {
    requests.unsubscribe(record);
    const known = callersOnPage();
    const added = [...made].flatMap(([endpoint, names]) =>
      [...names]
        .filter((name) => !known.get(endpoint)?.some((each) => each === name))
        .map((name) => ({ endpoint, name })),
    );
    if (added.length === 0) return;
    if (process.env['UPDATE_DOCS'] !== '1')
      throw new Error(
        `docs/endpoints.md does not have: ${added.map(({ endpoint, name }) => `${endpoint} by ${name}`).join('; ')}`,
      );
    const all = [...known].map(([endpoint, names]) => {
      const more = made.get(endpoint) ?? new Set();
      return [endpoint, RUNBOOK_NAMES.filter((name) => names.includes(name) || more.has(name))] as const;
    });
    writePage(new Map(all));
  });
}

/** The runbook whose activity makes the call that is being made; undefined where it is not made by one. */
function runOfThisCall(): string | undefined {
  try {
    return Context.current().info.workflowType;
  } catch {
    return undefined;
  }
}
