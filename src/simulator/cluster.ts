import type { JsonObject } from './messages';
import { Leadership, SimulatedNode, type ServeNode } from './node';
import type { SeededRandom } from './random';
import { Seal } from './shamir';
import { Storage } from './storage';
import { ReplicationStream, type StreamingCluster } from './stream';
import type { Readings, Timing, Topology } from './topology';
import { KINDS, DISABLED } from './stored';
import type { ReplicationKind, Role, SecondaryRole, PathsFilter } from './stored';
import { TokenStore, type BatchTokens } from './token-store';

/** What a cluster needs of the service that it is part of. */
interface Surroundings {
  readonly clusters: ReadonlyMap<string, SimulatedCluster>;
  readonly timing: Timing;
  readonly readings: Readings;
  readonly random: SeededRandom;
  /** PEM certificate and key of the API listeners; without them the listeners use plain HTTP. */
  readonly certificate: { readonly cert: string; readonly key: string } | undefined;
  readonly activationTokens: Map<string, ActivationToken>;
  readonly batchTokens: BatchTokens;
  /** Milliseconds since the epoch. */
  now(): number;
  /** Updates every cluster to the current time. */
  advance(): void;
  /** The cluster that has a node with this address. */
  clusterAt(address: string, of?: 'clusterAddress' | 'address'): SimulatedCluster | undefined;
  /** False while the network between the two clusters is cut. */
  linked(a: { readonly name: string }, b: { readonly name: string }): boolean;
}

/** One cluster: its nodes, storage, and roles, and the methods that tests and the demo use to disturb it. */
export class SimulatedCluster {
  readonly name: string;
  /** `sys/health` `cluster_id`. */
  clusterId: string;
  readonly nodes: readonly SimulatedNode[];
  readonly storage: Storage;
  readonly tokens: TokenStore;
  readonly leadership: Leadership;
  readonly streams: Readonly<Record<ReplicationKind, ReplicationStream>>;
  readonly random: SeededRandom;
  /** Wrapping tokens that were issued here and not used yet. */
  readonly wrappingTokens = new Set<string>();
  version: string;
  readonly performanceStandbys: boolean;
  seal: Seal;
  /** From the cluster's own configuration: a cluster that joins takes over the primary's key shares but keeps this (facts 8.9). */
  readonly sealType: string;
  readonly redactsAddresses: boolean;
  redactsVersion: boolean;
  /** `enable_unauthenticated_access` in the configuration of its nodes: open to callers without a token, since 2.0. */
  unauthenticatedAccess: readonly ('generate-operation-token' | 'generate-root')[] = [];
  /** A token with the root policy that is valid here or, on a DR secondary, will be valid after its promotion. */
  rootToken = '';
  /** The only audit sink is blocked: every authenticated call answers 500, while health answers 200. */
  auditBlocked = false;
  /** Audit devices by mount path; `sys/audit` lists them. */
  readonly auditDevices = new Map<string, { readonly type: string; readonly local: boolean }>([
    ['file/', { type: 'file', local: false }],
    ['socket/', { type: 'socket', local: false }],
  ]);
  /** The current or last reindex; milliseconds since the epoch. */
  reindex: { startedAt: number; endsAt: number } | undefined;
  corruptedPages: { tree: 'replicated' | 'local'; page: number; subpages: number[] } | undefined;
  promotedAt: number | undefined;
  /** When subsystems last restarted, and the modes that standby nodes may still report. */
  lastRoleChange: { readonly at: number; readonly modesBefore: Readonly<Record<ReplicationKind, string>> } | undefined;
  /** The nonce of the generation attempt that created each token, for tests. */
  readonly attemptsOfTokens = new Map<string, string>();
  #drRole: Role = DISABLED;
  #nextCanaryAt = 0;

