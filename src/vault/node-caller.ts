import { RunbookError, isRunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { agreeOnActiveNode } from './active-node';
import type { LeaderOpinion } from './active-node';
import { readAddresses } from './addresses';
import type { NodeAddress } from './addresses';
import { fetchAnswer } from './answers';
import { exchange } from './node-exchange';
import { readLeader } from './sys-shapes';
import { Transport } from './transport';
import type {
  CallOptions,
  Caller,
  ClusterTarget,
  RequestDescription,
  ServiceAnswer,
  ServiceClientOptions,
} from './types';

const DEFAULT_REQUEST_TIMEOUT_MS = 30_000;
const DEFAULT_CONNECT_TIMEOUT_MS = 5_000;
const DEFAULT_RESPONSE_BYTES = 16 * 1024 * 1024;
/** Then the nodes are asked again: a former leader can show old modes for seconds. */
const ACTIVE_NODE_KEPT_MS = 5_000;
/** For one node's part in finding the active one. */
const LEADER_TIMEOUT_MS = 5_000;
/** Once a node says that it is active, how long the others may take to contradict: one dead node must not slow all. */
const CONTRADICTION_WINDOW_MS = 500;
const REDIRECTS = 3;

/** Failures of a read that another node may not have. */
const NODE_FAILURES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'UNREACHABLE',
  'TLS_FAILED',
  'CONNECTION_LOST',
  'REQUEST_TIMEOUT',
  'REDIRECT_REFUSED',
  'STATE_NOT_PRESENT',
  'RATE_LIMITED',
  'SERVICE_ERROR',
  'SERVICE_UNAVAILABLE',
  'SERVICE_SEALED',
]);

/** Chooses the node for a call, and goes on to the next where that is safe. */
export class NodeCaller implements Caller {
  readonly cluster: string;
  private readonly nodes: readonly NodeAddress[];
  private readonly transport: Transport;
  private readonly requestTimeoutMs: number;
  private active: { readonly node: NodeAddress; readonly until: number } | undefined;
  /** The node that was agreed on last, however long ago. */
  private ledLast: NodeAddress | undefined;

  constructor(
    target: ClusterTarget,
    private readonly options: ServiceClientOptions,
  ) {
    this.cluster = target.name;
    this.nodes = readAddresses(target);
    this.requestTimeoutMs = options.requestTimeoutMs ?? DEFAULT_REQUEST_TIMEOUT_MS;
    this.transport = new Transport({
      cluster: target.name,
      caFile: target.caFile,
      connectTimeoutMs: options.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS,
      maxResponseBytes: options.maxResponseBytes ?? DEFAULT_RESPONSE_BYTES,
    });
  }

  warn(warning: string): void {
    this.options.onWarning?.(`${this.cluster}: ${warning}`);
  }

  async activeNode(options: CallOptions = {}): Promise<string> {
    return (await this.findActiveNode(options)).address;
  }

  forgetActiveNode(): void {
    this.active = undefined;
  }

  async atActiveNode<T>(read: (node: string) => Promise<T>, options: CallOptions = {}): Promise<T> {
    const { ledLast } = this;
    this.forgetActiveNode();
    const early = ledLast && settled(read(ledLast.address));
    const node = await this.findActiveNode(options);
    if (early === undefined || node !== ledLast) return read(node.address);
    const result = await early;
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  }

  close(): Promise<void> {
    return this.transport.close();
  }

  async call(request: RequestDescription, options: CallOptions = {}): Promise<ServiceAnswer> {
    if (options.node !== undefined) return this.callNode(this.pinned(options.node), request, options, 0);
    const failures: RunbookError[] = [];
    for (const node of await this.order(request, options)) {
      try {
        return await this.callNode(node, request, options, REDIRECTS);
      } catch (error) {
        if (!(error instanceof RunbookError) || !mayTryNextNode(request, error)) throw error;
        this.forgetActiveNode();
        failures.push(error);
      }
    }
    // An answer says more than a node that is away.
    const told = failures.find((failure) => failure.httpStatus !== undefined) ?? failures[0];
    throw told ?? new RunbookError('INTERNAL', `cluster ${this.cluster} has no node to call`);
  }

