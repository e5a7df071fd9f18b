import { holdsDeploymentLock } from '../../src/contracts/names';
import { isUndecodable } from '../../src/contracts/signals';
import type { ControlAction, InboxItem } from '../../src/contracts/signals';
import type { Attested, Receipt } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { checks } from './activity-calls';
import { NOT_CHECKED, checked } from './failures';
import type { RunState } from './run-state';

/** What somebody who may decide ordered of the whole run. */
export interface Control {
  readonly arrival: number;
  readonly by: Attested;
  readonly reason: string;
  /** Of `takeOver`: the input of the failover. */
  readonly failover?: InputOf<'drFailover'> | undefined;
}

/** Where the orders of one name are looked at, with what was ordered before. */
interface Ordered {
  readonly action: ControlAction;
  /** Documents that counted: each does so once. */
  readonly used: Set<string>;
  /** Who ordered a take-over before, and who asked for that failover. */
  readonly before?: readonly Attested[];
  readonly requestedBy?: string | undefined;
}

/**
 * Has the documents of orders verified, and gives the receipts of those that do not count.
 *
 * @returns the orders that count; of `takeOver` also who else must order it inside an outage
 */
export async function checkControls(
  state: RunState,
  { action, used, before = [], requestedBy }: Ordered,
  items: readonly InboxItem[],
): Promise<{ readonly orders: readonly Control[]; readonly missing: readonly string[] }> {
  const refused: Receipt[] = [];
  const refuse = (arrival: number, code: string, text: string, from?: Attested) =>
    void refused.push({ signal: action, arrival, verdict: 'refused', code, text, from });
  const { deployment } = state;
  const arrived = items.map(({ arrival }) => arrival);
  const known = await checked(() => checks.checkControls({ deployment, action, arrived, before, requestedBy }));
  const orders = known?.verdicts.flatMap(({ arrival, accepted, code, text, by, control, failover }): Control[] => {
    const cannot = failover && cannotTakeOver(state, failover);
    const repeated = control?.digest !== undefined && used.has(control.digest);
    if (cannot) refuse(arrival, cannot.code, cannot.text, by);
    else if (!accepted || !by || !control) refuse(arrival, code, text, by);
    else if (repeated) refuse(arrival, 'repeated', 'this very document counted before: each counts once', by);
    else {
      if (control.digest !== undefined) used.add(control.digest);
      return [{ arrival, by, reason: control.reason, failover }];
    }
    return [];
  });
  if (!orders)
    for (const { arrival, input } of items)
      refuse(arrival, isUndecodable(input) ? 'undecodable' : NOT_CHECKED.code, NOT_CHECKED.text);
  state.receiptsOf(refused);
  return { orders: orders ?? [], missing: known?.missing ?? [] };
}

/** Why a failover cannot take this run over, as the code and the text of its receipt; undefined where it can. */
function cannotTakeOver(
  { deployment, runbook }: RunState,
  input: InputOf<'drFailover'>,
): { readonly code: string; readonly text: string } | undefined {
  if (input.deployment !== deployment) return { code: 'other-deployment', text: `this run is about ${deployment}` };
  if (input.dryRun) return { code: 'dry-run', text: 'a dry run takes nothing over: start it on its own' };
  if (!holdsDeploymentLock(runbook)) return { code: 'no-lock', text: `${runbook} holds no lock of a deployment` };
  if (runbook === 'drFailover') return { code: 'failover-already', text: 'this run is a failover already' };
  return undefined;
}

/** The receipt of an order that counts, and its place in the report. */
export function noteControl(state: RunState, action: ControlAction, control: Control, text: string): void {
  const { arrival, by, reason } = control;
  state.receipt({ signal: action, arrival, verdict: 'accepted', code: 'accepted', text, from: by });
  const kind = action === 'takeOver' ? 'take-over' : action;
  state.fact({ kind: 'control', control: kind, by: by.name, reason });
}
