import { authorise } from './authorization';
import type { SimulatedCluster } from './cluster';
import { health, leader, sealStatus } from './health';
import { booleanField, permissionDenied, textField, type ServiceAnswer, type ServiceRequest } from './messages';
import { decodeStandardBase64 } from './cryptography/encoding';
import type { SimulatedNode } from './node';
import { FILTER_ROUTES } from './routes/filters';
import { GENERATION_ROUTES } from './routes/generation';
import { KEY_VALUE_ROUTES } from './routes/key-value';
import { REPLICATION_ROUTES } from './routes/replication';
import type { Route } from './routes/route';
import { SYSTEM_ROUTES } from './routes/system';
import { TOKEN_ROUTES } from './routes/token';
import { HandlerPanic, ServiceFault } from './service-fault';

/** All routes that need an active node, the more exact ones first. */
export const ROUTES: readonly Route[] = [
  ...REPLICATION_ROUTES,
  ...GENERATION_ROUTES,
  ...FILTER_ROUTES,
  ...SYSTEM_ROUTES,
  ...TOKEN_ROUTES,
  ...KEY_VALUE_ROUTES,
];

/** Paths that are served by the engine mounts only where nothing of the system owns them. */
const SYSTEM_PREFIXES = ['sys/', 'auth/token/'];

/** The routes that every node answers for itself, sealed or not. */
export function answerFromNode(
  cluster: SimulatedCluster,
  node: SimulatedNode,
  request: ServiceRequest,
): ServiceAnswer | undefined {
  const { method, path } = request;
  if (path === 'sys/health' && (method === 'GET' || method === 'HEAD')) return health(cluster, node, request.query);
  if (path === 'sys/seal-status' && method === 'GET') return sealStatus(cluster, node);
  if (path === 'sys/leader' && method === 'GET') return leader(cluster, node);
  if (path === 'sys/unseal' && method === 'POST') return unseal(cluster, node, request);
  return undefined;
}

function unseal(cluster: SimulatedCluster, node: SimulatedNode, request: ServiceRequest): ServiceAnswer {
  const key = textField(request.body, 'key');
  if (booleanField(request.body, 'reset')) node.unsealShares = [];
  else if (node.sealed) {
    const share = /^(?:[0-9a-f]{2})+$/i.test(key) ? Buffer.from(key, 'hex') : decodeStandardBase64(key);
    if (share === undefined || share.length === 0)
      throw new ServiceFault(400, ["'key' must be a valid hex or base64 string"]);
    if (!node.unsealShares.some((earlier) => earlier.equals(share))) node.unsealShares.push(share);
    if (node.unsealShares.length >= cluster.seal.threshold) tryToUnseal(cluster, node);
  }
  return sealStatus(cluster, node);
}

function tryToUnseal(cluster: SimulatedCluster, node: SimulatedNode): void {
  const shares = node.unsealShares;
  node.unsealShares = [];
  if (!opens(cluster, shares)) throw new ServiceFault(400, ['Unseal failed, invalid key']);
  node.sealed = false;
  cluster.leadership.settle(cluster.surroundings.now());
}

/** Shares that do not even combine are as wrong as those that combine to another key. */
function opens(cluster: SimulatedCluster, shares: readonly Buffer[]): boolean {
  try {
    return cluster.seal.opensWithShares(shares);
  } catch {
    return false;
  }
}

function match(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split('/');
  const given = path.split('/');
  const parameters: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    if (segment === '*') {
      parameters['*'] = given.slice(index).join('/');
      return given.length > index ? parameters : undefined;
    }
    const actual = given[index];
    if (actual === undefined || (segment.startsWith(':') ? actual === '' : actual !== segment)) return undefined;
    if (segment.startsWith(':')) parameters[segment.slice(1)] = decodeURIComponent(actual);
  }
  return wanted.length === given.length ? parameters : undefined;
}

function findRoute(request: ServiceRequest): { route: Route; parameters: Record<string, string> } {
  const system = SYSTEM_PREFIXES.some((prefix) => request.path.startsWith(prefix));
  let pathExists = false;
  for (const route of ROUTES) {
    if (route.path === '*' && system) continue;
    const parameters = match(route.path, request.path);
    if (parameters !== undefined) {
      if (route.methods.includes(request.method)) return { route, parameters };
      pathExists = true;
    }
  }
  if (pathExists)
    throw request.method === 'PATCH'
      ? new ServiceFault(415, [])
      : new ServiceFault(405, ['1 error occurred:\n\t* unsupported operation\n\n']);
  if (request.token === undefined) throw permissionDenied();
  throw new ServiceFault(404, ['1 error occurred:\n\t* unsupported path\n\n']);
}

/** Answers a request on the active node. */
export async function answerFromActiveNode(
  cluster: SimulatedCluster,
  node: SimulatedNode,
  request: ServiceRequest,
): Promise<ServiceAnswer> {
  const { route, parameters } = findRoute(request);
  if (route.rootNamespaceOnly && request.namespace !== '')
    throw new ServiceFault(400, ['operation unavailable in namespaces']);
  if (cluster.isDrSecondary && !route.onDrSecondary)
    throw new ServiceFault(400, ['path disabled in replication DR secondary mode']);
  if (cluster.auditBlocked && route.credential === 'generation') throw new HandlerPanic();
  const identity = authorise(cluster, node, route, request);
  const now = cluster.surroundings.now();
  const call = { cluster, node, request, parameters, identity, requestId: cluster.random.uuid(), now };
  return route.run(call);
}
