import { setTimeout as delay } from 'node:timers/promises';
import { RunbookError, isRunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { PLAIN_HTTP, addressMistake } from '../secret';
import type { Secret } from '../secret';
import { leader as readLeader } from './answers';
import type { Leader } from './answers';
import { readAnswer } from './shape';
import { Transport, originOf } from './transport';
import type { NodeAddress } from './transport';
import type {
  CallOptions,
  ClusterTarget,
  LeaderEvidence,
  RequestDescription,
  ServiceAnswer,
  ServiceClientOptions,
} from './types';

/** Of one request, ms, where the call names no other. For one node's part in finding the active one it is the most. */
const REQUEST_TIMEOUT_MS = 4_000;
/** Then the nodes are asked again: a former leader can show old modes for seconds. */
const ACTIVE_NODE_KEPT_MS = 5_000;
/** For how long the agreement of all nodes stands while the one they agreed on goes on saying that it leads. */
const AGREEMENT_MS = 1_000;
/** Once a node says that it is active, how long the others may take to contradict: one dead node must not slow all. */
const CONTRADICTION_WINDOW_MS = 500;
/** What each node says for itself is asked of the next one too where one is silent for so long: a whole site may be. */
const SILENCE_MS = 500;
/** A token that just took the place of another is not replaced again for a change of roles. */
const REPLACEMENT_MS = 60_000;

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

/** Why one node did not take a call. */
interface NodeFailure {
  readonly node: NodeAddress;
  readonly error: RunbookError;
}

/** What one node said of the leader. */
type LeaderOpinion = { readonly node: NodeAddress; readonly leader: Leader } | NodeFailure;

/** Chooses the node for a call, and goes on to the next where that is safe. */
export class NodeCaller {
  /** Name of the cluster. */
  readonly cluster: string;
  protected readonly transport: Transport;
  private readonly nodes: readonly NodeAddress[];
  private active: { readonly node: NodeAddress; readonly until: number } | undefined;
  /** The node that was agreed on last, however long ago. */
  private ledLast: NodeAddress | undefined;
  /** Until when what all nodes agreed on needs the word of that node alone, ms of `performance.now()`; 0: ask all anew. */
  private agreedUntil = 0;
  /** Tokens that came in the place of one that a change of roles was refused for, and when, ms of `performance.now()`. */
  private readonly replacements = new WeakMap<Secret, number>();

  /** @throws RunbookError INVALID_INPUT or INSECURE_ADDRESS for an address that will not be used. */
  constructor(
    target: ClusterTarget,
    private readonly options: ServiceClientOptions = {},
  ) {
    this.cluster = target.name;
    this.nodes = readAddresses(target);
    this.transport = new Transport(target, options);
  }

  /**
   * The address of the target that is active now: one node says so of itself, and no node names another one.
   *
   * @throws RunbookError NO_ACTIVE_NODE; REDIRECT_REFUSED where only an address outside of the target is named;
   *   UNREACHABLE or TLS_FAILED where no node could be asked.
   */
  async activeNode(options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {}): Promise<string> {
    return (await this.findActiveNode(options)).address;
  }

  /** Makes the next call ask for the active node again: after every role change. */
  forgetActiveNode(): void {
    this.active = undefined;
    this.agreedUntil = 0;
  }

  /**
   * Reads from the node that is active by agreement. The node that led last is read in the same wave in which all are asked
   * who leads; what it says counts only where the answers of that wave name it, else the new one is read. For a second
   * after all agreed, and until a role is changed, that node alone is asked, and says that it leads still. Where `read`
   * itself asks what says so, `evidence` gives it, and nothing more is asked.
   *
   * @throws RunbookError as {@link activeNode}, or what `read` throws of the node that leads
   */
  async atActiveNode<T>(
    read: (node: string) => Promise<T>,
    {
      evidence,
      ...options
    }: Pick<CallOptions, 'signal' | 'timeoutMs'> & { readonly evidence?: LeaderEvidence | undefined } = {},
  ): Promise<T> {
    const { ledLast } = this;
    if (ledLast === undefined) return read((await this.findAnew(options)).address);
    const early = settled(read(ledLast.address));
    const counts = this.agreedUntil > (evidence?.of === 'every node' ? 0 : performance.now());
    const leads = evidence?.leads ?? (() => this.saysThatItLeads(ledLast, options));
    const leadsStill = counts && (await leads(ledLast.address));
    if (leadsStill && evidence?.of === 'every node') this.agreeOn(ledLast);
    const node = leadsStill ? ledLast : await this.findAnew(options);
    if (node !== ledLast) return read(node.address);
    const result = await early;
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
          // What a change of roles was checked against is older now: the caller checks again, then sends with this token.
          throw error.with({ retryable: true });
        }
        if (repeated) throw error;
      }
    }
  }

  private async send(request: RequestDescription, options: CallOptions): Promise<ServiceAnswer> {
    const bound = { ...options, timeoutMs: options.timeoutMs ?? REQUEST_TIMEOUT_MS };
    if (options.node !== undefined) return this.transport.exchange(this.pinned(options.node), request, bound);
    const left = [...(await this.order(request, options))];
    if (request.anyNode === true) return this.sendToAny(left, request, bound);
    const failures: NodeFailure[] = [];
    for (let node = left.shift(); node !== undefined; node = left.shift()) {
      const isNamed = failures.some(({ error }) => redirectsTo(error, node));
      try {
        const answer = await this.transport.exchange(node, request, bound);
        // Another one may be a standby that passes a read on.
        if (isNamed) this.keep(node);
        return answer;
      } catch (error) {
        if (!(error instanceof RunbookError)) throw error;
        const isStandby = failures.length > 0 && !isNamed;
        if (!mayTryNextNode(request, error, isStandby)) throw error;
        this.forgetActiveNode();
        failures.push({ node, error });
        // What a node without a part in it answers would end a change before the one that leads is asked.
        left.sort((one, other) => Number(redirectsTo(error, other)) - Number(redirectsTo(error, one)));
      } finally {
        // Whatever became of it: the nodes may choose another leader now.
        if (request.changesRoles === true) this.agreedUntil = 0;
      }
    }
    throw reasonOf(this.cluster, failures);
  }

  /**
   * A read that each node answers for itself: the first answer, unless it is of that node alone. Silent nodes are not waited
   * for one after the other.
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
      throw new Error(`nothing of the cluster from ${node.address}`);
    };
    const asked: Promise<ServiceAnswer>[] = [];
    try {
      for (const node of nodes) {
        const one = ask(node);
        asked.push(one);
        const pause = delay(SILENCE_MS, undefined, { signal });
        const told = await Promise.race([Promise.any(asked), one, pause]).catch(() => undefined);
        if (told !== undefined) return told;
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
      // Any node forwards a read to the active one.
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
      throw new RunbookError(
        'REQUEST_CANCELLED',
        `cluster ${this.cluster}: cancelled while looking for its active node`,
        {
          cluster: this.cluster,
          outcomeKnown: true,
        },
      );
    }
    return this.agreeOn(agreeOnActiveNode(this.cluster, opinions));
  }

  private agreeOn(node: NodeAddress): NodeAddress {
    this.keep(node);
    this.agreedUntil = performance.now() + AGREEMENT_MS;
    return node;
  }

  private findAnew(options: CallOptions): Promise<NodeAddress> {
    this.forgetActiveNode();
    return this.findActiveNode(options);
  }

  private async saysThatItLeads(node: NodeAddress, options: CallOptions): Promise<boolean> {
    // One that has gone silent must not keep the others from being asked.
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

/** A failure that nobody may wait for is none of the process's. */
async function settled<T>(work: Promise<T>): Promise<PromiseSettledResult<T>> {
  const [result] = await Promise.allSettled([work]);
  return result;
}

