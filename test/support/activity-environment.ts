import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { WorkflowNotFoundError } from '@temporalio/client';
import { ApplicationFailure, defaultPayloadConverter } from '@temporalio/common';
import type { Client } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';
import { CompleteAsyncError } from '@temporalio/activity';
import type { Info } from '@temporalio/activity';
import type Long from 'long';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { CancellationScope } from '@temporalio/workflow';
import pino from 'pino';
import { Records, activities, interceptActivities, raiseRecordAlarm } from '../../activities';
import type { ActivityDependencies, RunbookActivities } from '../../activities';
import { planDigest } from '../../activities/approvals/planning';
import type { Assessment, Authority, WantedToken } from '../../src/contracts/activities';
import type {
  CeremonyHandle,
  CeremonyTarget,
  EnvelopeVerdict,
  OperationTokenReference,
  Sealed,
} from '../../src/contracts/ceremony';
import { GATE_NAMES } from '../../src/contracts/gates';
import type { AllowedOperation, Check } from '../../src/contracts/plan';
import type { ReadinessResult } from '../../src/contracts/readiness';
import type { Finding, StepContext } from '../../src/contracts/run-facts';
import { UPDATES_FROM } from '../../src/contracts/signals';
import type { SignalName, UpdateName } from '../../src/contracts/signals';
import type { InputOf, TokenUse } from '../../src/contracts/runbook-inputs';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import { inventoryDigest, parseInventory } from '../../src/inventory';
import type { Inventory, Limits } from '../../src/inventory';
import { Secret } from '../../src/secret';
import { KeyRecords, newSealKey, newSigningKey, SealKeyring, sealValue } from '../../src/keys';
import type { RunContext, SigningKey } from '../../src/keys';
import { startSimulatedService } from '../../src/simulator';
import type { FaultAction, FaultHandle, SimulatedCluster, SimulatedService, Topology } from '../../src/simulator';
import { HeldShares, TokenGenerations, badShareFindings } from '../../workflows/procedures/token-generation';
import type { GenerationCalls } from '../../workflows/procedures/token-generation';
import type { RecordsOptions } from '../../activities/record';
import type { Timing } from '../../activities/timing';
import { TokenLedger } from '../../activities/tokens/token-ledger';
import type { LedgerEntry } from '../../activities/tokens/token-ledger';
import { recordWorkflowId } from '../../src/contracts/record';
import { activityEvents } from './activity-events';
import { findCanaries } from './secret-search';
import { recordEndpointCalls } from './endpoint-calls';
import { changingCalls } from './faults';
import { workersToken } from './least-privilege';
import { RecordServer } from './record-server';
import type { TestPerson } from './people';
import { approvalOf, envelopeOf } from './people';
import { behindLoadBalancers, inventoryText, pair, peopleOf, tokenFile, withTokenFiles } from './site';
import type { SiteOptions } from './site';

export { clusters, FILTER, replicating } from './site';

recordEndpointCalls();

/** Short durations, in ms, for fixed waits. */
const SHORT: Timing = {
  underWayMs: 400,
  settleMs: 500,
  lagMs: 300,
  sealingMs: 300,
  pollMs: 50,
  momentMs: 50,
  refusedMs: 600,
  quotaMs: 500,
  refusalMs: 20,
  noteMs: 5_000,
  watchMs: 50,
  steadyMs: 300,
  samplerWatchMs: 60_000,
};
/** Only upper bounds, even on a slow machine. A test in which a limit must expire sets a short one. */
const LIMITS = { heartbeatAge: '2m', streaming: '60s', walStill: '10ms' };
export const DEPLOYMENT = 'payments';
const TASK_QUEUE = 'runbooks';

export interface BenchOptions extends SiteOptions {
  readonly topology?: Partial<Topology>;
  /** Members of the deployment in the inventory, other than clusters. */
  readonly deployment?: Readonly<Record<string, unknown>>;
  /** Durations of fixed waits that differ from the short defaults. */
  readonly timing?: Partial<Timing>;
}

/** The input of a token generation. */
export interface Generating {
  readonly deployment: string;
  readonly cluster: string;
  readonly ceremony: CeremonyHandle;
  readonly uses?: readonly TokenUse[];
  readonly recipientPgpKey?: string;
  readonly authority?: SignedPlan;
  readonly envelopes: readonly unknown[];
  /** The shares that the run has collected, if they are not only these envelopes. */
  readonly held?: HeldShares;
}

/** The burst of three holders of west. */
export type Burst = Awaited<ReturnType<ActivityBench['burst']>>;

interface Generated {
  readonly token: Sealed<'operation-token'>;
  readonly encryptedToken: string;
  readonly badShares: readonly string[];
  /** All findings that the run received. */
  readonly findings: readonly Finding[];
}

