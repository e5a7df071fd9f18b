import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import { stringify } from 'lossless-json';
import type { SimulatedCluster } from './cluster';
import type { FaultInjector, Moment } from './faults';
import {
  badRequest,
  BrokenConnection,
  isJsonObject,
  NO_BODY,
  parseBody,
  ServiceFault,
  type JsonObject,
  type JsonValue,
  type ServiceAnswer,
  type ServiceRequest,
} from './messages';
import type { SimulatedNode } from './node';
import { answerFromActiveNode } from './router';
import { countAgainstQuotas } from './routes/quotas';
import { answerFromNode } from './routes/system';

const LARGEST_BODY = 32 * 1024 * 1024;
/** Maximum number of recorded calls; above it, the older half is dropped. */
const MOST_CALLS = 100_000;

/** One request that reached a node, for assertions. */
export interface RecordedCall {
  /** Order of arrival across all clusters, from 1. */
  readonly seq: number;
  readonly cluster: string;
  readonly node: number;
  readonly method: string;
  /** Path with `/v1` and without the query. */
  readonly path: string;
  /** Secrets appear only as `sha256:<hex>`. */
  readonly body: JsonObject;
  /** Digest of the token header, if there was one. */
  readonly token: string | undefined;
  /** Whether a standby may forward the call. It may then answer 307 or 503 even if it forwarded the call and lost the answer. */
  readonly mayBePassedOn: boolean;
  /** HTTP status of the answer; 0 if no answer has been sent or the connection was broken instead. */
  status: number;
  /** Progress of a generation attempt in the answer, if it has one. */
  progress?: number;
  /** Whether the complete answer was sent while the caller was still connected. */
  delivered: boolean;
  /** Time of arrival; milliseconds since the epoch. */
  readonly at: number;
  /** When the answer was sent or the connection broken; milliseconds since the epoch. Absent while in progress. */
  answeredAt?: number;
}

/** Fields that never contain a secret. */
const OPEN_FIELDS =
  /^(id|ttl|nonce|mode|paths?|force|diff|skip_flush|primary_(cluster|api)_addr|update_primary_addrs|ca_(file|path)|secondary_public_key|pgp_key|policies|type)$/;

/** What happens to requests on their way, and what is recorded of them. */
interface Traffic {
  /** Every request that reached a node, in order of arrival. */
  readonly calls: RecordedCall[];
  readonly faults: FaultInjector;
  /** Added to every HTTP answer, milliseconds. */
  readonly latencyMs: number;
}

/** One request at one node, with its complete body. */
interface Arrival {
  readonly traffic: Traffic;
  readonly cluster: SimulatedCluster;
  readonly node: SimulatedNode;
  readonly method: string;
  readonly url: URL;
  readonly text: string;
  readonly token: string | undefined;
  readonly certificate: string | undefined;
  readonly namespace: string | undefined;
  /** Address of the client. */
  readonly address: string;
  /** Whether a standby may forward it to the active node. */
  readonly mayBePassedOn: boolean;
}

interface Delivery extends ServiceAnswer {
  /** Sends the JSON document twice. */
  readonly glued?: boolean;
}

/** Serves one request that arrived at a node. */
export async function serve(
  traffic: Traffic,
  cluster: SimulatedCluster,
  node: SimulatedNode,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // Node removes the socket from a destroyed request.
  const { socket } = incoming;
  let call: RecordedCall | undefined;
  try {
    const url = urlOf(incoming);
    const arrival: Arrival = {
      ...{ traffic, cluster, node, url, text: await readText(incoming) },
      method: methodOf(incoming, url),
      token: tokenOf(incoming),
      certificate: socket instanceof TLSSocket ? socket.getPeerX509Certificate()?.fingerprint256 : undefined,
      namespace: headerOf(incoming, 'x-vault-namespace'),
      address: socket.remoteAddress ?? '',
      mayBePassedOn: headerOf(incoming, 'x-vault-no-request-forwarding') === undefined,
    };
    const recorded = record(arrival);
    call = recorded;
    const { latencyMs } = traffic;
    if (latencyMs > 0) await delay(latencyMs);
    const answer = await answerWithFaults(arrival);
    call.status = answer.status;
    if (isJsonObject(answer.body) && typeof answer.body['progress'] === 'number')
      call.progress = answer.body['progress'];
    response.once('finish', () => (recorded.delivered = !socket.destroyed));
    send(response, incoming.method === 'HEAD', answer);
  } catch (error) {
    // Node cannot reset a TLS connection: it is closed instead.
    const resets = error instanceof BrokenConnection && error.by === 'reset' && !(socket instanceof TLSSocket);
    if (resets) socket.resetAndDestroy();
    else if (error instanceof BrokenConnection || socket.destroyed) socket.destroy();
    else {
      const answer = faultAnswer(error instanceof ServiceFault ? error : new ServiceFault(500, ['internal error']));
      if (call !== undefined) call.status = answer.status;
      send(response, false, answer);
    }
  } finally {
    if (call !== undefined) call.answeredAt = cluster.service.now();
  }
}

