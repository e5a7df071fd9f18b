import { issueActivationToken } from '../activation';
import { parseDuration } from '../duration';
import { badRequest, envelope, requiredTextField, textField, type ServiceAnswer } from '../messages';
import { demotePrimary, disableReplication, enablePrimary, revokeSecondary } from '../role-changes';
import { replicationStatus } from '../status';
import type { ReplicationKind } from '../storage';
import { KINDS, replicationRoute, roleChangeAnswer, type Route, type RouteCall } from './route';

function secondaryToken(call: RouteCall, kind: ReplicationKind): ServiceAnswer {
  const { body, path } = call.request;
  const ttl = body['ttl'];
  const ttlMs = parseDuration(typeof ttl === 'number' ? ttl : textField(body, 'ttl') || '30m');
  if (ttlMs === undefined || ttlMs <= 0) {
    throw badRequest('error converting input for field "ttl": time: invalid duration');
  }
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

function primaryRoutes(kind: ReplicationKind): Route[] {
  return [
    replicationRoute(
      ['GET'],
      `${kind}/status`,
      'none',
      (call) => envelope(call.requestId, replicationStatus(call.cluster, kind)),
      {
        onDrSecondary: true,
      },
    ),
    replicationRoute(['POST'], `${kind}/primary/enable`, 'token', (call) => {
      enablePrimary(call.cluster, kind, textField(call.request.body, 'primary_cluster_addr'));
      return roleChangeAnswer(
        call,
        'This cluster is being enabled as a primary for replication. Vault will be unavailable for a brief period and will resume service shortly.',
      );
    }),
    replicationRoute(['POST'], `${kind}/primary/demote`, 'token', (call) => {
      demotePrimary(call.cluster, kind);
      return roleChangeAnswer(
        call,
        'This cluster is being demoted to a replication secondary. Vault will be unavailable for a brief period and will resume service shortly.',
      );
    }),
    replicationRoute(['POST'], `${kind}/primary/disable`, 'token', (call) => {
      disableReplication(call.cluster, kind, 'primary');
      return roleChangeAnswer(
        call,
        'This cluster is having replication disabled. Vault will be unavailable for a brief period and will resume service shortly.',
      );
    }),
    replicationRoute(['POST'], `${kind}/primary/secondary-token`, 'sudo', (call) => secondaryToken(call, kind)),
    replicationRoute(['POST'], `${kind}/primary/revoke-secondary`, 'token', (call) => revoke(call, kind)),
  ];
}

/** Status and primary endpoints of both kinds, and the combined status. */
export const REPLICATION_PRIMARY_ROUTES: readonly Route[] = [
  ...KINDS.flatMap(primaryRoutes),
  replicationRoute(
    ['GET'],
    'status',
    'none',
    (call) =>
      envelope(call.requestId, {
        dr: replicationStatus(call.cluster, 'dr'),
        performance: replicationStatus(call.cluster, 'performance'),
      }),
    { onDrSecondary: true },
  ),
];
