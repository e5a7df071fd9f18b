import type { InboxItem, RunControl } from '../../src/contracts/signals';
import { isUndecodable, runControl } from '../../src/contracts/signals';
import type { RunState } from './run-state';
import { said } from '../../src/contracts/words';

export type ControlSignal = 'pause' | 'resume' | 'abort';

/** A run of characters that could be a key share or a token: it is not repeated anywhere. */
const SECRET_LIKE = /[0-9a-f]{32,}|[A-Za-z0-9+/]{40,}|\bhv[sb]\.[A-Za-z0-9_-]{8,}/i;

/** Checks what a person sent to control the run, gives the receipt, and returns the order where it counts. */
export function receiveControl(
  state: RunState,
  signal: ControlSignal,
  { arrival, input }: InboxItem,
  stopping: boolean,
): RunControl | undefined {
  const refuse = (code: string, text: string): undefined => {
    state.receipt({ signal, arrival, verdict: 'refused', code, text });
    return undefined;
  };
  if (isUndecodable(input)) {
    return refuse('undecodable', `the payload could not be read (encoding ${input.undecodable}); send JSON`);
  }
  const parsed = runControl.safeParse(input);
  if (!parsed.success) return refuse('malformed', 'needs one object {"by": "you", "reason": "why"}');
  const { by, reason, before } = parsed.data;
  if ([by, reason, before ?? ''].some((text) => SECRET_LIKE.test(text))) {
    return refuse('looks-like-secret', 'refused: it seems to hold a secret. Never send one in plain text');
  }
  if (signal === 'abort' && stopping)
    return refuse('already-stopping', 'a stop was asked for already and is under way');
  state.receipt({
    signal,
    arrival,
    verdict: 'accepted',
    code: 'accepted',
    text: before ? heldBefore(state, before) : 'at the next step',
    from: { name: by, how: 'claimed' },
  });
  state.fact({ kind: 'control', control: signal, by, reason, ...(before === undefined ? {} : { before }) });
  return parsed.data;
}

/** What a run that does not know its steps beforehand can say of a pause. */
function heldBefore(state: RunState, name: string): string {
  const ran = state.steps.some((step) => step.name === name);
  return `before "${said(name)}", ${ran ? 'which ran already: if it comes again' : 'if a step of exactly this name comes'}`;
}

/** What people asked to be held, and before which steps. */
export class Pauses {
  #now: RunControl | undefined;
  readonly #named = new Map<string, RunControl>();

  /** Whether the run is held at its next step. */
  get holds(): boolean {
    return this.#now !== undefined;
  }

  ask(control: RunControl): void {
    if (control.before === undefined) this.#now = control;
    else this.#named.set(control.before, control);
  }

  end(): void {
    this.#now = undefined;
    this.#named.clear();
  }

  /** What holds the run before the step of this name. */
  before(name: string): RunControl | undefined {
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
        text: `${said(by)} asked to hold before step "${said(name)}": no step of this name came, and the run was not held.`,
        next: 'Look at the names of the steps in the report; a pause needs one of them, letter by letter.',
      });
    }
    this.#named.clear();
  }
}
