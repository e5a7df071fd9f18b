import { issueActivationToken, PUBLIC_KEY_BYTES } from '../activation';
import type { SimulatedCluster } from '../cluster';
import { badRequest, NO_CONTENT, parseDuration, type JsonObject, type ServiceAnswer } from '../messages';
import {
  demotePrimary,
  disableReplication,
  enablePrimary,
  enableSecondary,
  promoteSecondary,
  requireRole,
  revokeSecondary,
  updatePrimary,
} from '../roles';
import type { ReplicationStream, StreamingCluster } from '../stream';
import { KINDS } from '../stored';
import type { ReplicationKind, PrimaryRole, SecondaryRole } from '../stored';
import { route, type Credential, type Route, type RouteCall } from './route';

const BRIEFLY_UNAVAILABLE = 'Vault will be unavailable for a brief period and will resume service shortly.';
const FOUND_PRIMARY =
  'Vault has successfully found secondary information; it may take a while to perform setup tasks. Vault will be unavailable until these tasks and initial sync complete.';

/** The routes that both kinds of replication have. */
function commonRoutes(kind: ReplicationKind): Route[] {
  const base = `sys/replication/${kind}`;
  const post = (path: string, run: Route['run'], credential: Credential = 'token') =>
    route(`POST ${base}/${path}`, credential, run);
  // On a DR secondary, the operation token is the only credential.
  const own: Credential = kind === 'dr' ? 'operation-token' : 'token';
  const disable = (as: 'primary' | 'secondary') => (call: RouteCall) => {
    disableReplication(call.cluster, kind, as);
    return announced(call, 'having replication disabled');
  };
  return [
    route(`GET ${base}/status`, 'none', (call) => call.answer(replicationStatus(call.cluster, kind))),
    post('primary/enable', (call) => {
      enablePrimary(call.cluster, kind, call.text('primary_cluster_addr'));
      return announced(call, 'being enabled as a primary for replication');
    }),
    post('primary/demote', (call) => {
      demotePrimary(call.cluster, kind);
      return announced(call, 'being demoted to a replication secondary');
    }),
    post('primary/disable', disable('primary')),
    post('primary/secondary-token', (call) => secondaryToken(call, kind), 'sudo'),
    post('primary/revoke-secondary', (call) => {
      if (!revokeSecondary(call.cluster, kind, call.required('id'))) throw badRequest('no secondary with that id');
      return call.answer(null);
    }),
    post('secondary/generate-public-key', (call) => generatePublicKey(call, kind)),
    post('secondary/enable', (call) => {
      const token = call.required('token');
      enableSecondary(call.cluster, kind, { token, primaryApiAddress: call.text('primary_api_addr') });
      return call.answer(null, { warning: FOUND_PRIMARY });
    }),
    post(
      'secondary/promote',
      (call) => {
        promoteSecondary(call.cluster, kind, call.text('primary_cluster_addr'), call.flag('force'));
        return announced(call, 'being promoted to a replication primary');
      },
      own,
    ),
    post('secondary/disable', disable('secondary'), own),
    post('secondary/update-primary', (call) => followPrimary(call, kind), own),
  ];
}

function followPrimary(call: RouteCall, kind: ReplicationKind): ServiceAnswer {
  updatePrimary(call.cluster, kind, {
    token: call.body['token'] === undefined ? undefined : call.text('token'),
    primaryApiAddress: call.text('primary_api_addr'),
    addresses: call.list('update_primary_addrs'),
  });
  return call.answer(null, { warning: FOUND_PRIMARY });
}

/** The answer to a role change: no data and one warning. */
function announced(call: RouteCall, change: string): ServiceAnswer {
  return call.answer(null, { warning: `This cluster is ${change}. ${BRIEFLY_UNAVAILABLE}` });
}

function secondaryToken(call: RouteCall, kind: ReplicationKind): ServiceAnswer {
  const ttlMs = parseDuration(call.text('ttl') || '30m');
  if (ttlMs === undefined || ttlMs <= 0)
    throw badRequest('error converting input for field "ttl": time: invalid duration');
  const { wrapInfo, encrypted } = issueActivationToken(call.cluster, kind, {
    id: call.required('id'),
    ttlMs,
    publicKey: call.text('secondary_public_key'),
    creationPath: call.request.path,
  });
  return wrapInfo === undefined ? call.answer({ token: encrypted }) : call.answer(null, { wrapInfo });
}

