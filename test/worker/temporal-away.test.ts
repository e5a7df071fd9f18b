/** Whatever keeps Temporal from being reached, commands and workers say the same cause and the same next step. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import type { TlsOptions } from 'node:tls';
import pino from 'pino';
import { parseInventory } from '../../src/inventory';
import { newSealKey, newSigningKey } from '../../src/keys';
import { RunbookError } from '../../src/errors';
import type { WorkerSettings } from '../../src/worker/settings';
import { startWorker } from '../../src/worker/start-worker';
import { cli } from '../cli/support';
import { temporaryDirectory } from '../support/directory';
import { temporalServer } from '../support/temporal-server';
import { quietRuntime } from '../support/workflow-bundle';
import {
  FOREIGN_CERTIFICATE,
  FOREIGN_KEY,
  LOOPBACK_CERTIFICATE,
  LOOPBACK_KEY,
  LOOPBACK_TLS,
} from '../vault/support/loopback-certificate';

quietRuntime();

const directory = temporaryDirectory('temporal-away');
const file = (name: string) => join(directory, name);
const fixture = (name: string) => join(__dirname, '../simulator/fixtures', name);
const API_KEY = 'eyJ-the-key-that-nobody-may-see';

/** Where something listens that no Temporal frontend is reached by, or only with the right settings. */
const ports: Record<string, number> = {};
const servers: Server[] = [];
const sockets = new Set<Socket>();

async function listen(name: string, server: Server): Promise<void> {
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ports[name] = (server.address() as AddressInfo).port;
  servers.push(server);
}

/** Temporal's frontend behind TLS. */
function frontend(options: TlsOptions): Server {
  const [host = '', port = ''] = temporalServer().address.split(':');
  const identity = { cert: LOOPBACK_CERTIFICATE, key: LOOPBACK_KEY, ALPNProtocols: ['h2'] };
  return createTlsServer({ ...identity, ...options }, (client) => {
    const server = connect(Number(port), host);
    client.pipe(server).pipe(client);
    for (const each of [client, server]) each.on('error', () => [client, server].forEach((end) => end.destroy()));
  });
}

/** A gRPC server that answers every request with this status. */
const answering = (status: number, message: string) =>
  createHttp2Server().on('stream', (stream) => {
    const headers = { 'content-type': 'application/grpc', 'grpc-status': String(status), 'grpc-message': message };
    stream.respond({ ':status': 200, ...headers }, { endStream: true });
  });

beforeAll(async () => {
  const authority = { requestCert: true, ca: FOREIGN_CERTIFICATE };
  const expired = (part: string) => readFileSync(fixture(`expired-${part}.pem`));
  await listen('tls', frontend({}));
  await listen('other name', frontend({ cert: FOREIGN_CERTIFICATE, key: FOREIGN_KEY }));
  await listen('expired', frontend({ cert: expired('certificate'), key: expired('key') }));
  await listen('client certificates', frontend(authority));
  await listen('client certificates of TLS 1.2', frontend({ ...authority, maxVersion: 'TLSv1.2' }));
  await listen('website', createTlsServer({ cert: LOOPBACK_CERTIFICATE, key: LOOPBACK_KEY }));
  await listen(
    'Web UI',
    createHttpServer((_, response) => response.end('<html>Web UI</html>')),
  );
  await listen('silent', createServer());
  await listen(
    'closing',
    createServer((socket) => socket.end()),
  );
  await listen(
    'another gRPC service',
    answering(12, 'unknown service temporal.api.workflowservice.v1.WorkflowService'),
  );
  await listen('refusing', answering(16, `no rights with ${API_KEY}`));
  await listen('empty gateway', answering(14, 'no upstream'));
  await writeFile(file('signing.key'), newSigningKey().jwk.reveal(), { mode: 0o600 });
  await writeFile(file('prod.toml'), '[profile.prod]\naddress = "127.0.0.1:1"\n');
  await writeFile(file('empty.toml'), '');
  await writeFile(file('mistake.toml'), `[profile.default\napi_key = "${API_KEY}"\n`);
  await writeFile(file('no.pem'), 'nothing');
  await writeFile(file('damaged.pem'), LOOPBACK_CERTIFICATE.replace('MII', 'MIX'));
  await writeFile(
    file('locked.key'),
    '-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n',
  );
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers) server.close();
});

