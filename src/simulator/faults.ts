import type { SimulatedCluster } from './cluster';
import type { JsonValue, ServiceAnswer } from './messages';

/**
 * What a fault does to a call.
 *
 * - `reset` breaks the connection.
 * - `lose-answer` lets the call take effect, then closes the connection without an answer.
 * - `glue-documents` sends the JSON document of the answer twice in one body.
 * - `arrive-late` closes the connection; the call takes effect later, when {@link FaultHandle.arrive} is called.
 * - `break-forwarding` affects only a call that a standby forwards: the call takes effect, its answer is lost on the
 *   way back, and the standby answers 307 to the active node, as if it had not forwarded the call.
 * - A function also receives the answer if the call has taken effect already.
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
  /** Name of a cluster; default: any. */
  readonly cluster?: string;
  /** Index of the called node; default: any node except a standby that only redirects to the active node. */
  readonly node?: number;
  /** The complete `METHOD /v1/path`, or a pattern for it. */
  readonly endpoint: string | RegExp;
  /**
   * Before or after the effect of the call; default `before`. Ignored by `lose-answer`, `glue-documents`, and
   * `break-forwarding` (always after) and `arrive-late` (always before).
   */
  readonly when?: 'before' | 'after';
  readonly action: FaultAction;
  /** Number of calls to affect; default 1, `Infinity` for all. */
  readonly times?: number;
  /** Number of matching calls to let through first; default 0. */
  readonly skip?: number;
}

/** `forwarded`: after the effect of a call that a standby has forwarded. */
export type Moment = 'before' | 'after' | 'forwarded';

/** A call, at one of its moments. */
interface CallToFault {
  readonly cluster: string;
  readonly node: number;
  /** `METHOD /v1/path` */
  readonly endpoint: string;
  /** False if a standby only redirects to the active node. */
  readonly isServed: boolean;
}

/** A fault with its counters and the calls that it has delayed. */
interface ActiveFault extends Fault {
  hits: number;
  seen: number;
  held: (() => Promise<void>)[];
}

/** Faults on the HTTP interface of the clusters. They apply in the order in which they were added. */
export class FaultInjector {
  #faults: ActiveFault[] = [];

  add(fault: Fault) {
    const active: ActiveFault = { ...fault, hits: 0, seen: 0, held: [] };
    this.#faults.push(active);
    return {
      /** Number of calls affected so far. */
      get hits(): number {
        return active.hits;
      },
      /** Lets the calls delayed by `arrive-late` reach the cluster now, one after the other. */
      arrive: async (): Promise<void> => {
        for (const call of active.held.splice(0)) await call();
      },
      /** Removes the fault; calls that it has delayed never arrive. */
      remove: (): void => {
        active.held = [];
        this.#faults = this.#faults.filter((each) => each !== active);
      },
    };
  }

  clear(): void {
    this.#faults = [];
  }

  /** The faults that affect a call at this moment; counts them. */
  take(call: CallToFault, when: Moment): readonly Pick<ActiveFault, 'action' | 'held'>[] {
    return this.#faults.filter((active) => momentOf(active) === when && hits(active, call));
  }
}

/** Controls one fault. */
export type FaultHandle = ReturnType<FaultInjector['add']>;

/** Whether the fault affects this call; counts it. */
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