  /**
   * One node, and the nodes of the target that it redirects to, with method and body kept. A change goes to a node that
   * may pass it on only where the active one is no address of the target, and is then sent no further.
   */
  private async callNode(
    node: NodeAddress,
    request: RequestDescription,
    options: CallOptions,
    redirectsLeft: number,
    mayPassOn = false,
  ): Promise<ServiceAnswer> {
    const timeoutMs = options.timeoutMs ?? this.requestTimeoutMs;
    const { cluster, transport } = this;
    const warn = (warning: string) => this.warn(warning);
    const result = await exchange({ cluster, transport, timeoutMs, warn, mayPassOn }, node, request, options);
    if (result.kind === 'answer') return result.answer;

    this.forgetActiveNode();
    const url = URL.canParse(result.location, node.origin) ? new URL(result.location, node.origin) : undefined;
    const next = this.nodes.find(({ origin }) => origin === url?.origin);
    const where = `the redirect leads to ${url?.origin ?? 'no address'}`;
    if (mayPassOn) throw result.refuse(`${where}, and the call may have been passed on before`, true);
    // While the leadership changes, nodes redirect to one that leads no more or not yet, even to themselves: it passes.
    const mayPass = next !== undefined;
    if (options.node !== undefined) throw result.refuse('the call was for this node alone', mayPass);
    if (redirectsLeft === 0) throw result.refuse('too many redirects', mayPass);
    if (url !== undefined && url.pathname !== `/v1/${request.path}`)
      throw result.refuse('the redirect leads to another path');
    if (next === undefined) {
      if (url !== undefined && request.effect === 'changes') return this.callNode(node, request, options, 0, true);
      throw result.refuse(where);
    }
    const answer = await this.callNode(next, request, options, redirectsLeft - 1);
    this.keep(next);
    return answer;
  }

  private pinned(address: string): NodeAddress {
    const node = this.nodes.find((candidate) => candidate.address === address || candidate.origin === address);
    if (node !== undefined) return node;
    throw new RunbookError('INVALID_INPUT', `"node" is not an address of cluster ${this.cluster}`, {
      cluster: this.cluster,
      observed: address,
      needed: `one of ${this.nodes.map((candidate) => candidate.address).join(', ')}`,
    });
  }

  /** The nodes in the order in which they are tried: the active one first. */
  private async order(request: RequestDescription, options: CallOptions): Promise<readonly NodeAddress[]> {
    const first = request.anyNode === true ? this.activeIfKnown() : await this.preferredNode(request, options);
    return first === undefined ? this.nodes : [first, ...this.nodes.filter((node) => node !== first)];
  }

  private async preferredNode(request: RequestDescription, options: CallOptions): Promise<NodeAddress | undefined> {
    try {
      return await this.findActiveNode(options);
    } catch (error) {
      if (isRunbookError(error, 'REQUEST_CANCELLED') || isRunbookError(error, 'INTERNAL')) throw error;
      // Behind a load balancer the nodes' own addresses may not be ours to call; any node forwards to the active one.
      if (request.effect === 'reads' || isRunbookError(error, 'REDIRECT_REFUSED')) return undefined;
      throw error;
    }
  }

  private activeIfKnown(): NodeAddress | undefined {
    return this.active !== undefined && performance.now() < this.active.until ? this.active.node : undefined;
  }

  private async findActiveNode(options: CallOptions): Promise<NodeAddress> {
    const known = this.activeIfKnown();
    if (known !== undefined) return known;
    const late = new AbortController();
    const signal = options.signal === undefined ? late.signal : AbortSignal.any([options.signal, late.signal]);
    let window: NodeJS.Timeout | undefined;
    const ask = async (node: NodeAddress): Promise<LeaderOpinion> => {
      const opinion = await this.askLeader(node, { ...options, signal });
      if ('leader' in opinion && opinion.leader.isSelf) {
        window ??= setTimeout(() => late.abort(), CONTRADICTION_WINDOW_MS);
      }
      return opinion;
    };
    const opinions = await Promise.all(this.nodes.map(ask)).finally(() => clearTimeout(window));
    if (options.signal?.aborted) {
      throw new RunbookError(
        'REQUEST_CANCELLED',
        `cluster ${this.cluster}: cancelled while looking for its active node`,
        {
          cluster: this.cluster,
          outcomeKnown: true,
        },
      );
    }
    const node = agreeOnActiveNode(this.cluster, opinions);
    this.keep(node);
    return node;
  }

  private keep(node: NodeAddress): void {
    this.active = { node, until: performance.now() + ACTIVE_NODE_KEPT_MS };
    this.ledLast = node;
  }

  private async askLeader(node: NodeAddress, options: CallOptions): Promise<LeaderOpinion> {
    const request = { method: 'GET', path: 'sys/leader', effect: 'reads' } as const;
    const timeoutMs = Math.min(options.timeoutMs ?? this.requestTimeoutMs, LEADER_TIMEOUT_MS);
    const question: CallOptions = { signal: options.signal, timeoutMs, node: node.address };
    try {
      return { node, leader: await fetchAnswer(this, request, question, (body) => readLeader(body)) };
    } catch (error) {
      if (error instanceof RunbookError && error.code !== 'INTERNAL') return { node, error };
      throw error;
    }
  }
}

/** A failure that nobody may wait for is none of the process's. */
async function settled<T>(work: Promise<T>): Promise<PromiseSettledResult<T>> {
  const [result] = await Promise.allSettled([work]);
  return result;
}

/** Reads go on after any failure of a node; what changes something only where it is certain that it was not sent. */
function mayTryNextNode(request: RequestDescription, error: RunbookError): boolean {
  if (request.effect === 'reads') return NODE_FAILURES.has(error.code);
  return error.code === 'UNREACHABLE' || (error.code === 'REQUEST_TIMEOUT' && error.outcomeKnown);
}
