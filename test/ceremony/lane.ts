import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import type { Report } from '../../src/contracts/report';
import type { Fault, SimulatedCluster } from '../../src/simulator';
import { until } from '../support/by-hand';
import type { Scenario, TestRun } from '../support/scenario';
import { killBeforeReport, killGeneration } from './killable';
import type { Mishap, Order } from './orders';
import { LATE } from './orders';
import type { Asked } from './player';
import { Player, WAIT_MS } from './player';

const BASE = '/v1/sys/replication/dr/secondary/generate-operation-token';
const ENDPOINTS = { start: `POST ${BASE}/attempt`, share: `POST ${BASE}/update` } as const;
const LOOK = `GET ${BASE}/attempt`;
const CANCEL = `DELETE ${BASE}/attempt`;
/** How long somebody else waits for an answer before he tries again. */
const STRANGER_WAITS_MS = 3_000;

/** What became of one order. */
export interface Played {
  readonly order: Order;
  readonly run: TestRun;
  readonly report: Report;
  readonly asked: readonly Asked[];
  /** Numbers of the service's last call before this order, and of its own last one. */
  readonly calls: readonly [number, number];
  /** Of the tokens that the cluster issued: from, to. */
  readonly tokens: readonly [number, number];
  /** Numbers of the service's calls whose caller was dead when the answer came. */
  readonly unheard: ReadonlySet<number>;
  /** Values that may stand readable nowhere. */
  readonly secrets: ReadonlyMap<string, string>;
}

/** One cluster on which orders are played, one after the other. */
export class CeremonyLane {
  readonly #west: SimulatedCluster;
  readonly #scenario: Scenario;

  constructor(
    scenario: Scenario,
    readonly cluster: string,
  ) {
    this.#scenario = scenario;
    this.#west = scenario.service.cluster(cluster);
  }

  /** Plays one order to its end. */
  async play(order: Order): Promise<Played> {
    await this.#restore();
    this.#unheard.clear();
    const from = { call: this.#lastCall, token: this.#west.issuedSecrets.length };
    if (order.foreignBefore) this.#afterInvitation = () => this.#stranger('POST');
    const player = new Player(this.#scenario, this.cluster, order);
    const faults = [...order.mishaps.map((each) => this.#arrange(each)), ...this.#arrangeLate(order, player)];
    try {
      const ended = await player.play(
        () => this.#before(),
        () => this.#stranger('DELETE'),
      );
      return {
        order,
        ...ended,
        unheard: new Set(this.#unheard),
        calls: [from.call, this.#lastCall],
        tokens: [from.token, this.#west.issuedSecrets.length],
      };
    } catch (error) {
      // The next order needs the lock.
      await player.end();
      throw error;
    } finally {
      // Also what waits for a call that never came: it belongs to this order.
      for (const fault of [...faults, ...this.#added.splice(0)]) fault.remove();
    }
  }

  get #lastCall(): number {
    return this.#scenario.service.calls.at(-1)?.seq ?? 0;
  }

  #afterInvitation: (() => Promise<void>) | undefined;
  /** Faults that a mishap added while the order was played. */
  readonly #added: { remove(): void }[] = [];

  async #before(): Promise<void> {
    await this.#afterInvitation?.();
    this.#afterInvitation = undefined;
  }

  readonly #unheard = new Set<number>();

  #arrangeLate({ late }: Order, player: Player) {
    if (late === undefined) return [];
    const action = () => player.send({ act: 'share', holder: late, share: 'right' });
    return [this.#scenario.service.faults.add({ cluster: this.cluster, endpoint: ENDPOINTS.share, action })];
  }

  #arrange({ what, call, nth, when }: Mishap) {
    if (call === 'sealed') return killBeforeReport(this.cluster);
    const at = { cluster: this.cluster, endpoint: ENDPOINTS[call], skip: nth - 1, when };
    const { faults } = this.#scenario.service;
    if (what !== LATE) return faults.add({ ...at, action: this.#actionOf(what, call, when) });
    const held = faults.add({ ...at, when: 'before', action: 'arrive-late' });
    const endpoint = when === 'after' ? LOOK : CANCEL;
    const moment = faults.add({ ...at, endpoint, skip: 0, times: Infinity, action: () => held.arrive() });
    return {
      remove: () => {
        held.remove();
        moment.remove();
      },
    };
  }

  #actionOf(what: Exclude<Mishap['what'], typeof LATE>, call: keyof typeof ENDPOINTS, when: Mishap['when']) {
    const actions: Readonly<Record<typeof what, Fault['action']>> = {
      'answer lost': 'lose-answer',
      'answer glued': 'glue-documents',
      'connection reset': 'reset',
      'error 500': { status: 500 },
      'leader changes': (west) => west.leaderChange(),
      'leader changes and returns': (west) => this.#leaveAndReturn(west),
      'node restarts': (west) => restartActive(west),
      'attempt cancelled': () => this.#stranger('DELETE'),
      'foreign attempt': async () => {
        await this.#stranger('DELETE');
        await this.#stranger('POST');
      },
      'worker killed': () => {
        killGeneration(this.cluster);
        const path = ENDPOINTS[call].replace('POST ', '');
        const under = this.#scenario.service.calls.findLast(
          (each) => each.cluster === this.cluster && each.method === 'POST' && each.path === path,
        );
        if (under) this.#unheard.add(under.seq);
        // Nobody is there to hear the answer; before its effect the call itself is lost.
        return when === 'before' ? new Promise<void>(() => undefined) : undefined;
      },
    };
    return actions[what];
  }

  /** The former leader, with its attempt, is back two calls later. */
  #leaveAndReturn(west: SimulatedCluster): void {
    const first = west.snapshotState().activeNode ?? 0;
    west.leaderChange((first + 1) % west.nodes.length);
    const back = this.#scenario.service.faults.add({
      cluster: this.cluster,
      endpoint: ENDPOINTS.share,
      skip: 1,
      action: () => west.leaderChange(first),
    });
    this.#added.push(back);
  }

  /** Somebody else's call on the attempt slot. */
  async #stranger(method: 'POST' | 'DELETE'): Promise<void> {
    const deadline = Date.now() + WAIT_MS;
    for (;;) {
      try {
        const address = `${this.#west.apiAddress}${BASE}/attempt`;
        const { body } = await request(address, { method, body: '{}', headersTimeout: STRANGER_WAITS_MS });
        return await body.dump();
      } catch (error) {
        // Its node is just being restarted, or it met the mishap that was meant for the run's own call.
        if (Date.now() > deadline) throw error;
        await delay(50);
      }
    }
  }

  /** All nodes up, no attempt in any memory. */
  async #restore(): Promise<void> {
    await this.#west.restart();
    for (const node of this.#west.nodes) node.attempts.cancel();
    await until(`a leader of ${this.cluster}`, () => this.#west.snapshotState().activeNode !== undefined);
  }
}

async function restartActive(west: SimulatedCluster): Promise<void> {
  const { activeNode = 0 } = west.snapshotState();
  // Not awaited: the call that is being served ends with its node.
  void west.killNode(activeNode ?? 0).then(() => west.startNode(activeNode ?? 0));
  await delay(5);
}
