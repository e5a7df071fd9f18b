import { SeededRandom } from '../../src/simulator/random';

export const HOLDERS = ['ada', 'bert', 'cleo', 'dora', 'emil'] as const;
export type Holder = (typeof HOLDERS)[number];
/** Key shares that make a token. */
export const THRESHOLD = 3;

/** What somebody sends to the run. */
export type Act =
  /** A key share: the holder's own, one with a mistake, another holder's, one of the wrong length, or for another epoch. */
  | { readonly act: 'share'; readonly holder: Holder; readonly share: 'right' | 'wrong' | 'same' | 'short' | 'epoch' }
  /** The holder's last document once more. */
  | { readonly act: 'again'; readonly holder: Holder }
  /** The right share in the place of what the holder sent before. */
  | { readonly act: 'correct'; readonly holder: Holder }
  /** Somebody who is no holder gives a share. */
  | { readonly act: 'stranger' };

const WHATS = [
  'leader changes',
  'leader changes and returns',
  'node restarts',
  'answer lost',
  'connection reset',
  'error 500',
  'answer glued',
  'attempt cancelled',
  'foreign attempt',
  'worker killed',
] as const;
/** Its connection breaks, and it takes effect later: right `after` the next look, or right `before` a cancellation. */
export const LATE = 'share arrives late';

/** What happens to the burst. Each comes once, at the nth call of its kind, before or after the call takes effect. */
export interface Mishap {
  readonly what: (typeof WHATS)[number] | typeof LATE;
  /** `sealed`: the token is sealed and in the ledger, and the activity has not reported. */
  readonly call: 'start' | 'share' | 'sealed';
  /** From 1. */
  readonly nth: number;
  readonly when: 'before' | 'after';
}

/** One order of shares and events, and what people do where the run asks them. */
export interface Order {
  readonly seed: number;
  /** Sent before anybody is invited. */
  readonly early: boolean;
  readonly acts: readonly Act[];
  /** Whether each act waits for the receipt of the one before. */
  readonly oneByOne: boolean;
  /** A share that arrives in the middle of a generation. */
  readonly late: Holder | undefined;
  readonly mishaps: readonly Mishap[];
  /** Somebody's attempt is in the slot before the burst. */
  readonly foreignBefore: boolean;
  /** What people do about an attempt of somebody else. */
  readonly foreign: 'its owner ends it' | 'they give up';
  /** Whether people give what the run asks for after the acts, or leave it at that. */
  readonly people: 'answer' | 'give up';
}

/** The order of one seed: the same each time, as long as nothing is drawn otherwise here. */
export function orderOf(seed: number): Order {
  const random = new SeededRandom(seed).derive('order');
  const chance = (of: number) => random.fraction() < of;
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random.fraction() * list.length)] as T;
  const holders = shuffled(random);

  const acts: Act[] = [];
  // Some orders bring fewer shares than are needed, and some more.
  const count = pick([2, 3, 3, 3, 3, 4, 4, 5]);
  for (const holder of holders.slice(0, count)) {
    const share = chance(0.28) ? pick(['wrong', 'wrong', 'same', 'short', 'epoch'] as const) : 'right';
    acts.push({ act: 'share', holder, share });
    if (chance(0.12)) acts.push({ act: 'again', holder });
    if (share !== 'right' && chance(0.6)) acts.push({ act: 'correct', holder });
    if (chance(0.06)) acts.push({ act: 'stranger' });
  }
  const mishaps: Mishap[] = [];
  for (let left = pick([0, 1, 1, 1, 2, 2]); left > 0; left -= 1) {
    const what = pick(WHATS);
    const call = chance(0.2) ? 'start' : 'share';
    const nth = call === 'start' ? 1 : pick([1, 2, 3, 3, 4]);
    const alwaysAfter = what === 'answer lost' || what === 'answer glued';
    mishaps.push({ what, call, nth, when: alwaysAfter || chance(0.5) ? 'after' : 'before' });
  }
  // Drawn apart: every order without it is what it was before there were late ones.
  const late = new SeededRandom(seed).derive('late arrival');
  if (late.fraction() < 0.12) {
    const nth = [1, 2, 3, 3, 3][Math.floor(late.fraction() * 5)] ?? 3;
    const when = late.fraction() < 0.5 ? 'after' : 'before';
    mishaps.push({ what: LATE, call: 'share', nth, when });
  }
  const killedAtTheEnd = new SeededRandom(seed).derive('killed').fraction() < 0.3;
  // One dead worker is enough for one order: each costs the time in which the server notices.
  const killed = mishaps.filter(({ what }) => what === 'worker killed');
  return {
    seed,
    early: chance(0.1),
    acts: chance(0.3) ? interleaved(acts, random) : acts,
    oneByOne: chance(0.25),
    late: chance(0.15) ? holders.at(-1) : undefined,
    mishaps: mishaps
      .filter((each) => each.what !== 'worker killed' || each === killed[0])
      .map((each) =>
        each === killed[0] && killedAtTheEnd ? { ...each, call: 'sealed', nth: 1, when: 'after' } : each,
      ),
    foreignBefore: chance(0.06),
    foreign: pick(['its owner ends it', 'its owner ends it', 'its owner ends it', 'they give up'] as const),
    people: chance(0.12) ? 'give up' : 'answer',
  };
}

function shuffled(random: SeededRandom): Holder[] {
  const list: Holder[] = [...HOLDERS];
  for (let index = list.length - 1; index > 0; index -= 1) {
    const other = Math.floor(random.fraction() * (index + 1));
    [list[index], list[other]] = [list[other] as Holder, list[index] as Holder];
  }
  return list;
}

/** The acts of different people in any order, those of one person in theirs. */
function interleaved(acts: readonly Act[], random: SeededRandom): Act[] {
  const queues = new Map<string, Act[]>();
  for (const each of acts) {
    const who = each.act === 'stranger' ? 'stranger' : each.holder;
    queues.set(who, [...(queues.get(who) ?? []), each]);
  }
  const order: Act[] = [];
  for (let waiting = [...queues.values()]; waiting.length > 0; waiting = waiting.filter((queue) => queue.length > 0)) {
    const next = waiting[Math.floor(random.fraction() * waiting.length)]?.shift();
    if (next) order.push(next);
  }
  return order;
}
