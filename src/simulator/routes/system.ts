import { hash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { SimulatedCluster } from '../cluster';
import {
  badRequest,
  decodeHex,
  decodeStandardBase64,
  isJsonObject,
  NO_CONTENT,
  ServiceFault,
  textField,
  type JsonObject,
  type ServiceAnswer,
  type ServiceRequest,
} from '../messages';
import type { SimulatedNode } from '../node';
import type { ReplicationKind } from '../stored';
import { route, type Route, type RouteCall } from './route';

/** Answers the routes that every node answers itself, sealed or not; undefined for all other routes. */
export function answerFromNode(
  cluster: SimulatedCluster,
  node: SimulatedNode,
  request: ServiceRequest,
): ServiceAnswer | undefined {
  const version = cluster.redactsVersion && request.token === undefined ? '' : cluster.version;
  switch (`${request.method} ${request.path}`) {
    case 'GET sys/health':
    case 'HEAD sys/health':
      return health(cluster, node, request.query, version);
    case 'GET sys/seal-status':
      return sealStatus(cluster, node, version);
    case 'GET sys/leader':
      return leader(cluster, node, cluster.redactsAddresses && request.token === undefined);
    case 'POST sys/unseal':
      return unseal(cluster, node, request.body);
    case 'POST sys/seal':
      return sealOfOtherNode(cluster, node);
  }
  return undefined;
}

type Modes = Readonly<Record<ReplicationKind, string>>;

const UNKNOWN: Modes = { dr: 'unknown', performance: 'unknown' };

/** The states that `sys/health` tells apart, each with its parameter and its code. A node of this service is in the last five. */
const HEALTH_CODES = {
  uninitcode: 501,
  removedcode: 530,
  haunhealthycode: 474,
  sealedcode: 503,
  drsecondarycode: 472,
  performancestandbycode: 473,
  standbycode: 429,
  activecode: 200,
};
type HealthParameter = keyof typeof HEALTH_CODES;

/** `sys/health`. A standby reports modes late or as `unknown`. Without an active node, or sealed, a node always reports `unknown`. */
function health(
  cluster: SimulatedCluster,
  node: SimulatedNode,
  query: URLSearchParams,
  version: string,
): ServiceAnswer {
  const now = cluster.service.now();
  const serving = cluster.leadership.serving(now);
  const active = serving === node;
  const modes = serving === undefined || node.sealed ? UNKNOWN : reportedModes(cluster, active, now);
  return {
    status: healthCode(healthState(cluster, node, modes), query),
    body: {
      initialized: true,
      sealed: node.sealed,
      standby: !active,
      performance_standby: isPerformanceStandby(cluster, node),
      replication_performance_mode: modes.performance,
      replication_dr_mode: modes.dr,
      server_time_utc: Math.floor(now / 1_000),
      version,
      enterprise: true,
      ...(node.sealed ? {} : { cluster_name: `vault-${cluster.name}`, cluster_id: cluster.clusterId }),
      ...(active ? { last_wal: cluster.storage.lastWal } : {}),
      echo_duration_ms: 0,
      clock_skew_ms: 0,
      replication_primary_canary_age_ms: 0,
    },
  };
}

function healthState(cluster: SimulatedCluster, node: SimulatedNode, modes: Modes): HealthParameter {
  if (node.sealed) return 'sealedcode';
  if (modes.dr === 'secondary') return 'drsecondarycode';
  if (cluster.leadership.serving(cluster.service.now()) === node) return 'activecode';
  return isPerformanceStandby(cluster, node) ? 'performancestandbycode' : 'standbycode';
}

/** A performance standby needs an active node. A DR secondary has none (a guess: it serves no reads). */
function isPerformanceStandby(cluster: SimulatedCluster, node: SimulatedNode): boolean {
  const serving = cluster.leadership.serving(cluster.service.now());
  const standsBy = serving !== undefined && serving !== node && !node.sealed;
  return cluster.performanceStandbys && standsBy && !cluster.isDrSecondary;
}

/** The code of a state, with what the caller asks for. `standbyok` does not cover performance standbys. */
function healthCode(state: HealthParameter, query: URLSearchParams): number {
  for (const parameter of Object.keys(HEALTH_CODES))
    if (query.has(parameter) && !/^[1-9]\d\d$/.test(query.get(parameter) ?? '')) throw new ServiceFault(400, []);
  const [standbyOk, performanceStandbyOk] = [isTrue(query, 'standbyok'), isTrue(query, 'perfstandbyok')];
  const counts = (state === 'standbycode' && standbyOk) || (state === 'performancestandbycode' && performanceStandbyOk);
  const told = counts ? 'activecode' : state;
  return Number(query.get(told) ?? HEALTH_CODES[told]);
}

/** A boolean parameter as Go reads it. A parameter without a value is false. */
function isTrue(query: URLSearchParams, name: string): boolean {
  const value = query.get(name) ?? '';
  if (/^(1|t|T|true|TRUE|True)$/.test(value)) return true;
  if (/^(|0|f|F|false|FALSE|False)$/.test(value)) return false;
  throw new ServiceFault(400, []);
}

function reportedModes(cluster: SimulatedCluster, active: boolean, now: number): Modes {
  const { lastRoleChange: change, service, random } = cluster;
  const { restartMs, standbyModeLagMs } = service.timing;
  if (!active && change !== undefined && now < change.at + restartMs + standbyModeLagMs)
    return random.chance(0.5) ? UNKNOWN : change.modesBefore;
  // The performance mode is the stored one: a DR secondary of a performance primary reports `primary` here.
  return { dr: mode(cluster, 'dr'), performance: mode(cluster, 'performance') };
}

function mode(cluster: SimulatedCluster, kind: ReplicationKind): string {
  const stream = cluster.streams[kind];
  const role = cluster.role(kind);
  const joining = role.mode === 'secondary' && role.certificate !== null && stream.source === undefined;
  return joining && cluster.effectiveRole(kind).mode === 'secondary' ? 'bootstrapping' : role.mode;
}

/** `sys/leader`. */
function leader(cluster: SimulatedCluster, node: SimulatedNode, redacted: boolean): ServiceAnswer {
  if (node.sealed) throw new ServiceFault(503, ['Vault is sealed']);
  const now = cluster.service.now();
  const active = cluster.leadership.serving(now);
  const self = active === node;
  // Standbys continue to name the last leader; that node itself does not.
  const { former } = cluster.leadership;
  const named = redacted ? undefined : (active ?? (former === node ? undefined : former));
  return {
    status: 200,
    body: {
      ha_enabled: true,
      is_self: self,
      ...(self ? { active_time: new Date(cluster.leadership.activeSince).toISOString() } : {}),
      leader_address: named?.apiAddress ?? '',
      leader_cluster_address: named?.clusterAddress ?? '',
      performance_standby: isPerformanceStandby(cluster, node),
      performance_standby_last_remote_wal: 0,
      ...(self ? { last_wal: cluster.storage.lastWal } : {}),
      raft_committed_index: cluster.storage.lastWal,
      raft_applied_index: cluster.storage.lastWal,
    },
  };
}

/**
 * `sys/seal-status`; `t` and `n` are the primary's after joining. With auto-unseal they are those of the recovery keys
 * (the service's `http/sys_seal.go`), as is `required` of a generation attempt (facts 5.1).
 */
function sealStatus(cluster: SimulatedCluster, node: SimulatedNode, version: string): ServiceAnswer {
  return {
    status: 200,
    body: {
      type: cluster.sealType,
      initialized: true,
      sealed: node.sealed,
      t: cluster.seal.threshold,
      n: cluster.seal.shares,
      progress: node.unsealShares.length,
      nonce: '',
      version,
      build_date: version === '' ? '' : '2026-01-06T00:00:00Z',
      migration: false,
      ...(node.sealed ? {} : { cluster_name: `vault-${cluster.name}`, cluster_id: cluster.clusterId }),
      recovery_seal: cluster.unsealsItself,
      storage_type: 'raft',
    },
  };
}

function unseal(cluster: SimulatedCluster, node: SimulatedNode, body: JsonObject): ServiceAnswer {
  // Recovery keys cannot unseal: a sealed node has to be restarted (a guess: the harsh reading).
  if (cluster.unsealsItself) throw badRequest('recovery keys do not unseal');
  const key = textField(body, 'key');
  const share = decodeHex(key) ?? decodeStandardBase64(key);
  if (share === undefined || share.length === 0) throw badRequest("'key' must be a valid hex or base64 string");
  if (node.sealed && !node.unsealShares.some((earlier) => earlier.equals(share))) node.unsealShares.push(share);
  if (node.unsealShares.length >= cluster.seal.threshold) {
    if (!cluster.seal.opensWith(node.unsealShares.splice(0))) throw badRequest('Unseal failed, invalid key');
    node.seal(false);
    cluster.leadership.settle(cluster.service.now());
  }
  return sealStatus(cluster, node, cluster.redactsVersion ? '' : cluster.version);
}

/** A sealed node has nothing to do, and a standby cannot verify the token. The active node goes on to the route. */
function sealOfOtherNode(cluster: SimulatedCluster, node: SimulatedNode): ServiceAnswer | undefined {
  if (node.sealed) return NO_CONTENT;
  if (cluster.leadership.serving(cluster.service.now()) === node) return undefined;
  throw new ServiceFault(500, ['vault cannot seal when in standby mode; please restart instead']);
}

function sealActive({ cluster, node, now }: RouteCall): ServiceAnswer {
  node.seal();
  cluster.leadership.settle(now);
  return NO_CONTENT;
}

function stepDown({ cluster, now }: RouteCall): ServiceAnswer {
  cluster.leadership.stepDown(now);
  return NO_CONTENT;
}

/** An encoded token is XORed with its one-time password. */
function decodeToken(call: RouteCall): ServiceAnswer {
  const [encoded, otp] = [call.text('encoded_token').replace(/(?<!=)=+$/, ''), Buffer.from(call.text('otp'))];
  const bytes = Buffer.from(encoded, 'base64');
  if (bytes.toString('base64').replace(/(?<!=)=+$/, '') !== encoded || bytes.length !== otp.length) {
    const cause = `length of byte slices is not equivalent: ${bytes.length} != ${otp.length}`;
    throw new ServiceFault(500, [`1 error occurred:\n\t* error xoring token: ${cause}\n\n`]);
  }
  return call.answer({ token: Buffer.from(bytes.map((byte, index) => byte ^ (otp[index] ?? 0))).toString() });
}

/** The engines. The service also shows them outside of `data`. */
function listMounts(call: RouteCall): ServiceAnswer {
  const { storage } = call.cluster;
  const mounts: JsonObject = {};
  for (const path of storage.keys('mount/').map((key) => key.slice('mount/'.length))) {
    const mounted = storage.read('mount', `mount/${path}`);
    if (mounted === undefined || path.startsWith('auth/')) continue;
    mounts[path] = mountFields(mounted.mountType, mounted.mountType === 'kv' ? { version: mounted.version } : null);
  }
  for (const type of ['cubbyhole', 'identity', 'system'])
    mounts[`${type === 'system' ? 'sys' : type}/`] = mountFields(type, null);
  const { status, body } = call.answer(mounts);
  return { status, body: { ...mounts, ...(isJsonObject(body) && body) } };
}

function mountFields(type: string, options: JsonObject | null): JsonObject {
  return {
    ...{ type, description: '', local: type === 'cubbyhole', seal_wrap: false, options },
    config: { default_lease_ttl: 2_764_800, max_lease_ttl: 2_764_800, force_no_cache: false },
  };
}

/** The preflight request of the official CLI's `kv` commands: any right below the mount is sufficient (facts 12). */
function mountForUi(call: RouteCall): ServiceAnswer {
  const { cluster, identity } = call;
  const path = call.parameter('rest');
  const mounted = cluster.mountOf(path);
  if (mounted === undefined || !cluster.tokens.mayBelow(identity, mounted.path)) {
    const text = `preflight capability check returned 403, please ensure client's policies grant access to path "${path}/"`;
    throw new ServiceFault(403, [text]);
  }
  const options = mounted.version === '2' ? { version: '2' } : null;
  return call.answer({ path: mounted.path, type: mounted.mountType, options, local: false });
}

/** Every node that runs unsealed is healthy. The other members of the real answer are left out. */
function autopilotState(call: RouteCall): ServiceAnswer {
  const { nodes, name } = call.cluster;
  const servers = nodes.map((node) => {
    const healthy = node.up && !node.sealed;
    const id = `${name}-${node.index}`;
    return [
      id,
      {
        id,
        address: new URL(node.clusterAddress).host,
        healthy,
        node_status: healthy ? 'alive' : 'left',
        status: 'voter',
      },
    ] as const;
  });
  const good = servers.filter(([, { healthy }]) => healthy).length;
  const quorum = Math.floor(nodes.length / 2) + 1;
  return call.answer({
    healthy: good === nodes.length,
    failure_tolerance: Math.max(0, good - quorum),
    servers: Object.fromEntries(servers),
  });
}

function listAuditDevices(call: RouteCall): ServiceAnswer {
  const devices = [...call.cluster.auditDevices].map(([path, { type, local }]) => [
    path,
    { type, local, path, description: '', options: {} },
  ]);
  return call.answer(Object.fromEntries(devices) as JsonObject);
}

const BLOCK = 512;
/** Large enough to arrive in several chunks. */
const STATE_BYTES = 200_000;

/** One file in a tar archive: header, content, and zeros up to the next block. */
function entry(name: string, content: Buffer): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, length: number) => `${value.toString(8).padStart(length - 1, '0')}\0`;
  header.write(name, 0);
  header.write(octal(0o600, 8), 100);
  header.write(octal(content.length, 12), 124);
  header.write('        0', 148);
  header.write('ustar\x0000', 257);
  header.write(
    octal(
      header.reduce((sum, byte) => sum + byte, 0),
      7,
    ),
    148,
  );
  return Buffer.concat([header, content, Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)]);
}