/** The failure of an activity, as Temporal would store it. */
export interface Failed {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly details: Readonly<Record<string, unknown>>;
}

/** A plan with the documents that people signed for it, or that somebody forged. Activities get the numbers of their signals. */
export interface SignedPlan {
  readonly plan: Authority['plan'];
  readonly approvals: readonly unknown[];
}

type Name = keyof RunbookActivities;
type Signed<I> = I extends { readonly authority: Authority }
  ? Omit<I, 'authority'> & { readonly authority: SignedPlan | Authority }
  : I extends { readonly wanted: WantedToken }
    ? Omit<I, 'wanted'> & { readonly wanted: SignedToken }
    : I;
type SignedToken = WantedToken | (Omit<WantedToken, 'authority'> & { readonly authority: SignedPlan });
/** The input of an activity, except that it has documents instead of the numbers of their signals. */
export type Input<K extends Name> = Signed<Parameters<RunbookActivities[K]>[0]>;
type Result<K extends Name> = Awaited<ReturnType<RunbookActivities[K]>>;
/** The activity that assesses a runbook, and the runbooks that have one. */
type Assess<R extends string> = Extract<Name, `assess${Capitalize<R>}`>;
type Planned = { [R in keyof typeof RUNBOOK_INPUTS]: Assess<R> extends never ? never : R }[keyof typeof RUNBOOK_INPUTS];
type Gates = readonly (string | readonly [gate: string, by: string])[];

/** Options of one activity call that differ from the run of the test. */
export interface CallOptions {
  readonly run?: RunContext;
  readonly step?: Partial<StepContext>;
  /** Number of Temporal's attempt; default 1. */
  readonly attempt?: number;
  /** Time since the first attempt was scheduled, in ms. */
  readonly spentMs?: number;
  /** Called before the activity starts, with a function that cancels it. */
  readonly onStart?: (cancel: () => void) => void;
}

/** Runs activities against a simulated service, in their own run and without a Temporal server. */
export class ActivityBench {
  readonly run: RunContext = { ns: 'default', wid: `deployment:${DEPLOYMENT}`, rid: randomUUID() };
  readonly activities: RunbookActivities = activities;
  readonly #dependencies: ActivityDependencies;
  readonly #border: ActivityInterceptorsFactory;
  readonly recordServer = new RecordServer(TASK_QUEUE);
  readonly records: Records;
  readonly ledger: TokenLedger;
  /** Every text that an activity emitted: results, failures, heartbeats, log lines. */
  readonly emitted: string[] = [];
  /** The history of the run, for activities that read it. */
  history: temporal.api.history.v1.IHistory = { events: [] };
  /** See {@link #recorded}. */
  readonly #approved: { readonly content: unknown; readonly at: number }[] = [];
  /** The error that Temporal returns instead of the history. */
  historyError: Error | undefined;
  /** Temporal has abandoned the current attempt and started the next. */
  isGivenUp = false;
  /** How often the description of a run was requested from Temporal. */
  descriptions = 0;
  /** How often the history of a run was read from Temporal. */
  historyReads = 0;
  /** Called on such a request, before Temporal answers. */
  onDescription: () => void = () => undefined;
  #attempt = 1;
  #usualLimits: Limits | undefined;
  /** Open runs by Workflow ID. If undefined, every ID has an open run. */
  openRuns: ReadonlyMap<string, { readonly type: string; readonly runId: string; readonly memo?: object }> | undefined;
  /** What happens where an activity starts a run that is no record. */
  onStart: () => Promise<unknown> = () => Promise.resolve(undefined);
  /** What runs answer to their status query, one after the other; the last answer stays. */
  statuses: unknown[] = [];
  /** Closed runs with their results, newest first. A query finds those whose Workflow ID it contains. */
  closedRuns: readonly {
    readonly workflowId: string;
    readonly runId: string;
    readonly result: unknown;
    readonly history?: temporal.api.history.v1.IHistory;
  }[] = [];

