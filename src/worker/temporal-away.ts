import { X509Certificate } from 'node:crypto';
import { connect as connectTcp, isIP } from 'node:net';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { PeerCertificate, TLSSocket } from 'node:tls';
import { shellLine } from '../contracts/next-commands';
import { errnoOf, RunbookError } from '../errors';
import { redactText } from '../secret';

/** How long histories must be kept for reports. */
export const RETENTION_DAYS = 30;

/** The way to a Temporal server, as a command or a worker is set to go it. */
export interface TemporalWay {
  /** As given: `host` or `host:port`. */
  readonly address: string;
  readonly host: string;
  readonly port: number;
  readonly namespace: string;
  /** Absent: no TLS. */
  readonly tls?: {
    /** PEM text. Absent: what this machine trusts. */
    readonly ca?: string | undefined;
    readonly cert?: string | undefined;
    readonly key?: string | undefined;
    readonly serverName?: string | undefined;
    /** TLS is on only because an API key is set. */
    readonly byApiKey: boolean;
  };
  /** Never shown, and removed from what others say. */
  readonly apiKey?: string | undefined;
}

type Tls = NonNullable<TemporalWay['tls']>;

/** What is wrong on the way, and who does what next. */
interface Cause {
  readonly message: string;
  readonly observed: string;
  readonly needed?: string;
  readonly next: string;
}

/** gRPC codes. */
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
const RESOURCE_EXHAUSTED = 8;
const UNIMPLEMENTED = 12;
/** DEADLINE_EXCEEDED and UNAVAILABLE: the server cannot be reached, or the connection was lost. */
const AWAY: readonly (number | undefined)[] = [4, 14];
/** PERMISSION_DENIED and UNAUTHENTICATED. */
const REFUSED: readonly (number | undefined)[] = [7, 16];
/** UNKNOWN, INTERNAL and DATA_LOSS. */
const FAILED: readonly (number | undefined)[] = [2, 13, 15];

const CHECK_FIRST = 'If the command starts or sends something, first check with "runbook list" whether it did.';

/**
 * An error of Temporal's client or worker as one of ours, with its cause and what to do: the same for commands and workers.
 * gRPC itself reports only that there is no connection, so this looks at the address. It sends neither API key nor header.
 *
 * @param options.connecting - whether it is the attempt to connect that failed; then every error is about the way there
 * @returns the same error if it is not about the way to Temporal
 */
export async function temporalError(error: unknown, way: TemporalWay, { connecting = false } = {}): Promise<unknown> {
  if (error instanceof RunbookError) return error;
  const status = statusIn(error);
  const said = status === undefined ? undefined : quoted(status.details, way);
  if (isNoNamespace(error, status)) return noNamespace(way, error);
  if (connecting && REFUSED.includes(status?.code)) return away(refusesClient(way, said), error);
  if (status?.code === UNIMPLEMENTED) return away(unknownRequest(way, said ?? ''), error);
  if (connecting || AWAY.includes(status?.code) || isTransportError(error)) {
    const cause = await look(way, said ?? quoted(error instanceof Error ? error.message : '', way));
    return away(connecting ? cause : { ...cause, next: `${CHECK_FIRST} ${cause.next}` }, error);
  }
  if (status?.code === INVALID_ARGUMENT)
    return new RunbookError('INVALID_INPUT', 'The Temporal server refuses the request as invalid.', {
      ...{ observed: said, cause: error },
      next: 'Correct the value that it names, such as a Run ID, which is a UUID. Then run the same command again.',
    });
  if (status?.code === RESOURCE_EXHAUSTED || FAILED.includes(status?.code))
    return away(
      {
        message: `The Temporal server at ${way.address} failed to answer a request.`,
        observed: said ?? 'no reason given',
        next: `${CHECK_FIRST} Then run it again; if it fails again, ask your Temporal administrators.`,
      },
      error,
    );
  return error;
}

function away({ message, ...details }: Cause, cause: unknown): RunbookError {
  return new RunbookError('TEMPORAL_UNAVAILABLE', message, { ...details, cause });
}

/** The gRPC status in an error or its causes. Matched by its members: the packages of client and worker have a class each. */
function statusIn(error: unknown): { readonly code: number; readonly details: string } | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, details } = error as { code?: unknown; details?: unknown };
  if (typeof code === 'number')
    return { code, details: typeof details === 'string' && details !== '' ? details : error.message };
  const told = isTransportError(error) ? CODES_IN_WORDS.find(([words]) => error.message.includes(words)) : undefined;
  if (told === undefined) return statusIn(error.cause);
  return { code: told[1], details: /message: "([^"]*)"/.exec(error.message)?.[1] ?? error.message };
}

