import type { PlainShareActivities } from '../../src/contracts/activities';
import { ArrivedSignals } from '../approvals/arrived-signals';
import { execute } from '../execution';

/** Key shares that arrived in plain text: where they stand. Nothing of what they say leaves the worker. */
export function createPlainShareActivities(): PlainShareActivities {
  return {
    readSignalEvents: execute(async ({ signals }, { run }) => {
      const arrived = new ArrivedSignals(run);
      const events = await Promise.all(
        signals.map(async ({ signal, arrival }) => ({
          signal,
          arrival,
          eventId: (await arrived.of(signal, arrival)).eventId,
        })),
      );
      return { events };
    }),
  };
}
