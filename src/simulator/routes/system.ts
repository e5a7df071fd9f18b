import {
  listField,
  envelope,
  NO_CONTENT,
  permissionDenied,
  booleanField,
  badRequest,
  requiredTextField,
  textField,
  type ServiceAnswer,
} from '../messages';
import { parsePolicy } from '../policies';
import { ServiceFault } from '../service-fault';
import { isJsonObject, type JsonObject } from '../json';
import { route, type Route, type RouteCall } from './route';
import { KEY_VALUE_2, writeShared } from './key-value';

/** Mounts that replicate to performance secondaries, and local ones. */
const MOUNT_PREFIXES = ['mount/', 'cluster/mount/'];

function withSlash(path: string): string {
  return `${path.replace(/^\/+|(?<!\/)\/+$/g, '')}/`;
}

function mount(call: RouteCall): ServiceAnswer {
  const { body, namespace } = call.request;
  const path = namespace + withSlash(call.parameters['*'] ?? '');
  const local = booleanField(body, 'local');
  if (MOUNT_PREFIXES.some((prefix) => call.cluster.storage.get(`${prefix}${path}`) !== undefined))
    throw badRequest(`path is already in use at ${path}`);
  const { options } = body;
  const second = isJsonObject(options) && textField(options, 'version') === '2';
  const [asked, description] = [requiredTextField(body, 'type'), textField(body, 'description')];
  const mountType = asked === 'kv' && second ? KEY_VALUE_2 : asked;
  const key = `${local ? 'cluster/mount' : 'mount'}/${path}`;
  writeShared(call.cluster, key, { type: 'mount', mountType, local, description }, call.now);
  return NO_CONTENT;
}

function unmount(call: RouteCall): ServiceAnswer {
  const path = call.request.namespace + withSlash(call.parameters['*'] ?? '');
  const { storage } = call.cluster;
  for (const prefix of ['', 'cluster/']) {
    const mountKey = `${prefix}mount/${path}`;
    const secrets = storage.keys(`${prefix}data/${path}`);
    for (const key of storage.get(mountKey) === undefined ? [] : [...secrets, mountKey])
      writeShared(call.cluster, key, null, call.now);
  }
  return NO_CONTENT;
}

function listMounts(call: RouteCall): ServiceAnswer {
  const data: JsonObject = {};
  for (const prefix of MOUNT_PREFIXES.map((start) => start + call.request.namespace))
    for (const key of call.cluster.storage.keys(prefix)) {
      const stored = call.cluster.storage.get(key);
      const path = key.slice(prefix.length);
      if (stored?.type === 'mount' && !path.startsWith('auth/')) {
        const second = stored.mountType === KEY_VALUE_2;
        data[path] = {
          type: second ? 'kv' : stored.mountType,
          local: stored.local,
          description: stored.description,
          options: second ? { version: '2' } : null,
        };
      }
    }
  return envelope(call.requestId, data);
}

/** The preflight of the official command line's `kv` commands. */
function mountForUi(call: RouteCall): ServiceAnswer {
  const path = call.cluster.mountOf(call.request.namespace + (call.parameters['*'] ?? ''));
  if (path === undefined) throw permissionDenied();
  const stored = call.cluster.storage.get(`mount/${path}`);
  const version = stored?.type === 'mount' && stored.mountType === KEY_VALUE_2 ? '2' : '1';
  return envelope(call.requestId, { path, type: 'kv', options: { version } });
}

function createNamespace(call: RouteCall): ServiceAnswer {
  const path = call.request.namespace + withSlash(call.parameters['*'] ?? '');
  writeShared(call.cluster, `namespace/${path}`, { type: 'namespace' }, call.now);
  return envelope(call.requestId, { path });
}

function writePolicy(call: RouteCall): ServiceAnswer {
  const text = requiredTextField(call.request.body, 'policy');
  const rules = parsePolicy(text);
  if (rules === undefined) throw badRequest('failed to parse policy');
  writeShared(call.cluster, `policy/${call.parameters['name'] ?? ''}`, { type: 'policy', text, rules }, call.now);
  return NO_CONTENT;
}

