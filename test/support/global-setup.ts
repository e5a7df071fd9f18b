import { obtainTemporalServer } from '../../src/dev-server/start-dev-server';
import type { TemporalServer } from '../../src/dev-server/start-dev-server';
import { keepForTeardown, processNamespace, SERVER_VARIABLE } from './global-server';

/**
 * Starts one in-memory Temporal server for the complete Jest run, with a namespace for each Jest process. Tests get its
 * addresses from an environment variable.
 */
export default async function globalSetup({ maxWorkers }: { readonly maxWorkers: number }): Promise<void> {
  // A complete run needs more memory than a demonstration: near the limit, the server would collect garbage
  // continuously.
  process.env['GOMEMLIMIT'] ??= '1GiB';
  const namespaces = Array.from({ length: Math.max(1, maxWorkers) }, (_, index) => processNamespace(index + 1));
  const server: TemporalServer = await obtainTemporalServer({
    moreNamespaces: namespaces,
    onProgress: (line) => void process.stderr.write(`${line}\n`),
  });
  keepForTeardown(server);
  const { address, httpAddress, uiAddress, namespace } = server;
  process.env[SERVER_VARIABLE] = JSON.stringify({
    ...{ address, httpAddress, uiAddress, namespace },
    // A server that this run did not start does not have these namespaces.
    processNamespaces: server.pid !== undefined ? namespaces : [],
  });
}