/** Whether a node refused a call because this one leads, as it says. No redirect is followed: it only says whom to ask. */
function redirectsTo(error: RunbookError, { origin }: NodeAddress): boolean {
  return error.code === 'REDIRECT_REFUSED' && error.observed === origin;
}

/**
 * Reads go on after any failure of a node; what changes something only where it is certain that it had no effect: it was
 * not sent, or the node redirected it, being told to pass nothing on. A sealed standby had no part in it; one that was said
 * to lead may have, before it was sealed.
 */
function mayTryNextNode(request: RequestDescription, error: RunbookError, isStandby: boolean): boolean {
  if (request.effect === 'reads') return NODE_FAILURES.has(error.code);
  if (error.code === 'REQUEST_TIMEOUT') return error.outcomeKnown;
  if (error.code === 'SERVICE_SEALED') return isStandby && error.outcomeKnown;
  return error.code === 'UNREACHABLE' || error.code === 'REDIRECT_REFUSED';
}

/** Why no node took a call. An answer says more than a node that is away, but a sealed node says nothing of the others. */
function reasonOf(cluster: string, failures: readonly NodeFailure[]): RunbookError {
  const [first] = failures;
  const sealed = failures.filter(({ error }) => error.code === 'SERVICE_SEALED');
  const told = failures.find((each) => each.error.httpStatus !== undefined && !sealed.includes(each));
  if (told !== undefined) return told.error;
  if (first !== undefined && [0, failures.length].includes(sealed.length)) return first.error;
  return noActiveNode(cluster, 'no node of it takes the call', failures);
}