/** The worker's package passes on the status of a refused connection only in words. */
const CODES_IN_WORDS = [
  ['does not have valid authentication credentials', 16],
  ['does not have permission to execute', 7],
  ['not implemented or not supported', UNIMPLEMENTED],
] as const;

/** The worker's package calls any failure to connect this. */
function isTransportError(error: unknown): boolean {
  return error instanceof Error && (error.name === 'TransportError' || isTransportError(error.cause));
}

function isNoNamespace(error: unknown, status: ReturnType<typeof statusIn>): boolean {
  if (error instanceof Error && error.name === 'NamespaceNotFoundError') return true;
  return status?.code === NOT_FOUND && /^namespace\b/i.test(status.details);
}

/** The command that creates or changes a namespace, with the retention that reports need. */
export function namespaceCommand(verb: 'create' | 'update', namespace: string, address?: string): string {
  const where = address === undefined ? [] : ['--address', address];
  const words = ['operator', 'namespace', verb, '-n', namespace, '--retention', `${RETENTION_DAYS}d`];
  return shellLine('temporal', ...words, ...where);
}

function noNamespace({ address, namespace }: TemporalWay, cause: unknown): RunbookError {
  return new RunbookError('NOT_FOUND', `The Temporal server at ${address} has no namespace "${namespace}".`, {
    needed: 'the namespace of the runbooks, the same for commands and workers',
    next: `Set TEMPORAL_NAMESPACE to the name that the workers use. If it is missing, a Temporal administrator creates it: \`${namespaceCommand('create', namespace, address)}\``,
    cause,
  });
}

function refusesClient({ address, apiKey, tls }: TemporalWay, said: string | undefined): Cause {
  const sent = [...(apiKey === undefined ? [] : ['an API key']), ...(tls?.cert === undefined ? [] : ['a certificate'])];
  return {
    message: `The Temporal server at ${address} refuses this client.`,
    observed: `${said || 'no reason given'}; this client has ${sent.join(' and ') || 'neither an API key nor a certificate'}`,
    needed: 'credentials that the server accepts for this namespace',
    next: 'Set its credentials: TEMPORAL_API_KEY, TEMPORAL_TLS_..., or the profile with them.',
  };
}

function notTemporal({ address }: TemporalWay, observed: string): Cause {
  return {
    message: `The server at ${address} is not a Temporal frontend.`,
    observed,
    needed: "the gRPC address of Temporal's frontend, usually port 7233",
    next: 'Correct TEMPORAL_ADDRESS: the Web UI (8080, 8233), the HTTP API (7243) and other services of Temporal have ports of their own.',
  };
}

function unknownRequest(way: TemporalWay, said: string): Cause {
  if (!/unknown method/i.test(said)) return notTemporal(way, `it answers: ${said || 'unknown request'}`);
  return {
    message: `The Temporal server at ${way.address} does not support a request of this program.`,
    observed: said,
    needed: 'a newer Temporal server',
    next: 'Ask your Temporal administrators to upgrade it.',
  };
}

/** What others say, without secrets. */
function quoted(text: string, { apiKey = '' }: TemporalWay): string {
  return redactText(text, [apiKey]);
}

/** The time for each step of the look, ms. */
const STEP_MS = 2_000;

/** Looks at the address, step by step: name, port, TLS, certificate, protocol. */
async function look(way: TemporalWay, said: string): Promise<Cause> {
  const opened = await open(way);
  if (typeof opened === 'string') return unreachable(way, opened);
  opened.destroy();
  const found = way.tls === undefined ? await lookPlain(way) : await lookTls(way, way.tls);
  if (found !== undefined) return found;
  const isCertificate = /certificate/i.test(said);
  return {
    message: `No Temporal server answers at ${way.address}.`,
    observed: `something listens there and speaks HTTP/2; the request failed: ${said.slice(0, LONGEST) || 'no reason given'}`,
    needed: isCertificate
      ? 'certificates of X.509 version 3, for the server with its name as a subject alternative name, and no CA: workers accept no others'
      : 'a Temporal frontend that answers',
    next: isCertificate
      ? 'Ask your Temporal administrators for such certificates.'
      : 'Check that Temporal itself runs behind the gateway, proxy or load balancer that answers.',
  };
}