/** A snapshot like that of the service: the encrypted storage, and the checksums of its parts, plain and sealed. */
function snapshot({ cluster, now }: RouteCall): ServiceAnswer {
  const meta = Buffer.from(
    JSON.stringify({ Version: 1, ID: `bolt-snapshot-${now}`, Index: 1, Term: 1, Size: STATE_BYTES }),
  );
  const state = cluster.random.bytes(STATE_BYTES);
  const sums = Buffer.from(`${hash('sha256', meta)}  meta.json\n${hash('sha256', state)}  state.bin\n`);
  const files = {
    'meta.json': meta,
    'state.bin': state,
    SHA256SUMS: sums,
    'SHA256SUMS.sealed': cluster.random.bytes(96),
  };
  const entries = Object.entries(files).map(([name, content]) => entry(name, content));
  return { status: 200, bytes: gzipSync(Buffer.concat([...entries, Buffer.alloc(2 * BLOCK)])) };
}

/** System routes other than replication. */
export const SYSTEM_ROUTES: readonly Route[] = [
  route('GET sys/internal/ui/mounts/*', 'valid-token', mountForUi),
  route('GET sys/mounts', 'token', listMounts),
  route('POST sys/seal', 'sudo', sealActive),
  route('POST sys/step-down', 'sudo', stepDown),
  route('POST sys/decode-token', 'none', decodeToken),
  route('GET sys/audit', 'sudo', listAuditDevices),
  route('GET sys/storage/raft/autopilot/state', 'token', autopilotState),
  route('GET sys/license/status', 'token', (call) => call.answer({ autoloading_used: true })),
  // The harsh reading: a DR secondary serves no snapshot.
  route('GET sys/storage/raft/snapshot', 'token', snapshot),
];
