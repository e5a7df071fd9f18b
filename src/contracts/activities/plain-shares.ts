import type { SignalName } from '../signals';

/** A signal by its name and its number among those of this name; `unknown`: those of names that no runbook knows. */
export interface NumberedSignal {
  readonly signal: SignalName | 'unknown';
  readonly arrival: number;
}

/** Activities about key shares that arrived in plain text. */
export interface PlainShareActivities {
  /** The events of signals in this run's history: those that are to be purged. Content never passes. */
  readSignalEvents(input: { readonly signals: readonly NumberedSignal[] }): Promise<{
    readonly events: readonly (NumberedSignal & { readonly eventId: number })[];
  }>;
}