function generatePublicKey(call: RouteCall, kind: ReplicationKind): ServiceAnswer {
  if (call.cluster.effectiveRole(kind).mode === 'primary')
    throw badRequest('a public key can only be generated on a secondary or before replication is enabled');
  const publicKey = call.cluster.random.bytes(PUBLIC_KEY_BYTES).toString('base64');
  call.node.publicKeys.set(kind, publicKey);
  return call.answer({ secondary_public_key: publicKey });
}

function reindex(call: RouteCall): ServiceAnswer {
  const { cluster, now } = call;
  requireRole(cluster, 'dr', 'secondary');
  // Only their types are checked; they do not affect the simulated reindex.
  for (const option of ['diff', 'force', 'skip_flush']) call.flag(option);
  if (cluster.reindex !== undefined && now < cluster.reindex.endsAt) throw badRequest('reindex already in progress');
  cluster.reindex = { startedAt: now, endsAt: now + cluster.service.timing.reindexMs };
  cluster.corruptedPages = undefined;
  return call.answer(null, { warning: 'Reindexing is in progress; progress is shown in the server logs.' });
}

function merkleCheck(call: RouteCall): ServiceAnswer {
  const corrupted = call.cluster.corruptedPages;
  const trees: JsonObject = {};
  for (const [index, tree] of (['replicated', 'local'] as const).entries()) {
    const { page, subpages } = corrupted?.tree === tree ? corrupted : { page: undefined, subpages: [] };
    trees[String(index + 1)] = {
      tree_type: tree,
      root_hash: Buffer.from(call.cluster.storage.rootOf('dr'), 'hex').toString('base64'),
      corrupted_subtree_root: page !== undefined,
      corrupted_index_tuples_map:
        page === undefined ? null : { [page]: { corrupted: subpages.length === 0, subpages } },
    };
  }
  return call.answer({
    merkle_corruption_report: {
      corrupted_root: corrupted !== undefined,
      corrupted_tree_map: corrupted === undefined ? null : trees,
      last_corruption_check_epoch: new Date(call.now).toISOString(),
    },
  });
}

function deleteOperationToken(call: RouteCall): ServiceAnswer {
  const token = call.required('dr_operation_token');
  if (call.cluster.tokens.identifyOperation(token) === undefined) throw badRequest('batch tokens cannot be revoked');
  call.cluster.tokens.deleteOperationToken(token, call.now);
  return NO_CONTENT;
}

/** Go's zero time in seconds since the epoch: "never". */
const NEVER = '-62135596800';

/** Fields that older or busy nodes omit. */
const OPTIONAL_FIELDS = [
  'last_reindex_epoch',
  'last_corruption_check_epoch',
  'ssct_generation_counter',
  'clock_skew_ms',
  'last_heartbeat_duration_ms',
  'replication_primary_canary_age_ms',
  'last_start',
];

/** The `data` of a replication status. */
function replicationStatus(cluster: SimulatedCluster, kind: ReplicationKind): JsonObject {
  const role = cluster.effectiveRole(kind);
  switch (role.mode) {
    case 'disabled':
      return { mode: 'disabled' };
    case 'primary':
      return thinned(cluster, primaryStatus(cluster, kind, role));
    case 'secondary':
      return thinned(cluster, secondaryStatus(cluster, kind, role));
  }
}

function thinned(cluster: SimulatedCluster, fields: JsonObject): JsonObject {
  const kept = Object.entries(fields).filter(
    ([name]) =>
      !OPTIONAL_FIELDS.includes(name) || !cluster.random.chance(cluster.service.readings.optionalFieldMissingChance),
  );
  return Object.fromEntries(kept);
}

