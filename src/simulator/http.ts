import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { attemptIn, digest, redactBody, type RecordedCall } from './calls';
import type { SimulatedCluster } from './cluster';
import type { FaultInjector, MetAction } from './faults';
import { encodeJson } from './json';
import { parseBody, type ServiceAnswer, type ServiceRequest } from './messages';
import type { SimulatedNode } from './node';
import { answerFromActiveNode, answerFromNode } from './router';
import { HandlerPanic, ServiceFault } from './service-fault';
import { authenticatesTokenGeneration } from './versions';

const LARGEST_BODY = 32 * 1024 * 1024;
const LARGEST_TOKEN = 8 * 1024;
/** Of the recorded calls the older half goes when there are more. */
const MOST_CALLS = 100_000;

/** What the HTTP layer needs of the whole service. */
export interface HttpSurroundings {
  readonly faults: FaultInjector;
  readonly calls: RecordedCall[];
  readonly latencyMs: number;
}

/** One request at one node, with its whole body. */
interface Arrival {
  readonly service: HttpSurroundings;
  readonly cluster: SimulatedCluster;
  readonly node: SimulatedNode;
  /** `PUT` is `POST`, as in the service. */
  readonly method: string;
  readonly url: URL;
  readonly text: string;
  readonly token: string | undefined;
  readonly namespace: string;
  /** Whether a standby may pass it on to the active node. */
  readonly mayBePassedOn: boolean;
}

/** The connection is to be broken without an answer: by a reset, or by closing it. */
class BrokenConnection extends Error {
  constructor(readonly by: 'reset' | 'close') {
    super('connection broken');
  }
}

interface Delivery {
  readonly answer: ServiceAnswer;
  readonly glued: boolean;
}

/** Serves one request that arrived at a node. */
export async function serve(
  service: HttpSurroundings,
  cluster: SimulatedCluster,
  node: SimulatedNode,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // Node takes it from the request once that was destroyed.
  const { socket } = incoming;
  let call: RecordedCall | undefined;
  try {
    const url = urlOf(incoming);
    const arrival: Arrival = {
      ...{ service, cluster, node, url, text: await readText(incoming) },
      method: incoming.method === 'PUT' ? 'POST' : (incoming.method ?? 'GET'),
      token: tokenOf(incoming),
      namespace: namespaceOf(incoming),
      mayBePassedOn: [undefined, ''].includes(incoming.headers['x-vault-no-request-forwarding']?.toString()),
    };
    const recorded = record(arrival);
    call = recorded;
    if (service.latencyMs > 0) await delay(service.latencyMs);
    const { answer, glued } = await answerWithFaults(arrival);
    call.status = answer.status;
    call.attempt = attemptIn(answer.body);
    response.once('finish', () => (recorded.delivered = !socket.destroyed));
    send(response, incoming.method === 'HEAD', answer, glued);
  } catch (error) {
    if (error instanceof BrokenConnection && error.by === 'reset') socket.resetAndDestroy();
    else if (error instanceof BrokenConnection || error instanceof HandlerPanic || socket.destroyed) socket.destroy();
    else {
      const answer = faultAnswer(error instanceof ServiceFault ? error : new ServiceFault(500, ['internal error']));
      if (call !== undefined) call.status = answer.status;
      send(response, false, answer, false);
    }
  } finally {
    if (call !== undefined) call.answeredAt = cluster.surroundings.now();
  }
}

function record({ service, cluster, node, method, url, text, token, mayBePassedOn }: Arrival): RecordedCall {
  const call: RecordedCall = {
    seq: (service.calls.at(-1)?.seq ?? 0) + 1,
    cluster: cluster.name,
    node: node.index,
    method,
    path: url.pathname,
    body: readableBody(text),
    token: token === undefined ? undefined : digest(token),
    mayBePassedOn,
    status: 0,
    attempt: undefined,
    delivered: false,
    at: cluster.surroundings.now(),
    answeredAt: undefined,
  };
  service.calls.push(call);
  if (service.calls.length > MOST_CALLS) service.calls.splice(0, MOST_CALLS / 2);
  return call;
}

function readableBody(text: string): RecordedCall['body'] {
  try {
    return redactBody(parseBody(text));
  } catch {
    return { unreadable: digest(text) };
  }
}

async function answerWithFaults(arrival: Arrival): Promise<Delivery> {
  const { service, cluster, node, mayBePassedOn } = arrival;
  const leadsOn = () => !mayBePassedOn && (cluster.leadership.active ?? node) !== node;
  const met = (when: 'before' | 'after', isServed: boolean) =>
    service.faults.take(cluster.name, node.index, endpointOf(arrival), when, isServed);
  const early = await applyFaults(met('before', !leadsOn()), cluster, {
    // Nobody hears the answer.
    arrive: async () => void (await answerOrFault(arrival).catch(() => undefined)),
  });
  if (early !== undefined) return early;
  const answer = await answerOrFault(arrival);
  const late = await applyFaults(met('after', answer.status !== 307 || !leadsOn()), cluster, { answer });
  return late ?? { answer, glued: false };
}

function endpointOf({ method, url }: Arrival): string {
  return `${method} ${url.pathname}`;
}