  constructor(
    readonly service: Surroundings,
    options: Topology['clusters'][number],
    serve: (cluster: SimulatedCluster, ...call: Parameters<ServeNode>) => Promise<void>,
  ) {
    this.name = options.name;
    this.random = service.random.derive(`cluster/${options.name}`);
    this.clusterId = this.random.uuid();
    this.version = options.version ?? '1.21.4+ent';
    this.performanceStandbys = options.performanceStandbys ?? false;
    this.sealType = options.seal?.type ?? 'shamir';
    this.redactsAddresses = options.redactAddresses === true;
    this.redactsVersion = options.redactVersion === true;
    this.seal = new Seal(options.seal?.shares ?? 5, options.seal?.threshold ?? 3, this.random.derive('seal'));
    this.storage = new Storage(BigInt(options.firstWal ?? 1_000 + Math.floor(this.random.fraction() * 9_000)));
    this.tokens = new TokenStore(this.storage, service.batchTokens, this.random.derive('tokens'));
    this.streams = { dr: new ReplicationStream('dr', this), performance: new ReplicationStream('performance', this) };
    this.nodes = Array.from(
      { length: options.nodes ?? 3 },
      (_, index) =>
        new SimulatedNode(this, index, options.ports?.[index] ?? 0, advertised(options.apiAddr, index), (...call) =>
          serve(this, ...call),
        ),
    );
    this.leadership = new Leadership(this, this.random.derive('leadership'));
  }

  get unsealsItself(): boolean {
    return this.sealType !== 'shamir';
  }

  /** API addresses of the nodes, in order. */
  get addresses(): string[] {
    return this.nodes.map((node) => node.address);
  }

  /** Cluster address of the active node, or of the first node while there is none. */
  get clusterAddress(): string {
    return (this.leadership.active ?? this.nodes[0])?.clusterAddress ?? '';
  }

  /** The address at which the active node, or the first, listens. */
  get apiAddress(): string {
    return (this.leadership.active ?? this.nodes[0])?.address ?? '';
  }

  /** What that node advertises. */
  get advertisedApiAddress(): string {
    return (this.leadership.active ?? this.nodes[0])?.apiAddress ?? '';
  }

  /** Key shares in hex. All clusters in a replication set have those of the primary. */
  get keyShares(): readonly string[] {
    return this.seal.keyShares;
  }

  /** Every token and activation token that this cluster has issued, for tests that search for leaks. */
  get issuedSecrets(): readonly string[] {
    return this.tokens.issued;
  }

  /** The role in storage; on a DR secondary, the performance role is that of its primary. */
  role(kind: ReplicationKind): Role {
    if (kind === 'dr') return this.#drRole;
    return this.storage.read('role', 'cluster/performance-role')?.role ?? DISABLED;
  }

  /** The role in effect. */
  effectiveRole(kind: ReplicationKind): Role {
    return kind === 'performance' && this.isDrSecondary ? DISABLED : this.role(kind);
  }

  setRole(kind: ReplicationKind, role: Role, now: number): void {
    if (kind === 'dr') this.#drRole = role;
    else this.storage.write('cluster/performance-role', role.mode === 'disabled' ? null : { type: 'role', role }, now);
  }

  get isDrSecondary(): boolean {
    return this.#drRole.mode === 'secondary';
  }

  filterOf(id: string): PathsFilter | undefined {
    return this.storage.read('filter', `cluster/filter/${id}`)?.filter;
  }

  /** The mount that serves a path. */
  mountOf(path: string) {
    const segments = path.split('/');
    for (let length = segments.length; length > 0; length -= 1) {
      const candidate = `${segments.slice(0, length).join('/')}/`;
      const found = this.storage.read('mount', `mount/${candidate}`);
      if (found !== undefined) return { ...found, path: candidate };
    }
    return undefined;
  }

  /** Whether a secondary with this role may connect to this cluster now. */
  acceptsSecondary(kind: ReplicationKind, secondary: SecondaryRole, now: number): boolean {
    const role = this.effectiveRole(kind);
    return (
      this.leadership.serving(now) !== undefined &&
      role.mode === 'primary' &&
      role.setId === secondary.setId &&
      role.knownSecondaries.some((known) => known.certificate === secondary.certificate)
    );
  }

