import { createSecondaryKeyPair } from '../cryptography/secondary-key';
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
  disableReplication,
  enableSecondary,
  promoteSecondary,
  requireSecondary,
  updatePrimary,
} from '../role-changes';
import { ServiceFault } from '../service-fault';
import type { ReplicationKind } from '../storage';
import { checksMerkleTrees } from '../versions';
import { KINDS, replicationRoute, roleChangeAnswer, type Credential, type Route, type RouteCall } from './route';

const FOUND_SECONDARY =
  'Vault has successfully found secondary information; it may take a while to perform setup tasks. Vault will be unavailable until these tasks and initial sync complete.';
const PROMOTED =
  'This cluster is being promoted to a replication primary. Vault will be unavailable for a brief period and will resume service shortly.';
const DISABLED =
  'This cluster is having replication disabled. Vault will be unavailable for a brief period and will resume service shortly.';

function generatePublicKey(call: RouteCall, kind: ReplicationKind): ServiceAnswer {
  const role = call.cluster.effectiveRole(kind);
  if (role.mode === 'primary') {
    throw badRequest('a public key can only be generated on a secondary or before replication is enabled');
  }
  const { publicKey, privateKey } = createSecondaryKeyPair();
  call.node.publicKeys.set(kind, privateKey);
  return envelope(call.requestId, { secondary_public_key: publicKey });
}

function secondaryRoutes(kind: ReplicationKind): Route[] {
  const onDrSecondary = kind === 'dr';
  // Since the token of a DR secondary is its operation token, these need no other credential.
  const credential: Credential = kind === 'dr' ? 'operation-token' : 'token';
  const route = (path: string, needed: Credential, run: Route['run']): Route =>
    replicationRoute(['POST'], `${kind}/secondary/${path}`, needed, run, { onDrSecondary });
  return [
    route('generate-public-key', 'token', (call) => generatePublicKey(call, kind)),
    route('enable', 'token', (call) => {
      const token = requiredTextField(call.request.body, 'token');
      enableSecondary(call.cluster, kind, {
        token,
        primaryApiAddress: textField(call.request.body, 'primary_api_addr'),
      });
      return roleChangeAnswer(call, FOUND_SECONDARY);
    }),
    route('promote', credential, (call) => {
      const { body } = call.request;
      promoteSecondary(call.cluster, kind, textField(body, 'primary_cluster_addr'), booleanField(body, 'force'));
      return roleChangeAnswer(call, PROMOTED);
    }),
    route('disable', credential, (call) => {
      disableReplication(call.cluster, kind, 'secondary');
      return roleChangeAnswer(call, DISABLED);
    }),
    route('update-primary', credential, (call) => {
      const { body } = call.request;
      updatePrimary(call.cluster, kind, {
        token: body['token'] === undefined ? undefined : textField(body, 'token'),
        primaryApiAddress: textField(body, 'primary_api_addr'),
        addresses: listField(body, 'update_primary_addrs'),
      });
      return roleChangeAnswer(call, FOUND_SECONDARY);
    }),
  ];
}

function reindex(call: RouteCall): ServiceAnswer {
  requireSecondary(call.cluster, 'dr');
  const { cluster, now } = call;
  const { body } = call.request;
  // Read for their types; the length of the simulated reindex does not depend on them.
  for (const option of ['diff', 'force', 'skip_flush']) {
    booleanField(body, option);
  }
  if (cluster.reindex !== undefined && now < cluster.reindex.endsAt) {
    throw badRequest('reindex already in progress');
  }
  cluster.reindex = { startedAt: now, endsAt: now + cluster.timing.reindexMs };
  cluster.corruptedPages = undefined;
  return envelope(call.requestId, null, {
    warnings: ['Reindexing is in progress; progress is shown in the server logs.'],
  });
}

function merkleCheck(call: RouteCall): ServiceAnswer {
  if (!checksMerkleTrees(call.cluster.version)) {
    throw new ServiceFault(404, []);
  }
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
  if (!call.cluster.tokens.isOperationToken(token)) {
    throw badRequest('batch tokens cannot be revoked');
  }
  call.cluster.tokens.deleteOperationToken(token, call.now);
  return NO_CONTENT;
}

/** Secondary endpoints of both kinds, without the generation of operation tokens. */
export const REPLICATION_SECONDARY_ROUTES: readonly Route[] = [
  ...KINDS.flatMap(secondaryRoutes),
  replicationRoute(['POST'], 'dr/secondary/operation-token/delete', 'operation-token', deleteOperationToken, {
    onDrSecondary: true,
  }),
  replicationRoute(['POST'], 'dr/secondary/reindex', 'operation-token', reindex, { onDrSecondary: true }),
  replicationRoute(['POST'], 'dr/secondary/merkle-check', 'operation-token', merkleCheck, { onDrSecondary: true }),
];
