import type { InboxItem } from '../../src/contracts/signals';

/** Time between two looks at what waits in a flood, ms: two of them, and a check, fit into 20 s. */
export const WINDOW_MS = 9_000;
/** How much of one kind is looked at in each window, and how much of it in one name without waiting. */
const LOOKED_AT = { perKind: 20, perName: 3 };
/** How much of one kind waits. The rest is only counted. */
const MOST_WAITING = 200;

/** A signal that waits for its window. The name is a claim. */
export interface Waiting extends InboxItem {
  readonly name: string;
}

/**
 * The signals of one kind that arrived faster than a run looks at them, oldest first. Who floods in many names is bounded by
 * kind, who floods in one by name.
 */
export class Backlog {
  #waiting: Waiting[] = [];

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /** @returns the number of signals that no longer wait: of the name with the most, one that is neither its first nor its newest */
  add(item: Waiting): number {
    this.#waiting.push(item);
    if (this.#waiting.length <= MOST_WAITING) return 0;
    const [most] = [...byName(this.#waiting).values()].toSorted((one, other) => other.length - one.length);
    const dropped = most?.[Math.min(1, most.length - 1)];
    this.#waiting = this.#waiting.filter((each) => each !== dropped);
    return 1;
  }

  /**
   * Takes what is looked at now: one of each name, beginning with the name that sent last, then another one of each, as long as
   * there is room. Of each name the newest and the first in turns, so that whoever sends in somebody's name, before or after,
   * cannot push out what that person sent.
   */
  take(): readonly Waiting[] {
    const names = [...byName(this.#waiting).values()]
      .toSorted((one, other) => (other.at(-1)?.arrival ?? 0) - (one.at(-1)?.arrival ?? 0))
      .map(newestAndFirst);
    const rounds = Array.from({ length: LOOKED_AT.perKind }, (_, round) =>
      names.flatMap((ofName) => ofName[round] ?? []),
    );
    const taken = new Set(rounds.flat().slice(0, LOOKED_AT.perKind));
    this.#waiting = this.#waiting.filter((each) => !taken.has(each));
    return [...taken];
  }

  /** Removes everything. @returns how much waited */
  clear(): number {
    return this.#waiting.splice(0).length;
  }
}

function newestAndFirst(items: readonly Waiting[]): readonly Waiting[] {
  const newest = items.toReversed();
  return [...new Set(newest.flatMap((item, index) => [item, items[index] ?? item]))];
}

function byName(items: readonly Waiting[]): ReadonlyMap<string, readonly Waiting[]> {
  const named = new Map<string, Waiting[]>();
  for (const item of items) {
    const others = named.get(item.name);
    if (others) others.push(item);
    else named.set(item.name, [item]);
  }
  return named;
}

/** How many of one kind a run takes at once, and how many of these in one name. Then each window gives room for more. */
const AT_ONCE = { perKind: 200, perName: 40 };

/**
 * How many messages of one kind, and of one name in it, may still be looked at: a number at once, and then as many in each
 * window as a backlog gives.
 */
export class Allowance {
  readonly #counted = new Map<string, { readonly total: number; readonly window: number; readonly inWindow: number }>();

  /** Whether one more may be looked at without waiting. */
  has(kind: string, name: string, perWindow: boolean): boolean {
    const [all, ofName] = keysOf(kind, name);
    const isLeft = (key: string, atOnce: number, inWindow: number) => {
      const counted = this.#counted.get(key);
      if ((counted?.total ?? 0) < atOnce) return true;
      return perWindow && (counted?.window === windowNow() ? counted.inWindow : 0) < inWindow;
    };
    return isLeft(all, AT_ONCE.perKind, LOOKED_AT.perKind) && isLeft(ofName, AT_ONCE.perName, LOOKED_AT.perName);
  }

  count(kind: string, name: string): void {
    const window = windowNow();
    for (const key of keysOf(kind, name)) {
      const { total = 0, inWindow = 0, window: last } = this.#counted.get(key) ?? {};
      this.#counted.set(key, { total: total + 1, window, inWindow: last === window ? inWindow + 1 : 1 });
    }
  }
}

function windowNow(): number {
  return Math.floor(Date.now() / WINDOW_MS);
}

function keysOf(kind: string, name: string): readonly [all: string, ofName: string] {
  return [kind, JSON.stringify([kind, name])];
}
