import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import type { ConnectionOptions, TLSConfig } from '@temporalio/client';
import { loadClientConfigProfile, toClientOptions } from '@temporalio/envconfig';
import type { ClientConfigProfile } from '@temporalio/envconfig';
import { errnoOf, RunbookError } from '../errors';
import { isLoopback } from '../gateway/listening';
import { redact } from '../secret';
import { certificatesIn } from './temporal-away';
import type { TemporalWay } from './temporal-away';

/** Command-line options for server and namespace; other settings come from the profile file and `TEMPORAL_*`. */
export interface ConnectionFlags {
  readonly address?: string;
  readonly namespace?: string;
}

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number];
type Call = ReturnType<Parameters<Interceptor>[1]>;

/** gRPC's code CANCELLED. */
const CANCELLED = 1;

/**
 * Opens a connection whose calls end as canceled once it is closed. The SDK retries a call by a timer; on a closed channel
 * that retry would throw where nothing can catch it, and end the process.
 */
export async function connectUntilClosed(options: ConnectionOptions) {
  const { connection, close } = lazyUntilClosed(options);
  try {
    await connection.ensureConnected();
  } catch (error) {
    // A server that never answers would otherwise keep the process alive.
    await close();
    throw error;
  }
  return { connection, close };
}

/** As {@link connectUntilClosed}, but connects at the first call: the server may not run yet. */
export function lazyUntilClosed(options: ConnectionOptions) {
  let closed = false;
  const endedCall: Call = {
    start: (metadata, listener) => {
      listener?.onReceiveMessage?.(null);
      listener?.onReceiveStatus?.({ code: CANCELLED, details: 'the connection is closed', metadata });
    },
    ...{ cancelWithStatus: ignore, sendMessageWithContext: ignore, sendMessage: ignore, startRead: ignore },
    ...{ halfClose: ignore, getPeer: () => '', getAuthContext: () => null },
  };
  // The interface asks for the class, whose one use here is what the interface of a call has.
  const untilClosed = ((callOptions, next) => (closed ? endedCall : next(callOptions))) as Interceptor;
  const interceptors = [makeGrpcRetryInterceptor(defaultGrpcRetryOptions()), untilClosed];
  const channelArgs = { ...options.channelArgs, ...DIRECTLY };
  const connection = Connection.lazy({ ...options, interceptors, channelArgs });
  const close = (): Promise<void> => {
    closed = true;
    return connection.close();
  };
  return { connection, close };
}

const ignore = (): void => undefined;

/** For gRPC channels: workers cannot use the proxy variables of the machine, so nothing of ours does. */
export const DIRECTLY = { 'grpc.enable_http_proxy': 0 };

/**
 * The warning that a connection crosses a network in plain text; undefined if it uses TLS or stays on this host. With an API
 * key, the client uses TLS unless that is off.
 */
export function plainText(
  options: Pick<ReturnType<typeof connectionSettings>['connectionOptions'], 'address' | 'tls' | 'apiKey'>,
) {
  const { address, tls, apiKey } = options;
  const isEncrypted = Boolean(tls ?? apiKey !== undefined);
  if (isEncrypted || isLoopback(address) || /^localhost(:\d+)?$/.test(address)) return undefined;
  const text = `traffic to Temporal at ${address} can be read and changed on the network`;
  return { text, next: 'Set TEMPORAL_TLS=true and the other TEMPORAL_TLS_... variables' };
}

/**
 * Returns the settings of the Temporal connection, from flags, `TEMPORAL_*`, and the profile file, in this precedence. The
 * SDK would take some mistakes for another setting: a profile file that is not there, or half a client certificate.
 *
 * @throws RunbookError `INVALID_INPUT` or `NOT_FOUND`, naming the setting, never a secret value
 */
export function connectionSettings(env: NodeJS.ProcessEnv, flags: ConnectionFlags = {}) {
  const overrideEnvVars = Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  );
  const profile = readProfile(overrideEnvVars);
  refuseBadHeaders(profile, overrideEnvVars);
  refuseMissingFiles(profile);
  const { connectionOptions, namespace } = toClientOptions(profile);
  const { tls: own, apiKey } = connectionOptions;
  const address = flags.address || connectionOptions.address || '127.0.0.1:7233';
  const { host, port } = splitAddress(address, flags.address ? '--address' : 'TEMPORAL_ADDRESS');
  const tls = typeof own === 'object' && own !== null ? { ...tlsTexts(own), byApiKey: false } : undefined;
  refuseBadTls(profile, tls);
  const way: TemporalWay = {
    ...{ address, host, port, namespace: flags.namespace || namespace || 'default' },
    ...(tls ? { tls } : own === true && { tls: { byApiKey: true } }),
    ...(typeof apiKey === 'string' && { apiKey }),
  };
  return {
    connectionOptions: { ...connectionOptions, address },
    namespace: flags.namespace || namespace,
    /** What is needed to find out why the server cannot be reached. */
    way,
  };
}