function readPolicy(call: RouteCall): ServiceAnswer {
  const name = call.parameters['name'] ?? '';
  const stored = call.cluster.storage.get(`policy/${name}`);
  if (stored?.type !== 'policy') throw new ServiceFault(404, []);
  return envelope(call.requestId, { name, policy: stored.text });
}

function deletePolicy(call: RouteCall): ServiceAnswer {
  writeShared(call.cluster, `policy/${call.parameters['name'] ?? ''}`, null, call.now);
  return NO_CONTENT;
}

function capabilitiesSelf(call: RouteCall): ServiceAnswer {
  const { identity, cluster } = call;
  const paths = [...listField(call.request.body, 'paths'), ...listField(call.request.body, 'path')];
  if (identity === undefined || paths.length === 0) throw badRequest('paths must be supplied');
  const perPath = paths.map((path) => [path, cluster.tokens.capabilities(identity, path.replace(/^\//, ''))] as const);
  return envelope(call.requestId, { ...Object.fromEntries(perPath), capabilities: perPath[0]?.[1] ?? [] });
}

function listAuditDevices(call: RouteCall): ServiceAnswer {
  const devices = [...call.cluster.auditDevices].map(([path, { type, local }]) => [
    path,
    { type, local, path, description: '', options: {} },
  ]);
  return envelope(call.requestId, Object.fromEntries(devices) as JsonObject);
}

function licenceStatus(call: RouteCall): ServiceAnswer {
  const { licenceExpiry } = call.cluster;
  if (licenceExpiry === undefined) throw new ServiceFault(404, ['1 error occurred:\n\t* unsupported path\n\n']);
  const autoloaded = {
    expiration_time: licenceExpiry,
    termination_time: licenceExpiry,
    start_time: '2026-01-01T00:00:00Z',
  };
  return envelope(call.requestId, { autoloading_used: true, autoloaded, persisted_autoload: autoloaded });
}

function automaticSnapshotStatus(call: RouteCall): ServiceAnswer {
  const snapshot = call.cluster.automaticSnapshots.get(call.parameters['name'] ?? '');
  if (snapshot === undefined) throw new ServiceFault(404, []);
  return envelope(call.requestId, {
    last_snapshot_start: new Date(snapshot.endedAt - 1_000).toISOString(),
    last_snapshot_end: new Date(snapshot.endedAt).toISOString(),
    last_snapshot_error: snapshot.error,
    consecutive_errors: snapshot.error === '' ? 0 : 1,
  });
}

/** System routes beside replication: mounts, namespaces, policies, rights, seal and leadership. */
export const SYSTEM_ROUTES: readonly Route[] = [
  route('GET sys/mounts', 'token', listMounts),
  route('POST sys/mounts/*', 'token', mount),
  route('DELETE sys/mounts/*', 'token', unmount),
  route('GET sys/internal/ui/mounts/*', 'token', mountForUi),
  route('POST sys/namespaces/*', 'token', createNamespace),
  route('POST sys/policies/acl/:name', 'token', writePolicy),
  route('GET sys/policies/acl/:name', 'token', readPolicy),
  route('DELETE sys/policies/acl/:name', 'token', deletePolicy),
  route('POST sys/capabilities-self', 'token', capabilitiesSelf),
  route('GET sys/audit', 'sudo', listAuditDevices),
  route('GET sys/license/status', 'token', licenceStatus),
  route('GET sys/storage/raft/snapshot-auto/status/:name', 'token', automaticSnapshotStatus),
  route(
    'POST sys/seal',
    'sudo',
    (call) => {
      call.node.sealed = true;
      call.cluster.leadership.settle(call.now);
      return NO_CONTENT;
    },
    { rootNamespaceOnly: true },
  ),
  route(
    'POST sys/step-down',
    'sudo',
    (call) => {
      call.cluster.leadership.stepDown(call.now);
      return NO_CONTENT;
    },
    { rootNamespaceOnly: true },
  ),
];
