import type { SimulatedCluster } from './cluster';
import { randomBase62 } from './cryptography/tokens';
import { canonicalPaths } from './filters';
import { joinSet } from './role-changes';
import type { SimulatedService } from './service';
import type { ReplicationKind } from './storage';
import type { Topology } from './topology';

const DEFAULT_MOUNTS = ['kv/', 'secret/'];

/** Puts the clusters of a topology into the state that it describes. */
export function establish(service: SimulatedService, topology: Topology): void {
  const now = service.now();
  for (const cluster of service.clusters.values())
    initialise(cluster, canonicalPaths(topology.mounts ?? DEFAULT_MOUNTS), now);
  if (topology.performance !== undefined) {
    const primary = service.cluster(topology.performance.primary);
    makePrimary(primary, 'performance', now);
    for (const { name, filter } of topology.performance.secondaries) {
      const secondary = service.cluster(name);
      if (filter !== undefined) {
        const stored = { mode: filter.mode, paths: canonicalPaths(filter.paths) };
        primary.storage.write(`cluster/filter/${secondary.clusterId}`, { type: 'filter', filter: stored }, now);
      }
      attach(secondary, primary, 'performance', now);
    }
  }
  for (const set of topology.dr ?? []) {
    const primary = service.cluster(set.primary);
    makePrimary(primary, 'dr', now);
    for (const name of set.secondaries) attach(service.cluster(name), primary, 'dr', now);
  }
  for (const cluster of service.clusters.values())
    if (!cluster.isDrSecondary)
      // A first write streams at once, so that `last_remote_wal` is not 0.
      cluster.background.canary(now - service.timing.streamDelayMs);
  service.advance();
}

function initialise(cluster: SimulatedCluster, mounts: readonly string[], now: number): void {
  const first = cluster.nodes[0];
  if (first !== undefined) cluster.leadership.install(first, now);
  cluster.storage.write('keyring', { type: 'keyring', batchKey: cluster.random.bytes(32).toString('hex') }, now);
  for (const path of mounts) {
    const mountType = path.startsWith('auth/') ? (path.split('/')[1] ?? '') : 'kv';
    cluster.storage.write(`mount/${path}`, { type: 'mount', mountType, local: false, description: '' }, now);
  }
  cluster.rootToken = cluster.tokens.createRootToken(now);
}

function makePrimary(cluster: SimulatedCluster, kind: ReplicationKind, now: number): void {
  const role = { mode: 'primary', setId: cluster.random.uuid(), advertisedAddress: '', knownSecondaries: [] } as const;
  cluster.setRole(kind, role, now);
}

/** The id of a secondary is its own cluster id, so that both ways of naming a paths filter agree. */
function attach(secondary: SimulatedCluster, primary: SimulatedCluster, kind: ReplicationKind, now: number): void {
  const role = primary.effectiveRole(kind);
  if (role.mode !== 'primary') throw new Error(`cluster ${primary.name} is not a ${kind} primary`);
  const certificate = randomBase62(32, primary.random.bytes);
  const known = { id: secondary.clusterId, certificate, expiresAt: now + 1_800_000, activated: true };
  primary.setRole(kind, { ...role, knownSecondaries: [...role.knownSecondaries, known] }, now);
  secondary.storage.wipe();
  joinSet(secondary, kind, {
    setId: role.setId,
    secondaryId: secondary.clusterId,
    certificate,
    primaryClusterAddress: primary.clusterAddress,
    source: primary,
  });
  secondary.streams[kind].attachNow(now);
  if (kind === 'performance') secondary.rootToken = secondary.tokens.createRootToken(now);
}
