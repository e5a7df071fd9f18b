import type { SimulatedCluster } from './cluster';
import {
  atLeastVersion,
  badRequest,
  BrokenConnection,
  permissionDenied,
  ServiceFault,
  textField,
  type ServiceAnswer,
  type ServiceRequest,
} from './messages';
import type { SimulatedNode } from './node';
import type { Identity } from './stored';
import { FILTER_ROUTES } from './routes/filters';
import { GENERATION_ROUTES } from './routes/generation';
import { KEY_VALUE_ROUTES } from './routes/key-value';
import { LOGIN_ROUTES } from './routes/logins';
import { POLICY_ROUTES } from './routes/policies';
import { QUOTA_ROUTES } from './routes/quotas';
import { REPLICATION_ROUTES } from './routes/replication';
import { RouteCall, type Route } from './routes/route';
import { SYSTEM_ROUTES } from './routes/system';
import { TOKEN_ROUTES } from './routes/tokens';

/** All routes that need an active node, the more specific ones first. */
export const ROUTES: readonly Route[] = [
  ...REPLICATION_ROUTES,
  ...GENERATION_ROUTES,
  ...FILTER_ROUTES,
  ...SYSTEM_ROUTES,
  ...QUOTA_ROUTES,
  ...POLICY_ROUTES,
  ...TOKEN_ROUTES,
  ...LOGIN_ROUTES,
  ...KEY_VALUE_ROUTES,
];

/** Since this version, generating a token needs a token, and a DR secondary accepts service tokens with the root policy. */
const AUTHENTICATES_GENERATION_SINCE = '2.0.0';

/** Paths that a DR secondary serves. */
const ON_DR_SECONDARY = /^sys\/(replication\/(dr\/secondary\/|(dr\/|performance\/)?status$)|generate-root\/)/;

/** Paths that engine mounts do not serve. */
const SYSTEM_PATH = /^(sys|auth)\//;

const CAPABILITY_OF_METHOD: Record<string, string> = {
  GET: 'read',
  HEAD: 'read',
  LIST: 'list',
  POST: 'update',
  DELETE: 'delete',
};

/** Answers a request on the active node. */
export async function answerFromActiveNode(
  cluster: SimulatedCluster,
  node: SimulatedNode,
  request: ServiceRequest,
): Promise<ServiceAnswer> {
  const { route, parameters } = findRoute(request);
  if (cluster.isDrSecondary && !ON_DR_SECONDARY.test(route.path))
    throw badRequest('path disabled in replication DR secondary mode');
  if (cluster.auditBlocked && route.credential === 'generation') throw new BrokenConnection('close');
  const identity = authorise(cluster, route, request);
  return route.run(new RouteCall(cluster, node, request, parameters, identity));
}

/** Values of the `:name` segments of a matching path, and `rest` for a `*`; undefined if the path does not match. */
function match(pattern: string, path: string): Record<string, string> | undefined {
  const [wanted, given] = [pattern.split('/'), path.split('/')];
  const parameters: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const actual = given[index];
    if (actual === undefined) return undefined;
    if (segment === '*') return { ...parameters, rest: given.slice(index).join('/') };
    if (segment.startsWith(':') ? actual === '' : actual !== segment) return undefined;
    if (segment.startsWith(':')) parameters[segment.slice(1)] = actual;
  }
  return wanted.length === given.length ? parameters : undefined;
}

function findRoute({ method, path, token }: ServiceRequest): { route: Route; parameters: Record<string, string> } {
  let pathExists = false;
  for (const route of ROUTES) {
    const parameters = match(route.path, path);
    if (parameters === undefined || (route.path === '*' && SYSTEM_PATH.test(path))) continue;
    if (route.method === method) return { route, parameters };
    pathExists = true;
  }
  if (pathExists)
    throw method === 'PATCH'
      ? new ServiceFault(415, [])
      : new ServiceFault(405, ['1 error occurred:\n\t* unsupported operation\n\n']);
  if (token === undefined) throw permissionDenied();
  throw new ServiceFault(404, ['1 error occurred:\n\t* unsupported path\n\n']);
}

