import { badRequest, found, isJsonObject, NO_CONTENT, ServiceFault } from '../messages';
import type { JsonObject, ServiceAnswer } from '../messages';
import type { StoredValue } from '../storage';
import { route, type Route, type RouteCall } from './route';

/**
 * A write of shared data, or with null its deletion. It lands on the cluster itself or, from a performance secondary,
 * on its primary, from which it streams back.
 */
export function writeShared({ cluster, now }: RouteCall, key: string, value: StoredValue | null): void {
  let writer = cluster;
  while (writer.effectiveRole('performance').mode === 'secondary' && !key.startsWith('cluster/')) {
    const { connected, source } = writer.streams.performance;
    if (!connected || source === undefined)
      throw new ServiceFault(500, ['cannot forward the write: not connected to the primary']);
    writer = source;
  }
  writer.storage.writeForCaller(key, value, now);
}

/** What people meet who use the paths of version 1 (facts 12). */
const UNVERSIONED =
  "Invalid path for a versioned K/V secrets engine. See the API docs for the appropriate API endpoints to use. If using the Vault CLI, use 'vault kv get' for this operation.";

/** The key of a request's path. Of a version 2 engine only `data/` is served, and the latest version. */
function target({ cluster, request }: RouteCall): { key: string; versioned: boolean } {
  const { path } = request;
  const mount = cluster.mountOf(path);
  if (mount === undefined) throw new ServiceFault(404, [`no handler for route "${path}". route entry not found.`]);
  const versioned = mount.version === '2';
  if (versioned && !path.startsWith(`${mount.path}data/`)) throw new ServiceFault(404, [], [UNVERSIONED]);
  return { key: `data/${path}`, versioned };
}

function metadata({ version, at }: { readonly version: number; readonly at: number }): JsonObject {
  return { version, created_time: new Date(at).toISOString(), deletion_time: '', destroyed: false };
}

function writeVersion(call: RouteCall, key: string): ServiceAnswer {
  const { data } = call.body;
  if (!isJsonObject(data)) throw badRequest('no data provided');
  const version = call.cluster.storage.read('versioned-secret', key)?.version ?? 0;
  const next = { type: 'versioned-secret', data, version: version + 1, at: call.now } as const;
  writeShared(call, key, next);
  return call.answer(metadata(next));
}

function read(call: RouteCall): ServiceAnswer {
  const stored = call.cluster.storage.get(target(call).key);
  if (stored?.type === 'versioned-secret') return call.answer({ data: stored.data, metadata: metadata(stored) });
  return call.answer(found(stored?.type === 'secret' ? stored.data : undefined));
}

function write(call: RouteCall): ServiceAnswer {
  if (Object.keys(call.body).length === 0) throw badRequest('missing data fields');
  const { key, versioned } = target(call);
  if (versioned) return writeVersion(call, key);
  writeShared(call, key, { type: 'secret', data: call.body });
  return NO_CONTENT;
}

/** The key-value engines. The last routes to look at: they match every path. */
export const KEY_VALUE_ROUTES: readonly Route[] = [route('GET *', 'token', read), route('POST *', 'token', write)];
