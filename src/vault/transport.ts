import { createPrivateKey, hash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Agent, request as send } from 'undici';
import type { Dispatcher } from 'undici';
import { RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { isObject } from './shape';
import type { ClusterTarget, RequestDescription, ServiceClientOptions } from './types';

const DEFAULT_CONNECT_TIMEOUT_MS = 5_000;
const DEFAULT_RESPONSE_BYTES = 16 * 1024 * 1024;

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

/** Sends single requests over one undici Agent. Makes no decision about nodes, redirects or repeats. */
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
      const code = codeOf(error);
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
      const { maxResponseBytes = DEFAULT_RESPONSE_BYTES } = this.options;
      const read = consume ? consume(body).then(() => '') : textOf(body, maxResponseBytes, failed);
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
    const roots = caFile === undefined ? {} : { ca: await readTrustedRoots(cluster, caFile) };
    const own = clientCertificate === undefined ? {} : await readClientCertificate(cluster, clientCertificate);
    if (this.closed) throw new RunbookError('INTERNAL', `the client of cluster ${cluster} is closed`);
    const files = hash('sha256', JSON.stringify([roots, own]));
    if (this.agent !== undefined && this.files === files) return this.agent;
    const outdated = this.agent;
    this.files = files;
    const { connectTimeoutMs: timeout = DEFAULT_CONNECT_TIMEOUT_MS } = this.options;
    this.agent = new Agent({
      allowH2: false,
      connectTimeout: timeout,
      // Said, because Node's default is what NODE_TLS_REJECT_UNAUTHORIZED says.
      connect: { rejectUnauthorized: true, timeout, ...roots, ...own },
    });
    // Requests under way on the old roots may finish.
    void outdated?.close().catch(() => undefined);
    return this.agent;
  }
}

async function textOf(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  failed: (code: ErrorCode, text: string) => RunbookError,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw failed('RESPONSE_INVALID', `the answer is longer than ${maxBytes} bytes`);
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
  try {
    const text = await readFile(caFile, 'utf8');
    const certificates = text.match(CERTIFICATE) ?? [];
    if (certificates.length === 0) throw new TypeError('no certificate');
    for (const pem of certificates) new X509Certificate(pem);
    return text;
  } catch (cause) {
    const text = `cluster ${cluster}: the CA file ${caFile} does not hold PEM certificates that can be read`;
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