/** By the code of the system. */
const UNREACHABLE: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'no name server has a record of this host',
  EAI_AGAIN: 'no name server answers for this host',
  EHOSTUNREACH: 'there is no route to this host',
  ENETUNREACH: 'there is no route to its network',
  ETIMEDOUT: `no answer within ${STEP_MS / 1_000} s; a firewall may drop what is sent`,
};

/** `grpc` reads them in this order. */
const PROXY_VARIABLES = ['grpc_proxy', 'https_proxy', 'http_proxy', 'HTTPS_PROXY', 'HTTP_PROXY', 'ALL_PROXY'];

function unreachable({ address, host, port }: TemporalWay, code: string): Cause {
  const proxy = PROXY_VARIABLES.find((name) => process.env[name]);
  const observed = [
    `${UNREACHABLE[code] ?? 'the connection failed'} (${host}, port ${port}, ${code})`,
    ...(address.endsWith(`:${port}`) ? [] : [`the address names no port, so ${port} was used`]),
    ...(proxy === undefined
      ? []
      : [`${proxy} is set, but Temporal is only ever reached directly, never through a proxy`]),
  ];
  const isUnknown = code === 'ENOTFOUND' || code === 'EAI_AGAIN';
  return {
    message: `No Temporal server answers at ${address}.`,
    observed: observed.join('; '),
    needed: 'a Temporal frontend at this address, which this machine reaches directly',
    next: `${isUnknown ? 'Correct the host name, or the name servers of this machine. Also check' : 'Check'} that it runs and can be reached, or set another address: TEMPORAL_ADDRESS, for commands also --address. Runs start no new step without it, and continue by themselves once it answers. To try things out: "runbook dev".`,
  };
}

async function lookPlain(way: TemporalWay): Promise<Cause | undefined> {
  const heard = await say(await open(way), PREFACE);
  if (isHttp2(heard)) return undefined;
  const shaken = isHttp1(heard) || heard === SILENCE ? undefined : await shake(way, {});
  if (shaken !== undefined && (typeof shaken !== 'string' || isAlert(shaken))) {
    if (typeof shaken !== 'string') shaken.destroy();
    return {
      message: `The Temporal server at ${way.address} uses TLS, and this client does not.`,
      observed: 'a TLS server, and no TLS setting here',
      needed: 'TLS on both sides',
      next: 'Set TEMPORAL_TLS=true. For a private CA also TEMPORAL_TLS_SERVER_CA_CERT_PATH; if the server asks for client certificates, TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH.',
    };
  }
  return notHttp2(way, heard);
}

/** The server ended the handshake with a TLS alert. */
const isAlert = (code: string) => /ALERT/.test(code);

async function lookTls(way: TemporalWay, tls: Tls): Promise<Cause | undefined> {
  const shaken = await shake(way, tls);
  // Some servers only close the connection when they do not accept a client certificate.
  const isRefused = (code: string) => isAlert(code) || (code === CLOSED && tls.cert !== undefined);
  if (typeof shaken === 'string') {
    if (isAlert(shaken)) return alertCause(way, tls, shaken);
    const heard = shaken === SILENCE ? SILENCE : await say(await open(way), PREFACE);
    if (isHttp2(heard)) return withoutTls(way, tls);
    if (isHttp1(heard)) return notHttp2(way, heard);
    return isRefused(shaken) ? alertCause(way, tls, shaken) : handshakeFailed(way, shaken);
  }
  try {
    if (!shaken.authorized) return distrusted(way, tls, String(shaken.authorizationError), shaken.getPeerCertificate());
    if (shaken.alpnProtocol !== 'h2') return notTemporal(way, 'a TLS server without HTTP/2, such as a website');
    // With TLS 1.3, the server judges the client certificate only after the handshake.
    const heard = await say(shaken, PREFACE);
    if (typeof heard === 'string' && isRefused(heard)) return alertCause(way, tls, heard);
    return isHttp2(heard) ? undefined : notHttp2(way, heard);
  } finally {
    shaken.destroy();
  }
}

function withoutTls({ address }: TemporalWay, { byApiKey }: Tls): Cause {
  return {
    message: `The Temporal server at ${address} does not use TLS, and this client does.`,
    observed: byApiKey
      ? 'TLS is on here because an API key is set'
      : 'TLS is on here by TEMPORAL_TLS or another TLS setting',
    needed: 'TLS on both sides, or on neither',
    next: byApiKey
      ? 'If the server needs no API key, remove it: unset TEMPORAL_API_KEY, or delete it from the profile. If it does, correct TEMPORAL_ADDRESS to its TLS port. TEMPORAL_TLS=false sends the key unencrypted, which is safe only on this machine.'
      : 'Correct TEMPORAL_ADDRESS to the TLS port of the server. If it has none, set TEMPORAL_TLS=false, and unset the other TEMPORAL_TLS_... variables.',
  };
}

