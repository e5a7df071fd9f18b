import { createPrivateKey, hash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Agent, request as send } from 'undici';
import type { Dispatcher } from 'undici';
import { RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { Secret, redactText } from '../secret';
import { isObject, parseFirstDocument } from './shape';
import type { CallOptions, ClusterTarget, RequestDescription, ServiceAnswer, ServiceClientOptions } from './types';

const CONNECT_TIMEOUT_MS = 2_000;
/** Of one answer: more is refused. */
const LONGEST_ANSWER = 16 * 1024 * 1024;
/** The question behind a 503 must not eat the time of the call's own repeat. */
const SEAL_PROBE_TIMEOUT_MS = 2_000;
/** Of what a service, or something before it, asks to wait: longer than this is never waited without another look. */
const LONGEST_PAUSE_MS = 60_000;

const SUCCESS: ReadonlySet<number> = new Set([200, 202, 204]);
const REDIRECT: ReadonlySet<number> = new Set([307, 308]);

/** By status alone: texts play no part in it. */
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

/** One node of the target. `origin` is the normal form of `address`, which is what the inventory wrote. */
export interface NodeAddress {
  readonly address: string;
  readonly origin: string;
}

/** One request to one node. `body` is serialised JSON and may hold secrets. */
interface NodeRequest extends Omit<RequestDescription, 'body'> {
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** One answer of one node, whatever its status. */
export interface NodeResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** `undefined` where the connection broke, or the limit was reached, inside of the body. */
  readonly text: string | undefined;
  /** Why `text` is missing. */
  readonly bodyError?: RunbookError;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Codes of Node and OpenSSL for a certificate or a handshake that was not accepted. */
const TLS_CODE =
  /^(ERR_TLS_|ERR_SSL_|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_|CRL_|INVALID_CA|HOSTNAME_MISMATCH|EPROTO)/;

/** Sends single requests over one undici Agent, and reads what comes back. Makes no decision about nodes, redirects or repeats. */
export class Transport {
  private agent: Agent | undefined;
  private files: string | undefined;
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
   * @throws RunbookError for every answer that is no data, and where no answer came.
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
    if (REDIRECT.has(status)) throw this.redirected(what, request, response);
    const success = SUCCESS.has(status);
    const body = readBody(response, (warning) => this.warn(`${what}: ${warning}`));
    if (success && response.bodyError !== undefined) throw response.bodyError;
    // Of the service itself, and not of something before it.
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
      ...(request.effect === 'reads' && { outcomeKnown: true }),
      ...(mayHaveChanged && { outcomeKnown: false }),
    });
  }

  /** Tells, redacted, of what was odd in an answer but did not prevent its use. */
  warn(warning: string): void {
    this.options.onWarning?.(`${this.cluster}: ${warning}`);
  }

  /**
   * No redirect is followed: it could lead what is sent elsewhere. While the leadership changes nodes redirect to one that
   * leads no more or not yet, even to themselves, and by names of their own: that passes.
   */
  private redirected(what: string, { effect }: RequestDescription, { status, headers }: NodeResponse): RunbookError {
    const { location } = headers;
    const origin = typeof location === 'string' ? originOf(location) : undefined;
    const isOurs = this.target.addresses.some((address) => originOf(address) === origin);
    const { cluster } = this;
    return new RunbookError('REDIRECT_REFUSED', `${what}: ${status}: the redirect leads to ${origin ?? 'no address'}`, {
      ...{ cluster, httpStatus: status, retryable: origin !== undefined && (isOurs || effect === 'changes') },
      observed: origin,
      next: isOurs
        ? `The leader of ${cluster} changes: retry.`
        : `Name the address of every node of ${cluster} in the inventory.`,
    });
  }

  /** A 503 by structured data alone: sealed, a secondary that lags (promote), or just not available. */
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
   * One request, whatever becomes of it.
   *
   * @throws RunbookError UNREACHABLE, TLS_FAILED (not sent), CONNECTION_LOST, REQUEST_TIMEOUT, REQUEST_CANCELLED
   *   (`outcomeKnown` says whether the request may have had an effect).
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

    const timeout = AbortSignal.timeout(timeoutMs);
    const signal = cancelled === undefined ? timeout : AbortSignal.any([timeout, cancelled]);
    const explain = (error: unknown): RunbookError => {
      if (error instanceof RunbookError) return error;
      if (signal.aborted)
        return signal.reason === timeout.reason
          ? failed('REQUEST_TIMEOUT', 'no answer within the time-out')
          : failed('REQUEST_CANCELLED', 'cancelled by the caller');
      const code = networkCodeOf(error);
      if (sent) return failed('CONNECTION_LOST', `the connection broke (${code})`);
      return TLS_CODE.test(code)
        ? failed('TLS_FAILED', `the TLS handshake failed (${code})`)
        : failed('UNREACHABLE', `no connection could be made (${code})`);
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
      const read = consume ? consume(body).then(() => '') : textOf(body, failed);
      const response = { status: statusCode, headers };
      return await read.then(
        (text) => ({ ...response, text }),
        (error: unknown) => ({ ...response, text: undefined, bodyError: explain(error) }),
      );
    } catch (error) {
      throw explain(error);
    }
  }

  /** Frees the connections; requests under way are ended. */
  async close(): Promise<void> {
    this.closed = true;
    const agent = this.agent;
    this.agent = undefined;
    await agent?.destroy();
  }

  /** The agent for what the CA file and the client's certificate hold now: a renewed file takes effect at the next call. */
  private async currentAgent(): Promise<Agent> {
    const { caFile, clientCertificate, name: cluster } = this.target;
    const roots = caFile === undefined ? {} : { ca: await readTrustedRoots(`cluster ${cluster}`, caFile, cluster) };
    const own = clientCertificate === undefined ? {} : await readClientCertificate(cluster, clientCertificate);
    if (this.closed) throw new RunbookError('INTERNAL', `the client of cluster ${cluster} is closed`);
    const files = hash('sha256', JSON.stringify([roots, own]));
    if (this.agent !== undefined && this.files === files) return this.agent;
    const outdated = this.agent;
    this.files = files;
    this.agent = new Agent({
      allowH2: false,
      connectTimeout: CONNECT_TIMEOUT_MS,
      // Said, because Node's default is what NODE_TLS_REJECT_UNAUTHORIZED says.
      connect: { rejectUnauthorized: true, timeout: CONNECT_TIMEOUT_MS, ...roots, ...own },
    });
    // Requests under way on the old roots may finish.
    void outdated?.close().catch(() => undefined);
    return this.agent;
  }
}

