import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Context } from '@temporalio/activity';
import type { Client, WorkflowHandle } from '@temporalio/client';
import pino from 'pino';
import { Records } from '../../activities';
import type { RunbookActivities } from '../../activities';
import { TokenLedger } from '../../activities/tokens/token-ledger';
import { policyFor, policyText } from '../../activities/tokens/policies';
import { ceremonyWorkflowId, deploymentWorkflowId, lockWorkflowId } from '../../src/contracts/names';
import type { RunbookName } from '../../src/contracts/names';
import { recordWorkflowId } from '../../src/contracts/record';
import type { Finding } from '../../src/contracts/run-facts';
import type { Report } from '../../src/contracts/report';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { findDeployment, parseInventory } from '../../src/inventory';
import type { Deployment, Inventory } from '../../src/inventory';
import { Secret } from '../../src/secret';
import { newSealKey, newSigningKey, SealKeyring, sealValue } from '../../src/keys';
import type { SigningKey } from '../../src/keys';
import { startSimulatedService } from '../../src/simulator';
import type { Fault, FaultHandle, SimulatedService, Topology } from '../../src/simulator';
import { startWorker } from '../../src/worker/start-worker';
import type { RunningWorker } from '../../src/worker/start-worker';
import { recordEndpointCalls } from './endpoint-calls';
import { changingCalls } from './faults';
import { workersToken } from './least-privilege';
import type { WorkersRights } from './least-privilege';
import type { TestPerson } from './people';
import { findCanaries, historyText } from './secret-search';
import { behindLoadBalancers, inventoryText, pair, peopleOf, tokenFile, withTokenFiles } from './site';
import type { SiteOptions } from './site';
import { TestRun } from './test-run';
import type { Deed } from './test-run';
import { quietRuntime, workflowBundle } from './workflow-bundle';
import { temporalClient, temporalNativeConnection, temporalServer, uniqueTaskQueue } from './temporal-server';
import type { Timing } from '../../activities/timing';
import { TIMING } from '../../activities/timing';

quietRuntime();
recordEndpointCalls();

/** Short waits: the simulated service reacts at once, even on a slow machine. */
const QUICK = { ...TIMING, underWayMs: 1_000, settleMs: 1_500, lagMs: 1_500, sealingMs: 1_500 };

/**
 * Only upper bounds: with a healthy service they never expire, even on a slow machine. A test in which a limit must
 * expire sets it with {@link Scenario.limit}.
 */
const LIMITS = {
  heartbeatAge: '2m',
  catchUp: '60s',
  demote: '60s',
  promote: '60s',
  serviceReady: '60s',
  streaming: '60s',
  // Tests switch over and back without a pause.
  coolDown: '1ms',
  walStill: '10ms',
} as const;

export interface ScenarioOptions extends SiteOptions {
  /** Replaces the default simulated service; stopped with the scenario. */
  readonly service?: SimulatedService;
  /** For a service that is not simulated: creates the workers' token with this policy, as its administrator. */
  readonly makeWorkersToken?: (policy: string) => Promise<string>;
  /** Clusters and sets; default: east (primary) and west (DR secondary), with one node each. */
  readonly topology?: Partial<Topology>;
  /** Members of the deployment in the inventory, other than clusters. */
  readonly deployment?: Readonly<Record<string, unknown>>;
  /** Clusters that belong to another team and are not in our inventory. */
  readonly outside?: readonly string[];
  /** The rights of the workers' token; default: for every runbook. */
  readonly rights?: WorkersRights;
  /** Every cluster reads its batch token from a file that {@link Scenario.makeBatchToken} creates. */
  readonly batchToken?: boolean;
  /** How a person's documents are attested; default `signed`. */
  readonly attestation?: 'signed' | 'claimed';
  /** Durations of fixed waits that differ from the short defaults. */
  readonly timing?: Partial<Timing>;
  /** `none`: no worker in this process; the test starts its own with {@link Scenario.environment}. */
  readonly worker?: 'in-process' | 'none';
}

/** The simulated service that most tests use. */
export function simulated(topology: Partial<Topology> = {}, more: Partial<Topology> = {}): Promise<SimulatedService> {
  // The primary's own write right before a demotion would be a loss that the test does not expect.
  const timing = { canaryMs: 600_000, ...topology.timing };
  const mounts = ['kv/', 'secret/'];
  return startSimulatedService(
    behindLoadBalancers({ seed: 11, pace: 'quick', mounts, ...pair(), ...topology, ...more, timing }),
  );
}

