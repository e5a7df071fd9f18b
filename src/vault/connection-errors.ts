import { RunbookError } from '../errors';
import { isObject } from './fields';

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

/** Codes of Node and OpenSSL for a certificate or a handshake that was not accepted. */
const TLS_CODE =
  /^(ERR_TLS_|ERR_SSL_|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_|CRL_|INVALID_CA|HOSTNAME_MISMATCH|EPROTO)/;

/** The error for a connection that could not be made, or broke. */
export function errorFromConnection(error: unknown, fate: RequestFate): RunbookError {
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
export function errorFromTimer(code: 'REQUEST_TIMEOUT' | 'REQUEST_CANCELLED', fate: RequestFate): RunbookError {
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
