import { redeemActivationToken } from './activation';
import type { SimulatedCluster, ActivationContent } from './cluster';
import { badRequest, ServiceFault } from './messages';
import type { ReplicationKind, Role, SecondaryRole } from './stored';
import { DISABLED } from './stored';

/** Returns the role of the cluster, or throws if it is a different one. */
export function requireRole<M extends 'primary' | 'secondary'>(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  mode: M,
): Extract<Role, { mode: M }> {
  const isWanted = (role: Role): role is Extract<Role, { mode: M }> => role.mode === mode;
  const role = cluster.effectiveRole(kind);
  if (!isWanted(role)) throw badRequest(`cluster is not a ${kind} replication ${mode}`);
  return role;
}

/** Makes a role change and restarts the cluster's subsystems, as every role change does after its answer was sent. */
function changed(cluster: SimulatedCluster, change: (now: number) => void): void {
  const modesBefore = { dr: cluster.role('dr').mode, performance: cluster.role('performance').mode };
  const now = cluster.service.now();
  change(now);
  cluster.lastRoleChange = { at: now, modesBefore };
  cluster.leadership.restart(now);
}

export function enablePrimary(cluster: SimulatedCluster, kind: ReplicationKind, advertisedAddress: string): void {
  if (cluster.isDrSecondary || cluster.effectiveRole(kind).mode !== 'disabled')
    throw badRequest(`${kind} replication is already enabled on this cluster`);
  changed(cluster, () => makePrimary(cluster, kind, advertisedAddress));
}

/** Makes a cluster the primary of a new set; also used to set up a topology. */
export function makePrimary(cluster: SimulatedCluster, kind: ReplicationKind, advertisedAddress = ''): void {
  const role = { mode: 'primary', setId: cluster.random.uuid(), advertisedAddress, knownSecondaries: [] } as const;
  cluster.setRole(kind, role, cluster.service.now());
}

export function demotePrimary(cluster: SimulatedCluster, kind: ReplicationKind): void {
  const { setId } = requireRole(cluster, kind, 'primary');
  changed(cluster, (now) => {
    cluster.setRole(kind, { ...unconnected(setId), demoted: true }, now);
    cluster.promotedAt = undefined;
    cluster.streams[kind].reset();
    if (kind === 'dr') cluster.streams.performance.reset();
  });
}

function unconnected(setId: string): SecondaryRole {
  return {
    mode: 'secondary',
    setId,
    secondaryId: '',
    certificate: null,
    primaryClusterAddress: '',
    knownPrimaryAddresses: [],
    demoted: false,
  };
}

/** `primary/disable` and `secondary/disable`. */
export function disableReplication(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  as: 'primary' | 'secondary',
): void {
  requireRole(cluster, kind, as);
  changed(cluster, (now) => {
    cluster.setRole(kind, DISABLED, now);
    cluster.streams[kind].reset();
    if (kind === 'dr' && as === 'secondary')
      // The performance role in its data is that of the primary and must not take effect here.
      cluster.setRole('performance', DISABLED, now);
  });
}

export function promoteSecondary(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  advertisedAddress: string,
  force: boolean,
): void {
  const role = requireRole(cluster, kind, 'secondary');
  if (!force && lacksWrites(cluster, kind, role))
    throw new ServiceFault(503, [
      'the secondary is still catching up to the primary; use the "force" argument to promote anyway, with possible data loss',
    ]);
  changed(cluster, (now) => {
    cluster.setRole(kind, { mode: 'primary', setId: role.setId, advertisedAddress, knownSecondaries: [] }, now);
    cluster.promotedAt = now;
    cluster.streams[kind].reset();
    cluster.streams.performance.reset();
  });
}

function lacksWrites(cluster: SimulatedCluster, kind: ReplicationKind, role: SecondaryRole): boolean {
  const stream = cluster.streams[kind];
  if (role.demoted || !stream.knowsToLackWrites)
    // A demoted primary has every write that it accepted as primary.
    return false;
  return stream.connected || cluster.service.readings.promoteRefusedBehindDeadSource;
}

