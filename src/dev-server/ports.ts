import { createServer } from 'node:net';
import type { AddressInfo, Server } from 'node:net';

/**
 * `count` different TCP ports that are free on loopback at this moment. Another process may take one before the caller
 * does: the caller has to notice and ask again.
 */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = [];
  try {
    // All are held open together, or the system could give the same port twice.
    for (let index = 0; index < count; index += 1) servers.push(await listenOnLoopback());
    return servers.map((server) => (server.address() as AddressInfo).port);
  } finally {
    await Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))));
  }
}

function listenOnLoopback(): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve(server));
  });
}