function record({ traffic, cluster, node, method, url, text, token, mayBePassedOn }: Arrival): RecordedCall {
  const { calls } = traffic;
  const call: RecordedCall = {
    seq: (calls.at(-1)?.seq ?? 0) + 1,
    cluster: cluster.name,
    node: node.index,
    method,
    path: url.pathname,
    body: readableBody(text),
    token: token === undefined ? undefined : digest(token),
    mayBePassedOn,
    status: 0,
    delivered: false,
    at: cluster.service.now(),
  };
  calls.push(call);
  if (calls.length > MOST_CALLS) calls.splice(0, MOST_CALLS / 2);
  return call;
}

function digest(text: string): string {
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}

/** The body with digests in place of values, except in fields that never contain a secret. */
function readableBody(text: string): RecordedCall['body'] {
  try {
    const isOpen = (name: string, value: JsonValue | undefined) =>
      OPEN_FIELDS.test(name) || typeof value === 'boolean' || value === '';
    const members = Object.entries(parseBody(text)).map(([name, value]) => [
      name,
      isOpen(name, value) ? value : digest(typeof value === 'string' ? value : JSON.stringify(value)),
    ]);
    return Object.fromEntries(members) as JsonObject;
  } catch {
    return { unreadable: digest(text) };
  }
}

async function answerWithFaults(arrival: Arrival): Promise<Delivery> {
  const { cluster, node, mayBePassedOn } = arrival;
  const leadsOn = () => !mayBePassedOn && (cluster.leadership.active ?? node) !== node;
  const early = await applyFaults(faultsOn(arrival, 'before', !leadsOn()), arrival);
  if (early !== undefined) return early;
  const answer = await answerOrFault(arrival);
  const met = faultsOn(arrival, 'after', answer.status !== 307 || !leadsOn());
  return (await applyFaults(met, arrival, answer)) ?? answer;
}

function faultsOn({ traffic, cluster, node, method, url }: Arrival, when: Moment, isServed: boolean) {
  const call = { cluster: cluster.name, node: node.index, endpoint: `${method} ${url.pathname}`, isServed };
  return traffic.faults.take(call, when);
}

