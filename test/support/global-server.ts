import type { TemporalServer } from '../../src/dev-server/start-dev-server';

/** Environment variable with the addresses of the server, from the global setup to the test processes. */
export const SERVER_VARIABLE = 'RUNBOOKS_TEST_TEMPORAL_SERVER';

/** The namespace of one Jest process: locks of two test files, such as `ceremony:west`, must not conflict. */
export function processNamespace(number: number): string {
  return `jest-${number}`;
}

// Setup and teardown may have separate copies of this module, but they share the global object.
const KEY = Symbol.for('replication-runbooks.test.temporal-server');
const holder = globalThis as { [KEY]?: TemporalServer };

export function keepForTeardown(server: TemporalServer): void {
  holder[KEY] = server;
}

/** Jest's global teardown. */
export default async function stopKeptServer(): Promise<void> {
  await holder[KEY]?.stop();
  delete holder[KEY];
}
