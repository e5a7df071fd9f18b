import { CancellationScope, condition, workflowInfo } from '@temporalio/workflow';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { NotificationEvent, NotificationSeverity } from '../../src/contracts/notifications';
import type { Declined, Waiting } from '../../src/contracts/run-status';
import { canSatisfyGroups, groupRule, groupStates } from '../../src/contracts/share-groups';
import type { InboxItem } from '../../src/contracts/signals';
import { checks } from '../engine/activity-calls';
import { receiveDeclines } from '../engine/holder-signals';
import type { DeclineVerdict } from '../../activities/approvals/people';
import { NOT_CHECKED, checked } from '../engine/failures';
import type { Run } from '../engine/run';

type SharesWanted = Extract<Waiting, { for: 'shares' }>;

/** What is in hand: whose shares, and how many are needed before the next burst. */
export interface InHand {
  readonly held: readonly string[];
  readonly needed: number;
}

/** What the collection of shares tells the roster of itself. */
interface Collecting {
  readonly inHand: () => InHand;
  /** Shows anew what is waited for, where it is waited for. */
  readonly show: () => void;
  /** Tells people outside of the run, with what is waited for now. */
  readonly tell: (event: NotificationEvent, text: string, severity?: NotificationSeverity) => void;
}

/**
 * Who is asked for a key share in one epoch. Stand-by holders are named in the invitation with the others, and asked when
 * shares are missing after a while or somebody who was asked declines. Nobody is ever refused because of his place in
 * it: who stands by may give early, and who declined may give all the same.
 */
export class Roster {
  readonly #run: Run;
  readonly #ceremony: CeremonyHandle;
  readonly #collecting: Collecting;
  /** Who stands by and is not asked yet. */
  #standBy: readonly string[];
  readonly #askStandByAt: number;
  readonly #declined = new Map<string, Declined>();
  #toldTooFew = '';
  /** Whether the holders were asked anew meanwhile, with a roster of its own. */
  #superseded = false;

