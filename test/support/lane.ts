import { explainFailure } from './explain';
import { expectLost } from './faults';
import type { Scenario } from './scenario';

// A test waits for those of its lane before it.
jest.setTimeout(300_000);

/**
 * A deployment of its own in which the tests of a file run one after the other, beside the other lanes of the file: runs
 * spend most of their time waiting, so that several share two cores well. Each test starts from what the one before left.
 */
export class Lane {
  readonly #cases: (() => Promise<void>)[] = [];
  #scenario: Scenario | undefined;
  /** A secret that was found where the lane ended early. */
  #leak: Error | undefined;
  #why: unknown = new Error('an earlier test of this deployment failed');

  constructor(private readonly open: () => Promise<Scenario>) {}

  /** Adds one case to the lane, and gives the body of the test that tells how it ended. */
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
          await explainFailure(error, this.#scenario ? [this.#scenario] : []);
          await this.close().catch((leak: Error) => (this.#leak = leak));
          reject(error);
        }
      });
    });
    ended.catch(() => undefined);
    return () => ended;
  }

  /** A test of this lane; a group of tests of one lane takes it out: `const { it } = lane`. */
  readonly it = (title: string, body: (scenario: Scenario) => Promise<void>): void => it(title, this.test(body));

  /** Runs all cases, and each test tells its own failure; fails where a secret was found at the end. */
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

/** Runs lanes side by side, while the tests of a file or a group tell how their cases ended. */
export function runLanes(...lanes: readonly Lane[]): void {
  let running: Promise<unknown> = Promise.resolve();
  beforeAll(() => {
    running = Promise.all(lanes.map((lane) => lane.run()));
    // It fails the file below, once every test has told how it ended.
    running.catch(() => undefined);
  });
  afterAll(async () => {
    await running;
  });
}
