import { setTimeout as delay } from 'node:timers/promises';
import { RunbookError, isRunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { PLAIN_HTTP, addressMistake } from '../secret';
import type { Secret } from '../secret';
import { leader as readLeader } from './answers';
import type { Leader } from './answers';
import { readAnswer } from './shape';
import { Transport, listEveryNode, originOf } from './transport';
import type { NodeAddress } from './transport';
import type {
  CallOptions,
  ClusterTarget,
  LeaderEvidence,
  RequestDescription,
  ServiceAnswer,
  ServiceClientOptions,
} from './types';

/** Default time limit of one request, and the maximum for asking one node which node is active. */
const REQUEST_TIMEOUT_MS = 4_000;
/** After this time the nodes are asked again: a former leader can report old modes for seconds. */
const ACTIVE_NODE_KEPT_MS = 5_000;
/** How long the other nodes may take to contradict a node that reports that it is active: a dead node must not delay calls. */
const CONTRADICTION_WINDOW_MS = 500;
/** For calls that any node can answer: after this silence of one node, the next node is asked too. */
const SILENCE_MS = 500;
/** A token that has just replaced another is not replaced again for a change of roles within this time. */
const REPLACEMENT_MS = 60_000;

/** Failures of a read that may not occur on another node. */
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

/** Why a call failed on one node. */
interface NodeFailure {
  readonly node: NodeAddress;
  readonly error: RunbookError;
}

/** Which node leads according to one node, or why that node did not answer. */
type LeaderOpinion = { readonly node: NodeAddress; readonly leader: Leader } | NodeFailure;

/** Chooses the node for a call, and tries the next node if that is safe. */
export class NodeCaller {
  /** Name of the cluster. */
  readonly cluster: string;
  protected readonly transport: Transport;
  private readonly nodes: readonly NodeAddress[];
  private active: { readonly node: NodeAddress; readonly until: number } | undefined;
  /** The last known active node, however long ago. */
  private ledLast: NodeAddress | undefined;
  /** Until then only that node must confirm that it leads. In ms of `performance.now()`; 0: ask all nodes again. */
  private agreedUntil = 0;
  /** Tokens that replaced one after a refused change of roles, and when. In ms of `performance.now()`. */
  private readonly replacements = new WeakMap<Secret, number>();

  /** @throws RunbookError INVALID_INPUT or INSECURE_ADDRESS for an address that must not be used. */
  constructor(
    target: ClusterTarget,
    private readonly options: ServiceClientOptions = {},
  ) {
    this.cluster = target.name;
    this.nodes = readAddresses(target);
    this.transport = new Transport(target, options);
  }

  /**
   * The address of the active node: one node reports that it is active, and no node names another one.
   *
   * @throws RunbookError NO_ACTIVE_NODE; UNREACHABLE or TLS_FAILED if no node could be asked.
   */
  async activeNode(options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {}): Promise<string> {
    return (await this.findActiveNode(options)).address;
  }

  /** Makes the next call find the active node again. Call this after every role change. */
  forgetActiveNode(): void {
    this.active = undefined;
    this.agreedUntil = 0;
  }

  /**
   * Reads from the node that all nodes agree is active.
   *
   * The last known leader is read while all nodes are asked which node leads. Its result counts only if their answers
   * name it; otherwise the new leader is read. For {@link ACTIVE_NODE_KEPT_MS} after an agreement, unless a role is changed,
   * only that node is asked whether it still leads. If the requests of `read` already show this, `evidence` uses their
   * answers, and no other request is made.
   *
   * @throws RunbookError as {@link activeNode}, or the error of `read` on the node that leads
   */
  async atActiveNode<T>(
    read: (node: string) => Promise<T>,
    {
      evidence,
      ...options
    }: Pick<CallOptions, 'signal' | 'timeoutMs'> & { readonly evidence?: LeaderEvidence | undefined } = {},
  ): Promise<T> {
    const { ledLast } = this;
    if (ledLast === undefined) return read((await this.findAgain(options)).address);
    // Settled, so that a failure that nobody awaits does not end the process.
    const early = Promise.allSettled([read(ledLast.address)]);
    const counts = this.agreedUntil > (evidence?.of === 'every node' ? 0 : performance.now());
    const leads = evidence?.leads ?? (() => this.reportsThatItLeads(ledLast, options));
    const leadsStill = counts && (await leads(ledLast.address));
    if (leadsStill && evidence?.of === 'every node') this.agreeOn(ledLast);
    const node = leadsStill ? ledLast : await this.findAgain(options);
    if (node !== ledLast) return read(node.address);
    const [result] = await early;
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  }

  /** Frees the connections. */
  close(): Promise<void> {
    return this.transport.close();
  }

  protected async call(request: RequestDescription, options: CallOptions = {}): Promise<ServiceAnswer> {
    const { signal } = options;
    const { tokens } = this.options;
    let { token } = options;
    if (token === undefined || tokens === undefined) return this.send(request, options);
    tokens.demandOwn(token);
    for (let repeated = false; ; repeated = true) {
      try {
        return await this.send(request, { ...options, token });
      } catch (error) {
        if (!isRunbookError(error, 'PERMISSION_DENIED')) throw error;
        const young = performance.now() - (this.replacements.get(token) ?? -Infinity) < REPLACEMENT_MS;
        const about = { repeated: repeated || young, ...(signal && { signal }) };
        token = await tokens.instead(token, error, request, about);
        if (request.changesRoles === true) {
          this.replacements.set(token, performance.now());
          // The checks before this change of roles are outdated now: the caller checks again, then sends it with this
          // token.
          throw error.with({ retryable: true });
        }
        if (repeated) throw error;
      }
    }
  }

  private async send(request: RequestDescription, options: CallOptions): Promise<ServiceAnswer> {
    const bound = { ...options, timeoutMs: options.timeoutMs ?? REQUEST_TIMEOUT_MS };
    if (options.node !== undefined) return this.transport.exchange(this.pinned(options.node), request, bound);
    const first = request.anyNode === true ? this.activeIfKnown() : await this.preferredNode(request, options);
    const left = [...new Set([...(first ? [first] : []), ...this.nodes])];
    if (request.anyNode === true) return this.sendToAny(left, request, bound);
    const failures: NodeFailure[] = [];
    for (let node = left.shift(); node !== undefined; node = left.shift()) {
      const isNamed = failures.some(({ error }) => redirectsTo(error, node));
      try {
        const answer = await this.transport.exchange(node, request, bound);
        // A node that no redirect named may be a standby that forwards the read.
        if (isNamed) this.keep(node);
        return answer;
      } catch (error) {
        if (!(error instanceof RunbookError)) throw error;
        const isStandby = failures.length > 0 && !isNamed;
        if (!mayTryNextNode(request, error, isStandby)) throw error;
        this.forgetActiveNode();
        failures.push({ node, error });
        // Ask the node named by a redirect next: the answer of any other node could end a change before the leader is
        // asked.
        left.sort((one, other) => Number(redirectsTo(error, other)) - Number(redirectsTo(error, one)));
      } finally {
        // Whatever the outcome: the nodes may elect another leader now.
        if (request.changesRoles === true) this.agreedUntil = 0;
      }
    }
    throw reasonOf(this.cluster, failures);
  }

  /**
   * Sends a read that any node can answer, and returns the first answer that does not describe only that node. Does not
   * wait for silent nodes one after the other.
   */
  private async sendToAny(
    nodes: readonly NodeAddress[],
    request: RequestDescription,
    options: CallOptions & { readonly timeoutMs: number },
  ): Promise<ServiceAnswer> {
    const over = new AbortController();
    const signal = options.signal === undefined ? over.signal : AbortSignal.any([options.signal, over.signal]);
    const failures: NodeFailure[] = [];
    const seen: { ofOneNode?: ServiceAnswer; fatal?: Error } = {};
    const ask = async (node: NodeAddress): Promise<ServiceAnswer> => {
      try {
        const answer = await this.transport.exchange(node, request, { ...options, signal });
        if (request.nodeStatuses?.has(answer.status) !== true) return answer;
        seen.ofOneNode ??= answer;
      } catch (error) {
        if (error instanceof RunbookError && mayTryNextNode(request, error, true)) {
          this.forgetActiveNode();
          failures.push({ node, error });
        } else seen.fatal ??= error as Error;
      }
      throw new Error(`no answer about the cluster from ${node.address}`);
    };
    const asked: Promise<ServiceAnswer>[] = [];
    try {
      for (const node of nodes) {
        const one = ask(node);
        asked.push(one);
        const pause = delay(SILENCE_MS, undefined, { signal });
        const answer = await Promise.race([Promise.any(asked), one, pause]).catch(() => undefined);
        if (answer !== undefined) return answer;
      }
      return await Promise.any(asked);
    } catch {
      if (seen.fatal === undefined && seen.ofOneNode !== undefined) return seen.ofOneNode;
      throw seen.fatal ?? reasonOf(this.cluster, failures);
    } finally {
      over.abort();
    }
  }

  private pinned(address: string): NodeAddress {
    const node = this.nodes.find((candidate) => candidate.address === address || candidate.origin === address);
    if (node !== undefined) return node;
    throw new RunbookError('INVALID_INPUT', `"node" is not an API address of cluster ${this.cluster}`, {
      cluster: this.cluster,
      observed: address,
      needed: `one of ${this.nodes.map((candidate) => candidate.address).join(', ')}`,
    });
  }

  private async preferredNode(request: RequestDescription, options: CallOptions): Promise<NodeAddress | undefined> {
    try {
      return await this.findActiveNode(options);
    } catch (error) {
      if (isRunbookError(error, 'REQUEST_CANCELLED') || isRunbookError(error, 'INTERNAL')) throw error;
      // Any node forwards a read to the active node.
      if (request.effect === 'reads') return undefined;
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
      throw new RunbookError('REQUEST_CANCELLED', `cluster ${this.cluster}: cancelled while finding its active node`, {
        cluster: this.cluster,
        outcomeKnown: true,
      });
    }
    return this.agreeOn(agreeOnActiveNode(this.cluster, opinions));
  }

  private agreeOn(node: NodeAddress): NodeAddress {
    this.keep(node);
    this.agreedUntil = performance.now() + ACTIVE_NODE_KEPT_MS;
    return node;
  }

  private findAgain(options: CallOptions): Promise<NodeAddress> {
    this.forgetActiveNode();
    return this.findActiveNode(options);
  }

  private async reportsThatItLeads(node: NodeAddress, options: CallOptions): Promise<boolean> {
    // A node that has become silent must not delay asking the others.
    const timeoutMs = Math.min(options.timeoutMs ?? REQUEST_TIMEOUT_MS, CONTRADICTION_WINDOW_MS);
    const opinion = await this.askLeader(node, { ...options, timeoutMs });
    return 'leader' in opinion && (opinion.leader.isSelf || !opinion.leader.haEnabled);
  }

  private keep(node: NodeAddress): void {
    this.active = { node, until: performance.now() + ACTIVE_NODE_KEPT_MS };
    this.ledLast = node;
  }

  private async askLeader(node: NodeAddress, options: CallOptions): Promise<LeaderOpinion> {
    const request = { method: 'GET', path: 'sys/leader', effect: 'reads' } as const;
    const timeoutMs = Math.min(options.timeoutMs ?? REQUEST_TIMEOUT_MS, REQUEST_TIMEOUT_MS);
    const question: CallOptions = { signal: options.signal, timeoutMs, node: node.address };
    try {
      return { node, leader: readAnswer(this.transport, request, await this.call(request, question), readLeader) };
    } catch (error) {
      if (error instanceof RunbookError && error.code !== 'INTERNAL') return { node, error };
      throw error;
    }
  }
}

/** Whether a node answered a call with a redirect to this node. Redirects are not followed: they only show whom to ask next. */
function redirectsTo(error: RunbookError, { origin }: NodeAddress): boolean {
  return error.code === 'REDIRECT_REFUSED' && error.observed === origin;
}

/**
 * A read may try the next node after any failure of a node. A change may do so only if it certainly had no effect: it
 * was not sent, or the node redirected it (the request forbids forwarding). A sealed standby did not process the
 * change; a sealed node that was named as the leader may have processed it before it was sealed.
 */
function mayTryNextNode(request: RequestDescription, error: RunbookError, isStandby: boolean): boolean {
  if (request.effect === 'reads') return NODE_FAILURES.has(error.code);
  if (error.code === 'REQUEST_TIMEOUT') return error.outcomeKnown;
  if (error.code === 'SERVICE_SEALED') return isStandby && error.outcomeKnown;
  return error.code === 'UNREACHABLE' || error.code === 'REDIRECT_REFUSED';
}

/** Why the call failed on all nodes. An answer is preferred to no answer, but a sealed node reveals nothing about the others. */
function reasonOf(cluster: string, failures: readonly NodeFailure[]): RunbookError {
  const [first] = failures;
  const sealed = failures.filter(({ error }) => error.code === 'SERVICE_SEALED');
  const answered = failures.find((each) => each.error.httpStatus !== undefined && !sealed.includes(each));
  if (answered !== undefined) return answered.error;
  if (first !== undefined && [0, failures.length].includes(sealed.length)) return first.error;
  return noActiveNode(cluster, 'no node accepted the call', failures);
}

/**
 * The node that is active according to all nodes that answered: exactly one claims to be active, and no node names
 * another node of the target. An address outside the target is never used and decides nothing: nodes often advertise
 * a load balancer or a service name, and standbys name it for seconds before the new leader says that it leads (facts 13.2).
 *
 * @throws RunbookError NO_ACTIVE_NODE or, if no node answered, the error of the first node.
 */
function agreeOnActiveNode(cluster: string, opinions: readonly LeaderOpinion[]): NodeAddress {
  const answers = opinions.filter((opinion) => 'leader' in opinion);
  const failures = opinions.filter((opinion) => 'error' in opinion);
  const [first] = failures;
  if (first !== undefined && opinions.every((opinion) => 'error' in opinion && isNoAnswer(opinion.error)))
    throw first.error;

  // Without high availability there is one node; it is active if it answers.
  const claimants = answers.filter(({ leader }) => leader.isSelf || !leader.haEnabled).map(({ node }) => node);
  const named = answers
    .filter(({ leader }) => !leader.isSelf)
    .map(({ leader }) => originOf(leader.leaderAddress ?? ''));
  const known = opinions.map(({ node }) => node);
  const [claimant] = claimants;
  const namesAnother = named.some(
    (origin) => origin !== claimant?.origin && known.some((node) => node.origin === origin),
  );
  if (claimant !== undefined && claimants.length === 1 && !namesAnother) return claimant;

  throw noActiveNode(cluster, 'its nodes do not agree on an active node', opinions);
}

function noActiveNode(cluster: string, problem: string, opinions: readonly LeaderOpinion[]): RunbookError {
  const known = opinions.map(({ node }) => node);
  const observed = opinions.map((opinion) => describe(opinion, known)).join('; ');
  const needed = 'exactly one active node';
  const tls = opinions.filter((each) => 'error' in each).find(({ error }) => error.code === 'TLS_FAILED');
  return new RunbookError('NO_ACTIVE_NODE', `cluster ${cluster}: ${problem}: ${observed}`, {
    cluster,
    observed,
    needed,
    ...(opinions.some((opinion) => namesForeign(opinion, known)) && { next: listEveryNode(cluster) }),
    ...(tls && { next: tls.error.next }),
  });
}

function isNoAnswer(error: RunbookError): boolean {
  return error.httpStatus === undefined && !isRunbookError(error, 'RESPONSE_INVALID');
}

function describe(opinion: LeaderOpinion, known: readonly NodeAddress[]): string {
  const { address } = opinion.node;
  if ('error' in opinion)
    return [
      address,
      opinion.error.code,
      ...(isRunbookError(opinion.error, 'TLS_FAILED') ? [opinion.error.observed] : []),
    ]
      .filter((each) => each !== undefined)
      .join(': ');
  if (opinion.leader.isSelf) return `${address}: active`;
  const { leaderAddress = '' } = opinion.leader;
  if (leaderAddress === '') return `${address}: names no leader`;
  const named = originOf(leaderAddress) ?? 'something that is no address';
  return `${address}: names ${named} as leader${namesForeign(opinion, known) ? ', which is not among the addresses' : ''}`;
}

/** What people are told about the address that a leader names as its own (`api_addr`). */
export function leaderNameText(leaderAddress: string, addresses: readonly string[]): string {
  const named = originOf(leaderAddress);
  if (leaderAddress === '') return 'the leader names no address';
  if (addresses.some((each) => originOf(each) === named)) return `the leader names ${named}, which is listed`;
  return `the leader names ${named ?? 'something that is no address'} (api_addr), which is not among the addresses and is never called: this works if these are the nodes' own addresses, none of them a load balancer's`;
}

/** Whether a node names a leader that is not listed. */
function namesForeign(opinion: LeaderOpinion, known: readonly NodeAddress[]): boolean {
  if ('error' in opinion || opinion.leader.isSelf || !opinion.leader.leaderAddress) return false;
  const origin = originOf(opinion.leader.leaderAddress);
  return !known.some((node) => node.origin === origin);
}

/**
 * The addresses of a target in canonical form.
 *
 * @throws RunbookError INVALID_INPUT (no address, or more than an http(s) origin), INSECURE_ADDRESS (plain HTTP other
 *   than on loopback).
 */
function readAddresses(target: ClusterTarget): readonly NodeAddress[] {
  if (target.addresses.length === 0) {
    throw new RunbookError('INVALID_INPUT', `cluster ${target.name} has no API address`, { cluster: target.name });
  }
  const nodes = target.addresses.map((address) => readAddress(target.name, address));
  return nodes.filter((node, position) => nodes.findIndex((other) => other.origin === node.origin) === position);
}

function readAddress(cluster: string, address: string): NodeAddress {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const isBare = url?.pathname === '/' && url.search === '' && url.hash === '';
  const mistake = addressMistake(address) ?? (isBare ? undefined : 'it must have only a scheme, a host, and a port');
  if (url !== undefined && mistake === undefined) return { address, origin: url.origin };
  const code = mistake === PLAIN_HTTP ? 'INSECURE_ADDRESS' : 'INVALID_INPUT';
  // Never the full address, which may contain a credential.
  const facts = { cluster, observed: url?.host, needed: 'https://HOST:PORT' };
  throw new RunbookError(code, `An API address of cluster ${cluster} cannot be used: ${mistake}.`, facts);
}
