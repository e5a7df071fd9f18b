import { workflowInfo } from '@temporalio/workflow';
import type { EnvelopeVerdict } from '../../src/contracts/ceremony';
import { holdsKeyShare } from '../../src/contracts/plain-shares';
import { ENVELOPE_VERDICTS, nextOfShare, withNext } from '../../src/contracts/receipts';
import type { InboxItem } from '../../src/contracts/signals';
import { checks } from './activity-calls';
import { failureFacts } from './failures';
import { notePlainShare } from './plain-shares';
import type { RunState } from './run-state';

/** Gives each envelope its receipt. A key share in plain text is also a finding: it stays in the database of Temporal. */
export function receiveVerdicts(state: RunState, verdicts: readonly EnvelopeVerdict[], gives?: 'token'): void {
  for (const { arrival, code, text, holder, eventId } of verdicts) {
    const verdict = code === 'accepted' ? 'accepted' : 'refused';
    const { workflowId } = workflowInfo();
    const next = nextOfShare(code, { workflowId, holder: holder?.name, how: holder?.how, gives });
    state.receipt({ signal: 'share', arrival, verdict, code, text: withNext(text, next), from: holder });
    if (code === 'plain-text-share') notePlainShare(state, { what: `signal share, number ${arrival}`, eventId });
  }
}

/** Refuses what arrives while no ceremony is under way; plain text is noticed all the same. */
export async function refuseShares(state: RunState, items: readonly InboxItem[]): Promise<void> {
  try {
    const { verdicts } = await checks.checkUnaskedShares({
      deployment: state.deployment,
      arrived: items.map(({ arrival }) => arrival),
    });
    receiveVerdicts(state, verdicts);
  } catch (error) {
    if (!failureFacts(error)) throw error;
    const text = 'refused: this run collects no key shares now';
    receiveVerdicts(
      state,
      items.map(({ arrival, input }) =>
        holdsKeyShare(input)
          ? { arrival, code: 'plain-text-share', text: ENVELOPE_VERDICTS['plain-text-share'] }
          : { arrival, code: 'no-ceremony', text },
      ),
    );
  }
}
