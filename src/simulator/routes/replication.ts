import { issueActivationToken, PUBLIC_KEY_BYTES } from '../activation';
import { parseDuration } from '../duration';
import type { JsonObject } from '../json';
import {
  badRequest,
  booleanField,
  envelope,
  listField,
  NO_CONTENT,
  requiredTextField,
  textField,
  type ServiceAnswer,
} from '../messages';
import {
  demotePrimary,
  disableReplication,
  enablePrimary,
  enableSecondary,
  promoteSecondary,
  requireSecondary,
  revokeSecondary,
  updatePrimary,
} from '../role-changes';
import { ServiceFault } from '../service-fault';
import { replicationStatus } from '../status';
import type { ReplicationKind } from '../storage';
import { checksMerkleTrees } from '../versions';
import { route, type Credential, type Route, type RouteCall } from './route';

const BRIEFLY_UNAVAILABLE = 'Vault will be unavailable for a brief period and will resume service shortly.';
const FOUND_PRIMARY =
  'Vault has successfully found secondary information; it may take a while to perform setup tasks. Vault will be unavailable until these tasks and initial sync complete.';

/** A role change, whose answer is null data and one warning. */
function change(run: (call: RouteCall, body: JsonObject) => void, warning: string): Route['run'] {
  return (call) => {
    run(call, call.request.body);
    return envelope(call.requestId, null, { warnings: [warning] });
  };
}

/** What both kinds have. Without a credential (the status) a namespace does not matter. */
function commonRoutes(kind: ReplicationKind): Route[] {
  const primary = (path: string, run: Route['run'], credential: Credential = 'token') =>
    route(`POST sys/replication/${kind}/primary/${path}`, credential, run, { rootNamespaceOnly: true });
  const secondary = (path: string, run: Route['run'], credential: Credential) =>
    route(`POST sys/replication/${kind}/secondary/${path}`, credential, run, {
      rootNamespaceOnly: true,
      onDrSecondary: kind === 'dr',
    });
  // Since the token of a DR secondary is its operation token, these need no other credential.
  const own: Credential = kind === 'dr' ? 'operation-token' : 'token';
  const address = (body: JsonObject) => textField(body, 'primary_cluster_addr');
  const disable = (as: 'primary' | 'secondary') =>
    change(
      ({ cluster }) => disableReplication(cluster, kind, as),
      `This cluster is having replication disabled. ${BRIEFLY_UNAVAILABLE}`,
    );
  return [
    route(
      `GET sys/replication/${kind}/status`,
      'none',
      (call) => envelope(call.requestId, replicationStatus(call.cluster, kind)),
      { onDrSecondary: true },
    ),
    primary(
      'enable',
      change(
        ({ cluster }, body) => enablePrimary(cluster, kind, address(body)),
        `This cluster is being enabled as a primary for replication. ${BRIEFLY_UNAVAILABLE}`,
      ),
    ),
    primary(
      'demote',
      change(
        ({ cluster }) => demotePrimary(cluster, kind),
        `This cluster is being demoted to a replication secondary. ${BRIEFLY_UNAVAILABLE}`,
      ),
    ),
    primary('disable', disable('primary')),
    primary('secondary-token', (call) => secondaryToken(call, kind), 'sudo'),
    primary('revoke-secondary', (call) => revoke(call, kind)),
    secondary('generate-public-key', (call) => generatePublicKey(call, kind), 'token'),
    secondary(
      'enable',
      change(({ cluster }, body) => {
        const token = requiredTextField(body, 'token');
        enableSecondary(cluster, kind, { token, primaryApiAddress: textField(body, 'primary_api_addr') });
      }, FOUND_PRIMARY),
      'token',
    ),
    secondary(
      'promote',
      change(
        ({ cluster }, body) => promoteSecondary(cluster, kind, address(body), booleanField(body, 'force')),
        `This cluster is being promoted to a replication primary. ${BRIEFLY_UNAVAILABLE}`,
      ),
      own,
    ),
    secondary('disable', disable('secondary'), own),
    secondary(
      'update-primary',
      change(
        ({ cluster }, body) =>
          updatePrimary(cluster, kind, {
            token: body['token'] === undefined ? undefined : textField(body, 'token'),
            primaryApiAddress: textField(body, 'primary_api_addr'),
            addresses: listField(body, 'update_primary_addrs'),
          }),
        FOUND_PRIMARY,
      ),
      own,
    ),
  ];
}

