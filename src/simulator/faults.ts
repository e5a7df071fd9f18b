import type { SimulatedCluster } from './cluster';
import type { JsonValue } from './json';
import type { ServiceAnswer } from './messages';
import type { SeededRandom } from './random';

/**
 * What a fault does to a call. `reset` breaks the connection; `lose-answer` lets the call take effect and closes the
 * connection without an answer; `glue-documents` sends the answer's JSON document twice in one body. A
 * function is given the answer too, where the call took effect already.
 */
export type FaultAction =
  | { readonly status: number; readonly body?: JsonValue; readonly headers?: Readonly<Record<string, string>> }
  | { readonly delayMs: number }
  | 'reset'
  | 'lose-answer'
  | 'glue-documents'
  | ((cluster: SimulatedCluster, answer?: ServiceAnswer) => void | Promise<void>);

export interface Fault {
  /** Name of a cluster; any where absent. */
  readonly cluster?: string;
  /** Index of the node that is called; any where absent. */
  readonly node?: number;
  /** `METHOD /v1/path` in full, or a pattern over that text. */
  readonly endpoint: string | RegExp;
  /** Before or after the call's effect. `lose-answer` and `glue-documents` are always after. Default `before`. */
  readonly when?: 'before' | 'after';
  readonly action: FaultAction;
  /** How often; default 1, `Infinity` for always. */
  readonly times?: number;
  /** Matching calls that pass first; default 0. */
  readonly skip?: number;
  /** Chance that a matching call is hit, from the seed; default 1. */
  readonly chance?: number;
}

/** Counts and removes one fault. */
export interface FaultHandle {
  /** Calls hit so far. */
  readonly hits: number;
  remove(): void;
}

class ActiveFault implements FaultHandle {
  hits = 0;
  #seen = 0;

  constructor(
    readonly fault: Fault,
    private readonly random: SeededRandom,
    private readonly onRemove: (fault: ActiveFault) => void,
  ) {}

  remove(): void {
    this.onRemove(this);
  }

  /** Whether this call is hit; counts it. */
  hit(cluster: string, node: number, endpoint: string): boolean {
    const { fault } = this;
    const fits = typeof fault.endpoint === 'string' ? fault.endpoint === endpoint : fault.endpoint.test(endpoint);
    const here =
      (fault.cluster === undefined || fault.cluster === cluster) && (fault.node === undefined || fault.node === node);
    if (!fits || !here || this.hits >= (fault.times ?? 1)) {
      return false;
    }
    this.#seen += 1;
    if (this.#seen <= (fault.skip ?? 0) || !this.random.chance(fault.chance ?? 1)) {
      return false;
    }
    this.hits += 1;
    return true;
  }
}

/** Faults on the HTTP interface of the clusters. Faults are looked at in the order in which they were added. */
export class FaultInjector {
  readonly #faults: ActiveFault[] = [];

  constructor(private readonly random: SeededRandom) {}

  add(fault: Fault): FaultHandle {
    const active = new ActiveFault(fault, this.random, (removed) => {
      const index = this.#faults.indexOf(removed);
      if (index !== -1) {
        this.#faults.splice(index, 1);
      }
    });
    this.#faults.push(active);
    return active;
  }

  clear(): void {
    this.#faults.length = 0;
  }

  /** Actions for a call at one of its two moments. */
  take(cluster: string, node: number, endpoint: string, when: 'before' | 'after'): FaultAction[] {
    return this.#faults
      .filter((active) => momentOf(active.fault) === when && active.hit(cluster, node, endpoint))
      .map(({ fault }) => fault.action);
  }
}

function momentOf({ action, when }: Fault): 'before' | 'after' {
  return action === 'lose-answer' || action === 'glue-documents' ? 'after' : (when ?? 'before');
}
