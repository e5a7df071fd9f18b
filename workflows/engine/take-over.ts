import { holdsDeploymentLock } from '../../src/contracts/names';
import type { RunbookName } from '../../src/contracts/names';
import type { DrFailoverInput } from '../../src/contracts/runbook-inputs';
import type { RunState } from './run-state';

/** The input with which a failover asks for the lock of another run; undefined where it does not ask. */
export function takeOverOf(runbook: RunbookName, input: object): DrFailoverInput | undefined {
  if (runbook !== 'drFailover') return undefined;
  const asked = input as DrFailoverInput;
  return asked.takeOver && !asked.dryRun ? asked : undefined;
}

/** Why a failover cannot take this run over, as the code and the text of its receipt; undefined where it can. */
export function cannotTakeOver(
  { deployment, runbook }: RunState,
  input: DrFailoverInput,
): { readonly code: string; readonly text: string } | undefined {
  if (input.deployment !== deployment) return { code: 'other-deployment', text: `this run is about ${deployment}` };
  if (input.dryRun) return { code: 'dry-run', text: 'a dry run takes nothing over: start it on its own' };
  if (!holdsDeploymentLock(runbook)) return { code: 'no-lock', text: `${runbook} holds no lock of a deployment` };
  if (runbook === 'drFailover') return { code: 'failover-already', text: 'this run is a failover already' };
  return undefined;
}