function treeFields(cluster: SimulatedCluster, kind: ReplicationKind): JsonObject {
  const now = cluster.service.now();
  const { startedAt, endsAt } = cluster.reindex ?? { startedAt: 0, endsAt: 0 };
  const running = now < endsAt;
  const share = (now - startedAt) / (endsAt - startedAt);
  const stage =
    share < 0.5
      ? { reindex_stage: 'scanning' }
      : {
          reindex_stage: 'building',
          reindex_building_progress: Math.floor(share * 1_000),
          reindex_building_total: 1_000,
        };
  return {
    merkle_root: cluster.storage.rootOf(kind),
    last_reindex_epoch: running ? '0' : String(Math.floor(endsAt / 1_000)),
    corrupted_merkle_tree: cluster.corruptedPages !== undefined,
    last_corruption_check_epoch: NEVER,
    ssct_generation_counter: 0,
    ...(running ? { reindex_in_progress: true, ...stage } : {}),
  };
}

function primaryStatus(cluster: SimulatedCluster, kind: ReplicationKind, role: PrimaryRole): JsonObject {
  return {
    mode: 'primary',
    state: 'running',
    cluster_id: role.setId,
    primary_cluster_addr: role.advertisedAddress,
    known_secondaries: role.knownSecondaries.map(({ id }) => id),
    last_wal: cluster.storage.lastWal,
    [kind === 'dr' ? 'last_dr_wal' : 'last_performance_wal']: cluster.storage.lastWalOf(kind),
    ...treeFields(cluster, kind),
    // Includes those that are no longer connected.
    secondaries: role.knownSecondaries.flatMap(({ id }) => {
      const secondary = [...cluster.service.clusters.values()].find((each) => {
        const its = each.effectiveRole(kind);
        return its.mode === 'secondary' && its.secondaryId === id && each.streams[kind].source === cluster;
      });
      return secondary ? [{ node_id: id, ...peer(cluster, secondary, secondary.streams[kind]) }] : [];
    }),
  };
}

function secondaryStatus(cluster: SimulatedCluster, kind: ReplicationKind, role: SecondaryRole): JsonObject {
  const stream = cluster.streams[kind];
  const detached = role.certificate === null;
  return {
    mode: 'secondary',
    state: stream.state,
    connection_state: detached ? 'idle' : stream.connected ? 'ready' : 'transient_failure',
    cluster_id: role.setId,
    secondary_id: role.secondaryId,
    primary_cluster_addr: role.primaryClusterAddress,
    known_primary_cluster_addrs: [...role.knownPrimaryAddresses],
    last_remote_wal: stream.lastRemoteWal,
    last_start: stream.lastStartAt === undefined ? undefined : timestamp(stream.lastStartAt),
    ...treeFields(cluster, kind),
    primaries: detached || stream.source === undefined ? [] : [peer(cluster, stream.source, stream)],
  };
}

/** The other cluster of a link, as this cluster reports it. */
function peer(reporter: SimulatedCluster, other: StreamingCluster, stream: ReplicationStream): JsonObject {
  const now = reporter.service.now();
  const { storage } = stream.cluster;
  const canary = (stream.kind === 'dr' ? storage.get('cluster/canary') : undefined) ?? storage.get('canary');
  return thinned(reporter, {
    api_address: other.advertisedApiAddress,
    cluster_address: other.clusterAddress,
    connection_status: stream.connected ? 'connected' : 'disconnected',
    // Go's zero time: never (a guess for this field).
    last_heartbeat: stream.lastHeartbeatAt === undefined ? '0001-01-01T00:00:00Z' : timestamp(stream.lastHeartbeatAt),
    last_heartbeat_duration_ms: '1',
    clock_skew_ms: '0',
    replication_primary_canary_age_ms:
      canary?.type === 'canary' ? String(Math.max(0, Math.round(now - canary.at))) : undefined,
  });
}

function timestamp(at: number): string {
  return new Date(at).toISOString();
}

const drRoute = (path: string, run: Route['run']) =>
  route(`POST sys/replication/dr/secondary/${path}`, 'operation-token', run);

/** The routes of replication, except paths filters and the generation of operation tokens. */
export const REPLICATION_ROUTES: readonly Route[] = [
  ...commonRoutes('dr'),
  ...commonRoutes('performance'),
  route('GET sys/replication/status', 'none', (call) => {
    const [dr, performance] = KINDS.map((kind) => replicationStatus(call.cluster, kind));
    return call.answer({ dr, performance });
  }),
  drRoute('operation-token/delete', deleteOperationToken),
  drRoute('reindex', reindex),
  drRoute('merkle-check', merkleCheck),
];
