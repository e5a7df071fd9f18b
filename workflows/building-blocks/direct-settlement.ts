import type { DirectAttempt } from '../../src/contracts/activities';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { failureFacts } from './failures';
import type { Run } from './run';

/** Why a token may exist that nobody handed in. */
export interface Missing {
  /** Absent where none can. */
  readonly mayExist?: string;
  /** The same, where our attempt is not in the slot any more. */
  readonly ifGone?: string;
}

/** The attempts of one ceremony, and those of them whose end is not settled: by cluster. */
export class DirectSettlement {
  readonly #run: Run;
  readonly #deployment: string;
  readonly #kind: DirectAttempt['kind'];
  readonly #unsettled = new Set<string>();
  readonly #nonces = new Map<string, Set<string>>();

  constructor(run: Run, deployment: string, kind: DirectAttempt['kind']) {
    this.#run = run;
    this.#deployment = deployment;
    this.#kind = kind;
  }

  /**
   * An attempt is in the slot of a cluster.
   *
   * @returns the nonces of all of this ceremony there, to be added to
   */
  begun(cluster: string): Set<string> {
    this.#unsettled.add(cluster);
    const nonces = this.#nonces.get(cluster) ?? new Set<string>();
    this.#nonces.set(cluster, nonces);
    return nonces;
  }

  /** Its token was handed in. */
  settled(cluster: string): void {
    this.#unsettled.delete(cluster);
  }

  async settleAll(ceremony: CeremonyHandle, why: Missing): Promise<void> {
    for (const cluster of [...this.#unsettled]) await this.settle(ceremony, cluster, why);
  }

  /** Frees the slot and settles the ledger; a token that may exist is told as the first thing, whatever fails here. */
  async settle(ceremony: CeremonyHandle, cluster: string, why: Missing): Promise<void> {
    this.#unsettled.delete(cluster);
    let told = false;
    await this.#run.cleanUp(`Settle the attempt on ${cluster}`, async (call) => {
      const { cid, invitation } = ceremony;
      const nonces = [...(this.#nonces.get(cluster) ?? [])];
      const ended = { deployment: this.#deployment, cluster, kind: this.#kind, cid, invitation, nonces, ...why };
      const { findings } = await call.endDirectAttempt({ ...ended, ceremony }).catch((error: unknown) => {
        // Its worker is gone: any other frees the slot.
        if (failureFacts(error)?.code === 'WORKER_UNREACHABLE') return call.endDirectAttempt(ended);
        throw error;
      });
      told = true;
      this.#run.state.noteFindings(findings);
    });
    // Where it failed nobody looked: what would be told of an attempt that is gone is told.
    const mayExist = why.mayExist ?? why.ifGone;
    if (told || mayExist === undefined) return;
    this.#run.state.finding({
      severity: 'critical',
      code: this.#kind === 'root-token' ? 'orphan-root-token' : 'orphan-token',
      text: `A token of ${cluster} may exist that nobody holds: ${mayExist}.`,
      next: `Whoever was shown it hands it in while this run goes on; the attempt in the slot, and the ledger of the worker, could not be settled.`,
    });
  }
}
