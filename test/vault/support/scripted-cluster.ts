import { ServiceClient } from '../../../src/vault';
import type { ServiceClientOptions } from '../../../src/vault';
import type { RunbookError } from '../../../src/errors';
import { ScriptedServer } from './scripted-server';

/** What a test starts and `release` ends. */
export class ScriptedCluster {
  readonly warnings: string[] = [];
  private readonly endings: (() => Promise<void>)[] = [];

  async node(): Promise<ScriptedServer> {
    const server = await ScriptedServer.start();
    this.endings.unshift(() => server.stop());
    return server;
  }

  client(
    addresses: readonly string[],
    options: ServiceClientOptions & { readonly caFile?: string } = {},
  ): ServiceClient {
    const target = { name: 'east', addresses, caFile: options.caFile };
    const client = new ServiceClient(target, { onWarning: (warning) => this.warnings.push(warning), ...options });
    this.endings.unshift(() => client.close());
    return client;
  }

  async release(): Promise<void> {
    for (const end of this.endings.splice(0)) await end();
    this.warnings.length = 0;
  }
}

/** One active node and its client, of their own for each test of a group. */
export function openNode(give: (node: ScriptedServer, client: ServiceClient) => void): ScriptedCluster {
  const cluster = new ScriptedCluster();
  beforeEach(async () => {
    const node = (await cluster.node()).active();
    give(node, cluster.client([node.address]));
  });
  afterEach(() => cluster.release());
  return cluster;
}

/** The error that a call must end in. */
export async function failureOf(call: Promise<unknown>): Promise<RunbookError> {
  return call.then(
    (value) => {
      throw new Error(`the call succeeded: ${JSON.stringify(value, (_, member: unknown) => String(member))}`);
    },
    (error: RunbookError) => error,
  );
}