/**
 * The node that is active by the agreement of all that answered: exactly one claims it, and no other node of the target
 * is named. A name outside of the target is never followed; a node can be known to itself by another name.
 *
 * @throws RunbookError NO_ACTIVE_NODE, REDIRECT_REFUSED, or the common reason why no node could be asked.
 */
function agreeOnActiveNode(cluster: string, opinions: readonly LeaderOpinion[]): NodeAddress {
  const answers = opinions.filter((opinion) => 'leader' in opinion);
  const failures = opinions.filter((opinion) => 'error' in opinion);
  const [first] = failures;
  if (first !== undefined && opinions.every((opinion) => 'error' in opinion && isNoAnswer(opinion.error)))
    throw first.error;

  // Without high availability there is one node, and it is active when it answers.
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

  const foreign = named.find((origin) => origin !== undefined && !known.some((node) => node.origin === origin));
  if (claimants.length === 0 && !namesAnother && foreign !== undefined) {
    throw new RunbookError(
      'REDIRECT_REFUSED',
      `cluster ${cluster}: its nodes name a leader that is not an address of it`,
      {
        cluster,
        observed: opinions.map(describe).join('; '),
        needed: `one of ${known.map((node) => node.address).join(', ')}`,
        next: 'Add the address of every node to the inventory.',
      },
    );
  }
  throw noActiveNode(cluster, 'its nodes do not agree on an active node', opinions);
}

function noActiveNode(cluster: string, what: string, opinions: readonly LeaderOpinion[]): RunbookError {
  const observed = opinions.map(describe).join('; ');
  const needed = 'one node that is active';
  return new RunbookError('NO_ACTIVE_NODE', `cluster ${cluster}: ${what}: ${observed}`, { cluster, observed, needed });
}

function isNoAnswer(error: RunbookError): boolean {
  return error.httpStatus === undefined && !isRunbookError(error, 'RESPONSE_INVALID');
}

function describe(opinion: LeaderOpinion): string {
  if ('error' in opinion) return `${opinion.node.address}: ${opinion.error.code}`;
  if (opinion.leader.isSelf) return `${opinion.node.address}: active`;
  return `${opinion.node.address}: names ${originOf(opinion.leader.leaderAddress ?? '') ?? 'none'}`;
}

/**
 * The addresses of a target in normal form.
 *
 * @throws RunbookError INVALID_INPUT (no address, not a bare http(s) origin), INSECURE_ADDRESS (plain HTTP elsewhere than
 *   on loopback).
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
  const mistake = addressMistake(address) ?? (isBare ? undefined : 'an address has no more than a host and a port');
  if (url !== undefined && mistake === undefined) return { address, origin: url.origin };
  const code = mistake === PLAIN_HTTP ? 'INSECURE_ADDRESS' : 'INVALID_INPUT';
  // Never the whole address, which may hold a credential.
  const facts = { cluster, observed: url?.host, needed: 'https://HOST:PORT' };
  throw new RunbookError(code, `An API address of cluster ${cluster} cannot be used: ${mistake}.`, facts);
}
