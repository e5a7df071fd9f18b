import { holdsDeploymentLock } from '../../src/contracts/names';
import { isUndecodable } from '../../src/contracts/signals';
import type { ControlAction, InboxItem } from '../../src/contracts/signals';
import type { Attested, Receipt } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { escapeUntrusted } from '../../src/contracts/words';
import { checks } from './activity-calls';
import { NOT_CHECKED, checked } from './failures';
import type { RunState } from './run-state';

/** What somebody who may decide ordered of the whole run. */
export interface Control {
  readonly arrival: number;
  readonly by: Attested;
  readonly reason: string;
  /** A pause that begins only before the step of this name. */
  readonly before?: string | undefined;
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
      return [{ arrival, by, reason: control.reason, failover, before: control.before }];
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
  const { arrival, by, reason, before } = control;
  state.receipt({ signal: action, arrival, verdict: 'accepted', code: 'accepted', text, from: by });
  const kind = action === 'takeOver' ? 'take-over' : action;
  state.fact({ kind: 'control', control: kind, by: by.name, reason, before });
}

/** What a run that does not know its steps beforehand can say of a pause. */
export function heldBefore(state: RunState, name: string): string {
  const ran = state.steps.some((step) => step.name === name);
  return `before "${escapeUntrusted(name)}", ${ran ? 'which ran already: if it comes again' : 'if a step of exactly this name comes'}`;
}

/** What people asked to be held, and before which steps. */
export class Pauses {
  #now: Control | undefined;
  readonly #named = new Map<string, Control>();

  /** Whether the run is held at its next step. */
  get holds(): boolean {
    return this.#now !== undefined;
  }

  ask(control: Control): void {
    if (control.before === undefined) this.#now = control;
    else this.#named.set(control.before, control);
  }

  end(): void {
    this.#now = undefined;
    this.#named.clear();
  }

  /** What holds the run before the step of this name. */
  before(name: string): Control | undefined {
    const named = this.#named.get(name);
    this.#named.delete(name);
    this.#now = named ?? this.#now;
    return this.#now;
  }

  /** Names of steps are not known beforehand: who asked to hold before one that never came must learn it. */
  tellThoseThatNeverCame(state: RunState): void {
    for (const [name, { by }] of this.#named) {
      state.finding({
        severity: 'info',
        code: 'pause-not-reached',
        text: `${escapeUntrusted(by.name)} asked to hold before step "${escapeUntrusted(name)}": no step of this name came, and the run was not held.`,
        next: 'Look at the names of the steps in the report; a pause needs one of them, letter by letter.',
      });
    }
    this.#named.clear();
  }
}