type Environment = Readonly<Record<string, string>>;

/** What the command says, with its exit code. */
async function command(env: Environment, words = ['list']) {
  const { code, err } = await cli([...words, '--json'], { env });
  expect(err).not.toContain(API_KEY);
  return { exit: code, ...(JSON.parse(err) as { error: Told }).error };
}

interface Told {
  readonly code: string;
  readonly message: string;
  readonly observed?: string;
  readonly needed?: string;
  readonly next?: string;
}

/** What a worker ends with, or retries because of. */
async function worker(env: Environment): Promise<Told> {
  const settings: WorkerSettings = {
    ...{ inventoryPath: '', sealKeys: newSealKey(), keyDirectory: file('keys'), logLevel: 'silent' },
    ...{ keyStorage: 'disk', reportDirectory: undefined, taskQueue: 'temporal-away' },
  };
  const gate = { approvals: 1, groups: ['approvers'], excludeRequester: false, validFor: '1h' };
  const text = JSON.stringify({
    version: 1,
    workers: { signingKey: { file: file('signing.key') } },
    people: { ada: { attestation: 'claimed', groups: ['approvers'] } },
    deployments: {
      payments: {
        laboratory: true,
        clusters: {
          east: {
            ...{ addresses: ['http://127.0.0.1:1'], advertisedClusterAddress: 'node-address' },
            credential: { env: 'NONE' },
          },
        },
        drSets: { main: ['east'] },
        ceremony: { holders: ['ada'] },
        gates: { plan: gate, go: gate },
      },
    },
  });
  const log = pino({ level: 'silent' });
  const failed: unknown = await startWorker({ env, settings, inventory: parseInventory(text, 'inventory'), log }).then(
    () => new Error('a worker that started'),
    (error: unknown) => error,
  );
  if (!(failed instanceof RunbookError)) throw failed;
  const { code, message, observed, needed, next } = failed;
  return JSON.parse(JSON.stringify({ code, message, observed, needed, next })) as Told;
}

const at =
  (name: string, more: Environment = {}) =>
  () => ({ TEMPORAL_ADDRESS: `127.0.0.1:${ports[name]}`, ...more });
const plain = (more: Environment) => () => ({ TEMPORAL_ADDRESS: temporalServer().address, ...more });
const TLS = { TEMPORAL_TLS: 'true' };
const trusting = (path: string) => ({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: path });
const KNOWN = trusting(LOOPBACK_TLS.certificateFile);
const certificate = (name: string, key = name) => ({
  ...KNOWN,
  TEMPORAL_TLS_CLIENT_CERT_PATH: fixture(`${name}-certificate.pem`),
  TEMPORAL_TLS_CLIENT_KEY_PATH: fixture(`${key}-key.pem`),
});

