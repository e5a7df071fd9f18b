import type { BurstInLedger } from '../../src/contracts/activities';
import { alarmsTold } from '../../src/contracts/alarms';
import { UNFIT_SHARES } from '../../src/contracts/ceremony';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import type { StepCalls } from '../engine/activity-calls';
import { failureFacts } from '../engine/failures';
import type { FailureFacts } from '../engine/failures';
import type { Run } from '../engine/run';

type Kind = 'operation-token' | 'root-token';

/** Failures that say nothing of what the last call of the activity did. */
const UNTOLD: ReadonlySet<string> = new Set(['ACTIVITY_TIMEOUT', 'WORKER_UNREACHABLE']);

/**
 * A call that no worker took within this time never began: it waits 30 s for a worker, and a first attempt that ended
 * unheard would have cost 4 s more at the least.
 */
const NEVER_BEGAN_MS = 33_000;

interface Untold {
  readonly cluster: string;
  readonly kind: Kind;
  /** Of the keys: who holds them has the ledger of the burst. */
  readonly epoch: number;
}

/** The bursts of one ceremony, and those of them whose end nobody told. */
export class BurstSettlement {
  readonly #run: Run;
  /** By cluster and epoch: another burst says nothing of one whose worker died, perhaps with a ledger of its own. */
  readonly #untold = new Map<string, Untold>();

  constructor(run: Run) {
    this.#run = run;
  }

  /** Carries out one burst. */
  async during<R>(
    { epoch }: Pick<CeremonyHandle, 'epoch'>,
    cluster: string,
    kind: Kind,
    burst: () => Promise<R>,
  ): Promise<R> {
    const key = `${epoch} ${cluster}`;
    const earlier = this.#untold.has(key);
    this.#untold.set(key, { cluster, kind, epoch });
    const began = Date.now();
    try {
      const result = await burst();
      this.#untold.delete(key);
      return result;
    } catch (error) {
      const failure = failureFacts(error);
      const neverBegan = failure?.code === 'WORKER_UNREACHABLE' && Date.now() - began < NEVER_BEGAN_MS;
      // What one call says of itself says nothing of an earlier one whose end nobody told.
      if (failure && !earlier && (neverBegan || !UNTOLD.has(failure.code))) this.#untold.delete(key);
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
    const { deployment } = state;
    const more = () => ({ deployment, ...alarmsTold(state.findings), ...(inHand.length > 0 && { inHand }) });
    try {
      const { text, bursts = [] } = await call.destroyCeremonyKeys({ ceremony, ...more() });
      this.#alarm((burst) => burst.epoch === ceremony.epoch || isAmong(bursts, burst));
      return { text };
    } catch (error) {
      if (!failureFacts(error)) throw error;
      const { cid, threshold } = ceremony;
      await call
        .settleCeremony({ ceremony: { cid, threshold }, ...more() })
        .then(({ bursts = [] }) => this.#alarm((burst) => isAmong(bursts, burst)))
        .catch((settling: unknown) => {
          if (!failureFacts(settling)) throw settling;
          this.#alarm(() => false);
        });
      throw error;
    }
  }

  /** @param isKnown - whether a ledger that was looked at is the one of the burst: it tells what is left of it */
  #alarm(isKnown: (burst: Untold) => boolean): void {
    const untold = [...this.#untold.values()];
    this.#untold.clear();
    for (const burst of untold) {
      if (isKnown(burst)) continue;
      const { cluster, kind } = burst;
      const what = kind === 'root-token' ? 'A root token' : 'An operation token';
      this.#run.state.finding({
        severity: 'critical',
        code: kind === 'root-token' ? 'orphan-root-token' : 'orphan-token',
        text: `${what} of ${cluster} may exist that nobody holds: the worker ended while key shares were given, and no worker could look at its ledger (epoch ${burst.epoch}).`,
        next: 'Start a worker with that ledger directory, then operationTokenDisposal: it names what is left there.',
      });
    }
  }
}

function isAmong(bursts: readonly BurstInLedger[], { cluster, epoch }: Untold): boolean {
  return bursts.some((each) => each.cluster === cluster && each.epoch === epoch);
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