/** `secondary/enable`: wipes this cluster, joins the primary's set, and takes over its seal. */
export function enableSecondary(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  request: { token: string; primaryApiAddress: string },
): void {
  const inTheWay = kind === 'dr' ? [cluster.role('dr'), cluster.role('performance')] : [cluster.role('performance')];
  if (cluster.isDrSecondary || inTheWay.some(({ mode }) => mode !== 'disabled'))
    throw badRequest('replication is already enabled on this cluster');
  const content = redeemActivationToken(cluster, kind, request.token, request.primaryApiAddress);
  changed(cluster, (now) => {
    cluster.storage.wipe();
    joinSet(cluster, kind, content);
    cluster.clusterId = cluster.random.uuid();
    // The standbys seal themselves within a while. They need the primary's key shares or, with auto-unseal, a restart
    // (enos: restart_followers).
    for (const node of cluster.nodes) {
      node.unsealShares = [];
      if (node === cluster.leadership.active || node.sealed) continue;
      node.sealsAt =
        now + cluster.random.derive(`seal of ${node.index}`).fraction() * cluster.service.timing.standbySealMs;
      node.sealItselfWhenDue(now);
    }
  });
}

type Membership = Pick<ActivationContent, 'setId' | 'secondaryId' | 'certificate' | 'primaryClusterAddress'>;

/** Takes over the role and the seal of a set; also used to set up a topology. */
export function joinSet(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  { setId, secondaryId, certificate, primaryClusterAddress, source }: Membership & { source: SimulatedCluster },
): void {
  const role = { ...unconnected(setId), secondaryId, certificate, primaryClusterAddress };
  cluster.setRole(kind, role, cluster.service.now());
  cluster.streams[kind].reset();
  cluster.seal = source.seal;
}

/** `secondary/update-primary`. `token` is undefined if the body does not have the field. */
export function updatePrimary(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  request: { token: string | undefined; primaryApiAddress: string; addresses: readonly string[] },
): void {
  const role = requireRole(cluster, kind, 'secondary');
  if (request.token !== undefined && request.token !== '' && request.addresses.length > 0)
    throw badRequest('token and update_primary_addrs are mutually exclusive');
  if (request.addresses.length > 0) followAddresses(cluster, kind, role, request.addresses);
  else if (request.token === undefined) throw badRequest('one of token and update_primary_addrs must be given');
  else if (request.token === '') {
    const forgetful = { ...unconnected(role.setId), demoted: role.demoted };
    cluster.setRole(kind, forgetful, cluster.service.now());
    cluster.streams[kind].connected = false;
  } else {
    const content = redeemActivationToken(cluster, kind, request.token, request.primaryApiAddress);
    if (content.setId !== role.setId) throw badRequest('the activation token belongs to another replication set');
    const filterKey = `cluster/filter/${content.secondaryId}`;
    if (kind === 'performance' && content.source.storage.get(filterKey))
      content.source.storage.write(filterKey, null, cluster.service.now());
    changed(cluster, () => joinSet(cluster, kind, content));
  }
}

function followAddresses(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  role: SecondaryRole,
  addresses: readonly string[],
): void {
  if (role.demoted || role.certificate === null)
    throw badRequest('a demoted cluster must be updated with an activation token');
  const { service } = cluster;
  const now = service.now();
  const answering = addresses.find((address) => {
    const candidate = service.clusterAt(address);
    return candidate !== undefined && service.linked(cluster, candidate) && candidate.acceptsSecondary(kind, role, now);
  });
  if (answering === undefined) throw new ServiceFault(500, ['none of the given primary addresses responded']);
  cluster.setRole(kind, { ...role, primaryClusterAddress: answering, knownPrimaryAddresses: [answering] }, now);
}

/** `primary/revoke-secondary`. Returns false for an unknown id. */
export function revokeSecondary(cluster: SimulatedCluster, kind: ReplicationKind, id: string): boolean {
  const role = requireRole(cluster, kind, 'primary');
  const remaining = role.knownSecondaries.filter((known) => known.id !== id);
  if (remaining.length === role.knownSecondaries.length) return false;
  cluster.setRole(kind, { ...role, knownSecondaries: remaining }, cluster.service.now());
  return true;
}
