import { RunbookError, isRunbookError } from '../errors';
import type { GeneratedTokenKind } from './answers';
import { ENDPOINTS, pathOf } from './endpoints';
import type { Endpoint, generationEndpoints } from './endpoints';
import { NodeCaller } from './nodes';
import { readAnswer } from './shape';
import type { CallOptions, ClusterTarget, ServiceClientOptions } from './types';

/** A method for each endpoint of a table. */
export type Methods<T> = {
  readonly [Name in keyof T]: T[Name] extends Endpoint<infer P, infer A> ? Method<P, A> : Methods<T[Name]>;
};
type Method<P, A> = [P] extends [void]
  ? (options?: CallOptions) => Promise<A>
  : (parameters: P, options?: CallOptions) => Promise<A>;

/** The four calls of a generation attempt. */
export type GenerationEndpoints<K extends GeneratedTokenKind> = Methods<ReturnType<typeof generationEndpoints<K>>>;

/**
 * Typed client of one cluster: the 34 endpoints of the replication administration interface (sections 3 and 4 of the
 * interface document), and the `sys` and key-value calls that runbooks need.
 *
 * If a node fails, a read is sent to the next node. A request that changes something goes to another node only if it
 * certainly had no effect, because it was not sent or was answered with a redirect. The client does not retry
 * otherwise: every failure is a RunbookError with `retryable`, `outcomeKnown`, and, if the service sent it,
 * `retryAfterMs`.
 */
export class ServiceClient extends NodeCaller {
  readonly dr: Methods<typeof ENDPOINTS.dr>;
  readonly performance: Methods<typeof ENDPOINTS.performance>;
  readonly sys: Methods<typeof ENDPOINTS.sys>;
  readonly keyValue: Methods<typeof ENDPOINTS.keyValue>;

  constructor(target: ClusterTarget, options: ServiceClientOptions = {}) {
    super(target, options);
    const methods = methodsOf(ENDPOINTS, this.callEndpoint.bind(this));
    this.dr = methods.dr;
    this.performance = methods.performance;
    this.sys = methods.sys;
    this.keyValue = methods.keyValue;
  }

  /** Makes one call in the table and reads its answer. */
  private async callEndpoint(
    endpoint: Endpoint<unknown, unknown>,
    parameters: unknown,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    const { read, mayBeAbsent, tokenForHeader } = endpoint;
    const request = {
      ...endpoint,
      path: pathOf(endpoint, parameters),
      body: endpoint.body?.(parameters),
      consume: endpoint.consume?.(parameters),
    };
    try {
      const answer = await this.call(request, options);
      if (read === undefined) return undefined;
      return readAnswer(this.transport, request, answer, (body, place) => read(body, place, parameters));
    } catch (error) {
      if (!(error instanceof RunbookError)) throw error;
      if (mayBeAbsent === true && error.code === 'NOT_FOUND') return undefined;
      if (tokenForHeader === undefined || options?.token !== undefined || error.code !== 'PERMISSION_DENIED')
        throw error;
      return this.callEndpoint(endpoint, parameters, { ...options, token: tokenForHeader(parameters) });
    }
  }
}

function methodsOf<T extends object>(table: T, call: ServiceClient['callEndpoint']): Methods<T> {
  const methods = Object.entries(table).map(([name, entry]: [string, object]) => {
    if (!isEndpoint(entry)) return [name, methodsOf(entry, call)];
    return entry.takesParameters
      ? [name, (parameters: unknown, options?: CallOptions) => call(entry, parameters, options)]
      : [name, (options?: CallOptions) => call(entry, undefined, options)];
  });
  // Built from the table, member by member.
  return Object.fromEntries(methods) as Methods<T>;
}

function isEndpoint(entry: object): entry is Endpoint<unknown, unknown> {
  return 'method' in entry;
}

/**
 * Finds the likely cause of a persistent 500 from authenticated calls. An audit device is the likely cause (facts
 * 11.15) if the health of the active node is 200, unauthenticated reads work, and an authenticated lookup of the same
 * token answers 500 too. Returns AUDIT_DEVICE_BLOCKED in that case, and `error` unchanged otherwise. Makes up to three
 * reads; never throws.
 */
export async function diagnoseServerError(
  client: ServiceClient,
  error: unknown,
  options: CallOptions & Required<Pick<CallOptions, 'token'>>,
): Promise<unknown> {
  if (!isRunbookError(error, 'SERVICE_ERROR') || error.httpStatus !== 500) return error;
  if (!(await authenticatedReadsFail(client, options))) return error;
  const text = `${error.message} (health is 200, but authenticated reads fail too)`;
  return new RunbookError('AUDIT_DEVICE_BLOCKED', text, {
    cluster: client.cluster,
    httpStatus: 500,
    outcomeKnown: error.outcomeKnown,
    observed: 'health 200, authenticated lookup 500',
    needed: 'an audit device that accepts entries',
    next: 'Check the audit devices of the active node (full disk, unreachable socket), then try again.',
    cause: error,
  });
}

async function authenticatedReadsFail(client: ServiceClient, options: CallOptions): Promise<boolean> {
  try {
    const health = await client.sys.health({ ...options, token: undefined });
    if (health.status !== 200) return false;
    const sameNode = { ...options, node: health.node };
    await client.sys.replicationStatus({ ...sameNode, token: undefined });
    return await client.sys.lookupSelf(sameNode).then(
      () => false,
      (error: unknown) => isRunbookError(error, 'SERVICE_ERROR') && error.httpStatus === 500,
    );
  } catch {
    return false;
  }
}