/** Refuses the request, or returns the identity of the caller; undefined for routes that need no token. */
function authorise(cluster: SimulatedCluster, route: Route, request: ServiceRequest): Identity | undefined {
  const { credential } = route;
  switch (credential) {
    case 'none':
      return undefined;
    case 'operation-token':
      authoriseOperation(cluster, request);
      return undefined;
    case 'generation':
      return atLeastVersion(cluster.version, AUTHENTICATES_GENERATION_SINCE) && !isOpened(cluster, request)
        ? authoriseToken(cluster, route, request, false)
        : undefined;
    case 'valid-token':
      return validToken(cluster, request);
    case 'token':
    case 'sudo':
      return authoriseToken(cluster, route, request, credential === 'sudo');
  }
}

function isOpened({ unauthenticatedAccess }: SimulatedCluster, { path }: ServiceRequest): boolean {
  return unauthenticatedAccess.includes(
    path.startsWith('sys/generate-root/') ? 'generate-root' : 'generate-operation-token',
  );
}

/** The identity of the token in the header, on this cluster in its current role. */
function identify(cluster: SimulatedCluster, token: string): Identity | undefined {
  const now = cluster.service.now();
  const operation = cluster.isDrSecondary ? cluster.tokens.identifyOperation(token) : undefined;
  if (operation !== undefined) return operation;
  const identity = cluster.tokens.identify(token, now);
  if (!cluster.isDrSecondary || identity === undefined) return identity;
  if (identity.type === 'batch') return identity.orphan ? identity : undefined;
  const accepted =
    atLeastVersion(cluster.version, AUTHENTICATES_GENERATION_SINCE) && identity.policies.includes('root');
  return accepted ? identity : undefined;
}

function validToken(cluster: SimulatedCluster, { token }: ServiceRequest): Identity {
  if (token === undefined || token === '') throw permissionDenied();
  if (cluster.auditBlocked || cluster.wrappingTokens.has(token)) throw new ServiceFault(500, ['internal error']);
  const identity = identify(cluster, token);
  // The text for an invalid token, as opposed to a token without the required rights.
  if (identity === undefined)
    throw new ServiceFault(403, ['2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n']);
  return cluster.tokens.use(token, identity, cluster.service.now());
}

/** A write needs `create` for a key that does not exist yet, and `update` for anything else. */
function authoriseToken(
  cluster: SimulatedCluster,
  { path: pattern }: Pick<Route, 'path'>,
  request: ServiceRequest,
  sudo: boolean,
): Identity {
  const identity = validToken(cluster, request);
  const granted = cluster.tokens.capabilities(identity, request.path);
  const isNewKey = pattern === '*' && cluster.storage.get(`data/${request.path}`) === undefined;
  const wanted = request.method === 'POST' && isNewKey ? 'create' : CAPABILITY_OF_METHOD[request.method];
  const allowed = granted.includes(wanted ?? 'update') && (!sudo || granted.includes('sudo'));
  if (!granted.includes('root') && !allowed) throw permissionDenied();
  return identity;
}

/** `dr_operation_token` in the body: an operation token of this cluster, or an orphan batch token with the required policy. */
function authoriseOperation(cluster: SimulatedCluster, request: ServiceRequest): void {
  const token = textField(request.body, 'dr_operation_token');
  if (token === '') throw badRequest('DR operation token was not provided');
  if (cluster.auditBlocked) throw new ServiceFault(500, ['internal error']);
  if (!cluster.isDrSecondary) throw badRequest('cluster is not a DR replication secondary');
  if (!operationTokenIsValid(cluster, token, request.path)) throw new ServiceFault(403, ['invalid DR operation token']);
  const headerMissing = identify(cluster, request.token ?? '') === undefined;
  if (request.path.endsWith('merkle-check') && headerMissing) throw permissionDenied();
}

function operationTokenIsValid(cluster: SimulatedCluster, token: string, path: string): boolean {
  if (cluster.tokens.identifyOperation(token) !== undefined) return true;
  const identity = cluster.tokens.identify(token, cluster.service.now());
  if (identity?.type !== 'batch' || !identity.orphan) return false;
  const granted = cluster.tokens.capabilities(identity, path);
  return granted.includes('root') || granted.includes('update');
}
