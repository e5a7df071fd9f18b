import type { TemporalServer } from '../../src/dev-server/start-dev-server';

/** Environment variable in which the global set-up gives the server's addresses to the tests' processes. */
export const SERVER_VARIABLE = 'RUNBOOKS_TEST_TEMPORAL_SERVER';

/** The namespace of one of Jest's processes: locks such as `ceremony:west` of two test files must not meet. */
export function processNamespace(number: number): string {
  return `jest-${number}`;
}

// Set-up and teardown may get separate copies of this module; the global object is the same for both.
const KEY = Symbol.for('replication-runbooks.test.temporal-server');
const holder = globalThis as { [KEY]?: TemporalServer };

export function keepForTeardown(server: TemporalServer): void {
  holder[KEY] = server;
}

/** The teardown of Jest. */
export default async function stopKeptServer(): Promise<void> {
  await holder[KEY]?.stop();
  delete holder[KEY];
}
