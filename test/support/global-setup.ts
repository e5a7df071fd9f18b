import { obtainTemporalServer } from '../../src/dev-server';
import type { TemporalServer } from '../../src/dev-server';
import { keepForTeardown, SERVER_VARIABLE } from './global-server';

/** One Temporal server for the whole run of Jest, in memory. Its addresses reach the tests through the environment. */
export default async function globalSetup(): Promise<void> {
  const server: TemporalServer = await obtainTemporalServer({
    persistence: 'memory',
    onProgress: (line) => void process.stderr.write(`${line}\n`),
  });
  keepForTeardown(server);
  const { address, httpAddress, uiAddress, namespace } = server;
  process.env[SERVER_VARIABLE] = JSON.stringify({ address, httpAddress, uiAddress, namespace });
}