  private constructor(
    readonly service: SimulatedService,
    readonly directory: string,
    readonly inventory: Inventory,
    readonly keyRecords: KeyRecords,
    readonly sealKeyring: SealKeyring,
    readonly workersKey: SigningKey,
    readonly people: ReadonlyMap<string, TestPerson>,
    private readonly secrets: Map<string, string>,
    timing?: Partial<Timing>,
  ) {
    const log = pino({ level: 'debug' }, { write: (line) => void this.emitted.push(line) });
    this.records = this.recordsOfAWorker((deployment, finding) =>
      raiseRecordAlarm({ inventory, log }, this.run.ns, deployment, finding),
    );
    this.ledger = new TokenLedger(this.records);
    this.#dependencies = {
      inventory,
      keyRecords,
      sealKeyring,
      signingKey: workersKey,
      temporal: this.temporal,
      reportDirectory: join(directory, 'reports'),
      records: this.records,
      timing: { ...SHORT, ...timing },
      log,
    };
    this.#border = interceptActivities(this.#dependencies);
  }

  static async start(options: BenchOptions = {}): Promise<ActivityBench> {
    // The primary's own write right before a demotion would be a loss that the test does not expect.
    const timing = { canaryMs: 600_000, ...options.topology?.timing };
    const service = await startSimulatedService(
      behindLoadBalancers({ seed: 5, pace: 'quick', ...pair(), ...options.topology, timing }),
    );
    try {
      return await ActivityBench.#over(service, options);
    } catch (error) {
      await service.stop();
      throw error;
    }
  }

  static async #over(service: SimulatedService, options: BenchOptions): Promise<ActivityBench> {
    const directory = await mkdtemp(join(tmpdir(), 'activities-'));
    const [first] = service.clusters.values();
    if (!first) throw new Error('no cluster');
    const people = peopleOf(first.keyShares, ['grace', 'henry', 'olga'], ['approvers']);
    const workers = newSigningKey();
    const sealKey = newSealKey();
    const secrets = new Map<string, string>();
    for (const { name, share } of people.values()) if (share !== undefined) secrets.set(`key share of ${name}`, share);
    for (const cluster of service.clusters.values()) secrets.set(`root token of ${cluster.name}`, cluster.rootToken);
    secrets.set('seal key', sealKey.reveal().split(':')[1] ?? '');
    const { deployment } = options;
    const site = { ...options, limits: { ...LIMITS, ...options.limits } };
    const names = [...service.clusters.keys()];
    const text = inventoryText({ service, directory, people }, DEPLOYMENT, names, site, { deployment });
    const inventory = parseInventory(text, 'test inventory');
    for (const cluster of withTokenFiles(service)) {
      const token = workersToken(cluster, inventory, DEPLOYMENT);
      await writeFile(join(directory, tokenFile(service, cluster.name)), token, { mode: 0o600 });
    }
    return new ActivityBench(
      service,
      directory,
      inventory,
      await KeyRecords.open({ directory: join(directory, 'keys'), storage: 'disk' }),
      SealKeyring.parse(sealKey.reveal()),
      workers.key,
      people,
      secrets,
      options.timing,
    );
  }

  /** Adds signals from people to the history of the run, as a server with or without authentication records them. */
  signaled(name: SignalName, contents: readonly unknown[], principal?: string, at?: number): number[] {
    this.history = {
      events: [...(this.history.events ?? []), ...contents.map((each) => signaledEvent(name, each, principal, at))],
    };
    const all = (this.history.events ?? []).filter(
      (event) => event.workflowExecutionSignaledEventAttributes?.signalName === name,
    );
    return all.map((_event, index) => index + 1).slice(-contents.length);
  }

  /** Like {@link signaled}, but as an update that the run accepted. */
  updated(name: UpdateName, content: unknown, at?: number): void {
    const { workflowExecutionSignaledEventAttributes: signal, ...event } = signaledEvent(name, content, undefined, at);
    const acceptedRequest = { input: { name, args: signal?.input } };
    const accepted = { ...event, workflowExecutionUpdateAcceptedEventAttributes: { acceptedRequest } };
    this.history = { events: [...(this.history.events ?? []), accepted] };
  }

  /** Overrides limits from now on; without an argument, restores those of the options. */
  limit(limits: Partial<Limits> = {}): void {
    const held = this.inventory.deployments.get(DEPLOYMENT)?.limits;
    if (!held) throw new Error('no limits');
    this.#usualLimits ??= { ...held };
    Object.assign(held, this.#usualLimits, limits);
  }

  /** The records as another worker with the same seal keys sees them. */
  recordsOfAWorker(alarm: RecordsOptions['alarm'] = () => undefined): Records {
    const { run, sealKeyring: keyring } = this;
    const server = { temporal: this.temporal, namespace: run.ns, taskQueue: TASK_QUEUE };
    return new Records({ ...server, keyring, alarm, readMs: 200 });
  }

  /** The entries of the tokens that are in the record now. */
  tokensKept(): LedgerEntry[] {
    const values = this.recordServer.values(recordWorkflowId(DEPLOYMENT)) as readonly LedgerEntry[];
    return values.filter(({ clusterId }) => clusterId !== undefined);
  }

  /** Removes every token from the record, alive or not. */
  async forgetTokens(): Promise<void> {
    for (const entry of await this.ledger.all(DEPLOYMENT)) await this.ledger.remove(entry);
  }

  cluster(name: string): SimulatedCluster {
    return this.service.cluster(name);
  }

  /** Adds a secret that must not be readable in anything that the activities emit. */
  canary(name: string, value: string): void {
    this.secrets.set(name, value);
  }

  /** The environment of an activity, as in a worker: with the header of a step of its run. */
  environment(info: Partial<Info>, step?: object): MockActivityEnvironment {
    return new MockActivityEnvironment(info, {
      logger: new DefaultLogger('ERROR'),
      client: this.temporal,
      interceptors: [...(step ? [withStep(step)] : []), this.#border],
    });
  }

  /** Runs one activity as a worker would. */
  async call<K extends Name>(name: K, input: Input<K>, options: CallOptions = {}): Promise<Result<K>> {
    const run = options.run ?? this.run;
    this.#attempt = options.attempt ?? 1;
    const info = {
      activityType: name,
      workflowNamespace: run.ns,
      workflowExecution: { workflowId: run.wid, runId: run.rid },
      ...(options.attempt === undefined ? {} : { attempt: options.attempt }),
      ...(options.spentMs !== undefined && {
        scheduledTimestampMs: 1,
        currentAttemptScheduledTimestampMs: 1 + options.spentMs,
      }),
    };
    const step: StepContext = { name: 'a step', number: 1, attempt: 1, originalRunId: run.rid, ...options.step };
    const environment = this.environment(info, step);
    environment.on('heartbeat', (details) => this.emitted.push(JSON.stringify(details)));
    const activity = this.activities[name] as unknown as (input: object) => Promise<Result<K>>;
    const { authority, wanted } = input as { readonly authority?: SignedPlan; readonly wanted?: WantedToken };
    const numbered = {
      ...input,
      ...(authority && { authority: this.#numbered(authority) }),
      ...(wanted?.authority && { wanted: { ...wanted, authority: this.#numbered(wanted.authority) } }),
    };
    try {
      options.onStart?.(() => environment.cancel());
      const result: Result<K> = await environment.run<[object], Result<K>, typeof activity>(activity, numbered);
      this.emitted.push(JSON.stringify(result));
      return result;
    } catch (error) {
      this.emitted.push(textOf(error));
      throw error;
    }
  }

  /** Like {@link call}, for an activity that must fail. */
  async failure<K extends Name>(name: K, input: Input<K>, options: CallOptions = {}): Promise<Failed> {
    try {
      await this.call(name, input, options);
    } catch (error) {
      return failedOf(error);
    }
    throw new Error(`${name} did not fail`);
  }

  /** Like {@link refused}; also expects that no change was sent and that this is known. */
  async refusedUnsent<K extends Name>(
    name: K,
    input: Input<K>,
    code: string,
    expected: { readonly message?: string; readonly retryable?: boolean; readonly details?: object } = {},
    options: CallOptions = {},
  ): Promise<Failed> {
    const before = this.changes();
    const details = { outcomeKnown: true, ...expected.details };
    const failed = await this.refused(name, input, code, { ...expected, details }, options);
    expect(this.changes()).toEqual(before);
    return failed;
  }

  /** Like {@link failure}; expects this code and the other given members. */
  async refused<K extends Name>(
    name: K,
    input: Input<K>,
    code: string,
    expected: object = {},
    options: CallOptions = {},
  ): Promise<Failed> {
    const failed = await this.failure(name, input, options);
    expect(failed).toMatchObject({ code, ...expected });
    return failed;
  }

  /** From now on, applies a fault to every call of an endpoint, on the given cluster or on all. */
  always(endpoint: string | RegExp, action: FaultAction, cluster?: string): FaultHandle {
    return this.service.faults.add({ endpoint, action, times: Infinity, ...(cluster !== undefined && { cluster }) });
  }

  /** The assessment of a runbook for an input; deployment and reason are added. */
  async assess<R extends Planned>(runbook: R, input: object = {}): Promise<Result<Assess<R>>> {
    const name = `assess${runbook[0]?.toUpperCase()}${runbook.slice(1)}` as Assess<R>;
    const parsed = RUNBOOK_INPUTS[runbook].parse({ deployment: DEPLOYMENT, reason: 'a test', ...input });
    return this.call(name, { input: parsed } as Input<Assess<R>>);
  }

  async readiness(options: CallOptions = {}): Promise<ReadinessResult> {
    return (await this.call('assessReadiness', { deployment: DEPLOYMENT }, options)).readiness;
  }

  /** The plan from {@link assess} with approvals from {@link approved}. */
  async authorityOf<R extends Planned>(runbook: R, input: object, ...gates: Gates): Promise<SignedPlan> {
    return this.approved((await this.assess(runbook, input)) as Assessment<unknown>, ...gates);
  }

  /** A plan with these operations that no assessment made. */
  planOf(operations: readonly AllowedOperation[], more: object = {}): Authority['plan'] {
    return planWith({
      ...{ runbook: 'drSwitchover', deployment: DEPLOYMENT, clusters: [], warnings: [], steps: [], choices: {} },
      ...{ operations, reason: 'made up', inventory: inventoryDigest(this.inventory, DEPLOYMENT), ...more },
    });
  }

  /** A cluster as plans name it. */
  named(cluster: string): AllowedOperation['on'] {
    return { cluster, clusterId: this.cluster(cluster).clusterId };
  }

  /** The plan of an assessment, which must have one, with approvals of these gates; by grace, unless another person is given. */
  async approved(
    { plan, preconditions }: Pick<Assessment<unknown>, 'plan' | 'preconditions'>,
    ...gates: Gates
  ): Promise<SignedPlan> {
    if (!plan) throw new Error(JSON.stringify(preconditions.filter(({ verdict }) => verdict === 'fail')));
    const asked = gates.map((each) => (typeof each === 'string' ? ([each] as const) : each));
    return { plan, approvals: await Promise.all(asked.map(([gate, by]) => this.approval(gate, plan.digest, by))) };
  }

  /** Creates an operation token of a DR secondary, sealed for this run. */
  async operationToken(
    cluster: string,
    uses: readonly TokenUse[] = ['dr.promote', 'dr.update-primary', 'dr.operation-token.delete'],
    run = this.run,
  ): Promise<Extract<OperationTokenReference, { source: 'sealed' }>> {
    const simulated = this.cluster(cluster);
    const token = simulated.tokens.createOperationToken(this.service.now());
    this.canary(`operation token of ${cluster} (${this.secrets.size})`, token);
    return { source: 'sealed', cluster, value: await this.sealOperationToken(cluster, token, uses, run) };
  }

  async sealOperationToken(cluster: string, token: string, uses: readonly string[], run = this.run) {
    return sealValue(
      this.sealKeyring,
      run,
      { kind: 'operation-token', cluster, clusterId: this.cluster(cluster).clusterId, uses, expSeconds: 3_600 },
      new Secret('operation-token', token),
    );
  }

  /** The input of a switchover from east to west. */
  input(more: Readonly<Record<string, unknown>> = {}): InputOf<'drSwitchover'> {
    return RUNBOOK_INPUTS.drSwitchover.parse({ deployment: DEPLOYMENT, to: 'west', reason: 'a test', ...more });
  }

  /** The plan of a switchover to west, with the approvals that its gates require. */
  authority(more: object = {}): Promise<SignedPlan> {
    return this.authorityOf('drSwitchover', { to: 'west', ...more }, 'plan', ['go', 'henry']);
  }

  async approval(
    gate: string,
    planDigest: string,
    by = 'grace',
    more: Partial<RunContext> & { readonly verdict?: 'approve' | 'reject' } = {},
  ): Promise<{ readonly document: string }> {
    const content = await approvalOf(this.person(by), { ...this.run, gate, planDigest, ...more });
    this.#approved.push({ content, at: Date.now() });
    return content;
  }

  person(name: string): TestPerson {
    const person = this.people.get(name);
    if (!person) throw new Error(`no person ${name}`);
    return person;
  }

  async ceremony(
    targets: readonly CeremonyTarget[],
    more: Partial<Parameters<RunbookActivities['createCeremony']>[0]> = {},
    options: CallOptions = {},
  ) {
    const by = { deployment: DEPLOYMENT, runbook: 'drSwitchover', reason: 'a test', requestedBy: 'olga' };
    const asked = { ...by, targets, epoch: 1, cid: randomUUID(), inputDigest: 'digest', ...more };
    return this.call('createCeremony', asked, options);
  }

  /** Remembers the DR roles of all clusters. @returns a function that restores them */
  rolesKept(): () => void {
    const roles = [...this.service.clusters.values()].map((each) => [each, each.role('dr')] as const);
    return () => roles.forEach(([each, role]) => each.setRole('dr', role, this.service.now()));
  }

  /** Adds an activity to the history of the run. */
  happened(...activity: Parameters<typeof activityEvents>): void {
    this.history = { events: [...(this.history.events ?? []), ...activityEvents(...activity)] };
  }

  /** Demotes east and promotes west, as the plan of a switchover allows. */
  async switchOver(authority: SignedPlan, token?: OperationTokenReference): Promise<void> {
    await this.call('demotePrimary', drDemotion(authority));
    await this.call('promoteSecondary', drPromotion(token ?? (await this.operationToken('west')), authority));
    this.service.advanceClock(1_000);
  }

  /** A ceremony for an operation token of west, and the key shares of three holders for it. */
  async burst(uses: readonly TokenUse[] = ['dr.promote', 'dr.operation-token.delete'], more = {}) {
    const ceremony = await this.ceremony([{ cluster: 'west', uses }], more);
    const envelopes = await this.envelopes(ceremony.invitation, ['ada', 'bert', 'cleo']);
    return { deployment: DEPLOYMENT, cluster: 'west', ceremony, uses, envelopes };
  }

  /** A generation with the key shares of a burst, up to the last one. */
  async begun({ envelopes, uses, ...about }: Burst, wanted: SignedToken = { kind: 'operation-token', uses }) {
    const { arrivals: shares } = this.shares(envelopes);
    const generation = { ...about, wanted, shares, attempts: [], rejected: [], tried: 0, lost: 0 };
    const started = await this.call('startGeneration', generation);
    if (!('attempt' in started)) throw new Error('no attempt');
    return { about, generation, started, attempt: started.attempt };
  }

  /** The envelopes of holders for an invitation, as they reach the activities. */
  async envelopes(
    invitation: string,
    holders: readonly string[],
    bad: Readonly<Record<string, string>> = {},
  ): Promise<string[]> {
    return Promise.all(
      holders.map(async (name) => {
        const envelope = await envelopeOf(this.person(name), invitation, this.workersKey, { share: bad[name] });
        if (!('document' in envelope)) throw new Error('the envelope is not signed');
        return envelope.document;
      }),
    );
  }

  /** The shares of envelopes that have arrived in this run. */
  shares(envelopes: readonly unknown[], before = new HeldShares()): HeldShares {
    const sent = envelopes.map((each) => (typeof each === 'string' ? { document: each } : each));
    const arrivals = sent.length === 0 ? [] : this.signaled('share', sent);
    const verdicts = arrivals.map((arrival, index): EnvelopeVerdict => {
      const holder = { name: holderOf(envelopes[index]), how: 'signed' } as const;
      return { arrival, code: 'accepted', text: '', holder };
    });
    before.take(verdicts);
    return before;
  }

  /**
   * Generates a token from envelopes, with the activities and the procedure of a run. If the worker dies while the last
   * share is given, Temporal reports a timeout and the activity is not tried again.
   */
  async generate(asked: Generating, options: CallOptions = {}): Promise<Generated> {
    const { envelopes, held = this.shares(envelopes), uses = [], authority, recipientPgpKey, ...about } = asked;
    const findings: Finding[] = [];
    const timedOut = (error: unknown): never => {
      if (!(error instanceof CompleteAsyncError)) throw error;
      throw ApplicationFailure.create({ type: 'ACTIVITY_TIMEOUT', details: [{ outcomeKnown: false }] });
    };
    const start: GenerationCalls['startGeneration'] = (input) =>
      this.call('startGeneration', input, options).catch((error: unknown) => {
        if (!(error instanceof CompleteAsyncError)) throw error;
        return this.call('startGeneration', input, { ...options, attempt: 2 });
      });
    const keepFindings = <R extends object>(result: R): R => {
      if ('findings' in result) findings.push(...(result.findings as readonly Finding[]));
      return result;
    };
    // Without a workflow there is no scope to cancel.
    jest.spyOn(CancellationScope, 'nonCancellable').mockImplementation((work) => work());
    const generations = new TokenGenerations((finding) => void findings.push(finding));
    const calls: GenerationCalls = {
      startGeneration: (input) => start(input).then(keepFindings),
      completeGeneration: (input) => this.call('completeGeneration', input, options).catch(timedOut).then(keepFindings),
      settleGeneration: (input) => this.call('settleGeneration', input).then(keepFindings),
    };
    const numbered = authority && { authority: this.#numbered(authority) };
    const wanted: WantedToken =
      numbered && recipientPgpKey !== undefined
        ? uses.length === 0
          ? { kind: 'root-token', ...numbered, recipientPgpKey }
          : { kind: 'operation-token', uses, ...numbered, recipientPgpKey }
        : { kind: 'operation-token', uses };
    try {
      const made = await generations.generate(calls, { ...about, wanted }, held);
      const bad = badShareFindings(about.cluster, made.badShares);
      const token = made.sealed ?? ('' as Sealed<'operation-token'>);
      return { ...made, token, encryptedToken: made.encrypted ?? '', findings: [...findings, ...bad] };
    } catch (error) {
      throw Object.assign(error instanceof Error ? error : new Error('no error'), { alarms: findings });
    }
  }

  /** Like {@link generate}, but it must fail; `alarms` are the findings that the run received before. */
  async generationFailure(
    asked: Generating,
    options: CallOptions = {},
  ): Promise<Failed & { readonly alarms: readonly Finding[] }> {
    try {
      await this.generate(asked, options);
    } catch (error) {
      return { ...failedOf(error), alarms: (error as { readonly alarms?: readonly Finding[] }).alarms ?? [] };
    }
    throw new Error('the token generation did not fail');
  }

  /** How often a changing endpoint was called on a cluster. */
  calls(cluster: string, endpoint: string): number {
    return changingCalls(this.service, cluster, endpoint);
  }

  /** All calls that reached the service and may have changed something; reading one's own capabilities does not. */
  changes(): string[] {
    return this.service.calls
      .filter(({ method, path }) => method !== 'GET' && method !== 'LIST' && !path.endsWith('/capabilities-self'))
      .map(({ cluster, method, path }) => `${cluster}: ${method} ${path}`);
  }

  /** Names of the secrets that are readable in anything that the activities emitted. */
  leaks(): string[] {
    for (const { name, issuedSecrets } of this.service.clusters.values())
      issuedSecrets.forEach((token, index) => this.secrets.set(`token ${index} of ${name}`, token));
    return [...new Set(findCanaries(this.emitted.join('\n'), this.secrets))];
  }

  /** Stops everything; fails if the activities emitted a secret. */
  async stop(): Promise<void> {
    await this.service.stop();
    await rm(this.directory, { recursive: true, force: true });
    expect(this.leaks()).toEqual([]);
  }

  /** A fake Temporal client with what activities read: the history of the run, descriptions of runs, and results of closed runs. */
  get temporal(): Client {
    const workflow = {
      start: (
        _type: string,
        { workflowId, args }: { readonly workflowId: string; readonly args: readonly unknown[] },
      ) =>
        workflowId.startsWith(recordWorkflowId('')) ? this.recordServer.start(workflowId, args[0]) : this.onStart(),
      getHandle: (workflowId: string, runId?: string) =>
        workflowId.startsWith(recordWorkflowId(''))
          ? this.recordServer.handle(workflowId)
          : {
              fetchHistory: () => {
                this.historyReads += 1;
                return this.historyError
                  ? Promise.reject(this.historyError)
                  : Promise.resolve(this.closedRuns.find((run) => run.runId === runId)?.history ?? this.#recorded());
              },
              describe: () => this.#describe(workflowId, runId),
              query: () => Promise.resolve(this.statuses.length > 1 ? this.statuses.shift() : this.statuses[0]),
              signal: (name: SignalName, input: unknown) => Promise.resolve(void this.signaled(name, [input])),
              result: () => Promise.resolve(this.closedRuns.find((run) => run.runId === runId)?.result),
            },
      list: ({ query }: { readonly query: string }) =>
        Readable.from(this.closedRuns.filter(({ workflowId }) => queryNames(query, workflowId))),
    };
    const run = <T>(_limit: unknown, body: () => Promise<T>): Promise<T> => body();
    return { workflow, withAbortSignal: run, withDeadline: run } as unknown as Client;
  }

  /**
   * What a run passes on: the numbers of the signals that brought the documents, all of them for every gate. If a test signals
   * approvals itself, a document that is not among them has a number that no signal has.
   */
  #numbered({ plan, approvals }: SignedPlan | Authority): Authority {
    if (!isList(approvals)) return { plan, approvals };
    const arrivals = approvals.map((each) => this.#arrivalOf(each));
    return { plan, approvals: Object.fromEntries(GATE_NAMES.map((gate) => [gate, arrivals])) };
  }

  /** The number of the last signal that brought a document, or of the update that did. */
  #arrivalOf(document: unknown): number {
    const wanted = textOfPayload(defaultPayloadConverter.toPayload(document));
    const events = this.#recorded().events ?? [];
    const signals = events.flatMap(({ workflowExecutionSignaledEventAttributes: signal }) =>
      signal?.signalName === 'approve' ? [textOfPayload(signal.input?.payloads?.[0])] : [],
    );
    if (signals.includes(wanted)) return signals.lastIndexOf(wanted) + 1;
    const updates = events.flatMap(({ workflowExecutionUpdateAcceptedEventAttributes: update }) => {
      const { name, args } = update?.acceptedRequest?.input ?? {};
      return name === 'approve' ? [textOfPayload(args?.payloads?.[0])] : [];
    });
    if (updates.includes(wanted)) return UPDATES_FROM + updates.lastIndexOf(wanted) + 1;
    if (hasApprovals(this.history)) return UPDATES_FROM;
    this.#approved.push({ content: document, at: Date.now() });
    return this.#approved.length;
  }

  /** The history of the run. If the test signals no approval itself, each approval arrives when it is created. */
  #recorded(): temporal.api.history.v1.IHistory {
    const events = this.history.events ?? [];
    if (hasApprovals(this.history)) return this.history;
    // Insert the approvals before the other events: the newest event is the test's own.
    const approved = this.#approved.map(({ content, at }) => signaledEvent('approve', content, undefined, at));
    return { events: events.toSpliced(events[0]?.workflowExecutionStartedEventAttributes ? 1 : 0, 0, ...approved) };
  }

  async #describe(workflowId: string, runId: string | undefined): Promise<unknown> {
    this.descriptions += 1;
    this.onDescription();
    const status = { code: 1, name: 'RUNNING' };
    const attempt = this.isGivenUp ? this.#attempt + 1 : this.#attempt;
    const raw = { pendingActivities: [{ activityId: 'test', attempt }] };
    if (this.openRuns === undefined) return Promise.resolve({ type: 'drSwitchover', runId: this.run.rid, status, raw });
    if (this.closedRuns.some((run) => run.workflowId === workflowId && run.runId === runId))
      return { runId, status: { code: 2, name: 'COMPLETED' }, raw };
    const open = this.openRuns.get(workflowId);
    return open === undefined
      ? Promise.reject(new WorkflowNotFoundError('no such run', workflowId, undefined))
      : Promise.resolve({ ...open, status, raw });
  }
}

/** A bench for the tests of a file or a group. The tests fail if its activities emit a secret. */
export function openBench(give: (opened: ActivityBench) => void, options?: BenchOptions): void {
  let bench: ActivityBench | undefined;
  beforeAll(async () => {
    bench = await ActivityBench.start(options);
    give(bench);
  });
  afterAll(() => bench?.stop());
}

function hasApprovals({ events }: temporal.api.history.v1.IHistory): boolean {
  return events?.some((event) => event.workflowExecutionSignaledEventAttributes?.signalName === 'approve') === true;
}

function textOfPayload(payload: temporal.api.common.v1.IPayload | undefined): string {
  return Buffer.from(payload?.data ?? []).toString('utf8');
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

/** A plan with these members, or with exactly this text, and its digest. */
export function planWith(content: object | string): Authority['plan'] {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  return { text, digest: planDigest(text) };
}

/** Matches a text that contains this part. */
export const holding = (part: string) => expect.stringContaining(part) as string;

/** The checks that fail. */
export const failing = ({ preconditions }: { readonly preconditions: readonly Check[] }) =>
  preconditions.filter(({ verdict }) => verdict === 'fail');

/** Input of `demotePrimary`: east is replaced by west. */
export function drDemotion<A extends SignedPlan | Authority>(authority: A) {
  const sides = { cluster: 'east', otherCluster: 'west' } as const;
  return { kind: 'dr', deployment: DEPLOYMENT, ...sides, authority } as const;
}

/** Input of `promoteSecondary`: west replaces east. */
export function drPromotion<A extends SignedPlan | Authority>(token: OperationTokenReference, authority: A) {
  const sides = { cluster: 'west', otherCluster: 'east' } as const;
  return { kind: 'dr', mode: 'planned', deployment: DEPLOYMENT, ...sides, token, authority } as const;
}

/** Adds the header with the step to an activity, as the interceptor of the workflows does. */
export function withStep(step: object): ActivityInterceptorsFactory {
  const headers = { step: defaultPayloadConverter.toPayload(step) };
  return () => ({ inbound: { execute: (input, next) => next({ ...input, headers }) } });
}

/** The event of a signal, with the principal that a server with authentication records. */
export function signaledEvent(
  signalName: string,
  content: unknown,
  principal?: string,
  at = Date.now(),
): temporal.api.history.v1.IHistoryEvent {
  return {
    eventTime: { seconds: Math.floor(at / 1000) as unknown as Long, nanos: 0 },
    workflowExecutionSignaledEventAttributes: {
      signalName,
      input: { payloads: [defaultPayloadConverter.toPayload(content)] },
    },
    ...(principal === undefined ? {} : { principal: { type: 'jwt', name: principal } }),
  };
}

function holderOf(envelope: unknown): string {
  const payload = typeof envelope === 'string' ? envelope.split('.')[1] : undefined;
  const members: unknown =
    payload === undefined ? envelope : JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
  return String((members as { readonly holder?: unknown }).holder);
}

/** Whether a query asks for this Workflow ID or a prefix of it. */
function queryNames(query: string, workflowId: string): boolean {
  const [, how, quoted = ''] = /WorkflowId (=|STARTS_WITH) "([^"]+)"/.exec(query) ?? [];
  return how === '=' ? workflowId === quoted : how === 'STARTS_WITH' && workflowId.startsWith(quoted);
}

/** The parts of an error that Temporal would store, or that a test may check. */
export function failedOf(error: unknown): Failed {
  const { type, nonRetryable, details } = error as { type?: string; nonRetryable?: boolean; details?: unknown[] };
  const message = error instanceof Error ? error.message : String(error);
  if (isRunbookError(error)) {
    const { code, retryable, observed, needed, next, outcomeKnown } = error;
    return { code, message, retryable, details: { observed, needed, next, outcomeKnown } };
  }
  const name = error instanceof Error ? error.name : 'unknown';
  return {
    code: type ?? name,
    message,
    retryable: nonRetryable !== true,
    details: (details?.[0] ?? {}) as Readonly<Record<string, unknown>>,
  };
}

function textOf(error: unknown): string {
  const seen: string[] = [];
  for (let each: unknown = error; each instanceof Error; each = each.cause)
    seen.push(each.name, each.message, each.stack ?? '', JSON.stringify(each));
  return seen.join('\n');
}