  /** Clusters that are connected to this cluster as secondaries. */
  connectedSecondaries(kind: ReplicationKind): SimulatedCluster[] {
    return [...this.service.clusters.values()].filter(
      ({ streams }) => streams[kind].connected && streams[kind].source === this,
    );
  }

  /** A secondary remembers the addresses of its primary's running nodes. */
  rememberPrimary(kind: ReplicationKind, source: StreamingCluster, now: number): void {
    const role = this.role(kind);
    if (role.mode !== 'secondary') return;
    const known = source.nodes.filter((node) => node.up).map((node) => node.clusterAddress);
    const recorded = this.service.clusterAt(role.primaryClusterAddress);
    const address = recorded === source ? role.primaryClusterAddress : source.clusterAddress;
    if (address !== role.primaryClusterAddress || known.join() !== role.knownPrimaryAddresses.join())
      this.setRole(kind, { ...role, primaryClusterAddress: address, knownPrimaryAddresses: known }, now);
  }

  /** Brings leadership and background writes up to the present. */
  advance(now: number): void {
    for (const node of this.nodes) node.sealItselfWhenDue(now);
    this.leadership.settle(now);
    const interval = this.service.timing.canaryMs;
    if (interval <= 0 || now < this.#nextCanaryAt) return;
    const isFirst = this.#nextCanaryAt === 0;
    this.#nextCanaryAt = now + interval;
    const isPrimary = KINDS.some((kind) => this.effectiveRole(kind).mode === 'primary');
    if (!isFirst && isPrimary && !this.isDrSecondary && this.leadership.serving(now)) this.writeCanary(now);
  }

  /** The write that a primary makes by itself, without clients. */
  writeCanary(now: number): void {
    const mayBeShared = this.effectiveRole('performance').mode !== 'secondary';
    this.storage.write(mayBeShared ? 'canary' : 'cluster/canary', { type: 'canary', at: now }, now);
  }

  /** The state for assertions, bypassing the HTTP interface; contains no secrets. */
  snapshotState() {
    this.service.advance();
    return {
      name: this.name,
      clusterId: this.clusterId,
      activeNode: this.leadership.active?.index,
      nodes: this.nodes.map(({ up, sealed }) => ({ up, sealed })),
      dr: this.#replicationState('dr'),
      performance: this.#replicationState('performance'),
      /** Number of operation tokens that exist, usable in the current role or not. */
      operationTokens: this.tokens.operationTokenCount,
      filters: this.storage.keys('cluster/filter/').map((key) => key.slice('cluster/filter/'.length)),
    };
  }

  #replicationState(kind: ReplicationKind) {
    const role = this.effectiveRole(kind);
    const { state, connected, source, lastRemoteWal, discardedEntries } = this.streams[kind];
    return {
      mode: role.mode,
      setId: role.mode === 'disabled' ? undefined : role.setId,
      knownSecondaries: role.mode === 'primary' ? role.knownSecondaries.map(({ id }) => id) : [],
      secondaryId: role.mode === 'secondary' ? role.secondaryId : undefined,
      state,
      connectedTo: connected ? source?.name : undefined,
      lastWal: this.storage.lastWalOf(kind),
      lastRemoteWal,
      merkleRoot: this.storage.rootOf(kind),
      discardedEntries,
    };
  }

  /** Creates a token like `auth/token/create`. @param request.ttlMs null: does not expire */
  createToken(request: {
    policies: string[];
    ttlMs?: number | null;
    type?: 'service' | 'batch';
    orphan?: boolean;
  }): string {
    this.service.advance();
    const { policies, ttlMs = 3_600_000, type = 'service', orphan = type === 'batch' } = request;
    return this.tokens.create({ policies, ttlMs, type, orphan }, this.service.now()).token;
  }

