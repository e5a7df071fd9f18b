import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect as connectHttp2, createServer } from 'node:http2';
import type { IncomingHttpHeaders } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { connect, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

export type Side = 'people' | 'operators';

/** Methods that the proxy lets through: full names as gRPC sends them. */
export function allowedBy(configuration: string): Readonly<Record<Side, ReadonlySet<string>>> {
  const listed = (variable: string) => {
    const [, body = ''] = new RegExp(`map \\$request_uri \\$${variable} \\{([^}]*)\\}`).exec(configuration) ?? [];
    return [...body.matchAll(/^\s*(\/\S+) 1;$/gm)].map(([, path]) => path ?? '');
  };
  const people = listed('people_may');
  return { people: new Set(people), operators: new Set([...people, ...listed('operators_may')]) };
}

/** A proxy in front of a frontend; `addresses` by side. */
export interface PeopleProxy {
  readonly addresses: Readonly<Record<Side, string>>;
  stop(): Promise<void>;
}

/** The lists of the configuration, kept by a few lines of Node: where there is no nginx. */
export async function proxyByList(configuration: string, frontend: string): Promise<PeopleProxy> {
  const allowed = allowedBy(configuration);
  const started = await Promise.all(
    (['people', 'operators'] as const).map(async (side) => {
      const upstream = connectHttp2(`http://${frontend}`);
      const server = createServer((incoming, outgoing) => {
        if (!allowed[side].has(incoming.url)) {
          // Trailers alone, as gRPC calls an answer that ends with its headers.
          outgoing.stream.respond(
            { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '7' },
            { endStream: true },
          );
          return;
        }
        const { ':authority': _authority, connection: _connection, host: _host, ...headers } = incoming.headers;
        const call = upstream.request(headers);
        call.on('response', ({ ':status': status, ...answer }) => {
          outgoing.writeHead(status ?? 502, answer as Record<string, string>);
        });
        call.on('trailers', (trailers: IncomingHttpHeaders) => {
          outgoing.addTrailers(trailers);
        });
        call.on('error', () => outgoing.stream.close());
        outgoing.on('close', () => call.close());
        incoming.pipe(call);
        call.pipe(outgoing);
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const sessions = new Set<{ destroy(): void }>();
      server.on('session', (session) => void sessions.add(session));
      const stop = async () => {
        upstream.destroy();
        for (const session of sessions) session.destroy();
        const closed = once(server, 'close');
        server.close();
        await closed;
      };
      return { side, address: `127.0.0.1:${port}`, stop };
    }),
  );
  return {
    addresses: Object.fromEntries(started.map(({ side, address }) => [side, address])) as Record<Side, string>,
    stop: async () => void (await Promise.all(started.map(({ stop }) => stop()))),
  };
}

/** A certificate with its key, PEM. */
export interface Certified {
  readonly crt: Buffer;
  readonly key: Buffer;
}

/** A proxy with TLS: what to trust, and what each side shows of itself. */
export interface TlsProxy extends PeopleProxy {
  readonly serverRootCACertificate: Buffer;
  readonly clients: Readonly<Record<Side, Certified>>;
}

/** A self-signed certificate for loopback, made by the command line of OpenSSL. */
async function certified(directory: string, name: string): Promise<Certified> {
  const [crt, key] = [join(directory, `${name}.pem`), join(directory, `${name}.key`)];
  const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2', '-nodes'];
  const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-keyout', key, '-out', crt];
  await promisify(execFile)('openssl', [...made, ...subject]);
  return { crt: await readFile(crt), key: await readFile(key) };
}

/**
 * The lines of the configuration that are for production, with certificates of this directory: `people.pem` may use the
 * people's side, `operators.pem` that of the operators.
 */
function withTls(configuration: string, directory: string): string {
  const lines = /^ *# {3}(listen 7235 ssl http2;)\n((?: *# {3}ssl_.*\n)+)/m.exec(configuration);
  const tls = (lines?.[2] ?? '').replaceAll(/^ *# {3}/gm, '').replaceAll('/etc/nginx/tls/', `${directory}/`);
  if (!tls.includes('ssl_verify_client on;')) throw new Error('the configuration says nothing of TLS');
  return configuration
    .replace('listen 127.0.0.1:7235 http2;', `listen 127.0.0.1:7235 ssl http2;\n${tls}`)
    .replace(
      'listen 127.0.0.1:7236 http2;',
      `listen 127.0.0.1:7236 ssl http2;\n${tls.replace('people.pem', 'operators.pem')}`,
    );
}

/** The configuration itself with TLS and client certificates, in an nginx of this machine. */
export async function proxyByNginx(program: string, configuration: string, frontend: string): Promise<TlsProxy> {
  const directory = await mkdtemp(join(tmpdir(), 'people-proxy-'));
  const [proxy, people, operators] = await Promise.all(
    ['proxy', 'people', 'operators'].map((name) => certified(directory, name)),
  );
  if (!proxy || !people || !operators) throw new Error('no certificates');
  const started = await startNginx(program, withTls(configuration, directory), frontend, directory);
  return { ...started, serverRootCACertificate: proxy.crt, clients: { people, operators } };
}

/** On free ports. */
async function startNginx(
  program: string,
  configuration: string,
  frontend: string,
  directory: string,
): Promise<PeopleProxy> {
  const [people = 0, operators = 0] = await Promise.all([freePort(), freePort()]);
  const text = configuration
    .replace('events {}', `events {}\npid ${directory}/pid;\nerror_log ${directory}/error.log;`)
    .replace(
      'access_log off;',
      ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((each) => `${each}_temp_path ${directory}/${each};`)
        .join(' ') + ' access_log off;',
    )
    .replace('server 127.0.0.1:7233;', `server ${frontend};`)
    .replace('listen 127.0.0.1:7235 ', `listen 127.0.0.1:${people} `)
    .replace('listen 127.0.0.1:7236 ', `listen 127.0.0.1:${operators} `);
  await writeFile(join(directory, 'nginx.conf'), text);
  const child = spawn(
    program,
    ['-c', join(directory, 'nginx.conf'), '-p', directory, '-e', join(directory, 'error.log'), '-g', 'daemon off;'],
    { stdio: 'inherit' },
  );
  for (const port of [people, operators]) await accepts(port);
  return {
    addresses: { people: `127.0.0.1:${people}`, operators: `127.0.0.1:${operators}` },
    stop: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
      await rm(directory, { recursive: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function accepts(port: number): Promise<void> {
  for (const deadline = Date.now() + 90_000; ; await delay(30)) {
    const socket = connect(port, '127.0.0.1');
    const open = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (open) return;
    if (Date.now() > deadline) throw new Error(`nothing listens on port ${port}`);
  }
}
