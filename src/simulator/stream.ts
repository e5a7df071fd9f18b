import { atLeastVersion } from './messages';
import type { Leadership, SimulatedNode } from './node';
import { replicates, type Storage } from './storage';
import type { ReplicationKind, Role, SecondaryRole, PathsFilter } from './stored';
import type { Readings, Timing } from './topology';
import { dynamicFilterOf, passesFilter } from './paths-filter';

/** What a stream needs of the clusters at its ends. */
export interface StreamingCluster {
  readonly name: string;
  readonly version: string;
  readonly service: {
    readonly timing: Timing;
    readonly readings: Readings;
    clusterAt(address: string): StreamingCluster | undefined;
    linked(a: { readonly name: string }, b: { readonly name: string }): boolean;
  };
  readonly storage: Storage;
  readonly leadership: Leadership;
  readonly nodes: readonly SimulatedNode[];
  readonly clusterAddress: string;
  readonly advertisedApiAddress: string;
  readonly streams: Readonly<Record<ReplicationKind, ReplicationStream>>;
  rootToken: string;
  effectiveRole(kind: ReplicationKind): Role;
  filterOf(id: string): PathsFilter | undefined;
  acceptsSecondary(kind: ReplicationKind, secondary: SecondaryRole, now: number): boolean;
  connectedSecondaries(kind: ReplicationKind): readonly StreamingCluster[];
  rememberPrimary(kind: ReplicationKind, source: StreamingCluster, now: number): void;
}

type StreamState = 'idle' | 'merkle-diff' | 'merkle-sync' | 'stream-wals';

/**
 * The secondary's end of one replication link: compares Merkle trees, copies, then streams the write-ahead log. It has
 * no clock; `advance` updates it to the given time.
 */
export class ReplicationStream {
  state: StreamState = 'idle';
  connected = false;
  /** The cluster that it is connected to, or was connected to last. */
  source: StreamingCluster | undefined;
  /** WAL index, in the source, of the last entry that was applied. */
  lastRemoteWal = 0n;
  lastHeartbeatAt: number | undefined;
  lastStartAt: number | undefined;
  /** Number of own entries that the last comparison discarded. */
  discardedEntries = 0;
  /** True while a test stops the log; heartbeats continue. */
  held = false;
  #position = 0n;
  #announced = 0n;
  #synchronised = false;
  #phaseEndsAt = 0;
  #lostAt: number | undefined;
  #failoverAddresses: readonly string[] = [];
  #appliedFilter: PathsFilter | undefined;
  #dynamicFilter: readonly string[] | undefined;

  constructor(
    readonly kind: ReplicationKind,
    readonly cluster: StreamingCluster,
  ) {}

  /** Resets the link, as after a new activation token, a demotion, or a wipe. */
  reset(): void {
    this.state = 'idle';
    this.connected = false;
    this.source = undefined;
    this.lastRemoteWal = 0n;
    this.lastHeartbeatAt = undefined;
    this.#dynamicFilter = undefined;
    this.#position = 0n;
    this.#announced = 0n;
    this.#synchronised = false;
    this.#lostAt = undefined;
    this.#failoverAddresses = [];
    this.#appliedFilter = undefined;
  }

  /** Whether its source has announced writes that it lacks, or it was never synchronized. */
  get knowsToLackWrites(): boolean {
    return !this.#synchronised || this.#position < this.#announced;
  }

  /** The dynamic filter known to this secondary; without a connection, the last known one. */
  dynamicFilter(): readonly string[] | undefined {
    const role = this.cluster.effectiveRole(this.kind);
    if (this.connected && this.source !== undefined && role.mode === 'secondary') {
      this.#dynamicFilter = dynamicFilterOf(this.source.storage, this.source.filterOf(role.secondaryId));
    }
    return this.#dynamicFilter;
  }

  /** Updates the link to the given time. */
  advance(now: number): void {
    const role = this.cluster.effectiveRole(this.kind);
    if (role.mode !== 'secondary' || role.certificate === null) {
      this.connected = false;
      this.state = 'idle';
      return;
    }
    if (this.cluster.leadership.serving(now) === undefined) {
      this.connected = false;
      return;
    }
    const source = this.#findSource(role, now);
    if (source === undefined) {
      this.#loseSource(now);
      return;
    }
    if (source !== this.source || this.state === 'idle') this.#begin(source, now);
    this.#connect(source, role, now);
    if (this.state !== 'stream-wals') this.#compare(source, role, now);
    if (this.state === 'stream-wals') this.#receive(source, role, now);
  }

