import type { WalSampling } from '../wal-samples';
import type { StepInput } from './inputs';

/** Merkle checks and reindexing of a DR secondary (interface 4.1), and samples of the WAL. */
export interface TreeActivities {
  /**
   * Takes samples of all clusters at once, `everyMs` from start to start. Never fails because a cluster does not answer.
   */
  sampleWal(
    input: StepInput & { readonly deployment: string; readonly samples: number; readonly everyMs: number },
  ): Promise<WalSampling>;
}