function secondaryToken(call: RouteCall, kind: ReplicationKind): ServiceAnswer {
  const { body, path } = call.request;
  const ttl = body['ttl'];
  const ttlMs = parseDuration(typeof ttl === 'number' ? ttl : textField(body, 'ttl') || '30m');
  if (ttlMs === undefined || ttlMs <= 0)
    throw badRequest('error converting input for field "ttl": time: invalid duration');
  const issued = issueActivationToken(call.cluster, kind, {
    id: requiredTextField(body, 'id'),
    ttlMs,
    publicKey: textField(body, 'secondary_public_key'),
    creationPath: path,
  });
  return issued.encrypted === undefined
    ? envelope(call.requestId, null, issued)
    : envelope(call.requestId, { token: issued.encrypted });
}

function revoke(call: RouteCall, kind: ReplicationKind): ServiceAnswer {
  const known = revokeSecondary(call.cluster, kind, requiredTextField(call.request.body, 'id'));
  if (!known) throw badRequest('no secondary with that id');
  return envelope(call.requestId, null);
}

function generatePublicKey(call: RouteCall, kind: ReplicationKind): ServiceAnswer {
  const role = call.cluster.effectiveRole(kind);
  if (role.mode === 'primary')
    throw badRequest('a public key can only be generated on a secondary or before replication is enabled');
  const publicKey = call.cluster.random.bytes(PUBLIC_KEY_BYTES).toString('base64');
  call.node.publicKeys.set(kind, publicKey);
  return envelope(call.requestId, { secondary_public_key: publicKey });
}

function reindex(call: RouteCall): ServiceAnswer {
  requireSecondary(call.cluster, 'dr');
  const { cluster, now } = call;
  const { body } = call.request;
  // Read for their types; the length of the simulated reindex does not depend on them.
  for (const option of ['diff', 'force', 'skip_flush']) booleanField(body, option);
  if (cluster.reindex !== undefined && now < cluster.reindex.endsAt) throw badRequest('reindex already in progress');
  cluster.reindex = { startedAt: now, endsAt: now + cluster.timing.reindexMs };
  cluster.corruptedPages = undefined;
  return envelope(call.requestId, null, {
    warnings: ['Reindexing is in progress; progress is shown in the server logs.'],
  });
}

function merkleCheck(call: RouteCall): ServiceAnswer {
  if (!checksMerkleTrees(call.cluster.version)) throw new ServiceFault(404, []);
  const corrupted = call.cluster.corruptedPages;
  const trees: JsonObject = {};
  for (const [index, tree] of (['replicated', 'local'] as const).entries()) {
    const affected = corrupted?.tree === tree ? corrupted : undefined;
    trees[String(index + 1)] = {
      tree_type: tree,
      root_hash: Buffer.from(call.cluster.storage.rootOf('dr'), 'hex').toString('base64'),
      corrupted_subtree_root: affected !== undefined,
      corrupted_index_tuples_map:
        affected === undefined
          ? null
          : { [String(affected.page)]: { corrupted: affected.subpages.length === 0, subpages: affected.subpages } },
    };
  }
  return envelope(call.requestId, {
    merkle_corruption_report: {
      corrupted_root: corrupted !== undefined,
      corrupted_tree_map: corrupted === undefined ? null : trees,
      last_corruption_check_epoch: new Date(call.now).toISOString(),
    },
  });
}

function deleteOperationToken(call: RouteCall): ServiceAnswer {
  const token = requiredTextField(call.request.body, 'dr_operation_token');
  if (!call.cluster.tokens.isOperationToken(token)) throw badRequest('batch tokens cannot be revoked');
  call.cluster.tokens.deleteOperationToken(token, call.now);
  return NO_CONTENT;
}

const drRoute = (path: string, run: Route['run']) =>
  route(`POST sys/replication/dr/secondary/${path}`, 'operation-token', run, {
    onDrSecondary: true,
    rootNamespaceOnly: true,
  });

/** The routes of replication but for paths filters and the generation of operation tokens. */
export const REPLICATION_ROUTES: readonly Route[] = [
  ...commonRoutes('dr'),
  ...commonRoutes('performance'),
  route(
    'GET sys/replication/status',
    'none',
    (call) =>
      envelope(call.requestId, {
        dr: replicationStatus(call.cluster, 'dr'),
        performance: replicationStatus(call.cluster, 'performance'),
      }),
    { onDrSecondary: true },
  ),
  drRoute('operation-token/delete', deleteOperationToken),
  drRoute('reindex', reindex),
  drRoute('merkle-check', merkleCheck),
];
