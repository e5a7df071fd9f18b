import { readFileSync } from 'node:fs';
import { SimulatedCluster } from './cluster';
import type { ActivationToken } from './cluster';
import { FaultInjector } from './faults';
import { serve, type RecordedCall } from './http';
import type { SimulatedNode } from './node';
import { SeededRandom } from './random';
import { joinSet, makePrimary } from './roles';
import { READINGS, timingOf, type Readings, type Timing, type Topology } from './topology';
import type { ReplicationKind } from './stored';
import { canonicalPath, canonicalPaths } from './paths-filter';
import type { BatchTokens } from './token-store';

const DEFAULT_MOUNTS = ['kv/', 'secret/'];

/** Several clusters and the network between them. Create one with {@link startSimulatedService}. */
export class SimulatedService {
  readonly clusters: ReadonlyMap<string, SimulatedCluster>;
  readonly faults = new FaultInjector();
  /** Every request that reached a node, in order of arrival. */
  readonly calls: RecordedCall[] = [];
  readonly timing: Timing;
  readonly readings: Readings;
  readonly random: SeededRandom;
  /** Added to every HTTP answer, milliseconds. */
  latencyMs: number;
  /** PEM certificate and key of the API listeners; without them the listeners use plain HTTP. */
  readonly certificate: { readonly cert: string; readonly key: string } | undefined;
  readonly activationTokens = new Map<string, ActivationToken>();
  readonly batchTokens: BatchTokens = new Map();
  readonly #cuts = new Set<string>();
  #clockShiftMs = 0;

  constructor(topology: Topology) {
    this.random = new SeededRandom(topology.seed ?? 1);
    this.timing = { ...timingOf(topology.pace ?? 'quick'), ...topology.timing };
    this.readings = READINGS.parse(topology.readings ?? {});
    this.latencyMs = topology.latencyMs ?? 0;
    const { tls } = topology;
    this.certificate = tls && {
      cert: readFileSync(tls.certificateFile, 'utf8'),
      key: readFileSync(tls.keyFile, 'utf8'),
    };
    const clusters = new Map<string, SimulatedCluster>();
    for (const options of topology.clusters) {
      if (clusters.has(options.name)) throw new Error(`topology: cluster ${options.name} twice`);
      const cluster = new SimulatedCluster(this, options, (...call) => serve(this, ...call));
      clusters.set(options.name, cluster);
    }
    this.clusters = clusters;
  }

  cluster(name: string): SimulatedCluster {
    const cluster = this.clusters.get(name);
    if (cluster === undefined) throw new RangeError(`unknown cluster ${name}`);
    return cluster;
  }

  /** The cluster that has a node with this cluster address or, advertised or not, API address; with or without a scheme. */
  clusterAt(address: string, of: 'clusterAddress' | 'address' = 'clusterAddress'): SimulatedCluster | undefined {
    const clusters = [...this.clusters.values()];
    const has = (node: SimulatedNode) => (of === 'address' ? [node.address, node.apiAddress] : [node.clusterAddress]);
    return clusters.find(({ nodes }) => nodes.some((node) => has(node).map(hostOf).includes(hostOf(address))));
  }

  /** False while the network between the two clusters is cut. */
  linked(a: Pick<SimulatedCluster, 'name'>, b: Pick<SimulatedCluster, 'name'>): boolean {
    return !this.#cuts.has(linkOf(a.name, b.name));
  }

  /** Cuts the network between two clusters; clients can still reach both. */
  partition(a: string, b: string): void {
    this.advance();
    this.#cuts.add(linkOf(this.cluster(a).name, this.cluster(b).name));
  }

  /** Restores the network between all clusters. */
  heal(): void {
    this.advance();
    this.#cuts.clear();
  }

  /** Moves the clock of the service forward. */
  advanceClock(milliseconds: number): void {
    this.advance();
    this.#clockShiftMs += milliseconds;
    this.advance();
  }

  /** Milliseconds since the epoch. */
  now(): number {
    return Date.now() + this.#clockShiftMs;
  }

  /** Updates every cluster to the current time. Call this before any change or read. */
  advance(): void {
    const now = this.now();
    for (const cluster of this.clusters.values()) cluster.advance(now);
    // Several rounds, so that data passes through a chain of clusters in any order; a chain has at most three.
    for (let round = 0; round < Math.min(3, this.clusters.size); round += 1)
      for (const { streams } of this.clusters.values()) {
        streams.performance.advance(now);
        streams.dr.advance(now);
      }
  }

  /** Kills all nodes. */
  async stop(): Promise<void> {
    await Promise.all(this.#nodes().map((node) => node.kill()));
  }

  /** Starts all nodes. */
  async start(): Promise<void> {
    await Promise.all(this.#nodes().map((node) => node.start()));
  }

  #nodes(): SimulatedNode[] {
    return [...this.clusters.values()].flatMap(({ nodes }) => nodes);
  }
}

function linkOf(a: string, b: string): string {
  return [a, b].sort().join(' - ');
}

/** Host and port of an address with or without a scheme. */
function hostOf(address: string): string {
  return address.replace(/^https?:\/\//, '').replace(/(?<!\/)\/+$/, '');
}

/** Starts all clusters of a topology. When this returns, its replication sets are streaming. */
export async function startSimulatedService(topology: Topology): Promise<SimulatedService> {
  const service = new SimulatedService(topology);
  try {
    await service.start();
    establish(service, topology);
  } catch (error) {
    await service.stop();
    throw error;
  }
  return service;
}

/** Puts the clusters of a topology into the state that it describes. */
function establish(service: SimulatedService, topology: Topology): void {
  const now = service.now();
  for (const cluster of service.clusters.values()) initialise(cluster, topology.mounts ?? DEFAULT_MOUNTS, now);
  if (topology.performance !== undefined) {
    const primary = service.cluster(topology.performance.primary);
    makePrimary(primary, 'performance');
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
    makePrimary(primary, 'dr');
    for (const name of set.secondaries) attach(service.cluster(name), primary, 'dr', now);
  }
  for (const cluster of service.clusters.values())
    // Backdated, so that it streams at once and `last_remote_wal` is not 0.
    if (!cluster.isDrSecondary) cluster.writeCanary(now - service.timing.streamDelayMs);
  service.advance();
}

function initialise(cluster: SimulatedCluster, mounts: NonNullable<Topology['mounts']>, now: number): void {
  cluster.leadership.install(cluster.node(0), now);
  cluster.storage.write('keyring', { type: 'keyring', id: cluster.random.uuid() }, now);
  for (const given of mounts) {
    const path = canonicalPath(typeof given === 'string' ? given : given.path);
    const mountType = path.startsWith('auth/') ? (path.split('/')[1] ?? '') : 'kv';
    const version = mountType !== 'kv' || (typeof given !== 'string' && given.version === 1) ? '1' : '2';
    cluster.storage.write(`mount/${path}`, { type: 'mount', mountType, version }, now);
  }
  cluster.rootToken = cluster.tokens.createRootToken(now);
}

/** Connects a secondary. Its id is its cluster ID, so that its paths filter has the right key in either reading. */
function attach(secondary: SimulatedCluster, primary: SimulatedCluster, kind: ReplicationKind, now: number): void {
  const role = primary.effectiveRole(kind);
  if (role.mode !== 'primary') throw new Error(`cluster ${primary.name} is not a ${kind} primary`);
  const certificate = primary.random.base62(32);
  const known = { id: secondary.clusterId, certificate, activated: true };
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
