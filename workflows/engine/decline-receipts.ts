import { workflowInfo } from '@temporalio/workflow';
import type { DeclineVerdict } from '../../activities/approvals/people';
import { nextOfDecline, withNext } from '../../src/contracts/receipts';
import type { Declined } from '../../src/contracts/run-status';
import type { InboxItem } from '../../src/contracts/signals';
import type { RunState } from './run-state';

/** What became of declines, one by one. */
export type DeclineVerdicts = readonly DeclineVerdict[];

/**
 * Gives each decline its receipt.
 *
 * @param held - whose shares are in hand: they have nothing left to decline
 * @returns those that count
 */
export function receiveDeclines(state: RunState, verdicts: DeclineVerdicts, held: readonly string[]): Declined[] {
  return verdicts.flatMap(({ arrival, accepted, code, text, by, reason, eventId }): Declined[] => {
    const refuse = (why: string, words: string): Declined[] => {
      const next = nextOfDecline(why, { workflowId: workflowInfo().workflowId, holder: by?.name });
      const receipt = { signal: 'decline', arrival, verdict: 'refused', code: why, from: by } as const;
      state.receipt({ ...receipt, text: withNext(words, next) });
      return [];
    };
    if (code === 'plain-text-share') {
      state.finding({
        severity: 'critical',
        code: 'plain-text-share',
        text: `A key share seems to stand in plain text in a decline (signal decline, number ${arrival} of this run, event ${eventId ?? 'unknown'}). It is now in Temporal's database.`,
        next: 'Finish this run, rekey the cluster, then delete this run, its resets, exports and backups.',
      });
    }
    if (!accepted || !by) return refuse(code, text);
    if (held.includes(by.name)) return refuse('share-in-hand', 'the key share of this holder is in hand already');
    state.receipt({ signal: 'decline', arrival, verdict: 'accepted', code, text, from: by });
    return [{ by, reason: reason ?? '' }];
  });
}

/** Refuses what arrives while nobody is asked for a key share. */
export function refuseDeclines(state: RunState, items: readonly InboxItem[]): Promise<void> {
  for (const { arrival } of items) {
    const next = nextOfDecline('no-ceremony', { workflowId: workflowInfo().workflowId });
    const text = withNext('refused: this run asks for no key shares now', next);
    state.receipt({ signal: 'decline', arrival, verdict: 'refused', code: 'no-ceremony', text });
  }
  return Promise.resolve();
}