  /** Writes a secret, bypassing the HTTP interface. @param path with its mount, such as `secret/app` */
  write(path: string, data: JsonObject): bigint {
    this.service.advance();
    const now = this.service.now();
    const { key, before } = this.#secretAt(path);
    if (before === undefined) return this.storage.write(key, { type: 'secret', data }, now);
    return this.storage.write(key, { type: 'versioned-secret', data, version: before + 1, at: now }, now);
  }

  /** The storage key of a secret; for a version 2 engine, also the current version of the secret. */
  #secretAt(path: string): { readonly key: string; readonly before?: number } {
    const mount = this.mountOf(path);
    if (mount?.version !== '2') return { key: `data/${path}` };
    const key = `data/${mount.path}data/${path.slice(mount.path.length)}`;
    return { key, before: this.storage.read('versioned-secret', key)?.version ?? 0 };
  }

  read(path: string): JsonObject | undefined {
    this.service.advance();
    const { key } = this.#secretAt(path);
    return (this.storage.read('secret', key) ?? this.storage.read('versioned-secret', key))?.data;
  }

  writePolicy(name: string, rules: { path: string; capabilities: string[] }[]): void {
    this.service.advance();
    const text = rules
      .map(({ path, capabilities }) => `path "${path}" { capabilities = ${JSON.stringify(capabilities)} }`)
      .join('\n');
    this.storage.write(`policy/${name}`, { type: 'policy', text, rules }, this.service.now());
  }

  /** Stops or resumes this secondary's log. Heartbeats continue, so the secondary knows which writes it lacks. */
  holdStream(kind: ReplicationKind, held: boolean): void {
    this.service.advance();
    this.streams[kind].held = held;
  }

  /** The active node steps down. After the election another node is active: the given one, if it can be. */
  leaderChange(toNode?: number): void {
    this.service.advance();
    this.leadership.stepDown(this.service.now(), toNode === undefined ? undefined : this.node(toNode));
  }

  node(index: number): SimulatedNode {
    const node = this.nodes[index];
    if (node === undefined) throw new RangeError(`cluster ${this.name} has no node ${index}`);
    return node;
  }

  unsealNode(index: number): void {
    this.sealNode(index, false);
  }

  sealNode(index: number, sealed = true): void {
    this.service.advance();
    this.node(index).seal(sealed);
    this.leadership.settle(this.service.now());
  }

  async killNode(index: number): Promise<void> {
    await this.kill([this.node(index)]);
  }

  /** Kills the processes of nodes: open connections break and new ones are refused. */
  async kill(nodes = this.nodes): Promise<void> {
    this.service.advance();
    await Promise.all(nodes.map((node) => node.kill()));
    this.leadership.settle(this.service.now());
  }

  /** Restarts the process of a node at the same address. @param sealed as a real Shamir node starts; ignored with auto-unseal */
  async startNode(index: number, { sealed = false }: { sealed?: boolean } = {}): Promise<void> {
    const node = this.node(index);
    if (node.up) return;
    node.seal(sealed && !this.unsealsItself);
    await node.start();
    this.service.advance();
  }

  async restart(options: { sealed?: boolean } = {}): Promise<void> {
    await Promise.all(this.nodes.map((node) => this.startNode(node.index, options)));
  }
}

function advertised(apiAddr: string | readonly string[] | undefined, node: number): string | undefined {
  return typeof apiAddr === 'object' ? apiAddr[node] : apiAddr;
}

/** The content of an activation token. */
export interface ActivationContent {
  readonly kind: ReplicationKind;
  readonly setId: string;
  readonly secondaryId: string;
  /** Identifies the client certificate in the token; only its holder may connect. */
  readonly certificate: string;
  readonly primaryClusterAddress: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** An activation token that was issued. */
export interface ActivationToken {
  readonly content: ActivationContent;
  readonly issuer: SimulatedCluster;
  /** The public key that it is encrypted with; empty if it is wrapped. */
  readonly publicKey: string;
}