type Variables = Readonly<Record<string, string>>;

/** The profile, with the variables applied. */
function readProfile(variables: Variables): ClientConfigProfile {
  const { TEMPORAL_CONFIG_FILE: file, TEMPORAL_TLS: tls } = variables;
  if (tls !== undefined && !/^(true|false|1|0)$/.test(tls))
    // The SDK takes every other value, such as "yes", for false.
    throw new RunbookError('INVALID_INPUT', 'TEMPORAL_TLS has an unknown value.', {
      needed: 'true or false',
      next: 'Set TEMPORAL_TLS=true if the Temporal server uses TLS, otherwise TEMPORAL_TLS=false.',
    });
  const data = file === undefined ? undefined : readNamedFile(file, 'TEMPORAL_CONFIG_FILE');
  try {
    return loadClientConfigProfile({ overrideEnvVars: variables, ...(data && { configSource: { data } }) });
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : 'unknown';
    throw new RunbookError('INVALID_INPUT', 'The Temporal profile file or the TEMPORAL_* variables are not valid.', {
      // Only the first line, and no cause: the rest quotes the file, which may contain an API key.
      observed:
        cause instanceof Error && cause.name === 'TypeError'
          ? 'a file without profiles'
          : redact(text.split('\n', 1)[0] ?? ''),
      needed: `${file ?? 'the profile file of the temporal CLI'} with a table [profile.${variables['TEMPORAL_PROFILE'] ?? 'default'}]`,
      next: 'Correct the file in TEMPORAL_CONFIG_FILE, or choose another profile with TEMPORAL_PROFILE.',
    });
  }
}

function readNamedFile(file: string, setting: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    const reason = errnoOf(error) ?? 'unknown reason';
    throw new RunbookError('NOT_FOUND', `The file ${file} of the Temporal connection cannot be read (${reason}).`, {
      observed: `${setting} names this file`,
      needed: 'a file that exists and that this user can read',
      next: `Correct the path in ${setting}, or the permissions of the file. Nothing was sent.`,
    });
  }
}

/** The variable that names each file of a profile. */
const FILES = {
  serverCACert: 'TEMPORAL_TLS_SERVER_CA_CERT_PATH',
  clientCert: 'TEMPORAL_TLS_CLIENT_CERT_PATH',
  clientKey: 'TEMPORAL_TLS_CLIENT_KEY_PATH',
} as const;

function refuseMissingFiles({ tls }: ClientConfigProfile): void {
  for (const member of ['serverCACert', 'clientCert', 'clientKey'] as const) {
    const source = tls?.[member];
    if (tls?.disabled !== true && source !== undefined && 'path' in source)
      readNamedFile(source.path, `${FILES[member]} or the profile`);
  }
}

function tlsTexts({ serverRootCACertificate: ca, clientCertPair: pair, serverNameOverride: serverName }: TLSConfig) {
  const text = (bytes: Uint8Array | undefined) => (bytes === undefined ? undefined : Buffer.from(bytes).toString());
  return { ca: text(ca), cert: text(pair?.crt), key: text(pair?.key), serverName: serverName ?? undefined };
}

/** What a header can carry. The gRPC library quotes any other value in its error. */
const HEADER_VALUE = /^[\x20-\x7e]+$/;

function refuseBadHeaders({ apiKey, grpcMeta = {} }: ClientConfigProfile, variables: Variables): void {
  const bad = Object.entries(grpcMeta).find(([name, value]) => !/^[\w.-]+$/.test(name) || !HEADER_VALUE.test(value));
  if (apiKey !== undefined && (typeof apiKey !== 'string' || !/^[\x21-\x7e]+$/.test(apiKey)))
    throw new RunbookError('INVALID_INPUT', 'The API key of the Temporal connection cannot be sent.', {
      observed: 'a space, a line end or another character that no API key has',
      needed: 'the API key alone, on one line',
      next: `Set ${variables['TEMPORAL_API_KEY'] ? 'TEMPORAL_API_KEY' : 'api_key in the profile'} again. The key is not shown here.`,
    });
  if (bad === undefined) return;
  throw new RunbookError('INVALID_INPUT', 'A header of the Temporal connection cannot be sent.', {
    observed: `${redact(bad[0])} has a line end or another character that no header has`,
    next: 'Correct TEMPORAL_GRPC_META_..., or grpc_meta in the profile.',
  });
}

