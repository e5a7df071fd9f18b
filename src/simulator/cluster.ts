import { ActivationTokenSigner } from './cryptography/activation-token';
import type { ActivationContent } from './activation';
import { CanaryWriter } from './canary-writer';
import type { PathsFilter } from './filters';
import { GenerationAttempts, type GenerationStrategy } from './generation-attempt';
import type { JsonObject } from './json';
import { Leadership } from './leadership';
import { SimulatedNode, type ListenerCertificate, type UnauthenticatedAccess } from './node';
import type { SeededRandom } from './random';
import type { Readings, Timing } from './readings';
import { DISABLED, type Role, type SecondaryRole } from './roles';
import { Seal } from './seal';
import { ServiceFault } from './service-fault';
import { takeSnapshot, type ClusterSnapshot } from './snapshot';
import { Storage, type ReplicationKind } from './storage';
import { ReplicationStream } from './stream';
import { TokenStore } from './tokens';
import type { TopologyCluster } from './topology';

/** What a cluster knows of the world around it. */
export interface Surroundings {
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Brings every cluster up to the present; to be called before anything is changed or read. */
  readonly advance: () => void;
  readonly clusters: () => Iterable<SimulatedCluster>;
  readonly clusterByClusterAddress: (address: string) => SimulatedCluster | undefined;
  readonly clusterByApiAddress: (address: string) => SimulatedCluster | undefined;
  /** False while the network between both is cut. */
  readonly linked: (a: SimulatedCluster, b: SimulatedCluster) => boolean;
  readonly startNode: (node: SimulatedNode) => Promise<void>;
  /** Activation tokens in the encrypted form, with what is in them and for whose public key. */
  readonly encryptedTokens: Map<string, { readonly publicKey: string; readonly content: ActivationContent }>;
}

/** A wrapping token that was issued and not yet used. */
export interface WrappingToken {
  readonly expiresAt: number;
  readonly content: JsonObject;
}

/** Time of the last restart of subsystems, and the modes that standby nodes may still report. */
interface RoleChange {
  readonly at: number;
  readonly modesBefore: Readonly<Record<ReplicationKind, string>>;
}

/** One cluster: its nodes, its storage, its roles, and the handles that tests and the demo use to disturb it. */
export class SimulatedCluster {
  /** `sys/health` `cluster_id`. */
  clusterId: string;
  readonly nodes: readonly SimulatedNode[];
  readonly storage: Storage;
  readonly tokens: TokenStore;
  readonly leadership: Leadership;
  readonly background: CanaryWriter;
  readonly streams: Readonly<Record<ReplicationKind, ReplicationStream>>;
  readonly signer = new ActivationTokenSigner();
  /** By `jti`. They stay on the cluster that issued them. */
  readonly wrappingTokens = new Map<string, WrappingToken>();
  version: string;
  seal: Seal;
  /** A token with the root policy that is valid here, or (on a DR secondary) will be after its promotion. */
  rootToken = '';
  /** With the only audit sink blocked every authenticated call answers 500, while health says 200. */
  auditBlocked = false;
  /** Audit devices by mount path; `sys/audit` lists them. */
  readonly auditDevices = new Map<string, { readonly type: string; readonly local: boolean }>([
    ['file/', { type: 'file', local: false }],
    ['socket/', { type: 'socket', local: false }],
  ]);
  /** RFC3339; health and `sys/license/status` tell it. Undefined: they tell none, as the community edition. */
  licenceExpiry: string | undefined = '2036-01-01T00:00:00Z';
  /** Automatic snapshots by the name of their configuration: when the last one ended, ms, and its error. */
  readonly automaticSnapshots = new Map<string, { readonly endedAt: number; readonly error: string }>();
  /** End of the running reindex, and when the last one ended; milliseconds since the epoch. */
  reindex: { startedAt: number; endsAt: number } | undefined;
  corruptedPages: { tree: 'replicated' | 'local'; page: number; subpages: number[] } | undefined;
  promotedAt: number | undefined;
  lastRoleChange: RoleChange | undefined;
  #drRole: Role = DISABLED;

