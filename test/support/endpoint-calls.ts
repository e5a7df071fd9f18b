import { channel } from 'node:diagnostics_channel';
import { Context } from '@temporalio/activity';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import type { RecordedCall } from './endpoint-page';
import { INTERFACE_ROWS, parametersOf, recordedOnPage, writePage } from './endpoint-page';

interface OutgoingRequest {
  readonly method: string;
  readonly path: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body?: unknown;
}

/** Receives each request from the HTTP library, in the context of its caller. */
const requests = channel('undici:request:create');
const rows = INTERFACE_ROWS.map(({ endpoint }) => ({
  endpoint,
  pattern: new RegExp(`^${endpoint.replace(' /', ' /v1/').replace(/:\w+/g, '[^/]+')}$`),
}));

/**
 * Records which calls of the interface the activities made while the tests of a file ran, with their parameters and
 * runbooks. docs/endpoints.md must list them; with UPDATE_DOCS=1 they are added.
 */
export function recordEndpointCalls(): void {
  const made = new Map<string, { readonly runbooks: Set<string>; readonly parameters: Set<string> }>();
  const record = (message: unknown): void => {
    const { request } = message as { readonly request: OutgoingRequest };
    // Only calls of the client from an activity: tests also call the service directly.
    const workflowType = workflowTypeOfThisCall();
    if (workflowType === undefined || !request.headers.some((each) => each.toLowerCase() === 'x-vault-request')) return;
    const row = rows.find(({ pattern }) => pattern.test(`${request.method} ${request.path}`));
    if (row === undefined) return;
    const { runbooks, parameters } = made.get(row.endpoint) ?? { runbooks: new Set(), parameters: new Set() };
    made.set(row.endpoint, { runbooks: runbooks.add(workflowType), parameters });
    const sent = namesIn(request.body);
    for (const name of parametersOf(row.endpoint)) if (sent.includes(name)) parameters.add(name);
  };
  requests.subscribe(record);
  afterAll(() => {
    requests.unsubscribe(record);
    let added = '';
    const all = [...recordedOnPage()].map(([endpoint, known]) => {
      const { runbooks, parameters } = made.get(endpoint) ?? { runbooks: new Set(), parameters: new Set() };
      const more: RecordedCall = {
        runbooks: RUNBOOK_NAMES.filter((name) => known.runbooks.includes(name) || runbooks.has(name)),
        parameters: parametersOf(endpoint).filter((name) => known.parameters.includes(name) || parameters.has(name)),
      };
      if (JSON.stringify(more) !== JSON.stringify(known)) added += `\n${endpoint}: ${JSON.stringify(more)}`;
      return [endpoint, more] as const;
    });
    if (added === '') return;
    if (process.env['UPDATE_DOCS'] === '1') writePage(new Map(all));
    // Random runs differ each time.
    else if (!expect.getState().testPath?.includes('nights'))
      throw new Error(`docs/endpoints.md does not list these calls (add them with UPDATE_DOCS=1): ${added}`);
  });
}

/** The names of the members of a JSON body; their values are ignored. */
function namesIn(body: unknown): readonly string[] {
  if (!Buffer.isBuffer(body) && typeof body !== 'string') return [];
  const members: unknown = JSON.parse(body.toString());
  return typeof members === 'object' && members !== null ? Object.keys(members) : [];
}

/** The workflow type of the activity that makes the current call; undefined outside activities. */
function workflowTypeOfThisCall(): string | undefined {
  try {
    return Context.current().info.workflowType;
  } catch {
    return undefined;
  }
}