function handshakeFailed({ address }: TemporalWay, code: string): Cause {
  return {
    message: `The TLS handshake with the Temporal server at ${address} fails.`,
    observed:
      code === SILENCE ? `no answer within ${STEP_MS / 1_000} s` : code === CLOSED ? 'it closes the connection' : code,
    needed: 'a TLS server at this address',
    next: 'Check the address, and the firewalls and load balancers on the way, which may end TLS connections. If the server does not use TLS, set TEMPORAL_TLS=false.',
  };
}

function alertCause(way: TemporalWay, tls: Tls, code: string): Cause {
  const { address, host } = way;
  const name = tls.serverName ?? host;
  if (/UNRECOGNIZED_NAME/.test(code))
    return {
      message: `The TLS server at ${address} does not serve the name ${name}.`,
      observed: code,
      next: 'Use the name of the Temporal server in TEMPORAL_ADDRESS, or set TEMPORAL_TLS_SERVER_NAME to it.',
    };
  if (/NO_APPLICATION_PROTOCOL/.test(code)) return notTemporal(way, 'a TLS server without HTTP/2');
  if (/PROTOCOL_VERSION|INSUFFICIENT_SECURITY/.test(code)) return handshakeFailed(way, code);
  const own = tls.cert === undefined ? undefined : certificatesIn(tls.cert)[0];
  return {
    message: `The Temporal server at ${address} ${own ? 'does not accept the client certificate' : 'asks for a client certificate'}.`,
    observed: own
      ? `${code}; the certificate is ${nameOf(own.subject)}, issued by ${nameOf(own.issuer)}, valid until ${own.validTo}`
      : `${code}; this client has none`,
    needed: 'a client certificate (PEM) of the CA that the server trusts for clients',
    next: 'Set TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH. Your Temporal administrators issue certificates.',
  };
}

/** Why a certificate was not accepted, by the code of OpenSSL or Node. */
function distrusted(
  { address, host }: TemporalWay,
  { ca, serverName }: Tls,
  code: string,
  shown: PeerCertificate,
): Cause {
  const name = serverName ?? host;
  const message = `The certificate of the Temporal server at ${address} is not accepted.`;
  const names = redactText(shown.subjectaltname ?? '')
    .replaceAll('IP Address:', '')
    .replaceAll('DNS:', '');
  const issuer = nameOf(shown.issuer);
  const itself = `a certificate for ${names.slice(0, LONGEST) || nameOf(shown.subject)}, issued by ${issuer}`;
  if (/ALTNAME|HOSTNAME/.test(code))
    return {
      ...{ message, observed: `${itself}; it is not for ${name} (${code})` },
      needed: `a certificate for ${name}`,
      next: `Use a name of the certificate in TEMPORAL_ADDRESS, or set TEMPORAL_TLS_SERVER_NAME to one.`,
    };
  if (/EXPIRED|NOT_YET_VALID/.test(code))
    return {
      ...{ message, observed: `${itself}, valid from ${shown.valid_from} to ${shown.valid_to} (${code})` },
      needed: `a certificate that is valid now, ${new Date().toISOString()}`,
      next: "If this machine's clock is right, your Temporal administrators renew the certificate. Otherwise correct the clock.",
    };
  const trusted = ca === undefined ? undefined : certificatesIn(ca).map(({ subject }) => nameOf(subject));
  if (code === 'UNABLE_TO_GET_ISSUER_CERT' && trusted !== undefined)
    return {
      ...{ message, observed: `${itself}; the CA file has ${trusted.join(', ')}, but no root above it (${code})` },
      needed: 'a CA file that goes up to the root',
      next: 'Add the certificate of the root CA to the file in TEMPORAL_TLS_SERVER_CA_CERT_PATH, or in the profile.',
    };
  const known = trusted === undefined ? 'no CA is configured here' : `the CA file has only ${trusted.join(', ')}`;
  return {
    ...{
      message,
      observed: `${itself}; ${known}, and the issuer is not among the CAs that this program trusts (${code})`,
    },
    needed: `the certificate of the CA above ${issuer}`,
    next: 'Set TEMPORAL_TLS_SERVER_CA_CERT_PATH to a file with the certificates of the CA (PEM), root and issuing CA. Your Temporal administrators have it.',
  };
}

