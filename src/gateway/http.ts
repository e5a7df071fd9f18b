import fastify from 'fastify';
import type { FastifyInstance, FastifyServerOptions } from 'fastify';
import { cannotListen, hostAndPort } from './listening';

/** An open door. */
export interface OpenDoor {
  /** Where it listens, with the port. */
  readonly address: string;
  close(): Promise<void>;
}

export interface HttpDoor {
  /** `host:port` */
  readonly address: string;
  /** PEM. Absent: plain HTTP. */
  readonly tls?: { readonly certificate: Buffer; readonly key: Buffer } | undefined;
  readonly limits: Required<Pick<FastifyServerOptions, 'bodyLimit' | 'connectionTimeout'>>;
  readonly mostConnections: number;
}

/** How long a request may take to arrive. */
const REQUEST_MS = 10_000;

/**
 * Opens a door of the gateway that speaks HTTP.
 *
 * @param serve - adds the routes
 * @throws RunbookError `INVALID_INPUT` if it cannot listen
 */
export async function openHttpDoor(
  { address, tls, limits, mostConnections }: HttpDoor,
  serve: (app: FastifyInstance) => void,
): Promise<OpenDoor> {
  const app: FastifyInstance = fastify({
    ...limits,
    requestTimeout: REQUEST_MS,
    forceCloseConnections: true,
    ...(tls && { https: { cert: tls.certificate, key: tls.key } }),
  });
  app.server.maxConnections = mostConnections;
  serve(app);
  const { host, port } = hostAndPort(address);
  try {
    await app.listen({ host, port });
  } catch (error) {
    await app.close();
    throw cannotListen(address, error instanceof Error ? error.message : 'unknown');
  }
  const { port: bound } = app.server.address() as { readonly port: number };
  return { address: address.replace(/:\d+$/, `:${bound}`), close: async () => app.close() };
}
