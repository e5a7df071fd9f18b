import type { Attested } from '../run-facts';

/** Activities of the roster of a ceremony: who is asked for a key share, and who cannot give one. */
export interface RosterActivities {
  /**
   * Verifies each decline: the attestation that the inventory demands of the holder, this run, this ceremony and epoch.
   * What people send is never in an input: `arrived` holds the numbers of the signals.
   */
  checkDeclines(input: {
    readonly deployment: string;
    readonly ceremony: { readonly cid: string; readonly epoch: number; readonly holders: readonly string[] };
    readonly arrived: readonly number[];
  }): Promise<{
    readonly verdicts: readonly {
      readonly arrival: number;
      readonly accepted: boolean;
      readonly code: string;
      readonly text: string;
      readonly by?: Attested;
      /** Redacted; what an accepted decline says. */
      readonly reason?: string;
      /** The signal's event, where that is to be purged: it holds a key share in plain text. */
      readonly eventId?: number;
    }[];
  }>;
}
