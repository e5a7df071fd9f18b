import { DrEndpoints } from './dr-endpoints';
import { KeyValueEndpoints } from './key-value-endpoints';
import { NodeCaller } from './node-caller';
import { PerformanceEndpoints } from './performance-endpoints';
import { SysEndpoints } from './sys-endpoints';
import type { CallOptions, ClusterTarget, ServiceClientOptions } from './types';

/**
 * Typed client of one cluster: the 34 endpoints of the replication administration interface and the sys reads.
 *
 * Reads fall over from node to node; a request that changes something is sent once, unless it is certain that it did not
 * leave. Retrying belongs to the caller: every failure is a RunbookError with `retryable`, `outcomeKnown` and, where the
 * service gave it, `retryAfterMs`.
 */
export class ServiceClient {
  readonly dr: DrEndpoints;
  readonly performance: PerformanceEndpoints;
  readonly sys: SysEndpoints;
  readonly keyValue: KeyValueEndpoints;
  /** Name of the cluster. */
  readonly cluster: string;
  private readonly caller: NodeCaller;

  /** @throws RunbookError INVALID_INPUT or INSECURE_ADDRESS for an address that will not be used. */
  constructor(target: ClusterTarget, options: ServiceClientOptions = {}) {
    this.cluster = target.name;
    this.caller = new NodeCaller(target, options);
    this.dr = new DrEndpoints(this.caller);
    this.performance = new PerformanceEndpoints(this.caller);
    this.sys = new SysEndpoints(this.caller);
    this.keyValue = new KeyValueEndpoints(this.caller);
  }

  /**
   * The address of the target that is active now: one node says so of itself, and no node names another one.
   *
   * @throws RunbookError NO_ACTIVE_NODE; REDIRECT_REFUSED where only an address outside of the target is named;
   *   UNREACHABLE or TLS_FAILED where no node could be asked.
   */
  activeNode(options?: Pick<CallOptions, 'signal' | 'timeoutMs'>): Promise<string> {
    return this.caller.activeNode(options);
  }

  /**
   * Reads from the node that is active by agreement, found anew. The node that led last is read in the same wave in which
   * all are asked who leads; what it says counts only where the answers of that wave name it, else the new one is read.
   *
   * @throws RunbookError as {@link activeNode}, or what `read` throws of the node that leads
   */
  atActiveNode<T>(read: (node: string) => Promise<T>, options?: Pick<CallOptions, 'signal' | 'timeoutMs'>): Promise<T> {
    return this.caller.atActiveNode(read, options);
  }

  /** Makes the next call ask for the active node again: after every role change. */
  forgetActiveNode(): void {
    this.caller.forgetActiveNode();
  }

  /** Frees the connections. */
  close(): Promise<void> {
    return this.caller.close();
  }
}
