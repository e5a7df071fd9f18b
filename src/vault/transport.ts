import { hash } from 'node:crypto';
import { Agent, request as send } from 'undici';
import type { Dispatcher } from 'undici';
import { RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { Secret, redactText } from '../secret';
import { ON_ALERT, readClientIdentity, readTrustedRoots, tlsConnector, tlsFailureOf } from './certificates';
import type { TrustedRoots } from './certificates';
import { isObject, onOneLine, parseFirstDocument } from './shape';
import type { CallOptions, ClusterTarget, RequestDescription, ServiceAnswer, ServiceClientOptions } from './types';

const CONNECT_TIMEOUT_MS = 2_000;
/** Maximum size of an answer, in bytes; a larger one is refused. Parsing one blocks the worker for seconds. */
const LONGEST_ANSWER = 1024 * 1024;
/** The same for the few calls whose answers grow with the site, such as a paths filter. */
const LONGEST_LONG_ANSWER = 16 * 1024 * 1024;
/** Maximum of an answer's text in points and findings, in characters. */
const LONGEST_TEXT = 200;
/** Short, so that the seal status after a 503 does not use up the time for repeating the call. */
const SEAL_PROBE_TIMEOUT_MS = 2_000;
/** Maximum of a `Retry-After` from the service or a load balancer: after this time the caller always checks again. */
const LONGEST_PAUSE_MS = 60_000;

const SUCCESS: ReadonlySet<number> = new Set([200, 202, 204]);
const REDIRECT: ReadonlySet<number> = new Set([307, 308]);

/** Error codes by HTTP status. They never depend on error texts. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  400: 'BAD_REQUEST',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  412: 'STATE_NOT_PRESENT',
  413: 'TOO_LARGE',
  429: 'RATE_LIMITED',
  431: 'TOO_LARGE',
};

/** One node of the target. `address` is as in the inventory; `origin` is its canonical form. */
export interface NodeAddress {
  readonly address: string;
  readonly origin: string;
}

/** One request to one node. `body` is serialized JSON and may contain secrets. */
interface NodeRequest extends Omit<RequestDescription, 'body'> {
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** The answer of a node, with any status. */
interface NodeResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** `undefined` if the connection broke or the size limit was reached within the body. */
  readonly text: string | undefined;
  /** Why `text` is missing. */
  readonly bodyError?: RunbookError;
}

/** Sends single requests over one undici Agent and reads the answers. Does not choose nodes, follow redirects, or retry. */
export class Transport {
  private agent: Agent | undefined;
  private files: string | undefined;
  private roots: TrustedRoots | undefined;
  /** How nodes, by origin, last refused this client after the handshake. */
  private readonly alerts = new Map<string, string>();
  private closed = false;

  constructor(
    private readonly target: ClusterTarget,
    private readonly options: ServiceClientOptions,
  ) {}

  /** Name of the cluster. */
  get cluster(): string {
    return this.target.name;
  }

  /**
   * Sends a call to one node and reads the answer.
   *
   * @throws RunbookError for every answer without a success status or data status, and if no answer arrives.
   */
  async exchange(
    node: NodeAddress,
    request: RequestDescription,
    options: CallOptions & { readonly timeoutMs: number },
  ): Promise<ServiceAnswer> {
    const { cluster } = this;
    const what = `${request.method} ${request.path} at ${node.address}`;
    const { json, secrets } = encodeBody(request);
    if (options.token !== undefined) secrets.push(options.token.reveal());
    const sent = { ...request, headers: headersOf(request, options.token), body: json };
    const response = await this.send(node, sent, options);

    const { status, headers } = response;
    if (REDIRECT.has(status)) throw this.redirected(what, response);
    const success = SUCCESS.has(status);
    const body = readBody(response, (warning) => this.warn(`${what}: ${warning}`));
    if (success && response.bodyError !== undefined) throw response.bodyError;
    if (success && isPage(response)) {
      // It is not known whether the request got as far as the service.
      throw new RunbookError('RESPONSE_INVALID', `${what}: ${status}: an HTML page instead of JSON`, {
        ...{ cluster, httpStatus: status, outcomeKnown: request.effect === 'reads' },
        ...foreignAnswer(response),
      });
    }
    if (success && request.mayBeWrapped !== true && isObject(body) && isObject(body['wrap_info'])) {
      const observed = 'a wrapped answer, as with a control group or response wrapping';
      throw new RunbookError('RESPONSE_INVALID', `${what}: ${status}: ${observed}`, {
        // A control group holds the request back, response wrapping only its answer.
        ...{
          cluster,
          httpStatus: status,
          outcomeKnown: request.effect === 'reads',
          observed,
          needed: 'the answer itself',
        },
        next: "Exempt the workers' policy or role from the control group or the response wrapping.",
      });
    }
    // Only the service itself answers with `errors`; a load balancer does not.
    const isRefusal = isObject(body) && Array.isArray(body.errors);
    const describesState = request.dataStatuses?.has(status) === true && isObject(body) && !isRefusal;
    if (success || describesState) {
      for (const warning of textsIn(body, 'warnings')) this.warn(`${what}: ${onOneLine(redactText(warning, secrets))}`);
      return { status, node: node.address, body };
    }

    const text = serverText(response, body, secrets);
    const named = status === 503 ? await this.codeOfUnavailable(node, request, options) : CODES[status];
    const code = named ?? (status >= 500 && status <= 599 ? 'SERVICE_ERROR' : 'UNEXPECTED_STATUS');
    const mayHaveChanged = request.effect === 'changes' && status === 503 && !isRefusal;
    throw new RunbookError(code, `${what}: ${status}${text === '' ? '' : `: ${text}`}`, {
      cluster,
      httpStatus: status,
      retryAfterMs: retryAfterMs(headers['retry-after']),
      answerText: text === '' ? undefined : text.slice(0, LONGEST_TEXT),
      ...foreignAnswer(response, code),
      ...(request.effect === 'reads' && { outcomeKnown: true }),
      ...(mayHaveChanged && { outcomeKnown: false }),
    });
  }

  /** Reports something unusual in an answer that could still be used. The text must be redacted. */
  warn(warning: string): void {
    this.options.onWarning?.(`${this.cluster}: ${warning}`);
  }

  /**
   * Redirects are not followed, because they could send secrets to another host. During a leader change, nodes redirect
   * to a node that no longer leads or does not lead yet, even to themselves, or use the address that they advertise.
   * This is temporary.
   */
  private redirected(what: string, { status, headers }: NodeResponse): RunbookError {
    const { location } = headers;
    const origin = typeof location === 'string' ? originOf(location) : undefined;
    const isOurs = this.target.addresses.some((address) => originOf(address) === origin);
    const { cluster } = this;
    const message = `${what}: ${status}: redirect to ${origin ?? 'no valid address'} refused`;
    return new RunbookError('REDIRECT_REFUSED', message, {
      ...{ cluster, httpStatus: status, observed: origin },
      next: isOurs ? `The leader of ${cluster} is changing: retry.` : listEveryNode(cluster),
    });
  }

  /** The error code of a 503, from structured data only: sealed, a secondary that lags (promote), or unavailable. */
  private async codeOfUnavailable(
    node: NodeAddress,
    { unavailableMeansBehind }: RequestDescription,
    { signal }: CallOptions,
  ): Promise<ErrorCode> {
    const probe = { method: 'GET', path: 'sys/seal-status', effect: 'reads' } as const;
    const sent = { ...probe, headers: headersOf(probe, undefined) };
    const seal = await this.send(node, sent, { timeoutMs: SEAL_PROBE_TIMEOUT_MS, signal }).catch(() => undefined);
    const body = seal?.status === 200 && readBody(seal, () => undefined);
    if (isObject(body) && body.sealed === true) return 'SERVICE_SEALED';
    return unavailableMeansBehind === true ? 'NOT_CAUGHT_UP' : 'SERVICE_UNAVAILABLE';
  }

  /**
   * Sends one request and returns the answer, whatever its status.
   *
   * @throws RunbookError UNREACHABLE, TLS_FAILED (not sent), CONNECTION_LOST, REQUEST_TIMEOUT, REQUEST_CANCELLED.
   *   `outcomeKnown` is false if a change may have had an effect.
   */
  async send(
    node: NodeAddress,
    request: NodeRequest,
    { timeoutMs, signal: cancelled }: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<NodeResponse> {
    let sent = false;
    const failed = (code: ErrorCode, text: string) =>
      new RunbookError(code, `${request.method} ${request.path} at ${node.address}: ${text}`, {
        cluster: this.cluster,
        outcomeKnown: request.effect === 'reads' || !sent,
      });
    if (cancelled?.aborted) throw failed('REQUEST_CANCELLED', 'cancelled by the caller');
    const agent = await this.currentAgent();
    this.alerts.delete(node.origin);

    const timeout = AbortSignal.timeout(timeoutMs);
    const signal = cancelled === undefined ? timeout : AbortSignal.any([timeout, cancelled]);
    const explain = (error: unknown): RunbookError => {
      if (error instanceof RunbookError) return error;
      if (signal.aborted)
        return signal.reason === timeout.reason
          ? failed('REQUEST_TIMEOUT', `no answer within ${timeoutMs / 1_000} s`)
          : failed('REQUEST_CANCELLED', 'cancelled by the caller');
      const code = networkCodeOf(error);
      if (sent) {
        const alert = this.alerts.get(node.origin);
        const lost = `the connection was lost after the request was sent (${alert ?? code})`;
        return failed('CONNECTION_LOST', lost).with(alert === undefined ? {} : { next: ON_ALERT });
      }
      const tls = tlsFailureOf(error, code, new URL(node.origin).hostname, this.roots);
      return tls === undefined
        ? failed('UNREACHABLE', `connection failed (${code})`)
        : failed('TLS_FAILED', `the TLS handshake failed: ${tls.observed}`).with(tls);
    };
    try {
      const { statusCode, headers, body } = await unlessAborted(
        signal,
        send(`${node.origin}/v1/${request.path}`, {
          method: request.method,
          headers: { ...request.headers },
          body: request.body,
          signal,
          headersTimeout: 0,
          bodyTimeout: 0,
          dispatcher: agent.compose(notingStart(() => (sent = true))),
        }),
      );
      const consume = statusCode === 200 ? request.consume : undefined;
      const read = consume
        ? consume(body).then(() => '')
        : textOf(body, request.longAnswer === true ? LONGEST_LONG_ANSWER : LONGEST_ANSWER, failed);
      const response = { status: statusCode, headers };
      return await read.then(
        (text) => ({ ...response, text }),
        (error: unknown) => ({ ...response, text: undefined, bodyError: explain(error) }),
      );
    } catch (error) {
      throw explain(error);
    }
  }

  /** Closes the connections; requests in progress fail. */
  async close(): Promise<void> {
    this.closed = true;
    const agent = this.agent;
    this.agent = undefined;
    await agent?.destroy();
  }

  /** The agent for the current contents of the CA file and the client certificate: a renewed file applies to the next call. */
  private async currentAgent(): Promise<Agent> {
    const { caFile, clientCertificate, name: cluster } = this.target;
    const roots = caFile === undefined ? undefined : await readTrustedRoots(`cluster ${cluster}`, caFile, cluster);
    const own = clientCertificate === undefined ? {} : await readClientIdentity(cluster, clientCertificate);
    if (this.closed) throw new RunbookError('INTERNAL', `the client of cluster ${cluster} is closed`);
    const files = hash('sha256', JSON.stringify([roots?.certificates, roots?.leftOut, own]));
    if (this.agent !== undefined && this.files === files) return this.agent;
    for (const each of roots?.leftOut ?? []) this.warn(`the CA file ${roots?.file}: ${each}; the others are used`);
    const outdated = this.agent;
    this.files = files;
    this.roots = roots;
    this.agent = new Agent({
      connectTimeout: CONNECT_TIMEOUT_MS,
      connect: tlsConnector(roots, {
        ...own,
        timeout: CONNECT_TIMEOUT_MS,
        onAlert: (code, origin) => this.alerts.set(origin, code),
      }),
    });
    // Requests in progress with the old roots may finish.
    void outdated?.close().catch(() => undefined);
    return this.agent;
  }
}

/** The first JSON document of a body; `undefined` if the body is empty or not JSON. */
function readBody(response: NodeResponse, warn: (warning: string) => void): unknown {
  const text = response.text?.trim() ?? '';
  if (text === '') return undefined;
  try {
    const { value, rest } = parseFirstDocument(text);
    if (rest !== '') warn(`the answer (${response.status}) has more text after its first JSON document; ignored`);
    return value;
  } catch {
    if (response.status < 300) warn(`the answer (${response.status}) is not JSON`);
    return undefined;
  }
}

/**
 * The JSON of a request body with its secrets revealed, and these secrets, which must be removed from any text in the
 * answer. A POST always has an object as its body; GET and DELETE have no body.
 */
function encodeBody({ method, body = {} }: RequestDescription) {
  const secrets: string[] = [];
  // `value` is already the redacted form of a secret; `this[name]` is the secret itself.
  function reveal(this: Readonly<Record<string, unknown>>, name: string, value: unknown): unknown {
    const own = this[name];
    if (!(own instanceof Secret)) return value;
    secrets.push(own.reveal());
    return own.reveal();
  }
  const json = JSON.stringify(body, reveal);
  return { json: method === 'POST' ? json : undefined, secrets };
}

/**
 * Headers of every request. The namespace header is never sent, because the interface works only in the root namespace.
 *
 * Changes forbid forwarding. A standby that forwards a change and loses the answer answers 307 or 503, just as if it
 * had not forwarded the change. Without forwarding, such an answer of a standby proves that the change had no effect.
 */
function headersOf(request: RequestDescription, token: Secret | undefined): Readonly<Record<string, string>> {
  const headers: Record<string, string> = { 'X-Vault-Request': 'true', Accept: 'application/json' };
  if (request.method === 'POST') headers['Content-Type'] = 'application/json';
  if (request.effect === 'changes') headers['X-Vault-No-Request-Forwarding'] = 'true';
  if (token !== undefined) headers['X-Vault-Token'] = headerValue(token);
  return headers;
}

function headerValue(token: Secret): string {
  const value = token.reveal();
  if (!/^[\x21-\x7e]+$/.test(value)) {
    throw new RunbookError('INVALID_INPUT', 'the token is empty or contains invalid characters');
  }
  return value;
}

/** The wait that a `Retry-After` header (seconds or an HTTP date) asks for, in milliseconds; at most a minute. */
export function retryAfterMs(header: string | string[] | undefined, now = Date.now()): number | undefined {
  const value = (Array.isArray(header) ? header[0] : header)?.trim();
  if (value === undefined || value === '') return undefined;
  const asked = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now;
  return Number.isNaN(asked) ? undefined : Math.min(Math.max(0, asked), LONGEST_PAUSE_MS);
}

/** The `errors` of the body, or any other text that was returned, such as the page of a load balancer. */
function serverText(response: NodeResponse, body: unknown, secrets: readonly string[]): string {
  const text = isObject(body) ? textsIn(body, 'errors').join('; ') : (response.text ?? '').replace(/<[^<>]*>/g, ' ');
  return onOneLine(redactText(text, secrets));
}

/** The service never answers with a page at an API path. */
function isPage({ headers, text = '' }: NodeResponse): boolean {
  const type = headers['content-type'];
  return (typeof type === 'string' && type.startsWith('text/html')) || /^\s*(<!doctype html|<html)/i.test(text);
}

/**
 * What an answer that the service itself never gives has in common: a page, or a redirect to a login. Something between
 * the worker and the service gave it, or the address is not the service's.
 */
function foreignAnswer(response: NodeResponse, code?: ErrorCode) {
  const { status, headers } = response;
  const { location, server } = headers;
  const page = isPage(response);
  if (!page && code !== 'UNEXPECTED_STATUS') return {};
  const origin = typeof location === 'string' ? originOf(location) : undefined;
  const by = typeof server === 'string' ? ` of "${onOneLine(redactText(server, [])).slice(0, LONGEST_TEXT)}"` : '';
  const to = origin === undefined ? '' : `, a redirect to ${origin}`;
  return {
    observed: `${page ? `an HTML page${by}` : 'an answer'} with status ${status}${to}`,
    needed: 'an answer of the service itself, as JSON',
    next: 'Something else than the service answered: a proxy, a firewall, a sign-on page, or another program at this address. Let the workers reach the nodes without it, or correct the addresses in the inventory.',
  };
}

/** The strings in `errors` or `warnings`. */
function textsIn(body: unknown, member: 'errors' | 'warnings'): readonly string[] {
  const list = isObject(body) ? body[member] : undefined;
  return Array.isArray(list) ? list.filter((item): item is string => typeof item === 'string') : [];
}

/** The next step if nodes name a leader that is not listed: usually what they advertise, else a node that is missing. */
export function listEveryNode(cluster: string): string {
  return `Wait until a listed node leads. If none does, add the API address of every node of ${cluster} to the inventory.`;
}

/** The origin of an address from the service; `undefined` if it is not a URL. */
export function originOf(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).origin : undefined;
}

async function textOf(
  body: AsyncIterable<Uint8Array>,
  longest: number,
  failed: (code: ErrorCode, text: string) => RunbookError,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > longest) throw failed('RESPONSE_INVALID', `the answer is longer than ${longest} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Rejects at once on abort. undici reports an abort only after connecting or failing to connect, and sends nothing then. */
function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = () => reject(new Error('ended'));
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    work.then(resolve, reject);
  });
}

/** Calls `onStart` right before a request is written to a connection. Until then the request was certainly not sent. */
export function notingStart(onStart: () => void): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) =>
    dispatch(options, {
      onRequestStart: (controller, context: unknown) => {
        onStart();
        handler.onRequestStart?.(controller, context);
      },
      onRequestUpgrade: handler.onRequestUpgrade?.bind(handler),
      onResponseStart: handler.onResponseStart?.bind(handler),
      onResponseData: handler.onResponseData?.bind(handler),
      onResponseEnd: handler.onResponseEnd?.bind(handler),
      onResponseError: handler.onResponseError?.bind(handler),
    });
}

/** The error code of the system, or of the first of several addresses. Never the message, which may contain a header. */
export function networkCodeOf(error: unknown): string {
  if (!isObject(error)) return 'unknown';
  if (typeof error.code === 'string') return error.code;
  if (Array.isArray(error.errors) && error.errors.length > 0) return networkCodeOf(error.errors[0]);
  return typeof error.name === 'string' ? error.name : 'unknown';
}