/** A separate simulated deployment with a worker in this process, on the Temporal server of this Jest run. */
export class Scenario {
  readonly name = `test-${randomUUID().slice(0, 8)}`;
  readonly taskQueue = uniqueTaskQueue('runbooks');
  readonly logLines: string[] = [];
  /** The answers that `loseAnswers` must lose. */
  readonly losing: (Fault & { readonly handle: FaultHandle })[] = [];
  readonly workersKey: SigningKey;
  readonly #secrets = new Map<string, string>();
  readonly #people: ReadonlyMap<string, TestPerson>;
  readonly #workersJwk: Secret<'private-key'>;
  readonly #sealKeys = newSealKey();
  #worker: RunningWorker | undefined;
  #running: Promise<void> | undefined;
  readonly #shown = new Set<string>();
  readonly #handedOver: string[] = [];
  /** Each with its run ID, because a Workflow ID may have several runs. */
  readonly #runs: WorkflowHandle[] = [];
  #limits: Readonly<Record<string, unknown>> = {};
  #workersInventory: Inventory | undefined;

  private constructor(
    readonly service: SimulatedService,
    readonly client: Client,
    readonly directory: string,
    readonly options: ScenarioOptions,
  ) {
    const { key, jwk } = newSigningKey();
    this.workersKey = key;
    this.#workersJwk = jwk;
    const [first] = service.clusters.values();
    this.#people = peopleOf(first?.keyShares ?? [], ['grace', 'henry'], ['approvers', 'operators']);
  }

