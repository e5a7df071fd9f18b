import { readFileSync } from 'node:fs';
import type { RecordedCall } from './calls';
import { SimulatedCluster, type Surroundings } from './cluster';
import { FaultInjector } from './faults';
import { serve } from './http';
import type { SimulatedNode } from './node';
import { SeededRandom } from './random';
import { HARSH_READINGS, QUICK_TIMING, REALISTIC_TIMING, type Readings, type Timing } from './readings';
import { checkTopology, type Topology } from './topology';
import { establish } from './establish';

/** Several clusters with the network between them. Make one with {@link startSimulatedService}. */
export class SimulatedService {
  readonly clusters: ReadonlyMap<string, SimulatedCluster>;
  readonly faults: FaultInjector;
  /** Every request that reached a node, in order of arrival. */
  readonly calls: RecordedCall[] = [];
  readonly timing: Timing;
  readonly readings: Readings;
  /** Added to every HTTP answer, milliseconds. */
  latencyMs: number;
  readonly #cuts = new Set<string>();
  readonly #clusters = new Map<string, SimulatedCluster>();
  #clockShiftMs = 0;

  constructor(topology: Topology) {
    checkTopology(topology);
    const random = new SeededRandom(topology.seed ?? 1);
    this.timing = { ...(topology.pace === 'realistic' ? REALISTIC_TIMING : QUICK_TIMING), ...topology.timing };
    this.readings = { ...HARSH_READINGS, ...topology.readings };
    this.latencyMs = topology.latencyMs ?? 0;
    this.faults = new FaultInjector();
    this.clusters = this.#clusters;
    const certificate =
      topology.tls === undefined
        ? undefined
        : {
            certificate: readFileSync(topology.tls.certificateFile, 'utf8'),
            key: readFileSync(topology.tls.keyFile, 'utf8'),
          };
    const surroundings = this.#surroundings();
    for (const options of topology.clusters) {
      const source = random.derive(`cluster/${options.name}`);
      const cluster = new SimulatedCluster(
        options.name,
        options,
        certificate,
        source,
        this.timing,
        this.readings,
        surroundings,
      );
      this.#clusters.set(options.name, cluster);
    }
  }

  cluster(name: string): SimulatedCluster {
    const cluster = this.#clusters.get(name);
    if (cluster === undefined) throw new RangeError(`no cluster ${name}`);
    return cluster;
  }

  /** Cuts the network between two clusters; their clients still reach both. */
  partition(a: string, b: string): void {
    this.advance();
    this.#cuts.add(linkOf(a, b));
  }

  /** Mends one cut, or all of them. */
  heal(a?: string, b?: string): void {
    this.advance();
    if (a === undefined || b === undefined) this.#cuts.clear();
    else this.#cuts.delete(linkOf(a, b));
  }

  /** Moves the clock of the service forward. */
  advanceClock(milliseconds: number): void {
    this.advance();
    this.#clockShiftMs += milliseconds;
    this.advance();
  }

  now(): number {
    return Date.now() + this.#clockShiftMs;
  }

  /** Brings leadership, background writes and streams of all clusters up to the present. */
  advance(): void {
    const now = this.now();
    for (const cluster of this.#clusters.values()) {
      cluster.leadership.settle(now);
      cluster.background.advance(now);
    }
    // Sources before their secondaries, however the clusters are chained: as many rounds as a chain can be long.
    for (let round = 0; round < Math.min(3, this.#clusters.size); round += 1)
      for (const cluster of this.#clusters.values()) {
        cluster.streams.performance.advance(now);
        cluster.streams.dr.advance(now);
      }
  }

  async startNode(node: SimulatedNode): Promise<void> {
    const cluster = this.cluster(node.clusterName);
    await node.start((incoming, response) => {
      void serve(this, cluster, node, incoming, response);
    });
  }

  /** Ends all nodes. */
  async stop(): Promise<void> {
    await Promise.all([...this.#clusters.values()].flatMap((cluster) => cluster.nodes.map((node) => node.kill())));
  }

  #surroundings(): Surroundings {
    const find = (predicate: (node: SimulatedNode) => boolean): SimulatedCluster | undefined =>
      [...this.#clusters.values()].find((cluster) => cluster.nodes.some(predicate));
    return {
      now: () => this.now(),
      advance: () => this.advance(),
      clusters: () => this.#clusters.values(),
      clusterByClusterAddress: (address) =>
        address === '' ? undefined : find((node) => hostOf(node.clusterAddress) === hostOf(address)),
      clusterByApiAddress: (address) => find((node) => hostOf(node.address) === hostOf(address)),
      linked: (a, b) => !this.#cuts.has(linkOf(a.name, b.name)),
      startNode: (node) => this.startNode(node),
      encryptedTokens: new Map(),
    };
  }
}

function linkOf(a: string, b: string): string {
  return [a, b].sort().join(' - ');
}

/** Host and port; an address may come with or without scheme. */
function hostOf(address: string): string {
  return address.replace(/^https?:\/\//, '').replace(/(?<!\/)\/+$/, '');
}

/** Starts all clusters of a topology; the replication sets in it are streaming when this returns. */
export async function startSimulatedService(topology: Topology): Promise<SimulatedService> {
  const service = new SimulatedService(topology);
  try {
    for (const cluster of service.clusters.values())
      await Promise.all(cluster.nodes.map((node) => service.startNode(node)));
    establish(service, topology);
  } catch (error) {
    await service.stop();
    throw error;
  }
  return service;
}
