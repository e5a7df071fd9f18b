import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import type { SimulatedService } from '../../src/simulator';

/**
 * What a failover leaves: `former` is cut off and still takes itself for the primary, `next` was promoted by force, and
 * clients that nobody fenced wrote on both.
 */
export async function splitPrimaries(
  { service }: { readonly service: SimulatedService },
  former: string,
  next: string,
): Promise<void> {
  const [from, to] = [service.cluster(former), service.cluster(next)];
  service.partition(former, next);
  const token = to.tokens.createOperationToken(service.now());
  const agent = new Agent();
  const [address = ''] = to.addresses;
  const { statusCode, body } = await request(`${address}/v1/sys/replication/dr/secondary/promote`, {
    dispatcher: agent,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ dr_operation_token: token, force: true }),
  });
  await body.dump();
  await agent.close();
  if (statusCode >= 300) throw new Error(`${next} was not promoted: status ${statusCode}`);
  for (service.advance(); to.leadership.serving(service.now()) === undefined; service.advance()) await delay(10);
  to.tokens.deleteOperationToken(token, service.now());
  from.write('secret/after-the-split', { on: former });
  to.write('secret/after-the-split', { on: next });
}

/** Receives the calls of hooks: what is done, and the status that is answered, by the last part of the path. */
export class HookReceiver {
  readonly calls: string[] = [];
  readonly #actions = new Map<string, () => number | Promise<number>>();

  private constructor(private readonly server: Server) {}

  static async start(): Promise<HookReceiver> {
    const server = createServer((incoming, response) => {
      const name = (incoming.url ?? '').split('/').at(-1) ?? '';
      incoming.resume();
      receiver.calls.push(name);
      void Promise.resolve(receiver.#actions.get(name)?.() ?? 204).then((status) => response.writeHead(status).end());
    });
    const receiver: HookReceiver = new HookReceiver(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return receiver;
  }

  url(name: string): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/${name}`;
  }

  /** What the next calls of a hook do. */
  on(name: string, action: () => number | Promise<number>): void {
    this.#actions.set(name, action);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
