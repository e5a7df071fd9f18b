import type { SimulatedCluster } from './cluster';
import type { JsonValue } from './json';
import type { ServiceAnswer } from './messages';

/**
 * What a fault does to a call. `reset` breaks the connection; `lose-answer` lets the call take effect and closes the
 * connection without an answer; `glue-documents` sends the answer's JSON document twice in one body; `arrive-late` closes
 * the connection, and the call takes effect later: when {@link FaultHandle.arrive} is called. A
 * function is given the answer too, where the call took effect already. `break-forwarding` is met only by a call that a
 * standby passes on: that takes effect, its answer is lost on the way back, and the standby answers as if it had passed
 * nothing on, 307 to the active node, or 503 (`break-forwarding-leaderless`) as where it knows none.
 */
export type FaultAction =
  | { readonly status: number; readonly body?: JsonValue; readonly headers?: Readonly<Record<string, string>> }
  | { readonly delayMs: number }
  | 'reset'
  | 'lose-answer'
  | 'glue-documents'
  | 'arrive-late'
  | BrokenForwarding
  | ((cluster: SimulatedCluster, answer?: ServiceAnswer) => void | Promise<void>);

export type BrokenForwarding = 'break-forwarding' | 'break-forwarding-leaderless';

export interface Fault {
  /** Name of a cluster; any where absent. */
  readonly cluster?: string;
  /** Index of the node that is called; where absent any, but for a standby that only leads on to the active one. */
  readonly node?: number;
  /** `METHOD /v1/path` in full, or a pattern over that text. */
  readonly endpoint: string | RegExp;
  /** Before or after the call's effect. `lose-answer`, `glue-documents` and broken forwarding are always after, what arrives late before. Default `before`. */
  readonly when?: 'before' | 'after';
  readonly action: FaultAction;
  /** How often; default 1, `Infinity` for always. */
  readonly times?: number;
  /** Matching calls that pass first; default 0. */
  readonly skip?: number;
}

/** Counts and removes one fault. */
export interface FaultHandle {
  /** Calls hit so far. */
  readonly hits: number;
  /** Lets the calls that `arrive-late` holds back reach the cluster now, one after the other. */
  arrive(): Promise<void>;
  /** Also of what it holds back: that never arrives. */
  remove(): void;
}

/** What a call meets: `hold` keeps what lets it arrive later. */
export type MetAction = Exclude<FaultAction, 'arrive-late'> | { readonly hold: (arrive: () => Promise<void>) => void };

class ActiveFault implements FaultHandle {
  hits = 0;
  #seen = 0;
  #held: (() => Promise<void>)[] = [];

  constructor(
    readonly fault: Fault,
    private readonly onRemove: (fault: ActiveFault) => void,
  ) {}

  remove(): void {
    this.#held = [];
    this.onRemove(this);
  }

  async arrive(): Promise<void> {
    for (const call of this.#held.splice(0)) await call();
  }

  get action(): MetAction {
    const { action } = this.fault;
    return action === 'arrive-late' ? { hold: (arrive) => void this.#held.push(arrive) } : action;
  }

  /** Whether this call is hit; counts it. */
  hit(cluster: string, node: number, endpoint: string): boolean {
    const { fault } = this;
    const fits = typeof fault.endpoint === 'string' ? fault.endpoint === endpoint : fault.endpoint.test(endpoint);
    const here =
      (fault.cluster === undefined || fault.cluster === cluster) && (fault.node === undefined || fault.node === node);
    if (!fits || !here || this.hits >= (fault.times ?? 1)) return false;
    this.#seen += 1;
    if (this.#seen <= (fault.skip ?? 0)) return false;
    this.hits += 1;
    return true;
  }
}

/** Faults on the HTTP interface of the clusters. Faults are looked at in the order in which they were added. */
export class FaultInjector {
  readonly #faults: ActiveFault[] = [];

  add(fault: Fault): FaultHandle {
    const active = new ActiveFault(fault, (removed) => {
      const index = this.#faults.indexOf(removed);
      if (index !== -1) this.#faults.splice(index, 1);
    });
    this.#faults.push(active);
    return active;
  }

  clear(): void {
    this.#faults.length = 0;
  }

  /** Actions for a call at one of its moments. */
  take(cluster: string, node: number, endpoint: string, when: Moment, isServed = true): MetAction[] {
    return this.#faults
      .filter(
        (active) =>
          (isServed || active.fault.node !== undefined) &&
          momentOf(active.fault) === when &&
          active.hit(cluster, node, endpoint),
      )
      .map(({ action }) => action);
  }
}

/** `forwarded`: after the effect of a call that a standby passed on. */
type Moment = 'before' | 'after' | 'forwarded';

function momentOf({ action, when }: Fault): Moment {
  if (action === 'break-forwarding' || action === 'break-forwarding-leaderless') return 'forwarded';
  if (action === 'lose-answer' || action === 'glue-documents') return 'after';
  return action === 'arrive-late' ? 'before' : (when ?? 'before');
}
