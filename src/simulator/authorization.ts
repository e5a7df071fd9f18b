import type { SimulatedCluster } from './cluster';
import { badRequest, invalidToken, permissionDenied, textField, type ServiceRequest } from './messages';
import type { SimulatedNode } from './node';
import type { Route } from './routes/route';
import { ServiceFault } from './service-fault';
import type { Identity } from './tokens';
import { authenticatesTokenGeneration } from './versions';

const CAPABILITY_OF_METHOD: Record<string, string> = {
  GET: 'read',
  HEAD: 'read',
  LIST: 'list',
  POST: 'update',
  DELETE: 'delete',
};

/** Refuses, or tells who calls. Undefined for routes that ask for nothing. */
export function authorise(
  cluster: SimulatedCluster,
  node: SimulatedNode,
  route: Route,
  request: ServiceRequest,
): Identity | undefined {
  switch (route.credential) {
    case 'none':
      return undefined;
    case 'operation-token':
      authoriseOperation(cluster, request);
      return undefined;
    case 'generation':
      return authenticatesTokenGeneration(cluster.version) && !isOpened(node, request)
        ? authoriseToken(cluster, request, false)
        : undefined;
    case 'token':
      return authoriseToken(cluster, request, false);
    case 'sudo':
      return authoriseToken(cluster, request, true);
  }
}

/** The active node's own configuration decides. */
function isOpened({ unauthenticatedAccess }: SimulatedNode, { path }: ServiceRequest): boolean {
  return unauthenticatedAccess.includes(
    path.startsWith('sys/generate-root/') ? 'generate-root' : 'generate-operation-token',
  );
}

/** Who the header's token stands for on this cluster in its present role. */
function identify(cluster: SimulatedCluster, token: string): Identity | undefined {
  const now = cluster.surroundings.now();
  if (!cluster.isDrSecondary) return cluster.tokens.identify(token, now);
  if (cluster.tokens.isOperationToken(token)) return operationIdentity(now);
  const identity = cluster.tokens.identify(token, now);
  const accepted =
    identity !== undefined &&
    (identity.type === 'batch'
      ? identity.orphan
      : authenticatesTokenGeneration(cluster.version) && identity.policies.includes('root'));
  return accepted ? identity : undefined;
}

function operationIdentity(now: number): Identity {
  return {
    type: 'operation',
    accessor: '',
    policies: ['root'],
    orphan: true,
    displayName: 'dr-operation',
    path: 'sys/replication/dr/secondary/generate-operation-token',
    renewable: false,
    createdAt: now,
    expiresAt: null,
  };
}

function authoriseToken(cluster: SimulatedCluster, request: ServiceRequest, sudo: boolean): Identity {
  const { token } = request;
  if (token === undefined || token === '') throw permissionDenied();
  if (cluster.auditBlocked) throw new ServiceFault(500, ['internal error']);
  if (cluster.wrappingTokens.has(token)) throw new ServiceFault(500, ['internal error']);
  const identity = identify(cluster, token);
  if (identity === undefined) throw invalidToken();
  const granted = cluster.tokens.capabilities(identity, request.namespace + request.path);
  const wanted = CAPABILITY_OF_METHOD[request.method] ?? 'update';
  const creates = wanted === 'update' && granted.includes('create');
  const allowed =
    granted.includes('root') || ((granted.includes(wanted) || creates) && (!sudo || granted.includes('sudo')));
  if (!allowed) throw permissionDenied();
  return identity;
}

/** `dr_operation_token` in the body: a generated one of this cluster, or an orphan batch token with the right policy. */
function authoriseOperation(cluster: SimulatedCluster, request: ServiceRequest): void {
  const token = textField(request.body, 'dr_operation_token');
  if (token === '') throw badRequest('DR operation token was not provided');
  if (cluster.auditBlocked) throw new ServiceFault(500, ['internal error']);
  if (!cluster.isDrSecondary) throw badRequest('cluster is not a DR replication secondary');
  if (!operationTokenIsValid(cluster, token, request.path)) throw new ServiceFault(403, ['invalid DR operation token']);
  const header = request.token ?? '';
  const headerMissing = header === '' || identify(cluster, header) === undefined;
  if (request.path.endsWith('merkle-check') && headerMissing) throw permissionDenied();
}

function operationTokenIsValid(cluster: SimulatedCluster, token: string, path: string): boolean {
  if (cluster.tokens.isOperationToken(token)) return true;
  const identity = cluster.tokens.identify(token, cluster.surroundings.now());
  if (identity?.type !== 'batch' || !identity.orphan) return false;
  const granted = cluster.tokens.capabilities(identity, path);
  return granted.includes('root') || granted.includes('update');
}
