import type { EncodedTokenVerdict } from '../../src/contracts/activities';
import type { InboxItem } from '../../src/contracts/signals';
import { checks } from './activity-calls';
import { failureFacts } from './failures';
import { whereItStands } from './plain-shares';
import type { RunState } from './run-state';

/** Gives each encoded token its receipt. A token in plain text is also a finding: it stays in the database of Temporal. */
export function receiveTokenVerdicts(state: RunState, verdicts: readonly EncodedTokenVerdict[]): void {
  for (const { arrival, code, text, eventId } of verdicts) {
    const verdict = code === 'accepted' ? 'accepted' : 'refused';
    state.receipt({ signal: 'submitEncodedToken', arrival, verdict, code, text });
    if (code !== 'plain-text-token') continue;
    const what = `signal submitEncodedToken, number ${arrival}`;
    const finding = {
      severity: 'critical',
      code,
      text: `A token seems to stand in plain text in ${whereItStands({ what, eventId })}. It was refused and copied nowhere, and is in Temporal's database.`,
      next: 'In this order: end that token now (an operation token with operation-token/delete on its cluster, any other by revoking it); finish this run; then delete this run, its resets, exports and backups.',
    } as const;
    state.finding(finding);
    state.notifications.alarm(finding);
  }
}

/** Refuses what is handed in while no ceremony is under way; plain text is noticed all the same. */
export async function refuseTokens(state: RunState, items: readonly InboxItem[]): Promise<void> {
  const arrived = items.map(({ arrival }) => arrival);
  try {
    receiveTokenVerdicts(state, (await checks.checkUnaskedTokens({ deployment: state.deployment, arrived })).verdicts);
  } catch (error) {
    if (!failureFacts(error)) throw error;
    receiveTokenVerdicts(state, notLookedAt(arrived, 'no-ceremony', 'refused: this run waits for no token now'));
  }
}

/** The receipts of what could not be looked at. */
export function notLookedAt(arrived: readonly number[], code: string, text: string): EncodedTokenVerdict[] {
  return arrived.map((arrival) => ({ arrival, code, text }));
}
