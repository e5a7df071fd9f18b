import { once } from 'node:events';
import { connect as connectHttp2, createServer } from 'node:http2';
import type { IncomingHttpHeaders } from 'node:http2';
import type { AddressInfo } from 'node:net';

export type Side = 'people' | 'operators';

/** The methods that the proxy forwards, by the full names that gRPC sends. */
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

/** A minimal proxy that enforces the lists of the configuration. */
export async function proxyByList(configuration: string, frontend: string): Promise<PeopleProxy> {
  const allowed = allowedBy(configuration);
  const started = await Promise.all(
    (['people', 'operators'] as const).map(async (side) => {
      const upstream = connectHttp2(`http://${frontend}`);
      const server = createServer((incoming, outgoing) => {
        if (!allowed[side].has(incoming.url)) {
          // "Trailers-Only" in gRPC: an answer that ends with its headers.
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