async function applyFaults(
  met: ReturnType<typeof faultsOn>,
  arrival: Arrival,
  answer?: ServiceAnswer,
): Promise<Delivery | undefined> {
  let delivery: Delivery | undefined;
  for (const { action, held } of met)
    if (action === 'reset' || action === 'lose-answer')
      throw new BrokenConnection(action === 'reset' ? 'reset' : 'close');
    else if (action === 'glue-documents') delivery = answer && { ...answer, glued: true };
    else if (action === 'break-forwarding') continue;
    else if (typeof action === 'function') await action(arrival.cluster, answer);
    else if (action === 'arrive-late') {
      // Nobody receives the answer.
      held.push(async () => void (await answerOrFault(arrival).catch(() => undefined)));
      throw new BrokenConnection('close');
    } else if ('delayMs' in action) await delay(action.delayMs);
    else {
      const { status, body = { errors: ['injected fault'] }, headers = {} } = action;
      delivery = { status, body, headers };
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
  const { status, errors, warnings } = fault;
  const empty = { request_id: '', lease_id: '', renewable: false, lease_duration: 0, wrap_info: null, auth: null };
  return { status, body: warnings ? { ...empty, data: null, warnings: [...warnings] } : { errors: [...errors] } };
}

async function answerRequest(arrival: Arrival): Promise<ServiceAnswer> {
  const { cluster, node, method, url, token, certificate } = arrival;
  cluster.service.advance();
  if (!node.up) throw new BrokenConnection('reset');
  if (arrival.namespace !== undefined) throw badRequest('operation unavailable in namespaces');
  const request: ServiceRequest = {
    ...{ method, token, certificate },
    path: decodeURI(url.pathname).replace(/^\/v1\//, ''),
    query: url.searchParams,
    body: ['GET', 'LIST', 'HEAD'].includes(method) ? NO_BODY : parseBody(arrival.text),
  };
  countAgainstQuotas(cluster, node, { path: request.path, address: arrival.address });
  const own = answerFromNode(cluster, node, request);
  if (own !== undefined) return own;
  const active = activeNodeFor(cluster, node);
  // Redirect what must not be forwarded, and everything while the last active node has stepped down and no other leads
  // yet.
  if ((active !== node && !arrival.mayBePassedOn) || active === cluster.leadership.former)
    return redirectTo(active, url);
  const answer = answerFromActiveNode(cluster, active, request);
  if (active === node) return answer;
  const [broken] = faultsOn(arrival, 'forwarded', true);
  if (broken === undefined) return answer;
  await answer.catch(() => undefined);
  return redirectTo(active, url);
}

function redirectTo({ apiAddress }: SimulatedNode, url: URL): ServiceAnswer {
  return { status: 307, headers: { location: `${apiAddress}${url.pathname}${url.search}` } };
}

/** The active node, or for a standby the last active one. Without one, throws what a client sees while no node is active. */
function activeNodeFor(cluster: SimulatedCluster, node: SimulatedNode): SimulatedNode {
  if (node.sealed) throw new ServiceFault(503, ['Vault is sealed']);
  const noActiveNode = new ServiceFault(500, ['local node not active but active cluster node not found']);
  const now = cluster.service.now();
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

/** As in the service, `PUT` is `POST`, and `GET` with `list=true` is `LIST`. */
function methodOf({ method = 'GET' }: IncomingMessage, url: URL): string {
  if (method === 'GET' && url.searchParams.get('list') === 'true') return 'LIST';
  return method === 'PUT' ? 'POST' : method;
}

/** `Authorization: Bearer` is as good as `X-Vault-Token`. */
function tokenOf(incoming: IncomingMessage): string | undefined {
  const bearer = /^Bearer (.+)$/.exec(headerOf(incoming, 'authorization') ?? '');
  return headerOf(incoming, 'x-vault-token') ?? bearer?.[1];
}

function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  return headers[name]?.toString() || undefined;
}

function urlOf({ url = '/' }: IncomingMessage): URL {
  if (!url.startsWith('/')) throw badRequest('bad request');
  return new URL(`http://node${url}`);
}

async function readText(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming) {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk));
    size += bytes.length;
    // Read to the end; otherwise a client that is still sending never reads the answer.
    if (size <= LARGEST_BODY) chunks.push(bytes);
    else chunks.length = 0;
  }
  if (size > LARGEST_BODY) throw new ServiceFault(413, ['http: request body too large']);
  return Buffer.concat(chunks).toString('utf8');
}

function send(response: ServerResponse, headOnly: boolean, answer: Delivery): void {
  if (answer.bytes !== undefined) {
    response.writeHead(answer.status, { 'content-type': 'application/gzip' });
    response.end(answer.bytes);
    return;
  }
  const document = answer.body === undefined ? '' : `${stringify(answer.body)}\n`;
  const body = answer.glued ? document + document : document;
  response.writeHead(answer.status, {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...(answer.status === 204 ? {} : { 'content-length': Buffer.byteLength(body) }),
    ...answer.headers,
  });
  response.end(headOnly || answer.status === 204 ? undefined : body);
}
