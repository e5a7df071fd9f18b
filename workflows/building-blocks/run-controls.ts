import type { InboxItem, RunControl } from '../../src/contracts/signals';
import { isUndecodable, runControl } from '../../src/contracts/signals';
import type { RunState } from './run-state';

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
    text: before ? `before "${before}"` : 'at the next step',
    from: { name: by, how: 'claimed' },
  });
  state.fact({ kind: 'control', control: signal, by, reason, ...(before === undefined ? {} : { before }) });
  return parsed.data;
}