/** The certificates in a PEM text. @throws an error of OpenSSL if one is damaged */
export function certificatesIn(pem: string): X509Certificate[] {
  const texts = pem.match(/-----BEGIN (TRUSTED )?CERTIFICATE-----[^-]+-----END (TRUSTED )?CERTIFICATE-----/g) ?? [];
  return texts.map((text) => new X509Certificate(text));
}

/** The longest text of others that is shown, in characters. */
const LONGEST = 200;

/** A name in a certificate: its common name, otherwise its organization. Absent parts of a name are unnamed. */
function nameOf(name: string | Readonly<Record<string, string | string[] | undefined>> | undefined): string {
  const parts: Readonly<Record<string, unknown>> =
    typeof name === 'string'
      ? Object.fromEntries(
          name.split('\n').map((line) => [line.split('=', 1)[0] ?? '', line.replace(/^[^=]*=/, '')] as const),
        )
      : (name ?? {});
  const text = [parts['CN'], parts['O']]
    .flatMap((part): unknown => part)
    .find((part) => typeof part === 'string' && part !== '');
  return `"${redactText(typeof text === 'string' ? text : 'without a name').slice(0, LONGEST)}"`;
}

function notHttp2(way: TemporalWay, heard: Buffer | string): Cause {
  if (isHttp1(heard)) return notTemporal(way, 'an HTTP server without gRPC, such as the Web UI');
  const observed =
    heard === SILENCE
      ? `it accepts connections, but does not answer within ${STEP_MS / 1_000} s`
      : `it accepts connections, but ${typeof heard === 'string' ? `ends them (${heard})` : 'does not speak HTTP/2'}`;
  return {
    message: `No Temporal server answers at ${way.address}.`,
    observed,
    needed: "Temporal's frontend, which speaks gRPC",
    next: 'Check that TEMPORAL_ADDRESS is its address, and that it runs behind what accepts the connection: a load balancer, tunnel or container.',
  };
}

/** What a client of HTTP/2 says first, with no settings of its own. */
const PREFACE = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);
/** The first frame of a server has type SETTINGS. */
const isHttp2 = (heard: Buffer | string) => typeof heard !== 'string' && heard.length >= 9 && heard[3] === 4;
const isHttp1 = (heard: Buffer | string) => typeof heard !== 'string' && /^HTTP\/1|^</.test(heard.toString('latin1'));

const SILENCE = 'ETIMEDOUT';
const CLOSED = 'ECONNRESET';

/** A connection, or the code of the failure. */
function open({ host, port }: TemporalWay): Promise<Socket | string> {
  const socket = connectTcp({ host, port });
  return settled(socket, 'connect', () => socket);
}

/** A connection after its handshake, whatever certificate the server has, or the code of the failure. */
function shake({ host, port }: TemporalWay, { ca, cert, key, serverName }: Partial<Tls>): Promise<TLSSocket | string> {
  const name = serverName ?? host;
  // Nothing is sent, and `authorized` tells whether the certificate is accepted.
  const socket = connectTls({
    ...{ host, port, ALPNProtocols: ['h2'], rejectUnauthorized: false },
    ...(isIP(name) === 0 && { servername: name }),
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert, key }),
  });
  return settled(socket, 'secureConnect', () => socket);
}

/** The first bytes of the answer, or the code of the failure. */
async function say(socket: Socket | string, bytes: Buffer): Promise<Buffer | string> {
  if (typeof socket === 'string') return socket;
  socket.write(bytes);
  const heard = await settled<Buffer>(socket, 'data', (chunk) => chunk as Buffer);
  socket.destroy();
  return heard;
}

/** The value of an event of a socket, or the code of what came instead: an error, the end, or silence. */
function settled<T>(socket: Socket, event: string, value: (given: unknown) => T): Promise<T | string> {
  return new Promise((resolve) => {
    const give = (what: T | string, keep = false) => {
      clearTimeout(timer);
      if (!keep) socket.destroy();
      resolve(what);
    };
    const timer = setTimeout(() => give(SILENCE), STEP_MS);
    socket.once(event, (given: unknown) => give(value(given), true));
    // Stays: an error after this answer must not end the process.
    socket.on('error', (error) => give(errnoOf(error) ?? 'unknown reason'));
    socket.once('close', () => give(CLOSED));
  });
}
