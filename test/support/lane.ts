import { expectLost } from './faults';
import type { Scenario } from './scenario';

// A test waits for the earlier tests of its lane.
jest.setTimeout(300_000);

/**
 * A deployment in which tests run one after the other, in parallel with the other lanes of the file. Runs mostly wait,
 * so several lanes share two cores well. Each test starts from the state that the previous one left.
 */
export class Lane {
  readonly #cases: (() => Promise<void>)[] = [];
  #scenario: Scenario | undefined;
  /** A secret that was found when the lane ended early. */
  #leak: Error | undefined;
  #why: unknown = new Error('an earlier test of this deployment failed');

  constructor(private readonly open: () => Promise<Scenario>) {}

  /** Adds a case to the lane; returns the body of the test that reports its result. */
  test(body: (scenario: Scenario) => Promise<void>): () => Promise<void> {
    const ended = new Promise<void>((resolve, reject) => {
      this.#cases.push(async () => {
        try {
          if (!this.#scenario) throw this.#why;
          this.#scenario.service.faults.clear();
          this.#scenario.limit();
          this.#scenario.service.calls.length = 0;
          await body(this.#scenario);
          expectLost(this.#scenario);
          resolve();
        } catch (thrown) {
          const error = thrown instanceof Error ? thrown : new Error(String(thrown));
          await this.close().catch((leak: Error) => (this.#leak = leak));
          reject(error);
        }
      });
    });
    ended.catch(() => undefined);
    return () => ended;
  }

  /** Defines a test of this lane. In a group of tests of one lane: `const { it } = lane`. */
  readonly it = (title: string, body: (scenario: Scenario) => Promise<void>): void => it(title, this.test(body));

  /** Runs all cases; each test reports its own failure. Fails if a secret is found at the end. */
  async run(): Promise<void> {
    this.#scenario = await this.open().catch((error: unknown) => {
      this.#why = error;
      return undefined;
    });
    for (const one of this.#cases) await one();
    await this.close();
    if (this.#leak !== undefined) throw this.#leak;
  }

  async close(): Promise<void> {
    const scenario = this.#scenario;
    this.#scenario = undefined;
    await scenario?.stop();
  }
}

/** Runs lanes in parallel, while the tests of a file or a group report the results of their cases. */
export function runLanes(...lanes: readonly Lane[]): void {
  let running: Promise<unknown> = Promise.resolve();
  beforeAll(() => {
    running = Promise.all(lanes.map((lane) => lane.run()));
    // A rejection fails the file in `afterAll`, once every test has reported its result.
    running.catch(() => undefined);
  });
  afterAll(async () => {
    await running;
  });
}