/** @throws RunbookError `INVALID_INPUT` if a certificate or key is not one, or one of a pair is missing */
function refuseBadTls({ tls: given }: ClientConfigProfile, tls: ReturnType<typeof tlsTexts> | undefined): void {
  if (tls === undefined || given?.disabled === true) return;
  const refuse = (message: string, observed: string, next: string) =>
    new RunbookError('INVALID_INPUT', message, { observed, needed: 'PEM files', next });
  const named = (part: string) => `TEMPORAL_TLS_${part}_PATH, TEMPORAL_TLS_${part}_DATA or the profile`;
  if ((given?.clientCert === undefined) !== (given?.clientKey === undefined)) {
    const [has, lacks] = given?.clientCert ? ['certificate', 'key'] : ['key', 'certificate'];
    const message = `The Temporal connection has a client ${has}, but not the ${lacks} that belongs to it.`;
    throw refuse(
      message,
      `only the ${has}`,
      `Also set the ${lacks}: ${named(lacks === 'key' ? 'CLIENT_KEY' : 'CLIENT_CERT')}.`,
    );
  }
  for (const [what, part, pem] of [
    ['CA certificate', 'SERVER_CA_CERT', tls.ca],
    ['client certificate', 'CLIENT_CERT', tls.cert],
  ] as const) {
    if (pem === undefined) continue;
    const mistake = certificateMistake(pem);
    if (mistake === undefined) continue;
    const next = `Correct ${named(part)}. A DER file is converted with: \`openssl x509 -inform der -in FILE -out FILE.pem\``;
    throw refuse(`The ${what} of the Temporal connection is not valid.`, mistake, next);
  }
  const { cert, key } = tls;
  const mistake = cert !== undefined && key !== undefined ? keyMistake(cert, key) : undefined;
  if (mistake === undefined) return;
  throw refuse('The client key of the Temporal connection cannot be used.', mistake, `Correct ${named('CLIENT_KEY')}.`);
}

function certificateMistake(pem: string): string | undefined {
  try {
    return certificatesIn(pem).length === 0 ? 'no PEM block with a certificate' : undefined;
  } catch {
    return 'a certificate that is damaged';
  }
}

/** Never quotes the key. */
function keyMistake(cert: string, key: string): string | undefined {
  try {
    return certificatesIn(cert)[0]?.checkPrivateKey(createPrivateKey(key)) === true
      ? undefined
      : 'the key does not belong to the client certificate';
  } catch {
    return /ENCRYPTED/.test(key) ? 'the key has a passphrase, which cannot be entered here' : 'no PEM private key';
  }
}

const ADDRESS = /^(?<host>\[[0-9a-fA-F:.]+\]|[^\s/:@'"`\\,;?#[\]]+)(?::(?<port>\d{1,5}))?$/;

/** The parts of an address; without a port, the SDK uses 7233. */
function splitAddress(given: unknown, setting: '--address' | 'TEMPORAL_ADDRESS') {
  const address = typeof given === 'string' ? given : '';
  const parts = partsOf(address);
  if (parts !== undefined) return parts;
  // A user name and password are never repeated.
  const bare = address
    .replace(/^(https?|grpcs?|tcp|dns):\/*/i, '')
    .replace(/^[^@]*@/, '')
    .replace(/[\s'"`]/g, '')
    .replace(/[/?#][^]*/, '');
  const meant = partsOf(isIPv6(bare) ? `[${bare}]` : bare);
  const example = meant === undefined ? 'temporal.example:7233' : joined(meant);
  const scheme = /^[a-z]+:\/\//i.exec(address)?.[0];
  const secure = scheme !== undefined && /^(https|grpcs)/i.test(scheme);
  throw new RunbookError('INVALID_INPUT', 'The address of the Temporal server is not of the form host:port.', {
    observed: `${address.includes('@') ? 'a user name in the address' : `"${redact(address)}"`} (${setting} or the profile)`,
    needed: 'host:port, without a scheme, path or quotes',
    next: `Set ${setting}${setting === '--address' ? ' ' : '='}${example}${secure ? ', and TEMPORAL_TLS=true' : ''}.`,
  });
}

const joined = ({ host, port }: { readonly host: string; readonly port: number }) =>
  `${isIPv6(host) ? `[${host}]` : host}:${port}`;

function partsOf(address: string): { readonly host: string; readonly port: number } | undefined {
  const { host, port = '7233' } = ADDRESS.exec(address)?.groups ?? {};
  const isPort = Number(port) >= 1 && Number(port) <= 65_535;
  return host !== undefined && isPort ? { host: host.replace(/^\[|\]$/g, ''), port: Number(port) } : undefined;
}