  /** The key ring of the workers. */
  get sealKeyring(): SealKeyring {
    return SealKeyring.parse(this.#sealKeys.reveal());
  }

  static async start(options: ScenarioOptions = {}): Promise<Scenario> {
    const service = options.service ?? (await simulated(options.topology));
    const directory = await mkdtemp(join(tmpdir(), 'scenario-'));
    const scenario = new Scenario(service, await temporalClient(), directory, options);
    await scenario.#prepare();
    if (options.worker !== 'none') await scenario.startWorker();
    return scenario;
  }

  get workflowId(): string {
    return deploymentWorkflowId(this.name);
  }

  /** Token file of all clusters that share the primary's tokens. */
  get tokenFile(): string {
    return join(this.directory, 'token');
  }

  /** Token file of one cluster. */
  tokenFileOf(name: string): string {
    return join(this.directory, tokenFile(this.service, name));
  }

  async #prepare(): Promise<void> {
    for (const { name, share } of this.#people.values())
      if (share !== undefined) this.#secrets.set(`key share of ${name}`, share);
    await writeFile(join(this.directory, 'workers.jwk'), this.#workersJwk.reveal(), { mode: 0o600 });
    await writeFile(join(this.directory, 'seal-keys'), this.#sealKeys.reveal(), { mode: 0o600 });
    for (const { name, rootToken } of this.service.clusters.values())
      this.#secrets.set(`root token of ${name}`, rootToken);
    const made = await this.#tokenOfAdministrator();
    if (made !== undefined) this.#secrets.set('workers token', made);
    for (const { name } of withTokenFiles(this.service))
      await writeFile(this.tokenFileOf(name), made ?? this.workersToken(name), { mode: 0o600 });
    await writeFile(join(this.directory, 'inventory.yaml'), this.inventoryText(), { mode: 0o600 });
    this.#secrets.set('workers signing key', String((JSON.parse(this.#workersJwk.reveal()) as { d: string }).d));
    this.#secrets.set('seal key', this.#sealKeys.reveal().split(':')[1] ?? '');
  }

  /** The workers' token from the administrator; undefined for a simulated service. */
  async #tokenOfAdministrator(): Promise<string | undefined> {
    const { inventory } = this;
    const { makeWorkersToken, rights } = this.options;
    const policy = () => policyFor(findDeployment(inventory, this.name), 'credential', rights?.runbooks);
    return makeWorkersToken?.(policyText(policy()));
  }

  /** Creates an orphan batch token for DR operations on the primary, and writes it to the file in the inventory. */
  makeBatchToken(primary = 'east', ttlMs = 7_200_000): string {
    const cluster = this.service.cluster(primary);
    const rights = { path: 'sys/replication/dr/secondary/*', capabilities: ['read', 'update'] };
    cluster.writePolicy('dr-operations', [rights]);
    const token = cluster.createToken({ policies: ['dr-operations'], type: 'batch', ttlMs });
    writeFileSync(this.#batchFile, token, { mode: 0o600 });
    return token;
  }

  get #batchFile(): string {
    return join(this.directory, 'batch-token');
  }

  /** Creates another workers' token for a cluster, with the printed policy of its deployment. */
  workersToken(name: string): string {
    return workersToken(this.service.cluster(name), this.inventory, this.name, this.options.rights);
  }

  inventoryText(): string {
    const { service, directory, options } = this;
    const names = [...service.clusters.keys()].filter((name) => options.outside?.includes(name) !== true);
    const claimed = options.attestation === 'claimed';
    return inventoryText(
      { service, directory, people: this.#people },
      this.name,
      names,
      {
        ...options,
        ...(options.batchToken && { cluster: () => ({ batchToken: { file: this.#batchFile } }) }),
        ...(claimed && { person: (name) => ({ attestation: 'claimed', ...options.person?.(name) }) }),
        limits: { ...LIMITS, ...options.limits, ...this.#limits },
      },
      {
        temporal: { uiAddress: temporalServer().uiAddress },
        deployment: { laboratory: claimed, ...options.deployment },
      },
    );
  }

  get inventory(): Inventory {
    return parseInventory(this.inventoryText(), 'test inventory');
  }

  /**
   * Overrides limits for all activities, or for those with one name, that start in this process's worker from now on,
   * so that only the limit under test is short. Without an argument, restores those of the options.
   */
  limit(limits: Readonly<Record<string, unknown>> = {}, only?: keyof RunbookActivities): void {
    const limitsOf = ({ deployments }: Inventory) => deployments.get(this.name)?.limits;
    this.#limits = {};
    const usual = limitsOf(this.inventory);
    this.#limits = limits;
    const changed = limitsOf(this.inventory);
    const workers = this.#workersInventory && limitsOf(this.#workersInventory);
    if (!usual || !changed || !workers) return;
    for (const name of Object.keys(changed) as (keyof typeof changed)[]) {
      // The digest of an inventory is also computed outside activities.
      const same = only === undefined || changed[name] === usual[name];
      const get = () => (same || Context.current().info.activityType === only ? changed : usual)[name];
      Object.defineProperty(workers, name, { configurable: true, enumerable: true, get });
    }
  }

  /** The deployment in the inventory that is in force in this process's worker; a test can change it like a new file. */
  get inForce(): Deployment {
    return findDeployment(this.#workersInventory ?? this.inventory, this.name);
  }

  /** Environment of a worker or command line in another process. */
  get environment(): Readonly<Record<string, string>> {
    return {
      TEMPORAL_ADDRESS: temporalServer().address,
      TEMPORAL_NAMESPACE: temporalServer().namespace,
      RUNBOOKS_INVENTORY: join(this.directory, 'inventory.yaml'),
      RUNBOOKS_SEAL_KEYS_FILE: join(this.directory, 'seal-keys'),
      RUNBOOKS_KEY_DIR: join(this.directory, 'keys'),
      RUNBOOKS_KEY_STORAGE: 'disk',
      RUNBOOKS_REPORT_DIR: join(this.directory, 'reports'),
      RUNBOOKS_TASK_QUEUE: this.taskQueue,
    };
  }

  /** @param keys name of the directory for ceremony keys; each worker has its own */
  async startWorker(keys = 'keys'): Promise<void> {
    const { environment, inventory, taskQueue } = this;
    this.#workersInventory = inventory;
    this.#worker = await startWorker({
      settings: {
        ...{ sealKeys: this.#sealKeys, keyDirectory: join(this.directory, keys), keyStorage: 'disk' },
        ...{ taskQueue, logLevel: 'debug' },
        inventoryPath: environment['RUNBOOKS_INVENTORY'] ?? '',
        reportDirectory: environment['RUNBOOKS_REPORT_DIR'] ?? '',
      },
      inventory,
      connection: await temporalNativeConnection(),
      namespace: temporalServer().namespace,
      bundle: await workflowBundle(),
      log: pino({ level: 'debug' }, { write: (line) => void this.logLines.push(line) }),
      replay: false,
      timing: { ...QUICK, ...this.options.timing },
    });
    this.#running = this.#worker.run();
  }

  /** The records as another worker with the same seal keys sees them. */
  recordsOfAWorker(
    alarms: Finding[] = [],
    temporal: Client = this.client,
    readMs?: number,
    keyring: SealKeyring = this.sealKeyring,
    raised: string[] = [],
  ): Records {
    return new Records({
      ...{ temporal, namespace: temporalServer().namespace, taskQueue: this.taskQueue },
      keyring,
      alarm: (_deployment, finding, id) => {
        alarms.push(finding);
        raised.push(id);
      },
      readMs,
    });
  }

  /** Puts a token of the service into the record, sealed, as a ceremony that has ended leaves it. */
  async leaveToken(cluster: string, uses: readonly TokenUse[], kept?: { readonly until: string }): Promise<void> {
    const { tokens, clusterId } = this.service.cluster(cluster);
    const token = new Secret('operation-token', tokens.createOperationToken(this.service.now()));
    const run = { ns: temporalServer().namespace, wid: ceremonyWorkflowId(cluster), rid: randomUUID() };
    const bound = { kind: 'operation-token', cluster, clusterId, uses, expSeconds: 3_600 } as const;
    const at = new Date().toISOString();
    await new TokenLedger(this.recordsOfAWorker()).write({
      ...{ version: 1, id: randomUUID(), deployment: this.name, cluster, clusterId, ...run, state: 'alive', at },
      sealed: await sealValue(this.sealKeyring, run, bound, token),
      ...(kept && { kept: { ...kept, uses: [...uses], holders: ['ada', 'bert', 'cleo'], ...run, at } }),
    });
  }

  /** Terminates the record and starts a workflow of another type in its place, as somebody could. */
  async breakRecord(): Promise<void> {
    const workflowId = recordWorkflowId(this.name);
    await this.client.workflow.getHandle(workflowId).terminate('terminated manually');
    await this.client.workflow.start('walSampler', { workflowId, taskQueue: 'nobody-polls-this' });
  }

  /** Removes the workflow that {@link breakRecord} started. */
  async repairRecord(): Promise<void> {
    await this.client.workflow.getHandle(recordWorkflowId(this.name)).terminate('not a record');
  }

  async stopWorker(): Promise<void> {
    this.#worker?.shutdown();
    await this.#running;
    this.#worker = undefined;
  }

  person(name: string): TestPerson {
    const person = this.#people.get(name);
    if (!person) throw new Error(`no person ${name}`);
    return person;
  }

  /** Starts `drSwitchover` to west under the lock, or under another Workflow ID. */
  async start(input: Readonly<Record<string, unknown>> = {}, workflowId = this.workflowId): Promise<TestRun> {
    return this.startRunbook(
      'drSwitchover',
      { deployment: this.name, to: 'west', reason: 'a test of the switchover', requestedBy: 'olga', ...input },
      workflowId,
    );
  }

  /**
   * Starts a runbook under its lock; `more` is its input without deployment, reason, and requester.
   */
  run(runbook: RunbookName, more: object = {}, workflowId?: string): Promise<TestRun> {
    // Runbooks that only read do not accept a reason.
    const asked = ['readiness', 'deploymentStatus', 'walSampler'].includes(runbook)
      ? { deployment: this.name, ...more }
      : this.asked(more);
    return this.startRunbook(runbook, asked, workflowId ?? lockWorkflowId(runbook, asked));
  }

  /** The complete input of {@link run}. */
  asked(more: object = {}) {
    return { deployment: this.name, reason: 'a test', requestedBy: 'olga', ...more };
  }

  /** Like {@link run}, and people perform these actions when the run asks for them. */
  async begin(runbook: RunbookName, more: object, ...deeds: readonly Deed[]): Promise<TestRun> {
    const run = await this.run(runbook, more);
    await run.do(...deeds);
    return run;
  }

  /** Like {@link begin}, but waits for the end of the run. */
  async play(runbook: RunbookName, more: object, ...deeds: readonly Deed[]): Promise<Report> {
    return (await this.begin(runbook, more, ...deeds)).report();
  }

  /** Starts a runbook that refuses before it touches anything. @returns the message and details of the refusal */
  async refusal(runbook: RunbookName, more: object = {}): Promise<string> {
    const { code, message, details } = await (await this.run(runbook, more)).failure();
    expect(code).toBe('PRECONDITION_FAILED');
    return `${message} ${JSON.stringify(details)}`;
  }

  /** A stand-alone ceremony for an operation token of west. */
  tokenCeremony(more: object = {}): Promise<TestRun> {
    return this.run('operationTokenCeremony', { cluster: 'west', uses: ['dr.promote'], keepFor: '1h', ...more });
  }

  async startRunbook(type: string, input: unknown, workflowId = this.workflowId): Promise<TestRun> {
    // As the command line does: clusters of other deployments on this server may have the same names.
    const memo = { deployment: this.name };
    const options = { taskQueue: this.taskQueue, workflowId, args: [input], memo };
    const handle = await this.client.workflow.start(type, options);
    this.#runs.push(this.client.workflow.getHandle(workflowId, handle.firstExecutionRunId));
    return new TestRun(this, handle);
  }

  /** Attaches to a run that was not started by {@link start}. */
  attach(workflowId = this.workflowId, runId?: string): TestRun {
    const handle = this.client.workflow.getHandle(workflowId, runId);
    this.#runs.push(handle);
    return new TestRun(this, handle);
  }

  /** What people were shown: searched for secrets at the end. */
  shows(...texts: readonly string[]): void {
    for (const text of texts) this.#shown.add(text);
  }

  /** Adds secrets, by name, to the search. */
  guards(secrets: ReadonlyMap<string, string>): void {
    for (const [name, secret] of secrets) this.#secrets.set(name, secret);
  }

  /** Excludes a secret that people receive in plain text because they asked for it. */
  handsOver(secret: string): void {
    this.#handedOver.push(secret);
  }

  /** Names of secrets that are readable in the histories of all runs, in the workers' logs, or in texts that people were shown. */
  async #leaks(): Promise<string[]> {
    const texts = [this.logLines.join('\n'), ...this.#shown];
    for (const run of this.#runs) texts.push(historyText(await run.fetchHistory()));
    const record = this.client.workflow.getHandle(recordWorkflowId(this.name));
    texts.push(historyText(await record.fetchHistory().catch(() => ({}))));
    for (const cluster of this.service.clusters.values()) {
      cluster.issuedSecrets.forEach((token, index) => this.#secrets.set(`token ${index} of ${cluster.name}`, token));
    }
    for (const [name, secret] of this.#secrets) if (this.#handedOver.includes(secret)) this.#secrets.delete(name);
    return [...new Set(texts.flatMap((text) => findCanaries(text, this.#secrets)))];
  }

  /** The current state of a cluster. */
  state(cluster: string) {
    return this.service.cluster(cluster).snapshotState();
  }

  /** How often a changing endpoint was called on a cluster: `POST` and the complete path, or only the end of a path. */
  calls(cluster: string, endpoint: string): number {
    return changingCalls(this.service, cluster, endpoint);
  }

  /** Stops everything; fails if a secret is found. */
  async stop(): Promise<void> {
    const leaks = await this.#leaks().catch((error: unknown) => [`the search failed: ${String(error)}`]);
    const record = this.client.workflow.getHandle(recordWorkflowId(this.name));
    for (const each of [record, ...this.#runs]) await each.terminate('end of the test').catch(() => undefined);
    await this.stopWorker();
    await this.service.stop();
    await rm(this.directory, { recursive: true, force: true });
    if (leaks.length > 0) throw new Error(`readable in a history, a log, or what was shown: ${leaks.join(', ')}`);
  }
}

export { temporaryDirectory } from './directory';
export { clusters, FILTER, pair, replicating } from './site';
export type { Deed, Parked, TestRun } from './test-run';

/** A scenario for the tests of a file or a group. */
export function openScenario(give: (opened: Scenario) => void, options?: ScenarioOptions): void {
  let scenario: Scenario | undefined;
  beforeAll(async () => {
    scenario = await Scenario.start(options);
    give(scenario);
  });
  afterAll(() => scenario?.stop());
}