/** Each way not to reach Temporal: the settings, the error code, and what cause and next step must name. */
const WAYS: readonly (readonly [name: string, env: () => Environment, code: string, cause: RegExp, next: RegExp])[] = [
  [
    'nobody listens',
    () => ({ TEMPORAL_ADDRESS: '127.0.0.1:1' }),
    'TEMPORAL_UNAVAILABLE',
    /nothing listens.*port 1/,
    /^Check that it runs/,
  ],
  [
    'no port',
    () => ({ TEMPORAL_ADDRESS: '127.0.0.9' }),
    'TEMPORAL_UNAVAILABLE',
    /names no port, so 7233/,
    /TEMPORAL_ADDRESS/,
  ],
  [
    'an unknown host',
    () => ({ TEMPORAL_ADDRESS: 'temporal.invalid:7233' }),
    'TEMPORAL_UNAVAILABLE',
    /temporal\.invalid.*(ENOTFOUND|EAI_AGAIN)/,
    /Correct the host name/,
  ],
  ['a server that never answers', at('silent'), 'TEMPORAL_UNAVAILABLE', /does not answer within/, /load balancer/],
  ['a server that closes each connection', at('closing'), 'TEMPORAL_UNAVAILABLE', /ends them/, /load balancer/],
  ['the Web UI', at('Web UI'), 'TEMPORAL_UNAVAILABLE', /not a Temporal frontend.*Web UI/, /8233/],
  ['the Web UI, with TLS', at('Web UI', TLS), 'TEMPORAL_UNAVAILABLE', /not a Temporal frontend.*Web UI/, /8233/],
  [
    'a website',
    at('website', KNOWN),
    'TEMPORAL_UNAVAILABLE',
    /not a Temporal frontend.*without HTTP\/2/,
    /TEMPORAL_ADDRESS/,
  ],
  [
    'another gRPC service',
    at('another gRPC service'),
    'TEMPORAL_UNAVAILABLE',
    /not a Temporal frontend/,
    /TEMPORAL_ADDRESS/,
  ],
  ['a gateway without Temporal', at('empty gateway'), 'TEMPORAL_UNAVAILABLE', /speaks HTTP\/2/, /gateway/],
  [
    'a server that refuses this client',
    at('refusing', { TEMPORAL_API_KEY: API_KEY, TEMPORAL_TLS: 'false' }),
    'TEMPORAL_UNAVAILABLE',
    /refuses this client.*no rights with \[redacted\]; this client has an API key/,
    /TEMPORAL_API_KEY/,
  ],
  ['no TLS here', at('tls'), 'TEMPORAL_UNAVAILABLE', /uses TLS, and this client does not/, /TEMPORAL_TLS=true/],
  [
    'TLS switched off here',
    at('client certificates of TLS 1.2', { TEMPORAL_TLS: 'false' }),
    'TEMPORAL_UNAVAILABLE',
    /uses TLS, and this client does not/,
    /TEMPORAL_TLS=true/,
  ],
  [
    'no TLS there',
    plain(TLS),
    'TEMPORAL_UNAVAILABLE',
    /does not use TLS, and this client does.*TEMPORAL_TLS/,
    /TEMPORAL_TLS=false/,
  ],
  [
    'an API key for a server without TLS',
    plain({ TEMPORAL_API_KEY: API_KEY }),
    'TEMPORAL_UNAVAILABLE',
    /does not use TLS.*because an API key is set/,
    /unset TEMPORAL_API_KEY/,
  ],
  [
    'a private CA',
    at('tls', TLS),
    'TEMPORAL_UNAVAILABLE',
    /certificate for 127\.0\.0\.1, localhost, issued by "simulated service for tests"; no CA/,
    /TEMPORAL_TLS_SERVER_CA_CERT_PATH/,
  ],
  [
    'another CA',
    at('tls', trusting(fixture('foreign-certificate.pem'))),
    'TEMPORAL_UNAVAILABLE',
    /issued by "simulated service for tests"; the CA file has only "another"/,
    /TEMPORAL_TLS_SERVER_CA_CERT_PATH/,
  ],
  [
    'another name',
    at('other name', trusting(fixture('foreign-certificate.pem'))),
    'TEMPORAL_UNAVAILABLE',
    /certificate for "another".*not for 127\.0\.0\.1/,
    /TEMPORAL_TLS_SERVER_NAME/,
  ],
  [
    'an expired certificate',
    at('expired', trusting(fixture('expired-certificate.pem'))),
    'TEMPORAL_UNAVAILABLE',
    /valid from Jan +1 .* 2020 .* to Jan +1 .* 2021/,
    /clock/,
  ],
  [
    'no client certificate',
    at('client certificates', KNOWN),
    'TEMPORAL_UNAVAILABLE',
    /asks for a client certificate/,
    /TEMPORAL_TLS_CLIENT_CERT_PATH/,
  ],
  [
    'no client certificate, TLS 1.2',
    at('client certificates of TLS 1.2', KNOWN),
    'TEMPORAL_UNAVAILABLE',
    /asks for a client certificate/,
    /TEMPORAL_TLS_CLIENT_CERT_PATH/,
  ],
  [
    'a client certificate of another CA',
    at('client certificates', certificate('loopback')),
    'TEMPORAL_UNAVAILABLE',
    /does not accept the client certificate.*"simulated service for tests"/,
    /TEMPORAL_TLS_CLIENT_CERT_PATH/,
  ],
  [
    'a namespace that is not there',
    plain({ TEMPORAL_NAMESPACE: 'prod' }),
    'NOT_FOUND',
    /no namespace "prod"/,
    /`temporal operator namespace create -n prod .*`/,
  ],
  [
    'https:// in the address',
    () => ({ TEMPORAL_ADDRESS: 'https://temporal.example:7233' }),
    'INVALID_INPUT',
    /"https:\/\/temporal\.example:7233"/,
    /TEMPORAL_ADDRESS=temporal\.example:7233, and TEMPORAL_TLS=true/,
  ],
  [
    'a path in the address',
    () => ({ TEMPORAL_ADDRESS: 'http://127.0.0.1:8233/namespaces' }),
    'INVALID_INPUT',
    /host:port/,
    /TEMPORAL_ADDRESS=127\.0\.0\.1:8233\./,
  ],
  [
    'quotes in the address',
    () => ({ TEMPORAL_ADDRESS: '"127.0.0.1:7233"' }),
    'INVALID_INPUT',
    /host:port/,
    /TEMPORAL_ADDRESS=127\.0\.0\.1:7233\./,
  ],
  [
    'a password in the address',
    () => ({ TEMPORAL_ADDRESS: `https://u:${API_KEY}@temporal.example` }),
    'INVALID_INPUT',
    /a user name/,
    /TEMPORAL_ADDRESS=temporal\.example:7233/,
  ],
  [
    'an IPv6 address without brackets',
    () => ({ TEMPORAL_ADDRESS: '::1' }),
    'INVALID_INPUT',
    /"::1"/,
    /TEMPORAL_ADDRESS=\[::1\]:7233/,
  ],
  [
    'a port that is none',
    () => ({ TEMPORAL_ADDRESS: 'temporal.example:72330' }),
    'INVALID_INPUT',
    /72330/,
    /TEMPORAL_ADDRESS/,
  ],
  [
    'TEMPORAL_TLS=yes',
    () => ({ TEMPORAL_TLS: 'yes' }),
    'INVALID_INPUT',
    /TEMPORAL_TLS has an unknown value/,
    /TEMPORAL_TLS=true/,
  ],
  [
    'an API key with a line end',
    () => ({ TEMPORAL_API_KEY: `${API_KEY}\r` }),
    'INVALID_INPUT',
    /line end/,
    /TEMPORAL_API_KEY/,
  ],
  [
    'a header with a line end',
    () => ({ TEMPORAL_GRPC_META_X_KEY: `${API_KEY}\r` }),
    'INVALID_INPUT',
    /x-key/,
    /TEMPORAL_GRPC_META/,
  ],
  [
    'a profile file that is not there',
    () => ({ TEMPORAL_CONFIG_FILE: file('none.toml') }),
    'NOT_FOUND',
    /none\.toml.*ENOENT/,
    /TEMPORAL_CONFIG_FILE/,
  ],
  [
    'a profile that is not there',
    () => ({ TEMPORAL_CONFIG_FILE: file('prod.toml'), TEMPORAL_PROFILE: 'dev' }),
    'INVALID_INPUT',
    /'dev' not found.*prod\.toml with a table \[profile\.dev\]/,
    /TEMPORAL_PROFILE/,
  ],
  [
    'a profile file without profiles',
    () => ({ TEMPORAL_CONFIG_FILE: file('empty.toml') }),
    'INVALID_INPUT',
    /without profiles/,
    /TEMPORAL_CONFIG_FILE/,
  ],
  [
    'a profile file with a mistake',
    () => ({ TEMPORAL_CONFIG_FILE: file('mistake.toml') }),
    'INVALID_INPUT',
    /Invalid TOML/,
    /TEMPORAL_CONFIG_FILE/,
  ],
  [
    'a CA file that is not there',
    at('tls', trusting('/nonexistent/ca.pem')),
    'NOT_FOUND',
    /\/nonexistent\/ca\.pem.*ENOENT/,
    /TEMPORAL_TLS_SERVER_CA_CERT_PATH/,
  ],
  [
    'a CA file that is a folder',
    at('tls', trusting(directory)),
    'NOT_FOUND',
    /EISDIR/,
    /TEMPORAL_TLS_SERVER_CA_CERT_PATH/,
  ],
  [
    'a CA file without certificates',
    () => ({ ...at('tls', trusting(file('no.pem')))() }),
    'INVALID_INPUT',
    /CA certificate.*no PEM block/,
    /openssl x509 -inform der/,
  ],
  [
    'a damaged CA file',
    () => ({ ...at('tls', trusting(file('damaged.pem')))() }),
    'INVALID_INPUT',
    /CA certificate.*damaged/,
    /TEMPORAL_TLS_SERVER_CA_CERT_PATH/,
  ],
  [
    'a client certificate without key',
    at('tls', { TEMPORAL_TLS_CLIENT_CERT_PATH: LOOPBACK_TLS.certificateFile }),
    'INVALID_INPUT',
    /certificate, but not the key/,
    /TEMPORAL_TLS_CLIENT_KEY_PATH/,
  ],
  [
    'the key of another certificate',
    at('tls', certificate('loopback', 'foreign')),
    'INVALID_INPUT',
    /does not belong/,
    /TEMPORAL_TLS_CLIENT_KEY_PATH/,
  ],
  [
    'a client key with a passphrase',
    () => at('tls', { ...certificate('loopback'), TEMPORAL_TLS_CLIENT_KEY_PATH: file('locked.key') })(),
    'INVALID_INPUT',
    /passphrase/,
    /TEMPORAL_TLS_CLIENT_KEY_PATH/,
  ],
];

