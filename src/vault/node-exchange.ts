import { RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import type { NodeAddress } from './addresses';
import { isObject } from './fields';
import { parseFirstDocument } from './json';
import { encodeBody, headersOf, secretsOf } from './request-body';
import { codeOfStatus, errorFromStatus } from './status-errors';
import type { NodeResponse, Transport } from './transport';
import type { CallOptions, RequestDescription, ServiceAnswer } from './types';

const SUCCESS: ReadonlySet<number> = new Set([200, 202, 204]);
const REDIRECT: ReadonlySet<number> = new Set([307, 308]);
/** The question behind a 503 must not eat the time of the call's own repeat. */
const SEAL_PROBE_TIMEOUT_MS = 2_000;

/** What one request to one node came to: data, or the address of the node to ask instead. */
type ExchangeResult =
  | { readonly kind: 'answer'; readonly answer: ServiceAnswer }
  | {
      readonly kind: 'redirect';
      readonly location: string;
      readonly refuse: (reason: string, retryable?: boolean) => RunbookError;
    };

interface Exchange {
  readonly cluster: string;
  readonly transport: Transport;
  readonly timeoutMs: number;
  readonly warn: (warning: string) => void;
  /** Whether a standby may pass a change on. It may then have taken effect although the answer is a 307 or 503. */
  readonly mayPassOn: boolean;
}

/**
 * Sends a call to one node and reads the answer.
 *
 * @throws RunbookError for every answer that is neither data nor a redirect, and where no answer came.
 */
export async function exchange(
  { cluster, transport, timeoutMs, warn, mayPassOn }: Exchange,
  node: NodeAddress,
  request: RequestDescription,
  options: CallOptions,
): Promise<ExchangeResult> {
  const changes = request.effect === 'changes';
  const what = `${request.method} ${request.path} at ${node.address}`;
  const unsure = changes && mayPassOn ? { outcomeKnown: false } : {};
  const call = { what, cluster, changes, mayPassOn, secrets: secretsOf(request, options) };
  const response = await transport.send(node, {
    method: request.method,
    path: request.path,
    headers: headersOf(request, options.token, mayPassOn),
    body: encodeBody(request),
    changes,
    timeoutMs,
    signal: options.signal,
  });

  const { status } = response;
  if (REDIRECT.has(status)) {
    const location = response.headers.location;
    const refuse = (reason: string, retryable = false) =>
      new RunbookError('REDIRECT_REFUSED', `${what}: ${status}: ${reason}`, {
        ...{ cluster, httpStatus: status, retryable, ...unsure },
      });
    return { kind: 'redirect', location: typeof location === 'string' ? location : '', refuse };
  }

  const success = SUCCESS.has(status);
  const body = readBody(response, (warning) => warn(`${what}: ${warning}`));
  if (success && response.bodyError !== undefined) throw response.bodyError;
  const describesState = request.dataStatuses?.has(status) === true && isObject(body) && !Array.isArray(body.errors);
  if (success || describesState) return { kind: 'answer', answer: { status, node: node.address, body } };

  const code = status === 503 ? await codeOfUnavailable(transport, node, request, options) : codeOfStatus(status);
  throw errorFromStatus(call, response, body, code);
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

/** A 503 by structured data alone: sealed, a secondary that lags (promote), or just not available. */
async function codeOfUnavailable(
  transport: Transport,
  node: NodeAddress,
  request: RequestDescription,
  options: CallOptions,
): Promise<ErrorCode> {
  if (await isSealed(transport, node, options.signal)) return 'SERVICE_SEALED';
  return request.unavailableMeansBehind === true ? 'NOT_CAUGHT_UP' : 'SERVICE_UNAVAILABLE';
}

async function isSealed(transport: Transport, node: NodeAddress, signal: AbortSignal | undefined): Promise<boolean> {
  const request = { method: 'GET', path: 'sys/seal-status', effect: 'reads' } as const;
  try {
    const response = await transport.send(node, {
      ...request,
      headers: headersOf(request, undefined),
      body: undefined,
      changes: false,
      timeoutMs: SEAL_PROBE_TIMEOUT_MS,
      signal,
    });
    const body = readBody(response, () => undefined);
    return response.status === 200 && isObject(body) && body.sealed === true;
  } catch {
    return false;
  }
}
