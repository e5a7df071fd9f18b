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

/** Of each request, as the HTTP library tells of it where it is made. */
const requests = channel('undici:request:create');
const rows = INTERFACE_ROWS.map(({ endpoint }) => ({
  endpoint,
  pattern: new RegExp(`^${endpoint.replace(' /', ' /v1/').replace(/:\w+/g, '[^/]+')}$`),
}));

/**
 * Which calls of the interface activities made while the tests of a file ran, with which parameters and for which runbook:
 * docs/endpoints.md must have them. With UPDATE_DOCS=1 they are added to it.
 */
export function recordEndpointCalls(): void {
  const made = new Map<string, { readonly runbooks: Set<string>; readonly parameters: Set<string> }>();
  const record = (message: unknown): void => {
    const { request } = message as { readonly request: OutgoingRequest };
    // The client's own, from an activity: tests call the service by hand too.
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
    // What is played at random is not the same each time.
    else if (!expect.getState().testPath?.includes('nights'))
      throw new Error(`docs/endpoints.md does not have: ${added}`);
  });
}

/** The names of the members of a JSON body; their values are looked at by nobody. */
function namesIn(body: unknown): readonly string[] {
  if (!Buffer.isBuffer(body) && typeof body !== 'string') return [];
  const members: unknown = JSON.parse(body.toString());
  return typeof members === 'object' && members !== null ? Object.keys(members) : [];
}

/** The type of the run whose activity makes the call that is being made; undefined where it is made by none. */
function workflowTypeOfThisCall(): string | undefined {
  try {
    return Context.current().info.workflowType;
  } catch {
    return undefined;
  }
}
