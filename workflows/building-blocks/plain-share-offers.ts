import { CancellationScope } from '@temporalio/workflow';
import type { Envelope, EnvelopeVerdict } from '../../src/contracts/ceremony';
import { plainShareHolder, plainShareStep } from '../../src/contracts/plain-shares';
import { isStop } from './failures';
import type { Choice } from './parking';
import { AFTER_PLAIN_SHARE, whereItStands } from './plain-shares';
import type { Run } from './run';
import { said } from '../../src/contracts/words';

/** What stands in the collection of shares for a share in plain text that was accepted. */
export interface AcceptedPlainShare {
  readonly holder: string;
  readonly seq: number;
  readonly envelope: Envelope;
}

/** What the collection tells of itself, and how it takes a share. */
interface Collecting {
  /** Whether shares are missing. */
  readonly wanted: () => boolean;
  readonly take: (accepted: AcceptedPlainShare) => void;
}

const CHOICES: readonly Choice[] = [
  {
    action: 'use-share',
    effect:
      'use this key share, which others can read: the cluster must be rekeyed after the run. As many approvers as gate promote needs, and two at least, must decide it',
    needsTwo: true,
  },
  { action: 'leave', effect: 'do not use it: wait for shares that holders seal' },
];

/**
 * Key shares that arrived in plain text while a failover collects shares. Clients have no primary and the share is
 * exposed already: two approvers may take it, beside the collection, which goes on. In any other run it stays refused.
 */
export class PlainShareOffers {
  readonly #run: Run;
  readonly #collecting: Collecting;
  /** By the number of the signal: the event, and whether people are asked, were asked, or took it. */
  readonly #seen = new Map<
    number,
    { readonly eventId?: number | undefined; state: 'new' | 'asked' | 'left' | 'used' }
  >();

  constructor(run: Run, collecting: Collecting) {
    this.#run = run;
    this.#collecting = collecting;
  }

  /** Those that were accepted: they need no keys, and stay in hand when the holders are invited again. */
  get accepted(): AcceptedPlainShare[] {
    return [...this.#seen].filter(([, { state }]) => state === 'used').map(([arrival]) => acceptedShare(arrival));
  }

  note(verdicts: readonly EnvelopeVerdict[]): void {
    for (const { arrival, eventId, usable } of verdicts) {
      if (usable && !this.#seen.has(arrival)) this.#seen.set(arrival, { eventId, state: 'new' });
    }
    this.offer();
  }

  /** Asks about every share that nobody decided about, where shares are missing. */
  offer(): void {
    if (this.#run.state.runbook !== 'drFailover' || !this.#collecting.wanted()) return;
    for (const [arrival, { state }] of this.#seen) {
      if (state === 'new') void CancellationScope.nonCancellable(() => this.#ask(arrival));
    }
  }

  async #ask(arrival: number): Promise<void> {
    const share = this.#seen.get(arrival);
    if (!share) return;
    share.state = 'asked';
    const where = whereItStands({ what: `signal share, number ${arrival}`, eventId: share.eventId });
    const failure = {
      code: 'PLAIN_TEXT_SHARE',
      message: `A key share arrived in plain text in ${where}, and was refused. Shares are still missing, and clients have no primary: approvers of gate promote may take it all the same.`,
      needed: 'nothing: the holders may still give sealed shares, which is better',
      next: 'Its holder seals it with `runbook share`; or approvers of gate promote decide, two at least.',
      outcomeKnown: true,
    };
    try {
      const over = () => !this.#collecting.wanted();
      const decision = await this.#run.decisionWhile(plainShareStep(arrival), failure, CHOICES, over);
      share.state = decision === undefined ? 'new' : decision.action === 'use-share' ? 'used' : 'left';
      if (share.state === 'used') this.#take(arrival, where, decision?.reason ?? '');
    } catch (error) {
      if (!isStop(error)) throw error;
    }
  }

  #take(arrival: number, where: string, reason: string): void {
    const { state } = this.#run;
    const text = `Approvers of gate promote accepted the key share that stands in plain text in ${where}: ${said(reason)}.`;
    const finding = { severity: 'critical', code: 'rekey-needed', text, next: AFTER_PLAIN_SHARE } as const;
    state.finding(finding);
    state.notifications.alarm(finding);
    state.leftToDo.push(`Rekey the clusters of ${state.deployment}. ${text} ${AFTER_PLAIN_SHARE}`);
    this.#collecting.take(acceptedShare(arrival));
  }
}

function acceptedShare(arrival: number): AcceptedPlainShare {
  return { holder: plainShareHolder(arrival), seq: 0, envelope: { plainShare: arrival } };
}
