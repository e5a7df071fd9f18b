import type { SimulatedCluster } from '../cluster';
import { badRequest, envelope, NO_CONTENT, type ServiceAnswer } from '../messages';
import { ServiceFault } from '../service-fault';
import type { StoredValue } from '../storage';
import type { Route, RouteCall } from './route';

/**
 * Where a write of shared data lands: on the cluster itself or, from a performance secondary, on its primary, from which
 * it streams back.
 */
export function writerOf(cluster: SimulatedCluster, key: string): SimulatedCluster {
  if (cluster.effectiveRole('performance').mode !== 'secondary' || key.startsWith('cluster/')) {
    return cluster;
  }
  const { connected, source } = cluster.streams.performance;
  if (!connected || source === undefined) {
    throw new ServiceFault(500, ['cannot forward the write: not connected to the primary']);
  }
  return writerOf(source, key);
}

export function writeShared(cluster: SimulatedCluster, key: string, value: StoredValue | null, now: number): void {
  writerOf(cluster, key).storage.write(key, value, now);
}

function target(call: RouteCall): { path: string; key: string } {
  const path = call.request.namespace + call.request.path;
  if (call.cluster.mountOf(path) === undefined) {
    throw new ServiceFault(404, [`no handler for route "${path}". route entry not found.`]);
  }
  return { path, key: call.cluster.secretKey(path) };
}

function read(call: RouteCall): ServiceAnswer {
  const stored = call.cluster.storage.get(target(call).key);
  if (stored?.type !== 'secret') {
    throw new ServiceFault(404, []);
  }
  return envelope(call.requestId, stored.data);
}

function list(call: RouteCall): ServiceAnswer {
  const prefix = `${target(call).key.replace(/\/+$/, '')}/`;
  const names = call.cluster.storage.keys(prefix).map((key) => {
    const rest = key.slice(prefix.length);
    return rest.includes('/') ? rest.slice(0, rest.indexOf('/') + 1) : rest;
  });
  if (names.length === 0) {
    throw new ServiceFault(404, []);
  }
  return envelope(call.requestId, { keys: [...new Set(names)] });
}

function write(call: RouteCall): ServiceAnswer {
  if (Object.keys(call.request.body).length === 0) {
    throw badRequest('missing data fields');
  }
  writeShared(call.cluster, target(call).key, { type: 'secret', data: call.request.body }, call.now);
  return NO_CONTENT;
}

function remove(call: RouteCall): ServiceAnswer {
  const { key } = target(call);
  if (call.cluster.storage.get(key) !== undefined) {
    writeShared(call.cluster, key, null, call.now);
  }
  return NO_CONTENT;
}

const route = (methods: string[], run: Route['run']): Route => ({
  methods,
  path: '*',
  credential: 'token',
  onDrSecondary: false,
  rootNamespaceOnly: false,
  run,
});

/** The key-value engine, version 1, on every mount. The last routes to look at: they match every path. */
export const KEY_VALUE_ROUTES: readonly Route[] = [
  route(['GET'], (call) => (call.request.query.get('list') === 'true' ? list(call) : read(call))),
  route(['LIST'], list),
  route(['POST'], write),
  route(['DELETE'], remove),
];