  /** Synchronizes at once, to set up a topology. */
  attachNow(now: number): void {
    const role = this.cluster.effectiveRole(this.kind);
    const source = role.mode === 'secondary' ? this.#findSource(role, now) : undefined;
    if (role.mode !== 'secondary' || source === undefined)
      throw new Error(`cluster ${this.cluster.name} has no ${this.kind} primary to attach to`);
    this.#begin(source, now);
    this.#connect(source, role, now);
    this.#copy(source, role, now);
  }

  #findSource(role: SecondaryRole, now: number): StreamingCluster | undefined {
    const { service } = this.cluster;
    const follows =
      this.kind === 'performance' &&
      service.readings.performanceSecondariesFollow &&
      now - (this.#lostAt ?? now) >= service.timing.followMs;
    const addresses = [
      role.primaryClusterAddress,
      ...role.knownPrimaryAddresses,
      ...(follows ? this.#failoverAddresses : []),
    ];
    return addresses
      .map((address) => service.clusterAt(address))
      .find(
        (candidate) =>
          candidate !== undefined &&
          candidate !== this.cluster &&
          service.linked(this.cluster, candidate) &&
          candidate.acceptsSecondary(this.kind, role, now),
      );
  }

  #loseSource(now: number): void {
    if (this.connected || this.#lostAt === undefined) this.#lostAt = now;
    // The state stays `stream-wals`.
    this.connected = false;
  }

  #begin(source: StreamingCluster, now: number): void {
    this.source = source;
    this.state = 'merkle-diff';
    this.#synchronised = false;
    this.#phaseEndsAt = now + this.cluster.service.timing.merkleDiffMs;
    this.lastStartAt = now;
    this.lastHeartbeatAt = now;
  }

  #connect(source: StreamingCluster, role: SecondaryRole, now: number): void {
    this.connected = true;
    this.#lostAt = undefined;
    const interval = Math.max(1, this.cluster.service.timing.heartbeatMs);
    const last = this.lastHeartbeatAt ?? now;
    this.lastHeartbeatAt = last + Math.floor((now - last) / interval) * interval;
    this.#failoverAddresses = source
      .connectedSecondaries('dr')
      .flatMap(({ nodes }) => nodes.map((node) => node.clusterAddress));
    this.cluster.rememberPrimary(this.kind, source, now);
  }

  #compare(source: StreamingCluster, role: SecondaryRole, now: number): void {
    const tooOld = !atLeastVersion(this.cluster.version, source.version);
    while (now >= this.#phaseEndsAt)
      if (this.state === 'merkle-diff') {
        this.state = 'merkle-sync';
        this.#phaseEndsAt += Math.max(1, this.cluster.service.timing.merkleSyncMs);
      } else if (tooOld) {
        this.state = 'merkle-diff';
        this.#phaseEndsAt = now + Math.max(1, this.cluster.service.timing.merkleDiffMs);
      } else {
        this.#copy(source, role, now);
        return;
      }
  }

  #copy(source: StreamingCluster, role: SecondaryRole, now: number): void {
    const filter = this.#filter(source, role);
    const selected = [...source.storage.replicated(this.kind)].filter(([key]) => this.#passes(filter, key));
    this.discardedEntries = this.cluster.storage.replaceReplicated(this.kind, selected, now);
    this.#appliedFilter = filter;
    this.#position = source.storage.lastWal;
    this.#announced = this.#position;
    this.#synchronised = true;
    // 0 until a write streams.
    this.lastRemoteWal = 0n;
    this.state = 'stream-wals';
    // The data includes the primary's tokens.
    if (this.kind === 'dr') this.cluster.rootToken = source.rootToken;
  }

  #receive(source: StreamingCluster, role: SecondaryRole, now: number): void {
    const filter = this.#filter(source, role);
    const entries = source.storage.entriesAfter(this.#position);
    if (filter !== this.#appliedFilter || entries === null) {
      // A changed filter removes and adds entries; if the log does not go back far enough, a comparison is needed.
      this.#copy(source, role, now);
      return;
    }
    const { streamDelayMs } = this.cluster.service.timing;
    let open = !this.held;
    for (const { index, key, value, at } of entries) {
      open &&= at + streamDelayMs <= now;
      const wanted = replicates(key, this.kind);
      if (wanted && at <= (this.lastHeartbeatAt ?? now)) this.#announced = index;
      if (!open) continue;
      this.#position = index;
      if (!wanted) continue;
      this.lastRemoteWal = index;
      if (this.#passes(filter, key)) this.cluster.storage.write(key, value, Math.min(now, at + streamDelayMs));
    }
  }

  #passes(filter: PathsFilter | undefined, key: string): boolean {
    return this.kind === 'dr' || passesFilter(filter, key);
  }

  #filter(source: StreamingCluster, role: SecondaryRole): PathsFilter | undefined {
    return this.kind === 'performance' ? source.filterOf(role.secondaryId) : undefined;
  }
}
