import { badRequest, found, isJsonObject, NO_CONTENT, ServiceFault } from '../messages';
import type { JsonObject, ServiceAnswer } from '../messages';
import type { StoredValue } from '../stored';
import type { StreamingCluster } from '../stream';
import { route, type Route, type RouteCall } from './route';

/**

 * Writes shared data, or deletes it for null. A performance secondary forwards the write to its primary, from which the
 * data streams back.
 */
export function writeShared({ cluster, now }: RouteCall, key: string, value: StoredValue | null): void {
  let writer: StreamingCluster = cluster;
  while (writer.effectiveRole('performance').mode === 'secondary' && !key.startsWith('cluster/')) {
    const { connected, source } = writer.streams.performance;
    if (!connected || source === undefined)
      throw new ServiceFault(500, ['cannot forward the write: not connected to the primary']);
    writer = source;
  }
  writer.storage.writeForCaller(key, value, now);
}

/** The answer to the paths of version 1 on a version 2 engine (facts 12). */
const UNVERSIONED =
  "Invalid path for a versioned K/V secrets engine. See the API docs for the appropriate API endpoints to use. If using the Vault CLI, use 'vault kv get' for this operation.";

/** The storage key of a request's path. A version 2 engine serves only `data/`, and only the latest version. */
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
  const { data, options } = call.body;
  if (!isJsonObject(data)) throw badRequest('no data provided');
  const version = call.cluster.storage.read('versioned-secret', key)?.version ?? 0;
  const expected = isJsonObject(options) ? options['cas'] : undefined;
  if (expected !== undefined && !Number.isInteger(Number(expected)))
    throw badRequest('error parsing check-and-set parameter');
  if (expected !== undefined && Number(expected) !== version)
    throw badRequest('check-and-set parameter did not match the current version');
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

/** Keys directly below a path; those that have keys below them end with a slash. Only for version 1. */
function list(call: RouteCall): ServiceAnswer {
  const { key, versioned } = target(call);
  if (versioned) throw new ServiceFault(405, ['1 error occurred:\n\t* unsupported operation\n\n']);
  const start = key.replace(/(?<!\/)\/*$/, '/');
  const below = call.cluster.storage.keys(start).map((each) => /^[^/]+\/?/.exec(each.slice(start.length))?.[0] ?? '');
  if (below.length === 0) throw new ServiceFault(404, []);
  return call.answer({ keys: [...new Set(below)] });
}

function remove(call: RouteCall): ServiceAnswer {
  const { key, versioned } = target(call);
  if (versioned) throw new ServiceFault(405, ['1 error occurred:\n\t* unsupported operation\n\n']);
  writeShared(call, key, null);
  return NO_CONTENT;
}

/** The key-value engines. These must be the last routes, because they match every path. */
export const KEY_VALUE_ROUTES: readonly Route[] = [
  route('GET *', 'token', read),
  route('POST *', 'token', write),
  route('LIST *', 'token', list),
  route('DELETE *', 'token', remove),
];