/** What both say, of all ways at once: each takes the seconds that a connection is waited for. */
const said = new Map<string, Promise<readonly [Awaited<ReturnType<typeof command>>, Told]>>();
beforeAll(() => {
  for (const [name, env] of WAYS) {
    const both = Promise.all([command(env()), worker(env())]);
    both.catch(() => undefined);
    said.set(name, both);
  }
});

it.each(WAYS)('%s: commands and workers name the cause and what to do', async (name, _, code, cause, next) => {
  const both = said.get(name);
  if (both === undefined) throw new Error('not asked');
  const [{ exit, ...told }, ofWorker] = await both;
  expect(told).toMatchObject({ code, next: expect.stringMatching(next) as string });
  expect([told.message, told.observed, told.needed].join(' ')).toMatch(cause);
  expect(exit).toBe({ TEMPORAL_UNAVAILABLE: 1, INVALID_INPUT: 3, NOT_FOUND: 5 }[code]);
  expect(JSON.stringify(ofWorker)).not.toContain(API_KEY);
  // The two libraries word an answer differently, and each is asked at its own time.
  const compared = ({ observed = '', needed = '', ...rest }: Told) => ({
    ...{ ...rest, observed: observed.split(/(failed|answers):/)[0], needed: needed.replace(/now, .*/, 'now') },
  });
  expect(compared(ofWorker)).toEqual(compared(told));
});