  constructor(
    readonly name: string,
    options: TopologyCluster,
    certificate: ListenerCertificate | undefined,
    readonly random: SeededRandom,
    readonly timing: Timing,
    readonly readings: Readings,
    readonly surroundings: Surroundings,
  ) {
    this.clusterId = random.uuid();
    this.version = options.version ?? '1.21.4+ent';
    this.seal = new Seal(options.seal?.shares ?? 5, options.seal?.threshold ?? 3, random.derive('seal'));
    this.storage = new Storage(BigInt(options.firstWal ?? 1_000 + Math.floor(random.fraction() * 9_000)));
    this.tokens = new TokenStore(this.storage, random.derive('tokens'));
    this.background = new CanaryWriter(this);
    this.streams = { dr: new ReplicationStream('dr', this), performance: new ReplicationStream('performance', this) };
    this.nodes = Array.from({ length: options.nodes ?? 3 }, (_, index) => {
      const port = options.ports?.[index] ?? 0;
      return new SimulatedNode(name, index, port, certificate, () => this.#newAttempts());
    });
    this.leadership = new Leadership(this.nodes, timing, readings, random.derive('leadership'), (_node, now) =>
      this.#becameActive(now),
    );
  }

  /** API addresses of the nodes, in order. */
  get addresses(): string[] {
    return this.nodes.map((node) => node.address);
  }

  /** Cluster address of the active node, or of the first node while there is none. */
  get clusterAddress(): string {
    return (this.leadership.active ?? this.nodes[0])?.clusterAddress ?? '';
  }

  get apiAddress(): string {
    return (this.leadership.active ?? this.nodes[0])?.address ?? '';
  }

  /** Key shares in hex. All clusters of a joined set have the primary's. */
  get keyShares(): readonly string[] {
    return this.seal.keyShares;
  }

  /** The role as stored; a DR secondary holds its primary's performance role here. */
  role(kind: ReplicationKind): Role {
    if (kind === 'dr') return this.#drRole;
    const stored = this.storage.get('cluster/performance-role');
    return stored?.type === 'role' ? stored.role : DISABLED;
  }

  /** The role that is in force. */
  effectiveRole(kind: ReplicationKind): Role {
    return kind === 'performance' && this.#drRole.mode === 'secondary' ? DISABLED : this.role(kind);
  }

  setRole(kind: ReplicationKind, role: Role, now: number): void {
    if (kind === 'dr') this.#drRole = role;
    else this.storage.write('cluster/performance-role', role.mode === 'disabled' ? null : { type: 'role', role }, now);
  }

  get isDrSecondary(): boolean {
    return this.#drRole.mode === 'secondary';
  }

  filterOf(id: string): PathsFilter | undefined {
    const stored = this.storage.get(`cluster/filter/${id}`);
    return stored?.type === 'filter' ? stored.filter : undefined;
  }

  /** Path of the mount that a path belongs to, with trailing slash. */
  mountOf(path: string): string | undefined {
    const segments = path.split('/');
    for (let length = segments.length; length > 0; length -= 1) {
      const candidate = `${segments.slice(0, length).join('/')}/`;
      if (['mount', 'cluster/mount'].some((prefix) => this.storage.get(`${prefix}/${candidate}`) !== undefined))
        return candidate;
    }
    return undefined;
  }

  /** Key of a secret. What is on a local mount stays on this cluster in performance replication. */
  secretKey(path: string): string {
    const local = this.storage.get(`cluster/mount/${this.mountOf(path) ?? ''}`) !== undefined;
    return `${local ? 'cluster/data' : 'data'}/${path}`;
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

  /** Clusters that are connected to this one as secondaries. */
  *connectedSecondaries(kind: ReplicationKind): Generator<SimulatedCluster> {
    for (const other of this.surroundings.clusters())
      if (other.streams[kind].connected && other.streams[kind].source === this) yield other;
  }

  connectedSecondaryAddresses(kind: ReplicationKind): string[] {
    return [...this.connectedSecondaries(kind)].flatMap((other) => other.nodes.map((node) => node.clusterAddress));
  }

  /** A secondary keeps the addresses of its primary's living nodes. */
  rememberPrimary(kind: ReplicationKind, source: SimulatedCluster, now: number): void {
    const role = this.role(kind);
    if (role.mode !== 'secondary') return;
    const known = source.nodes.filter((node) => node.up).map((node) => node.clusterAddress);
    const recorded = this.surroundings.clusterByClusterAddress(role.primaryClusterAddress);
    const address = recorded === source ? role.primaryClusterAddress : source.clusterAddress;
    if (address !== role.primaryClusterAddress || known.join() !== role.knownPrimaryAddresses.join())
      this.setRole(kind, { ...role, primaryClusterAddress: address, knownPrimaryAddresses: known }, now);
  }

  /** A first copy of the primary's data brought its tokens too. */
  dataArrived(): void {
    this.rootToken = this.streams.dr.source?.rootToken ?? this.rootToken;
  }

  /** Nonce of the generation attempt by token, for tests that ask which attempt made it. */
  readonly attemptsOfTokens = new Map<string, string>();

  /** Every token and activation token that this cluster ever gave out, for tests that look for leaks. */
  get issuedSecrets(): readonly string[] {
    return this.tokens.issued;
  }

  snapshotState(): ClusterSnapshot {
    this.surroundings.advance();
    return takeSnapshot(this);
  }

  /** A token as `auth/token/create` would give it. @param request.ttlMs null for no expiry */
  createToken(request: {
    policies: string[];
    ttlMs?: number | null;
    type?: 'service' | 'batch';
    orphan?: boolean;
  }): string {
    this.surroundings.advance();
    const { policies, ttlMs = 3_600_000, type = 'service', orphan = type === 'batch' } = request;
    return this.tokens.create({ policies, ttlMs, type, orphan }, this.surroundings.now()).token;
  }

  /** Writes a secret past the HTTP interface. @param path with its mount, e.g. `secret/app` */
  write(path: string, data: JsonObject): bigint {
    this.surroundings.advance();
    return this.storage.write(this.secretKey(path), { type: 'secret', data }, this.surroundings.now());
  }

  read(path: string): JsonObject | undefined {
    this.surroundings.advance();
    const stored = this.storage.get(this.secretKey(path));
    return stored?.type === 'secret' ? stored.data : undefined;
  }

  writePolicy(name: string, rules: { path: string; capabilities: string[] }[]): void {
    this.surroundings.advance();
    const text = JSON.stringify({ path: Object.fromEntries(rules.map(({ path, ...rule }) => [path, rule])) });
    this.storage.write(`policy/${name}`, { type: 'policy', text, rules }, this.surroundings.now());
  }

  /**
   * People change `enable_unauthenticated_access` in the configuration of a node, or of every node, and have it read anew.
   */
  configureUnauthenticatedAccess(opened: readonly UnauthenticatedAccess[], node?: number): void {
    for (const each of node === undefined ? this.nodes : [this.node(node)]) each.unauthenticatedAccess = opened;
  }

  /** Holds this secondary's log back (its heartbeats go on, so that it knows what it lacks), or lets it go again. */
  holdStream(kind: ReplicationKind, held: boolean): void {
    this.surroundings.advance();
    this.streams[kind].held = held;
  }

  /** The active node steps down; another one (the given one, where it can) is active after the election. */
  leaderChange(toNode?: number): void {
    this.surroundings.advance();
    const target = toNode === undefined ? undefined : this.node(toNode);
    this.leadership.stepDown(this.surroundings.now(), target);
  }

  node(index: number): SimulatedNode {
    const node = this.nodes[index];
    if (node === undefined) throw new RangeError(`cluster ${this.name} has no node ${index}`);
    return node;
  }

  sealNode(index: number): void {
    this.surroundings.advance();
    this.node(index).sealed = true;
    this.leadership.settle(this.surroundings.now());
  }

  unsealNode(index: number): void {
    this.surroundings.advance();
    this.node(index).sealed = false;
    this.leadership.settle(this.surroundings.now());
  }

  /** Ends the process of a node; its connections break and new ones are refused. */
  async killNode(index: number): Promise<void> {
    this.surroundings.advance();
    await this.node(index).kill();
    this.leadership.settle(this.surroundings.now());
  }

  /** Starts the process of a node again, on the same address. @param sealed as a Shamir node really starts */
  async startNode(index: number, { sealed = false }: { sealed?: boolean } = {}): Promise<void> {
    const node = this.node(index);
    if (!node.up) {
      node.sealed = sealed;
      await this.surroundings.startNode(node);
      this.surroundings.advance();
    }
  }

  async kill(): Promise<void> {
    this.surroundings.advance();
    await Promise.all(this.nodes.map((node) => node.kill()));
    this.leadership.settle(this.surroundings.now());
  }

  async restart(options: { sealed?: boolean } = {}): Promise<void> {
    await Promise.all(this.nodes.map((node) => this.startNode(node.index, options)));
  }

  #newAttempts(): GenerationAttempts {
    return new GenerationAttempts({
      threshold: () => this.seal.threshold,
      verifyRootKey: (key) => this.seal.opens(key),
      issueToken: (strategy, nonce) => {
        const token = this.#issueGeneratedToken(strategy);
        this.attemptsOfTokens.set(token, nonce);
        return token;
      },
      random: this.random.bytes,
    });
  }

  #issueGeneratedToken(strategy: GenerationStrategy): string {
    const now = this.surroundings.now();
    if (strategy === 'dr-operation-token') return this.tokens.createOperationToken(now);
    if (this.isDrSecondary)
      // The attempt may run here, in the one slot; a root token has no place on a DR secondary.
      throw new ServiceFault(400, ['path disabled in replication DR secondary mode']);
    return this.tokens.createRootToken(now);
  }

  #becameActive(now: number): void {
    const stale = [...this.surroundings.clusters()].some(
      (other) => other !== this && other.promotedAt !== undefined && other.promotedAt <= now && this.#sharesSet(other),
    );
    if (stale)
      this.storage.write(`cluster/revoked-lease/${this.random.uuid()}`, { type: 'revoked-lease', at: now }, now);
  }

  /** Both believe to be the DR primary of the same set. */
  #sharesSet(other: SimulatedCluster): boolean {
    const [mine, theirs] = [this.role('dr'), other.role('dr')];
    return mine.mode === 'primary' && theirs.mode === 'primary' && mine.setId === theirs.setId;
  }
}