/** The first document of a body; `undefined` for an empty one and for what is no JSON. */
function readBody(response: NodeResponse, warn: (warning: string) => void): unknown {
  const text = response.text?.trim() ?? '';
  if (text === '') return undefined;
  try {
    const { value, rest } = parseFirstDocument(text);
    if (rest !== '') warn(`the answer ${response.status} goes on behind its first JSON document; the rest is not used`);
    return value;
  } catch {
    if (response.status < 300) warn(`the answer ${response.status} is not JSON`);
    return undefined;
  }
}

/**
 * The JSON of a request body with its secrets revealed, and these secrets, to be removed from whatever comes back as text.
 * POST always carries an object; GET and DELETE carry nothing.
 */
function encodeBody({ method, body = {} }: RequestDescription) {
  const secrets: string[] = [];
  // In `value` a secret has hidden itself by now.
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
 * Headers of every request. The namespace header is never sent: the interface works on the root namespace only. A standby
 * that passes a change on and loses the answer says what it says where it passed nothing on (307, 503): it is told to pass
 * no change on, and then has not.
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
    throw new RunbookError('INVALID_INPUT', 'the token is empty or holds characters that no token has');
  }
  return value;
}

/** Milliseconds of a `Retry-After` header, seconds or an HTTP date; never more than a minute. */
export function retryAfterMs(header: string | string[] | undefined, now = Date.now()): number | undefined {
  const value = (Array.isArray(header) ? header[0] : header)?.trim();
  if (value === undefined || value === '') return undefined;
  const asked = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now;
  return Number.isNaN(asked) ? undefined : Math.min(Math.max(0, asked), LONGEST_PAUSE_MS);
}