it.each([
  ['status', 'nobody'],
  ['readiness', 'payments'],
  ['abort', 'nobody', '--name', 'ada'],
  ['watch', 'nobody'],
])('in a namespace that does not exist, %s says so', async (...words) => {
  const { message, code } = await command(
    { TEMPORAL_ADDRESS: temporalServer().address, TEMPORAL_NAMESPACE: 'prod' },
    words,
  );
  expect([code, message]).toEqual(['NOT_FOUND', expect.stringContaining('has no namespace "prod"')]);
});

it('with the right CA, a command reaches a server with TLS; with proxy variables of the machine, it bypasses them', async () => {
  const before = process.env['https_proxy'];
  process.env['https_proxy'] = 'http://user:password@127.0.0.1:1';
  try {
    expect((await cli(['list'], { env: at('tls', KNOWN)() })).code).toBe(0);
    const { observed } = await command({ TEMPORAL_ADDRESS: '127.0.0.1:1' });
    expect(observed).toMatch(/https_proxy is set, but Temporal is only ever reached directly/);
    expect(observed).not.toContain('password');
  } finally {
    if (before === undefined) delete process.env['https_proxy'];
    else process.env['https_proxy'] = before;
  }
});

it('a certificate that only workers do not accept is reported as that', async () => {
  // The server's own certificate is a CA.
  const told = await worker(at('tls', KNOWN)());
  expect(told).toMatchObject({
    observed: expect.stringContaining('CaUsedAsEndEntity') as string,
    needed: expect.stringContaining('version 3') as string,
  });
});
