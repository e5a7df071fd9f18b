import { holdsDeploymentLock } from '../../src/contracts/names';
import type { RunbookName } from '../../src/contracts/names';
import type { DrFailoverInput } from '../../src/contracts/runbook-inputs';
import { drFailoverInput } from '../../src/contracts/runbook-inputs';
import { isUndecodable } from '../../src/contracts/signals';
import type { InboxItem } from '../../src/contracts/signals';
import type { RunState } from './run-state';

/** The input with which a failover asks for the lock of another run; undefined where it does not ask. */
export function takeOverOf(runbook: RunbookName, input: object): DrFailoverInput | undefined {
  if (runbook !== 'drFailover') return undefined;
  const parsed = drFailoverInput.safeParse(input);
  return parsed.success && parsed.data.takeOver && !parsed.data.dryRun ? parsed.data : undefined;
}

/** Checks the form of a signal `takeOver`, and gives the failover's input; the receipt, where it cannot count here. */
export function readTakeOver(state: RunState, { arrival, input }: InboxItem): DrFailoverInput | undefined {
  const refuse = (code: string, text: string): undefined => {
    state.receipt({ signal: 'takeOver', arrival, verdict: 'refused', code, text });
    return undefined;
  };
  if (isUndecodable(input))
    return refuse('undecodable', `the payload could not be read (encoding ${input.undecodable}); send JSON`);
  const parsed = drFailoverInput.safeParse(input);
  if (!parsed.success) return refuse('malformed', 'needs the input object of drFailover');
  if (parsed.data.deployment !== state.deployment)
    return refuse('other-deployment', `this run is about ${state.deployment}`);
  if (parsed.data.dryRun) return refuse('dry-run', 'a dry run takes nothing over: start it on its own');
  if (!holdsDeploymentLock(state.runbook)) return refuse('no-lock', `${state.runbook} holds no lock of a deployment`);
  if (state.runbook === 'drFailover') return refuse('failover-already', 'this run is a failover already');
  const { takeOverDocument: _verified, ...asked } = parsed.data;
  return asked;
}
