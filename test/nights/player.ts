import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Report } from '../../src/contracts/report';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import type { SimulatedCluster } from '../../src/simulator';
import { SeededRandom } from '../../src/simulator/random';
import { callNode } from '../support/by-hand';
import { takeOverBy } from '../support/failover';
import { at } from '../support/faults';
import { decisionOf } from '../support/people';
import { reportOf } from '../support/reports';
import { FILTER, replicating, Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';
import { next } from './morning';
import type { Task } from './morning';
import type { Mishap, Moment, Night, Order, Part } from './night';

/** Maximum time without progress, in ms: longer than a run waits for anything except people, even on a slow machine. */
const STILL_MS = 150_000;
const POLL_MS = 250;
/** Short, so that limits expire in many nights; what the report says then must be true. */
const LIMITS = {
  demote: '4s',
  promote: '4s',
  catchUp: '4s',
  serviceReady: '4s',
  streaming: '6s',
  merkleEvidence: '1s',
};
/** Absent: the load balancer of {@link behindLoadBalancers}. */
const ADVERTISED = {
  'load balancer': {},
  pods: { apiAddr: [1, 2, 3].map((pod) => `http://10.244.1.${pod}:8200`) },
  listed: { apiAddr: undefined },
  redacted: { redactAddresses: true, redactVersion: true },
};
/** With healthy clusters, people try the choices that continue in turn; a run that parks more often than this is stuck. */
const MOST_PARKINGS = 12;

/** A run, the state before it, and what it did. */
export type Played = Awaited<ReturnType<Player['play']>>;

/** Maximum number of runs without faults in a morning, until all is well. */
const MOST_CALM = 8;
const CALM: Part = { mishaps: [], orders: [], patience: 0 };

/** Plays one night: its runs, faults, and people. */
export class Player {
  /** Explains why a night failed. */
  readonly log: string[] = [];
  /** Every role change in the night's kind of replication. */
  readonly roles: { readonly at: number; readonly cluster: string; readonly mode: string }[] = [];
  /** Acknowledged writes of clients, by path. */
  readonly kept = new Map<string, string>();
  readonly reports: Report[] = [];
  /** Clusters without a primary that no report mentions. */
  readonly unreported = new Set<string>();
  /** Former primaries that people keep away from clients and from the other clusters. */
  readonly fenced = new Set<string>();
  readonly #random: SeededRandom;
  readonly #began = Date.now();
  readonly #repairs = new Set<() => unknown>();
  readonly #timers: NodeJS.Timeout[] = [];
  #parkings = 0;
  #patience = 0;
  #run: TestRun | undefined;

  private constructor(
    readonly night: Night,
    readonly scenario: Scenario,
  ) {
    this.#random = new SeededRandom(night.seed).derive('people');
    for (const name of night.clusters) this.#watchRoles(scenario.service.cluster(name));
    this.#timers.push(setInterval(() => void this.#clientWrites(), 150));
  }

  static async open(night: Night): Promise<Player> {
    const { drSets, nodes, version, quiesce, readings, batchToken, apiAddr, restartMs } = night;
    const filters: Parameters<typeof replicating>[1] = drSets['eu'] ? { europe: FILTER } : {};
    const { topology, ...sets } = replicating(drSets, filters);
    const scenario = await Scenario.start({
      ...{ ...sets, batchToken, limits: { ...LIMITS, primaryGone: '1s', walStill: '250ms', walStillEntries: 0 } },
      topology: {
        ...{ ...topology, readings, timing: { restartMs } },
        clusters: topology.clusters?.map((each) => ({ ...each, nodes, version, ...ADVERTISED[apiAddr] })),
      },
      deployment: { quiesce, pathsFilters: filters },
    });
    // Otherwise a ceremony would need a batch token too.
    for (const each of scenario.service.clusters.values()) each.unauthenticatedAccess = ['generate-operation-token'];
    if (batchToken) scenario.makeBatchToken();
    return new Player(night, scenario);
  }

  async close(): Promise<void> {
    this.#timers.forEach((timer) => clearTimeout(timer));
    this.#repairs.clear();
    this.scenario.service.faults.clear();
    await this.scenario.stop();
  }

  /** Set when approvers attest that no client writes from then on. */
  #attested = false;

  async #clientWrites(): Promise<void> {
    if (this.#attested) return;
    const path = `kv/data/by-a-client-${randomUUID()}`;
    for (const { name, rootToken: token, apiAddress } of this.primaries) {
      if (this.fenced.has(name)) continue;
      const body = { data: { on: name } };
      const answer = await callNode(apiAddress, 'POST', path, { token, body }).catch(() => undefined);
      if (answer && answer.status < 300) this.kept.set(path.replace('/data', ''), name);
    }
  }

  /** Primaries in the night's kind of replication, up or not. */
  get primaries(): SimulatedCluster[] {
    const { service } = this.scenario;
    const members = this.night.clusters.map((name) => service.cluster(name));
    return members.filter((each) => each.effectiveRole(this.night.kind).mode === 'primary');
  }

  /** The intended primary: if there are several, the one that was promoted last. */
  get serving(): string | undefined {
    const names = this.primaries.map(({ name }) => name);
    const last = this.roles.findLast(({ cluster, mode }) => mode === 'primary' && names.includes(cluster));
    return names.length > 1 ? last?.cluster : names[0];
  }

  note(text: string): void {
    this.log.push(`${((Date.now() - this.#began) / 1_000).toFixed(2)} ${text}`);
  }

  #watchRoles(cluster: SimulatedCluster): void {
    const setRole = cluster.setRole.bind(cluster);
    cluster.setRole = (kind, role, now) => {
      const changes = kind === this.night.kind && cluster.role(kind).mode !== role.mode;
      setRole(kind, role, now);
      if (!changes) return;
      this.roles.push({ at: Date.now(), cluster: cluster.name, mode: role.mode });
      this.note(`${cluster.name} is ${role.mode}`);
    };
  }

  #at({ cluster, endpoint, after, nth, when }: Moment, action: () => void): void {
    if (!after) return void at(this.scenario, when, cluster, endpoint, action, nth);
    const { faults } = this.scenario.service;
    const any = { cluster, endpoint: /./, when, skip: nth - 1, action };
    faults.add({ endpoint: after, when: 'after', action: () => void faults.add(any) });
  }

  #happens({ what, to, at, repairedAfterMs }: Mishap): void {
    const { service } = this.scenario;
    const cluster = service.cluster(to);
    this.note(`${what}: ${to}`);
    const until = (repair: () => unknown) => {
      this.#repairs.add(repair);
      if (repairedAfterMs !== undefined) this.#timers.push(setTimeout(() => void repair(), repairedAfterMs));
    };
    switch (what) {
      case 'node dies':
      case 'cluster dies':
        until(() => cluster.restart());
        return void cluster.kill(what === 'node dies' ? cluster.nodes.slice(0, 1) : cluster.nodes);
      case 'cluster sealed':
        until(() => cluster.nodes.forEach(({ index }) => cluster.unsealNode(index)));
        return cluster.nodes.forEach(({ index }) => cluster.sealNode(index));
      case 'leader':
        return cluster.leaderChange();
      case 'cut off':
        until(() => this.#heal());
        return this.#cutOff(to);
      case 'stream held':
        until(() => cluster.holdStream(this.night.kind, false));
        return cluster.holdStream(this.night.kind, true);
      case 'lose-answer':
      case 'reset':
        return void service.faults.add({ cluster: to, endpoint: at.endpoint || /./, action: what, times: 2 });
      default: {
        const fault = service.faults.add({ cluster: to, endpoint: /./, action: { status: what }, times: 40 });
        until(() => fault.remove());
      }
    }
  }

  #cutOff(name: string): void {
    const { service } = this.scenario;
    [...service.clusters.keys()].filter((each) => each !== name).forEach((each) => service.partition(name, each));
  }

  #heal(): void {
    this.scenario.service.heal();
    this.fenced.forEach((each) => this.#cutOff(each));
  }

  /** People repair the clusters: all faults end. */
  async repair(): Promise<void> {
    this.note('people repair the clusters');
    this.scenario.service.faults.clear();
    for (const repair of this.#repairs) await repair();
  }

  /** Repairs what the previous run left; a replaced primary is fenced before it comes back. */
  async #prepareClusters(): Promise<void> {
    const { serving, scenario } = this;
    for (const { name } of this.primaries) if (name !== serving) this.fenced.add(name);
    await this.repair();
    this.#repairs.clear();
    this.#heal();
    for (const cluster of scenario.service.clusters.values()) await cluster.restart();
    for (const name of this.fenced) scenario.service.cluster(name).write('kv/of-the-former', { on: name });
    this.#attested = false;
    // Delete quotas, and cancel generation attempts, but only those of runs.
    const left = this.reports.flatMap(({ leftToDo }) => leftToDo).join('\n');
    const { apiAddress, rootToken: token } = scenario.service.cluster(serving ?? this.night.clusters[0]);
    for (const [, path = ''] of left.matchAll(/`vault delete (\S+?)`/g))
      await callNode(apiAddress, 'DELETE', path, { token }).catch((error: unknown) => this.note(String(error)));
    const attempt = 'sys/replication/dr/secondary/generate-operation-token/attempt';
    for (const [, name = '', own = ''] of left.matchAll(/attempt on (\w+) may be open.* fingerprint is (\w+)/g))
      for (const { address } of scenario.service.cluster(name).nodes) {
        const { text } = await callNode(address, 'GET', attempt);
        if (text.includes(own)) await callNode(address, 'DELETE', attempt);
      }
  }

  async #give(order: Order): Promise<void> {
    const { scenario } = this;
    const run = this.#run;
    if (!run) return;
    this.note(order);
    if (order === 'cancel') await run.handle.cancel();
    else if (order === 'terminate') await run.handle.terminate('by an administrator');
    else if (order !== 'takeOver') await run.control(order, { reason: 'an order of the night' });
    else {
      const input = { deployment: scenario.name, reason: 'an order of the night', requestedBy: 'olga' };
      await run.handle.signal('takeOver', { ...input, takeOverDocument: await takeOverBy(run, input) });
    }
  }

  /** Plays the night, and the morning until all is well. */
  async *plays(): AsyncGenerator<Played> {
    const { runbook, input, clusters, morning } = this.night;
    const gone = runbook === 'drFailover' || input['mode'] === 'unplanned';
    if (gone) await this.scenario.service.cluster(clusters[0]).kill();
    // A promotion is refused right after the primary failed.
    if (gone && runbook === 'performancePromotion') this.scenario.service.advanceClock(1_500);
    yield await this.play({ runbook, input }, this.night);
    for (const part of [...morning, ...Array.from({ length: MOST_CALM }, () => CALM)]) {
      await this.#prepareClusters();
      const task = await next(this, part !== CALM);
      if (!task) return;
      yield await this.play(task, part);
    }
    throw new Error(`everything is repaired, but after ${MOST_CALM} runs all is not well`);
  }

  /** Plays one run to its end. */
  async play(task: Task, part: Part) {
    const { serving, scenario } = this;
    const { service } = scenario;
    const [calls, roles] = [service.calls.length, this.roles.length];
    const before = this.primaries.map(({ name }) => name);
    // Writes that an earlier run lost do not count for this run.
    for (const path of this.kept.keys())
      if (serving === undefined || service.cluster(serving).read(path) === undefined) this.kept.delete(path);
    this.#parkings = 0;
    this.#patience = part.patience;
    for (const mishap of part.mishaps) this.#at(mishap.at, () => this.#happens(mishap));
    // The run may have ended before the order.
    for (const { order, at: moment } of part.orders)
      this.#at(moment, () => void this.#give(order).catch((error: unknown) => this.note(String(error))));
    this.note(`${task.runbook} ${JSON.stringify(task.input)}`);
    const run = await scenario.run(task.runbook, task.input);
    const report = await this.#toItsEnd(run);
    this.reports.push(report);
    this.note(report.outcome);
    const done = { roles: this.roles.slice(roles), calls: service.calls.slice(calls) };
    return { task, run, report, before, serving, ...done };
  }

  async #toItsEnd(run: TestRun): Promise<Report> {
    this.#run = run;
    let ended = false;
    const end = run.handle.result().then(
      () => (ended = true),
      () => (ended = true),
    );
    let [seen, deadline] = ['', Date.now() + STILL_MS];
    const answered = new Map<string, number>();
    while (!ended) {
      await Promise.race([end, delay(POLL_MS)]);
      const status = await run.status().catch(() => undefined);
      const shown = JSON.stringify([status?.phase, status?.steps, status?.waiting, status?.receipts.length]);
      if (shown !== seen) deadline = Date.now() + STILL_MS;
      else if (Date.now() > deadline) throw new Error(`no more progress: ${shown}`);
      seen = shown;
      if (this.#parkings > this.#patience + MOST_PARKINGS)
        throw new Error(`the clusters are healthy, but the run parks: ${shown}`);
      for (const waiting of status?.outcome === undefined ? (status?.waiting ?? []) : []) {
        const key = JSON.stringify([waiting.for, 'parkingNo' in waiting ? waiting.parkingNo : waiting]);
        // Send again what did not arrive in time.
        if (Date.now() - (answered.get(key) ?? 0) < 10_000) continue;
        answered.set(key, Date.now());
        // The run may have ended meanwhile.
        if (status) await this.#answer(run, status, waiting).catch((error: unknown) => this.note(String(error)));
      }
    }
    // Activities in progress still end after a run is terminated.
    for (let calls = -1; calls !== this.#calls; await delay(1_000)) calls = this.#calls;
    return reportOf(run);
  }

  get #calls(): number {
    return this.scenario.service.calls.filter(({ path }) => path.startsWith('/v1/sys/replication')).length;
  }

  async #answer(run: TestRun, { workflowId: wid, runId: rid }: RunStatus, waiting: Waiting): Promise<void> {
    if (waiting.for === 'shares') for (const name of waiting.missingHolders.slice(0, 3)) await run.share(name);
    else if (waiting.for === 'resume') await run.control('resume');
    else if (waiting.for === 'approval') {
      this.#attested ||= this.night.quiesce === 'attested';
      if (waiting.gate === 'unfence') {
        this.fenced.clear();
        this.#heal();
      }
      await run.approve(waiting.gate, waiting.approved.length > 0 || waiting.gate === 'go' ? 'henry' : 'grace');
    } else if (waiting.for === 'decision') {
      this.#parkings += 1;
      if (this.#parkings === this.#patience + 1) await this.repair();
      const { step, parkingNo, code } = waiting;
      const choices = waiting.choices.map(({ action }) => action);
      const tried = this.#parkings - this.#patience - 1;
      // `leave` must never be the only way out of an outage, so people do not choose it once the clusters are healthy.
      const avoided = tried < MOST_PARKINGS / 2 ? ['leave', 'abort', 'skip'] : ['leave'];
      const options = tried < 0 ? choices : choices.filter((each) => !avoided.includes(each));
      const turn = tried < 0 ? Math.floor(this.#random.fraction() * options.length) : tried % options.length;
      const action = options[turn] ?? 'retry';
      this.note(`${step}: ${code}: ${action} of ${choices.join()}`);
      const decision = { ns: temporalServer().namespace, wid, rid, step, parkingNo, action };
      // Some choices need two people.
      for (const name of ['grace', 'henry'])
        await run.handle.signal('decide', await decisionOf(this.scenario.person(name), decision));
    }
  }
}