async function applyFaults(
  actions: readonly MetAction[],
  cluster: SimulatedCluster,
  { answer, arrive }: { readonly answer?: ServiceAnswer; readonly arrive?: () => Promise<void> },
): Promise<Delivery | undefined> {
  let delivery: Delivery | undefined;
  for (const action of actions)
    if (action === 'reset' || action === 'lose-answer')
      throw new BrokenConnection(action === 'reset' ? 'reset' : 'close');
    else if (action === 'glue-documents') delivery = answer === undefined ? undefined : { answer, glued: true };
    else if (action === 'break-forwarding' || action === 'break-forwarding-leaderless') continue;
    else if (typeof action === 'function') await action(cluster, answer);
    else if ('delayMs' in action) await delay(action.delayMs);
    else if ('hold' in action) {
      if (arrive !== undefined) action.hold(arrive);
      throw new BrokenConnection('close');
    } else {
      const { status, body = { errors: ['injected fault'] }, headers = {} } = action;
      delivery = { answer: { status, body, headers }, glued: false };
    }
  return delivery;
}

async function answerOrFault(arrival: Arrival): Promise<ServiceAnswer> {
  try {
    return await answerRequest(arrival);
  } catch (error) {
    if (error instanceof ServiceFault) return faultAnswer(error);
    throw error;
  }
}

function faultAnswer(fault: ServiceFault): ServiceAnswer {
  return { status: fault.status, body: { errors: [...fault.errors] } };
}

async function answerRequest(arrival: Arrival): Promise<ServiceAnswer> {
  const { service, cluster, node, method, url, token, namespace } = arrival;
  cluster.surroundings.advance();
  if (!node.up) throw new BrokenConnection('reset');
  const redirect = canonicalRedirect(url);
  if (redirect !== undefined) return redirect;
  if (authenticatesTokenGeneration(cluster.version) && (token?.length ?? 0) > LARGEST_TOKEN)
    throw new ServiceFault(431, ['token header too large']);
  const request: ServiceRequest = {
    ...{ method, token, namespace },
    path: decodeURI(url.pathname).replace(/^\/v1\//, ''),
    query: url.searchParams,
    body: ['GET', 'LIST', 'HEAD'].includes(method) ? {} : parseBody(arrival.text),
  };
  const own = answerFromNode(cluster, node, request);
  if (own !== undefined) return own;
  const active = activeNodeFor(cluster, node);
  if (active !== node && !arrival.mayBePassedOn) return redirectTo(active, url);
  // It does not lead any more, and nobody else does yet: what cannot be passed on is answered with where it was.
  if (active === cluster.leadership.former) return redirectTo(active, url);
  const answer = answerFromActiveNode(cluster, active, request);
  if (active === node) return answer;
  const [broken] = service.faults.take(cluster.name, node.index, endpointOf(arrival), 'forwarded');
  if (broken === undefined) return answer;
  await answer.catch(() => undefined);
  if (broken === 'break-forwarding') return redirectTo(active, url);
  throw new ServiceFault(503, ['no active Vault instance found']);
}

function redirectTo({ address }: SimulatedNode, url: URL): ServiceAnswer {
  return { status: 307, headers: { location: `${address}${url.pathname}${url.search}` } };
}

/** The node that serves, or for a standby the one that did last; else what a client meets while there is none. */
function activeNodeFor(cluster: SimulatedCluster, node: SimulatedNode): SimulatedNode {
  if (node.sealed) throw new ServiceFault(503, ['Vault is sealed']);
  const noActiveNode = new ServiceFault(500, ['local node not active but active cluster node not found']);
  const now = cluster.surroundings.now();
  if (cluster.leadership.restarting(now))
    throw cluster.random.pick([
      noActiveNode,
      new ServiceFault(503, ['Vault is sealed']),
      new BrokenConnection('reset'),
    ]);
  const { active, former } = cluster.leadership;
  const known = active ?? (former === node ? undefined : former);
  if (known === undefined) throw noActiveNode;
  return known;
}

/** `..` and `//` in a path are answered with the cleaned one. `URL` has resolved dots already. */
function canonicalRedirect(url: URL): ServiceAnswer | undefined {
  return url.pathname.includes('//')
    ? { status: 307, headers: { location: `${url.pathname.replace(/\/{2,}/g, '/')}${url.search}` } }
    : undefined;
}

function tokenOf(incoming: IncomingMessage): string | undefined {
  const header = incoming.headers['x-vault-token'];
  const bearer = /^Bearer (.+)$/.exec(incoming.headers.authorization ?? '')?.[1];
  return typeof header === 'string' && header !== '' ? header : bearer;
}

function namespaceOf(incoming: IncomingMessage): string {
  const header = incoming.headers['x-vault-namespace'];
  const name = typeof header === 'string' ? header.replace(/^\/+|(?<!\/)\/+$/g, '') : '';
  return name === '' || name === 'root' ? '' : `${name}/`;
}

function urlOf({ url = '/' }: IncomingMessage): URL {
  if (!url.startsWith('/')) throw new ServiceFault(400, ['bad request']);
  return new URL(`http://node${url}`);
}

async function readText(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming) {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk));
    size += bytes.length;
    // Read on to its end, or the client that still sends never reads the answer.
    if (size <= LARGEST_BODY) chunks.push(bytes);
    else chunks.length = 0;
  }
  if (size > LARGEST_BODY) throw new ServiceFault(413, ['http: request body too large']);
  return Buffer.concat(chunks).toString('utf8');
}

function send(response: ServerResponse, headOnly: boolean, answer: ServiceAnswer, glued: boolean): void {
  const document = answer.body === undefined ? '' : `${encodeJson(answer.body)}\n`;
  const body = glued ? document + document : document;
  response.writeHead(answer.status, {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...(answer.status === 204 ? {} : { 'content-length': Buffer.byteLength(body) }),
    ...answer.headers,
  });
  response.end(headOnly || answer.status === 204 ? undefined : body);
}
