import type { ReadinessPoint } from '../../src/contracts/readiness';
import { missingSealKeys } from '../../src/keys';
import type { Deployment } from '../../src/inventory';
import { TokenLedger } from '../ceremony/token-ledger';
import type { Look } from './look';
import { inspect } from './look';
import type { Question } from './point';
import { holds } from './point';
import type { OpenRun } from '../checks/runs';

const SEAL_KEYS: Question = {
  id: 'seal-keys',
  source: 'worker',
  needed: 'this worker opens what the open run and the ledger hold sealed',
  next: 'Put the named entry back into RUNBOOKS_SEAL_KEYS of every worker, behind the one that seals, and restart them.',
};

/** Whether a seal key was taken away too early. */
export function sealKeys(
  look: Look,
  { name }: Deployment,
  lock: Promise<OpenRun | undefined>,
  workflowId: string,
): Promise<ReadinessPoint[]> {
  const { records, sealKeyring, temporal } = look.dependencies;
  return inspect(
    look,
    [SEAL_KEYS],
    async (signal) => {
      const run = await lock;
      const entries = await new TokenLedger(records).open(name);
      const history = run
        ? await temporal.withAbortSignal(signal, () =>
            temporal.workflow.getHandle(workflowId, run.runId).fetchHistory(),
          )
        : undefined;
      return {
        ledger: missingSealKeys(sealKeyring, entries),
        run: missingSealKeys(sealKeyring, history?.events),
      };
    },
    ({ ledger, run }) => {
      const missing = [
        ...run.map((kid) => `the open run needs key ${kid}`),
        ...ledger.map((kid) => `a token in the ledger needs key ${kid}`),
      ];
      const observed = missing.length === 0 ? 'all open' : `${missing.join('; ')}: not in RUNBOOKS_SEAL_KEYS`;
      return holds(SEAL_KEYS, missing.length === 0, 'fail', observed);
    },
  );
}