  /** @param before - the roster of the epoch before: who was called in stays called in; declines were for that epoch */
  constructor(run: Run, ceremony: CeremonyHandle, collecting: Collecting, before: Roster | undefined) {
    this.#run = run;
    this.#ceremony = ceremony;
    this.#collecting = collecting;
    const { standBy = [], inviteStandByAfterMs = 0, holders } = ceremony;
    if (before) before.#superseded = true;
    this.#standBy = before ? standBy.filter((name) => before.waitsAside(name)) : standBy;
    this.#askStandByAt = Date.now() + inviteStandByAfterMs;
    const names = holders.filter((name) => !this.#standBy.includes(name));
    this.#run.state.fact({ kind: 'holders-asked', epoch: ceremony.epoch, as: 'holder', names, why: 'invited' });
  }

  /** Whether somebody stands by and was not asked. */
  waitsAside(name: string): boolean {
    return this.#standBy.includes(name);
  }

  /** Whether these shares are enough, by the service's threshold and by our policy of groups. */
  suffices({ held, needed }: InHand): boolean {
    const { groups = [], threshold } = this.#ceremony;
    return held.length >= needed && canSatisfyGroups(groups, held, threshold);
  }

  /** What is waited for, and from whom. */
  waiting({ held, needed }: InHand): SharesWanted {
    const { cid, epoch, holders, collectUntil, threshold, groups = [], outOfTerm = [], recovery } = this.#ceremony;
    const declined = [...this.#declined.values()].filter(({ by }) => !held.includes(by.name));
    const open = this.#mayStillGive(held);
    const aside = open.filter((name) => this.#standBy.includes(name));
    const states = groupStates(groups, held, open);
    const each = states.every((state) => state.held.length >= state.needed);
    return {
      for: 'shares',
      cid,
      epoch,
      held,
      missingHolders: holders.filter((name) => open.includes(name) && !aside.includes(name)),
      threshold: needed,
      until: collectUntil,
      ...(recovery && { recovery }),
      ...(aside.length > 0 && { standBy: { holders: aside, askedFrom: this.#askStandByAt } }),
      ...(declined.length > 0 && { declined }),
      ...(groups.length > 0 && { groups: states }),
      ...(each && held.length >= needed && !canSatisfyGroups(groups, held, threshold) && { groupsNotTogether: true }),
      ...(outOfTerm.length > 0 && { outOfTerm }),
    };
  }

  /** What to say where the time to collect ended. */
  notInTime(): string {
    const { held, needed } = this.#collecting.inHand();
    const { missingHolders, declined = [], groups = [] } = this.waiting({ held, needed });
    const lacking = groups.filter((each) => each.held.length < each.needed).map(({ group }) => group);
    return [
      `only ${held.length} of ${needed} key shares came in time; not yet: ${listed(missingHolders)}`,
      ...(declined.length > 0 ? [`declined: ${listed(declined.map(({ by }) => by.name))}`] : []),
      ...(lacking.length > 0 ? [`groups that lack shares: ${listed(lacking)}`] : []),
    ].join('; ');
  }

  /**
   * While shares are missing: asks who stands by when their time has come, at once where somebody declined before.
   *
   * @param over - whether the collecting has ended
   */
  watch(over: () => boolean): void {
    this.#lookForTooFew();
    if (this.#standBy.length === 0) return;
    const { held } = this.#collecting.inHand();
    const decliners = [...this.#declined.keys()].filter((name) => !held.includes(name) && !this.waitsAside(name));
    if (decliners.length > 0) return this.#callStandBy(`${decliners.join(' and ')} declined`);
    const late = `shares were still missing after ${inMinutes(this.#ceremony.inviteStandByAfterMs ?? 0)}`;
    const leftMs = this.#askStandByAt - Date.now();
    if (leftMs <= 0) return this.#callStandBy(late);
    // Beside the wait: it costs a timer only where somebody stands by.
    void CancellationScope.nonCancellable(async () => {
      const ended = await condition(() => over() || this.#standBy.length === 0, leftMs);
      if (!ended) this.#callStandBy(late);
    });
  }

  /** Checks declines as they arrive, and gives the receipts. All that one does is that stand-by holders are asked. */
  async decline(items: readonly InboxItem[]): Promise<void> {
    const { cid, epoch, holders } = this.#ceremony;
    const { state } = this.#run;
    const { deployment } = state;
    const arrived = items.map(({ arrival }) => arrival);
    const known = await checked(() => checks.checkDeclines({ deployment, ceremony: { cid, epoch, holders }, arrived }));
    const verdicts = known
      ? this.#ofThisRound(known.verdicts)
      : arrived.map((arrival) => ({ arrival, accepted: false, ...NOT_CHECKED }));
    const counted = receiveDeclines(state, verdicts, this.#collecting.inHand().held);
    for (const declined of counted) this.#declined.set(declined.by.name, declined);
    this.#afterDecline(counted.map(({ by }) => by.name));
  }

  /** Who is asked anew may well be able to give: what was checked while the round ended counts in neither. */
  #ofThisRound(verdicts: readonly DeclineVerdict[]): readonly DeclineVerdict[] {
    if (!this.#superseded) return verdicts;
    const text = 'refused: it is for another round of this ceremony; say it again for the present one';
    return verdicts.map((each) => (each.accepted ? { ...each, accepted: false, code: 'refused', text } : each));
  }

  /** Says who was asked in vain, where the rest cannot be enough any more. */
  #afterDecline(names: readonly string[]): void {
    if (names.length === 0 || this.suffices(this.#collecting.inHand())) return;
    const asked = names.filter((name) => !this.waitsAside(name));
    if (asked.length > 0 && this.#standBy.length > 0) this.#callStandBy(`${asked.join(' and ')} declined`);
    else this.#collecting.show();
    this.#lookForTooFew();
  }

  #callStandBy(why: string): void {
    const called = this.#mayStillGive(this.#collecting.inHand().held).filter((name) => this.waitsAside(name));
    this.#standBy = [];
    if (called.length === 0) return;
    const { state } = this.#run;
    state.fact({ kind: 'holders-asked', epoch: this.#ceremony.epoch, as: 'stand-by', names: called, why });
    this.#collecting.show();
    const text = `${state.runbook} now asks who stands by, ${called.join(' and ')}, for a key share: ${why}.`;
    this.#collecting.tell('stand-by-called', text);
  }

  /** Invited, not in hand and not declined. */
  #mayStillGive(held: readonly string[]): string[] {
    return this.#ceremony.holders.filter((name) => !held.includes(name) && !this.#declined.has(name));
  }

  #lookForTooFew(): void {
    const { held, needed } = this.#collecting.inHand();
    const open = this.#mayStillGive(held);
    const possible: InHand = { held: [...held, ...open], needed };
    const declined = [...this.#declined.keys()].filter((name) => !held.includes(name));
    const key = `${needed} ${declined.join(',')}`;
    if (this.suffices(possible) || this.#toldTooFew === key) return;
    this.#toldTooFew = key;
    const { threshold, groups = [] } = this.#ceremony;
    const lacking =
      possible.held.length < needed
        ? `${needed} key shares are needed`
        : `the groups (${groupRule(groups)}) cannot be satisfied by ${threshold} key shares`;
    const text = [
      `Too few key holders are left: ${lacking}; in hand: ${listed(held)};`,
      `can still give: ${listed(open)}; declined: ${listed(declined)}.`,
    ].join(' ');
    const { state } = this.#run;
    const severity = this.#clientsHaveNoPrimary ? 'critical' : 'warning';
    state.finding({ severity, code: 'holders-too-few', text, next: this.#next(declined, held, needed) });
    this.#collecting.show();
    this.#collecting.tell('holders-too-few', text, severity);
  }

  #next(declined: readonly string[], held: readonly string[], needed: number): string {
    const { workflowId } = workflowInfo();
    const again = declined.map(
      (name) => `${name} may give all the same: \`${nextCommandOf.share(workflowId, name)}\`.`,
    );
    const correct =
      needed > this.#ceremony.threshold ? [`${held.join(' or ')} may correct his share: the same command.`] : [];
    const end = this.#run.inOutage
      ? `Or an operator decides for another way: \`${nextCommandOf.status(workflowId)}\` lists the choices.`
      : `Or an operator ends the run: \`${nextCommandOf.control('abort', workflowId)}\`; start again when more holders can be reached or are on the list.`;
    const outage = this.#clientsHaveNoPrimary ? ['No cluster serves clients until then: call them now.'] : [];
    return [...again, ...correct, end, ...outage].join(' ');
  }

  /** A failover is in the outage from its beginning, long before its promotion, which nothing may interrupt. */
  get #clientsHaveNoPrimary(): boolean {
    const { outageSince, serviceBackAt } = this.#run.state;
    return outageSince !== undefined && serviceBackAt === undefined;
  }
}

function listed(names: readonly string[]): string {
  return names.join(', ') || 'nobody';
}

function inMinutes(milliseconds: number): string {
  return milliseconds < 60_000 ? `${milliseconds / 1000} s` : `${Math.round(milliseconds / 60_000)} min`;
}