/** `errors` of the body, or the start of whatever else came (a load balancer's page). */
function serverText(response: NodeResponse, body: unknown, secrets: readonly string[]): string {
  const text = isObject(body) ? textsIn(body, 'errors').join('; ') : (response.text ?? '').replace(/<[^<>]*>/g, ' ');
  return onOneLine(redactText(text, secrets));
}

/** The texts of a list that an answer has beside its data. */
function textsIn(body: unknown, member: 'errors' | 'warnings'): readonly string[] {
  const list = isObject(body) ? body[member] : undefined;
  return Array.isArray(list) ? list.filter((item): item is string => typeof item === 'string') : [];
}

/** The service's words within a text of ours: they end no line, move no cursor, and stand in no backticks. */
function onOneLine(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replace(/[\p{Cc}\p{Cf}\p{Cs}]/gu, '')
    .replaceAll('`', "'");
}

/** The origin of an address that the service named; `undefined` where it is none. */
export function originOf(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).origin : undefined;
}

async function textOf(
  body: AsyncIterable<Uint8Array>,
  failed: (code: ErrorCode, text: string) => RunbookError,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > LONGEST_ANSWER) throw failed('RESPONSE_INVALID', `the answer is longer than ${LONGEST_ANSWER} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** undici tells of an abort only once a connection is there or has failed (and sends nothing then): do not wait. */
function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = () => reject(new Error('ended'));
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    work.then(resolve, reject);
  });
}

/** Calls `onStart` right before a request is written to a connection: until then it was certainly not sent. */
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

/** The system's error code, also of the first of several addresses; never a message, which may hold a header. */
export function networkCodeOf(error: unknown): string {
  if (!isObject(error)) return 'unknown';
  if (typeof error.code === 'string') return error.code;
  if (Array.isArray(error.errors) && error.errors.length > 0) return networkCodeOf(error.errors[0]);
  return typeof error.name === 'string' ? error.name : 'unknown';
}

/**
 * The text of a CA file after its certificates have been parsed: Node itself ignores what it cannot read, and the call
 * would fail later with a text that does not name the file.
 *
 * @throws RunbookError TLS_FAILED where the file cannot be read or holds no valid certificate.
 */
export async function readTrustedRoots(whose: string, caFile: string, cluster?: string): Promise<string> {
  try {
    const text = await readFile(caFile, 'utf8');
    const certificates = text.match(CERTIFICATE) ?? [];
    if (certificates.length === 0) throw new TypeError('no certificate');
    for (const pem of certificates) new X509Certificate(pem);
    return text;
  } catch (cause) {
    const text = `${whose}: the CA file ${caFile} does not hold PEM certificates that can be read`;
    throw new RunbookError('TLS_FAILED', text, {
      cluster,
      cause,
      needed: 'one or more PEM certificates, readable by the worker',
      next: 'Correct caFile in the inventory, or the file or its permissions.',
    });
  }
}

/** @throws RunbookError TLS_FAILED where a file cannot be read, or the key is not that of the certificate; never quotes one. */
async function readClientCertificate(
  cluster: string,
  { certificateFile, keyFile }: NonNullable<ClusterTarget['clientCertificate']>,
): Promise<{ readonly cert: string; readonly key: string }> {
  try {
    const [cert, key] = await Promise.all([readFile(certificateFile, 'utf8'), readFile(keyFile, 'utf8')]);
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) throw new TypeError('another key');
    return { cert, key };
  } catch {
    const text = `cluster ${cluster}: ${certificateFile} and ${keyFile} are no client certificate with its key`;
    throw new RunbookError('TLS_FAILED', text, {
      cluster,
      needed: 'a PEM certificate and its unencrypted PEM key, readable by the worker',
    });
  }
}
