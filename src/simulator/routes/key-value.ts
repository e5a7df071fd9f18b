import type { SimulatedCluster } from '../cluster';
import { isJsonObject, type JsonObject } from '../json';
import { badRequest, envelope, NO_CONTENT, type ServiceAnswer } from '../messages';
import { ServiceFault } from '../service-fault';
import type { StoredValue } from '../storage';
import { route, type Route, type RouteCall } from './route';

/**
 * Where a write of shared data lands: on the cluster itself or, from a performance secondary, on its primary, from which
 * it streams back.
 */
export function writerOf(cluster: SimulatedCluster, key: string): SimulatedCluster {
  if (cluster.effectiveRole('performance').mode !== 'secondary' || key.startsWith('cluster/')) return cluster;
  const { connected, source } = cluster.streams.performance;
  if (!connected || source === undefined)
    throw new ServiceFault(500, ['cannot forward the write: not connected to the primary']);
  return writerOf(source, key);
}

export function writeShared(cluster: SimulatedCluster, key: string, value: StoredValue | null, now: number): void {
  writerOf(cluster, key).storage.write(key, value, now);
}

function target(call: RouteCall): { path: string; key: string; versioned: boolean } {
  const path = call.request.namespace + call.request.path;
  const mount = call.cluster.mountOf(path);
  if (mount === undefined) throw new ServiceFault(404, [`no handler for route "${path}". route entry not found.`]);
  const versioned = ['mount', 'cluster/mount'].some((prefix) => {
    const stored = call.cluster.storage.get(`${prefix}/${mount}`);
    return stored?.type === 'mount' && stored.mountType === KEY_VALUE_2;
  });
  if (versioned && !path.startsWith(`${mount}data/`)) throw new ServiceFault(404, []);
  return { path, key: call.cluster.secretKey(path), versioned };
}

/** How a mount of a version 2 engine is stored. Of such an engine only `data/` is served, and the latest version. */
export const KEY_VALUE_2 = 'kv-v2';

function metadata({ version, at }: { readonly version: number; readonly at: number }): JsonObject {
  return { version, created_time: new Date(at).toISOString(), deletion_time: '', destroyed: false };
}

/** A write of a version 2 engine: with `cas` only where the key is still of that version, 0 for none. */
function writeVersion(call: RouteCall, key: string): ServiceAnswer {
  const { data, options } = call.request.body;
  if (!isJsonObject(data)) throw badRequest('no data provided');
  const stored = call.cluster.storage.get(key);
  const version = stored?.type === 'versioned-secret' ? stored.version : 0;
  const cas = isJsonObject(options) ? options['cas'] : undefined;
  if (cas !== undefined && cas !== version)
    throw badRequest('check-and-set parameter did not match the current version');
  const next = { type: 'versioned-secret', data, version: version + 1, at: call.now } as const;
  writeShared(call.cluster, key, next, call.now);
  return envelope(call.requestId, metadata(next));
}

function read(call: RouteCall): ServiceAnswer {
  const stored = call.cluster.storage.get(target(call).key);
  if (stored?.type === 'versioned-secret')
    return envelope(call.requestId, { data: stored.data, metadata: metadata(stored) });
  if (stored?.type !== 'secret') throw new ServiceFault(404, []);
  return envelope(call.requestId, stored.data);
}

function list(call: RouteCall): ServiceAnswer {
  const prefix = `${target(call).key.replace(/(?<!\/)\/+$/, '')}/`;
  const names = call.cluster.storage.keys(prefix).map((key) => {
    const rest = key.slice(prefix.length);
    return rest.includes('/') ? rest.slice(0, rest.indexOf('/') + 1) : rest;
  });
  if (names.length === 0) throw new ServiceFault(404, []);
  return envelope(call.requestId, { keys: [...new Set(names)] });
}

function write(call: RouteCall): ServiceAnswer {
  if (Object.keys(call.request.body).length === 0) throw badRequest('missing data fields');
  const { key, versioned } = target(call);
  if (versioned) return writeVersion(call, key);
  writeShared(call.cluster, key, { type: 'secret', data: call.request.body }, call.now);
  return NO_CONTENT;
}

function remove(call: RouteCall): ServiceAnswer {
  const { key } = target(call);
  if (call.cluster.storage.get(key) !== undefined) writeShared(call.cluster, key, null, call.now);
  return NO_CONTENT;
}

/** The key-value engines, version 1 on every mount unless it was made as version 2. The last routes to look at: they match every path. */
export const KEY_VALUE_ROUTES: readonly Route[] = [
  route('GET *', 'token', (call) => (call.request.query.get('list') === 'true' ? list(call) : read(call))),
  route('LIST *', 'token', list),
  route('POST *', 'token', write),
  route('DELETE *', 'token', remove),
];
