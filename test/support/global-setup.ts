import { obtainTemporalServer } from '../../src/dev-server/start-dev-server';
import type { TemporalServer } from '../../src/dev-server/start-dev-server';
import { keepForTeardown, processNamespace, SERVER_VARIABLE } from './global-server';

/**
 * One Temporal server for the whole run of Jest, in memory, with a namespace for each of Jest's processes. Its addresses
 * reach the tests through the environment.
 */
export default async function globalSetup({ maxWorkers }: { readonly maxWorkers: number }): Promise<void> {
  // A whole run needs more than a demonstration: near its limit the server would collect garbage all the time.
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
    // A server of somebody else has none for us.
    processNamespaces: server.pid !== undefined ? namespaces : [],
  });
}
