import type { SignalName } from '../../src/contracts/signals';
import { ArrivedSignals } from '../approvals/arrived-signals';
import { currentExecution } from '../execution';

/** A signal by its name and its number among those of this name; `unknown`: those of names that no runbook knows. */
export interface NumberedSignal {
  readonly signal: SignalName | 'unknown';
  readonly arrival: number;
}

/**
 * The events of signals with key shares in plain text: those that are to be purged. Nothing of what they say leaves the
 * worker.
 */
export async function readSignalEvents(input: { readonly signals: readonly NumberedSignal[] }): Promise<{
  readonly events: readonly (NumberedSignal & { readonly eventId: number })[];
}> {
  const { signals } = input;
  const { run } = currentExecution();
  const arrived = new ArrivedSignals(run);
  const events = await Promise.all(
    signals.map(async ({ signal, arrival }) => ({
      signal,
      arrival,
      eventId: (await arrived.of(signal, arrival)).eventId,
    })),
  );
  return { events };
}
