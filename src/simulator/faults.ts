import type { SimulatedCluster } from './cluster';
import type { JsonValue, ServiceAnswer } from './messages';

/**
 * What a fault does to a call. `reset` breaks the connection; `lose-answer` lets the call take effect and closes the
 * connection without an answer; `glue-documents` sends the answer's JSON document twice in one body; `arrive-late` closes
 * the connection, and the call takes effect later: when {@link FaultHandle.arrive} is called. A
 * function is given the answer too, where the call took effect already. `break-forwarding` is met only by a call that a
 * standby passes on: that takes effect, its answer is lost on the way back, and the standby answers 307 to the active node
 * as if it had passed nothing on.
 */
export type FaultAction =
  | { readonly status: number; readonly body?: JsonValue; readonly headers?: Readonly<Record<string, string>> }
  | { readonly delayMs: number }
  | 'reset'
  | 'lose-answer'
  | 'glue-documents'
  | 'arrive-late'
  | 'break-forwarding'
  | ((cluster: SimulatedCluster, answer?: ServiceAnswer) => void | Promise<void>);

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

/** `forwarded`: after the effect of a call that a standby passed on. */
export type Moment = 'before' | 'after' | 'forwarded';

/** A call, at one of its moments. */
interface CallToFault {
  readonly cluster: string;
  readonly node: number;
  /** `METHOD /v1/path` */
  readonly endpoint: string;
  /** False where a standby only leads on to the active node. */
  readonly isServed: boolean;
}

/** A fault, with what it did so far and the calls that it holds back. */
interface ActiveFault extends Fault {
  hits: number;
  seen: number;
  held: (() => Promise<void>)[];
}

/** Faults on the HTTP interface of the clusters. They are looked at in the order in which they were added. */
export class FaultInjector {
  #faults: ActiveFault[] = [];

  add(fault: Fault): FaultHandle {
    const active: ActiveFault = { ...fault, hits: 0, seen: 0, held: [] };
    this.#faults.push(active);
    return {
      get hits() {
        return active.hits;
      },
      arrive: async () => {
        for (const call of active.held.splice(0)) await call();
      },
      remove: () => {
        active.held = [];
        this.#faults = this.#faults.filter((each) => each !== active);
      },
    };
  }

  clear(): void {
    this.#faults = [];
  }

  /** What a call meets at one of its moments. */
  take(call: CallToFault, when: Moment): readonly Pick<ActiveFault, 'action' | 'held'>[] {
    return this.#faults.filter((active) => momentOf(active) === when && hits(active, call));
  }
}

/** Whether this call is hit; counts it. */
function hits(active: ActiveFault, call: CallToFault): boolean {
  const { cluster = call.cluster, node = call.isServed ? call.node : undefined } = active;
  const { endpoint, times = 1, skip = 0 } = active;
  const fits = typeof endpoint === 'string' ? endpoint === call.endpoint : endpoint.test(call.endpoint);
  if (!fits || cluster !== call.cluster || node !== call.node || active.hits >= times) return false;
  active.seen += 1;
  if (active.seen <= skip) return false;
  active.hits += 1;
  return true;
}

function momentOf({ action, when }: Fault): Moment {
  if (action === 'break-forwarding') return 'forwarded';
  if (action === 'lose-answer' || action === 'glue-documents') return 'after';
  return action === 'arrive-late' ? 'before' : (when ?? 'before');
}
