import type { Waiting } from './run-status';

type ApprovalWanted = Extract<Waiting, { for: 'approval' }>;

/**
 * Until when a gate is waited for. The same words in terminal, Web UI and notifications.
 *
 * @param time - how a time is written there
 */
export function untilWhen({ until }: ApprovalWanted, time: (at: number) => string): string {
  return until === undefined ? 'for as long as the outage lasts' : `until ${time(until)}`;
}

/** Why a gate that was met before is asked for again, to be put after another sentence; empty where it is the first time. */
export function askedAgain({ again }: ApprovalWanted): string {
  return again === undefined
    ? ''
    : `. Asked for again: ${again}. What the run holds is kept; whoever approved before approves anew`;
}
