import type { CeremonyHandle, EnvelopeVerdict } from '../ceremony';
import type { Attestation, Finding } from '../run-facts';
import type { RosterActivities } from './roster';
import type { OnDeployment } from './inputs';
import type { SiteFacts } from './results';

/** Somebody who is asked to rehearse. */
export interface RehearsingPerson {
  readonly name: string;
  readonly standBy: boolean;
  readonly attestation: Attestation;
  /** ISO time of the last success that this site knows of. */
  readonly before?: string;
}

/** What an accepted answer proves. */
export interface RehearsalProof {
  readonly name: string;
  readonly how: Attestation;
  readonly tool: string;
  /** ISO time of the signal's event. */
  readonly at: string;
}

/** Activities of the rehearsal of a ceremony. None of them calls the service. */
export interface RehearsalActivities {
  /** Who is asked: holders and stand-by holders whose term has not ended, or those who are named. Reads the inventory. */
  assessRehearsal(
    input: OnDeployment & { readonly holders?: readonly string[] | undefined },
  ): Promise<{ readonly site: SiteFacts; readonly people: readonly RehearsingPerson[] }>;
  /** Makes the key of the rehearsal and its signed invitation. `threshold` of the handle is the number of the invited. */
  createRehearsal(
    input: OnDeployment & {
      readonly holders: readonly string[];
      readonly reason: string;
      readonly requestedBy: string;
      /** A duration such as `2d`. */
      readonly collectFor: string;
      readonly epoch: number;
      readonly cid: string;
      readonly inputDigest: string;
    },
  ): Promise<CeremonyHandle>;
  /**
   * Runs on the queue of the key home, whose record says what the rehearsal is of and who is invited. As `checkDeclines`:
   * records each that counts beside the successes, before it returns. `holders` may leave out who has answered.
   */
  noteRehearsalDeclines(
    input: OnDeployment & {
      readonly ceremony: Pick<CeremonyHandle, 'cid' | 'epoch' | 'keyHome' | 'holders'>;
      readonly arrived: readonly number[];
    },
  ): ReturnType<RosterActivities['checkDeclines']>;
  /**
   * Runs on the queue of the key home. Checks and opens the answers, and records each success of a person beside the
   * ledger, before it returns. `arrived` holds the numbers of the signals.
   */
  openRehearsal(
    input: OnDeployment & { readonly ceremony: CeremonyHandle; readonly arrived: readonly number[] },
  ): Promise<{
    readonly verdicts: readonly EnvelopeVerdict[];
    readonly proofs: readonly RehearsalProof[];
    readonly findings: readonly Finding[];
  }>;
}
