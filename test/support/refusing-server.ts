import { once } from 'node:events';
import { connect as connectHttp2, createServer } from 'node:http2';
import type { IncomingHttpHeaders } from 'node:http2';
import type { AddressInfo } from 'node:net';

/** A frontend that denies every request of one method, as an authorizer of the site's own could. */
export async function serverThatDenies(method: string, frontend: string) {
  const upstream = connectHttp2(`http://${frontend}`);
  const server = createServer((incoming, outgoing) => {
    if (incoming.url.endsWith(`/${method}`)) {
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
  return { address: `127.0.0.1:${port}`, stop };
}
