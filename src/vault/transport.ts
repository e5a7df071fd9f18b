import { createPrivateKey, hash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Agent, request as send } from 'undici';
import type { Dispatcher } from 'undici';
import { RunbookError } from '../errors';
import { isObject } from './shape';
import type { HttpMethod, RequestDescription } from './types';

/** One node of the target. `origin` is the normal form of `address`, which is what the inventory wrote. */
export interface NodeAddress {
  readonly address: string;
  readonly origin: string;
}

/** One request to one node. `body` is serialised JSON and may hold secrets. */
interface NodeRequest {
  readonly method: HttpMethod;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** Whether a request that was sent without an answer leaves its effect unknown. */
  readonly changes: boolean;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly consume?: RequestDescription['consume'];
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

interface TransportOptions {
  readonly cluster: string;
  readonly caFile: string | undefined;
  readonly clientCertificate?: { readonly certificateFile: string; readonly keyFile: string } | undefined;
  readonly connectTimeoutMs: number;
  readonly maxResponseBytes: number;
}

/** What is known of a request that ended without an answer. */
interface RequestFate {
  /** Method, path and node, for the message. */
  readonly what: string;
  readonly cluster: string;
  /** Whether the request changes something when it arrives. */
  readonly changes: boolean;
  /** Whether it may have left. */
  readonly sent: boolean;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Codes of Node and OpenSSL for a certificate or a handshake that was not accepted. */
const TLS_CODE =
  /^(ERR_TLS_|ERR_SSL_|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_|CRL_|INVALID_CA|HOSTNAME_MISMATCH|EPROTO)/;

/** Sends single requests over one undici Agent. Makes no decision about nodes, redirects or repeats. */
export class Transport {
  private agent: Agent | undefined;
  private files: string | undefined;
  private closed = false;

  constructor(private readonly options: TransportOptions) {}

