import { alarmsTold } from '../../src/contracts/alarms';
import { UNFIT_SHARES } from '../../src/contracts/ceremony';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import type { StepCalls } from './activity-calls';
import { failureFacts } from './failures';
import type { FailureFacts } from './failures';
import type { Run } from './run';

type Kind = 'operation-token' | 'root-token';

/** Failures that say nothing of what the last call of the activity did. */
const UNTOLD: ReadonlySet<string> = new Set(['ACTIVITY_TIMEOUT', 'WORKER_UNREACHABLE']);

/** The bursts of one ceremony, and those of them whose end nobody told: by cluster. */
export class BurstSettlement {
  readonly #run: Run;
  readonly #untold = new Map<string, Kind>();

  constructor(run: Run) {
    this.#run = run;
  }

  /** Carries out one burst. */
  async during<R>(cluster: string, kind: Kind, burst: () => Promise<R>): Promise<R> {
    this.#untold.set(cluster, kind);
    try {
      const result = await burst();
      this.#untold.delete(cluster);
      return result;
    } catch (error) {
      const failure = failureFacts(error);
      if (failure && !UNTOLD.has(failure.code)) this.#untold.delete(cluster);
      throw error;
    }
  }

  /**
   * Destroys the keys, and settles what the bursts left. Where the worker with the keys is gone any other settles it; what
   * nobody can look at is told as the first thing.
   *
   * @param inHand - root tokens, encrypted to their recipient, that the run hands on
   * @throws what `destroyCeremonyKeys` throws: the keys may be there still
   */
  async destroyKeys(call: StepCalls, ceremony: CeremonyHandle, inHand: readonly string[]): Promise<{ text: string }> {
    const { state } = this.#run;
    const more = () => ({ ...alarmsTold(state.findings), ...(inHand.length > 0 && { inHand }) });
    try {
      const { text, findings } = await call.destroyCeremonyKeys({ ceremony, ...more() });
      state.noteFindings(findings);
      return { text };
    } catch (error) {
      if (!failureFacts(error)) throw error;
      const { cid, threshold } = ceremony;
      await call
        .settleCeremony({ ceremony: { cid, threshold }, ...more() })
        .then(({ findings }) => state.noteFindings(findings))
        .catch((settling: unknown) => {
          if (!failureFacts(settling)) throw settling;
          this.#alarm();
        });
      this.#untold.clear();
      throw error;
    }
  }

  #alarm(): void {
    for (const [cluster, kind] of this.#untold) {
      const what = kind === 'root-token' ? 'A root token' : 'An operation token';
      this.#run.state.finding({
        severity: 'critical',
        code: kind === 'root-token' ? 'orphan-root-token' : 'orphan-token',
        text: `${what} of ${cluster} may exist that nobody holds: the worker ended while key shares were given, and no worker could look at its ledger.`,
        next: 'Start a worker with that ledger directory, then operationTokenDisposal: it names what is left there.',
      });
    }
  }
}

/** Whether the shares in hand do not do: a holder corrects his, or a further one gives. */
export function areUnfit({ code, about }: FailureFacts): boolean {
  return code === 'SHARES_REJECTED' || (code === 'SHARES_MISSING' && about === UNFIT_SHARES);
}

/** Why an epoch is of no use any more. */
export function whyAgain(code: string, epoch: number): string {
  return code === 'SHARE_SETS_USED_UP'
    ? `Every set of key shares that epoch ${epoch} may try was rejected`
    : `The keys of epoch ${epoch} cannot be used (${code})`;
}
