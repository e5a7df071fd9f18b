import { RunbookError } from '../errors';
import { findTemporalServer } from './find-temporal-server';
import { isServing } from './readiness';
import { DEFAULT_NAMESPACE } from './settings';
import { startDevServer } from './start-dev-server';
import type { DevServerOptions, TemporalServerAddresses } from './start-dev-server';

/** A server to work with: one that this process started, or the one that `TEMPORAL_ADDRESS` names. */
export interface TemporalServer extends TemporalServerAddresses {
  /** Whether this process started it. */
  readonly started: boolean;
  /** One line for people: which server this is. */
  readonly description: string;
  /** Ends the server where this process started it, and does nothing where somebody else runs it. */
  stop(): Promise<void>;
}

/**
 * Gives a server that serves: the one that `TEMPORAL_ADDRESS` names, with the namespace of `TEMPORAL_NAMESPACE`, else a
 * dev server started with `options`. For a named server the HTTP API and the Web UI are taken to be on the ports 7243
 * and 8233 of the same host, unless `RUNBOOKS_TEMPORAL_HTTP` and `RUNBOOKS_TEMPORAL_UI` give their base URLs.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE` where there is none, or the named one does not answer.
 */
export async function obtainTemporalServer(options: DevServerOptions): Promise<TemporalServer> {
  const found = await findTemporalServer(options.onProgress === undefined ? {} : { onProgress: options.onProgress });
  if (found.kind === 'executable') {
    const server = await startDevServer({ ...options, executable: found.executable });
    return {
      ...server,
      started: true,
      description: `${server.version}, started by this process (${found.executable.path})`,
    };
  }
  const { address } = found;
  const namespace = process.env['TEMPORAL_NAMESPACE'] ?? options.namespace ?? DEFAULT_NAMESPACE;
  const answer = await isServing(address, namespace, []);
  if (answer !== 'serving') {
    throw new RunbookError(
      'TEMPORAL_UNAVAILABLE',
      `The server of TEMPORAL_ADDRESS, ${address}, does not serve namespace ${namespace}: ${answer}`,
      {
        observed: answer,
        next: 'Start it or correct the address; without TEMPORAL_ADDRESS a dev server is started.',
      },
    );
  }
  const host = address.slice(0, address.lastIndexOf(':'));
  return {
    address,
    httpAddress: process.env['RUNBOOKS_TEMPORAL_HTTP'] ?? `http://${host}:7243`,
    uiAddress: process.env['RUNBOOKS_TEMPORAL_UI'] ?? `http://${host}:8233`,
    namespace,
    started: false,
    description: `the server of TEMPORAL_ADDRESS, ${address}`,
    stop: () => Promise.resolve(),
  };
}