  /**
   * @throws RunbookError UNREACHABLE, TLS_FAILED (not sent), CONNECTION_LOST, REQUEST_TIMEOUT, REQUEST_CANCELLED
   *   (`outcomeKnown` says whether the request may have had an effect).
   */
  async send(node: NodeAddress, request: NodeRequest): Promise<NodeResponse> {
    const what = `${request.method} ${request.path} at ${node.address}`;
    const context = { what, cluster: this.options.cluster, changes: request.changes };
    if (request.signal?.aborted) throw errorFromTimer('REQUEST_CANCELLED', { ...context, sent: false });
    const agent = await this.currentAgent();

    let sent = false;
    const timeout = AbortSignal.timeout(request.timeoutMs);
    const signal = request.signal === undefined ? timeout : AbortSignal.any([timeout, request.signal]);
    const explain = (error: unknown): RunbookError => {
      if (!signal.aborted) return errorFromConnection(error, { ...context, sent });
      const code = signal.reason === timeout.reason ? 'REQUEST_TIMEOUT' : 'REQUEST_CANCELLED';
      return errorFromTimer(code, { ...context, sent });
    };
    try {
      const response = await unlessAborted(
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
      const { statusCode: status, headers } = response;
      const read = status === 200 && request.consume ? consumed(request.consume, response.body) : undefined;
      const text = await (read ?? this.readBody(response.body, context)).catch((error: unknown) =>
        error instanceof RunbookError ? error : explain(error),
      );
      return typeof text === 'string'
        ? { status, headers, text }
        : { status, headers, text: undefined, bodyError: text };
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

  private async readBody(
    body: Dispatcher.ResponseData['body'],
    context: { readonly what: string; readonly cluster: string; readonly changes: boolean },
  ): Promise<string> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of body) {
      if (!Buffer.isBuffer(chunk)) continue;
      bytes += chunk.length;
      if (bytes > this.options.maxResponseBytes) {
        throw new RunbookError(
          'RESPONSE_INVALID',
          `${context.what}: the answer is longer than ${this.options.maxResponseBytes} bytes`,
          { cluster: context.cluster, outcomeKnown: !context.changes },
        );
      }
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString('utf8');
  }

  /** The agent for what the CA file and the client's certificate hold now: a renewed file takes effect at the next call. */
  private async currentAgent(): Promise<Agent> {
    const { caFile, clientCertificate, cluster, connectTimeoutMs } = this.options;
    const roots = caFile === undefined ? {} : { ca: await readTrustedRoots(cluster, caFile) };
    const own = clientCertificate === undefined ? {} : await readClientCertificate(cluster, clientCertificate);
    if (this.closed) throw new RunbookError('INTERNAL', `the client of cluster ${cluster} is closed`);
    const files = hash('sha256', JSON.stringify([roots, own]));
    if (this.agent !== undefined && this.files === files) return this.agent;
    const outdated = this.agent;
    this.files = files;
    this.agent = new Agent({
      allowH2: false,
      connectTimeout: connectTimeoutMs,
      // Said, because Node's default is what NODE_TLS_REJECT_UNAUTHORIZED says.
      connect: { rejectUnauthorized: true, timeout: connectTimeoutMs, ...roots, ...own },
    });
    // Requests under way on the old roots may finish.
    void outdated?.close().catch(() => undefined);
    return this.agent;
  }
}

/** Nothing of a body that is taken as it arrives is kept here. */
async function consumed(
  consume: NonNullable<RequestDescription['consume']>,
  body: AsyncIterable<Uint8Array>,
): Promise<string> {
  await consume(body);
  return '';
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
function notingStart(onStart: () => void): Dispatcher.DispatcherComposeInterceptor {
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

/** The error for a connection that could not be made, or broke. */
function errorFromConnection(error: unknown, fate: RequestFate): RunbookError {
  const code = codeOf(error);
  if (fate.sent) {
    return new RunbookError('CONNECTION_LOST', `${fate.what}: the connection broke (${code})`, {
      cluster: fate.cluster,
      outcomeKnown: !fate.changes,
    });
  }
  const failure = TLS_CODE.test(code) ? 'TLS_FAILED' : 'UNREACHABLE';
  const text = failure === 'TLS_FAILED' ? 'the TLS handshake failed' : 'no connection could be made';
  return new RunbookError(failure, `${fate.what}: ${text} (${code})`, { cluster: fate.cluster });
}

/** The error for a request that our own timer, or the caller, ended. */
function errorFromTimer(code: 'REQUEST_TIMEOUT' | 'REQUEST_CANCELLED', fate: RequestFate): RunbookError {
  const text = code === 'REQUEST_TIMEOUT' ? 'no answer within the time-out' : 'cancelled by the caller';
  return new RunbookError(code, `${fate.what}: ${text}`, {
    cluster: fate.cluster,
    outcomeKnown: !fate.changes || !fate.sent,
  });
}

/** The system's error code, also of the first of several addresses; never a message, which may hold a header. */
function codeOf(error: unknown): string {
  if (!isObject(error)) return 'unknown';
  if (typeof error.code === 'string') return error.code;
  if (Array.isArray(error.errors) && error.errors.length > 0) return codeOf(error.errors[0]);
  return typeof error.name === 'string' ? error.name : 'unknown';
}

/**
 * The text of a CA file after its certificates have been parsed: Node itself ignores what it cannot read, and the call
 * would fail later with a text that does not name the file.
 *
 * @throws RunbookError TLS_FAILED where the file cannot be read or holds no valid certificate.
 */
async function readTrustedRoots(cluster: string, caFile: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(caFile, 'utf8');
  } catch (error) {
    throw new RunbookError('TLS_FAILED', `cluster ${cluster}: the CA file ${caFile} cannot be read`, {
      cluster,
      cause: error,
      next: 'Correct caFile in the inventory, or the permissions of the file.',
    });
  }
  const certificates = text.match(CERTIFICATE) ?? [];
  if (certificates.length === 0 || !certificates.every(isCertificate)) {
    throw new RunbookError('TLS_FAILED', `cluster ${cluster}: the CA file ${caFile} does not hold PEM certificates`, {
      cluster,
      needed: 'one or more PEM certificates',
    });
  }
  return text;
}

/** @throws RunbookError TLS_FAILED where a file cannot be read, or the key is not that of the certificate; never quotes one. */
async function readClientCertificate(
  cluster: string,
  { certificateFile, keyFile }: { readonly certificateFile: string; readonly keyFile: string },
): Promise<{ readonly cert: string; readonly key: string }> {
  try {
    const [cert, key] = await Promise.all([certificateFile, keyFile].map((file) => readFile(file, 'utf8')));
    if (cert === undefined || key === undefined || !new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
      throw new TypeError('another key');
    return { cert, key };
  } catch {
    const text = `cluster ${cluster}: ${certificateFile} and ${keyFile} are no client certificate with its key`;
    throw new RunbookError('TLS_FAILED', text, {
      cluster,
      needed: 'a PEM certificate and its unencrypted PEM key, readable by the worker',
    });
  }
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined;
  } catch {
    return false;
  }
}
