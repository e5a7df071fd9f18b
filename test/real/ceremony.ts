import type { Report } from '../../src/contracts/report';
import { decrypted, newRecipient } from '../support/recipient';
import type { Recipient } from '../support/recipient';
import { replayRun } from '../support/replay';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { Proxy } from './proxy';
import type { Plan } from './proxy';
import { makeWorkersToken, provenAndRevoked, realService } from './real-service';
import type { RealServer } from './real-service';

export const ATTEMPT = 'POST sys/generate-root/attempt';
export const CANCEL = 'DELETE sys/generate-root/attempt';
export const UPDATE = 'POST sys/generate-root/update';

/** Root token ceremonies of one recipient against a real server, with a proxy in front of each node. */
export class RealCeremonies {
  private constructor(
    private readonly server: RealServer,
    readonly scenario: Scenario,
    readonly proxies: readonly Proxy[],
    readonly recipient: Recipient,
  ) {}

  static async begin(server: RealServer): Promise<RealCeremonies> {
    const recipient = await newRecipient();
    const proxies = await Proxy.startAll(server.addresses);
    const shown = proxies.map(({ address }) => address);
    const scenario = await Scenario.start({
      service: await realService(server, shown),
      makeWorkersToken: (policy) => makeWorkersToken(server, policy),
      rights: { runbooks: ['rootTokenCeremony'] },
      drSets: { main: ['real'] },
      deployment: {
        ceremony: { holders: ['ada', 'bert', 'cleo', 'dora', 'emil'], collectFor: '30m', useFor: '30m' },
      },
    });
    return new RealCeremonies(server, scenario, proxies, recipient);
  }

  async stop(): Promise<void> {
    await this.scenario.stop();
    for (const proxy of this.proxies) await proxy.stop();
  }

  start(more: Readonly<Record<string, unknown>> = {}): Promise<TestRun> {
    const asked = { cluster: 'real', recipientPgpKey: this.recipient.publicKey, ...more };
    return this.scenario.run('rootTokenCeremony', asked);
  }

  /** A run that was started and approved, and has the shares of three holders. */
  async underWay(): Promise<TestRun> {
    const run = await this.start();
    await run.approve('ceremony');
    for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder);
    return run;
  }

  /** Plans something around the nth call of an endpoint, on whichever node. */
  at(endpoint: string, nth: number, what: Pick<Plan, 'before' | 'after'>): void {
    const plan = { endpoint, nth, ...what, seen: 0 };
    for (const proxy of this.proxies) proxy.add(plan);
  }

  /** Does something after the nth share has taken effect; the answer is unchanged. */
  afterShare(nth: number, what: () => Promise<unknown>): void {
    const after = async () => {
      await what();
      return 'unchanged' as const;
    };
    this.at(UPDATE, nth, { after });
  }

  statuses(endpoint: string): number[] {
    return this.proxies.flatMap((proxy) => proxy.statuses(endpoint));
  }

  clear(): void {
    for (const proxy of this.proxies) proxy.clear();
  }

  /** Loses the answer to the last share. @returns a function that returns the encoded token in that answer */
  losesLastAnswer(meanwhile: () => Promise<unknown> = async () => undefined): () => string {
    let encoded = '';
    const after = async (answer: string) => {
      encoded = String((JSON.parse(answer) as Readonly<Record<string, unknown>>)['encoded_token']);
      await meanwhile();
      return 'lost' as const;
    };
    this.at(UPDATE, 3, { after });
    return () => encoded;
  }

  /** Checks that the token is a root token of this server, and revokes it. */
  async goodToken(run: TestRun): Promise<Report> {
    const report = await run.report();
    this.scenario.shows(JSON.stringify(report));
    expect(report).toMatchObject({ outcome: 'completed', result: { cluster: 'real' } });
    await provenAndRevoked(this.server, await decrypted(this.recipient, report));
    await replayRun(run);
    return report;
  }
}

/** Number of shares that holders gave to the run. */
export function sharesGiven(report: Report): number {
  return report.receipts.filter(({ signal }) => signal === 'share').length;
}
