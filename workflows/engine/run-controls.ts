import { isUndecodable } from '../../src/contracts/signals';
import type { ControlAction, InboxItem } from '../../src/contracts/signals';
import type { Attested, Receipt } from '../../src/contracts/run-facts';
import type { DrFailoverInput } from '../../src/contracts/runbook-inputs';
import { escapeUntrusted } from '../../src/contracts/words';
import { checks } from './activity-calls';
import { failureFacts } from './failures';
import type { RunState } from './run-state';
import { cannotTakeOver } from './take-over';

/** What somebody who may decide ordered of the whole run. */
export interface Control {
  readonly arrival: number;
  readonly by: Attested;
  readonly reason: string;
  /** A pause that begins only before the step of this name. */
  readonly before?: string | undefined;
  /** Of `takeOver`: the input of the failover. */
  readonly failover?: DrFailoverInput | undefined;
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
    void refused.push({ signal: action, arrival, verdict: 'refused', code, text, ...(from && { from }) });
  try {
    const arrived = items.map(({ arrival }) => arrival);
    const { deployment } = state;
    const { verdicts, missing } = await checks.checkControls({ deployment, action, arrived, before, requestedBy });
    const orders = verdicts.flatMap(({ arrival, accepted, code, text, by, control, failover }): readonly Control[] => {
      const cannot = failover && cannotTakeOver(state, failover);
      if (cannot) {
        refuse(arrival, cannot.code, cannot.text, by);
        return [];
      }
      if (!accepted || !by || !control) {
        refuse(arrival, code, text, by);
        return [];
      }
      const { reason, before: step, digest } = control;
      if (digest !== undefined && used.has(digest)) {
        refuse(arrival, 'repeated', 'this very document counted before: each counts once', by);
        return [];
      }
      if (digest !== undefined) used.add(digest);
      return [{ arrival, by, reason, failover, ...(step === undefined ? {} : { before: step }) }];
    });
    return { orders, missing };
  } catch (error) {
    if (!failureFacts(error)) throw error;
    for (const { arrival, input } of items)
      refuse(arrival, isUndecodable(input) ? 'undecodable' : 'not-checked', 'could not be checked now; send it again');
    return { orders: [], missing: [] };
  } finally {
    state.receiptsOf(refused);
  }
}

/** The receipt of an order that counts, and its place in the report. */
export function noteControl(state: RunState, action: ControlAction, control: Control, text: string): void {
  const { arrival, by, reason, before } = control;
  state.receipt({ signal: action, arrival, verdict: 'accepted', code: 'accepted', text, from: by });
  const kind = action === 'takeOver' ? 'take-over' : action;
  state.fact({ kind: 'control', control: kind, by: by.name, reason, ...(before === undefined ? {} : { before }) });
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
