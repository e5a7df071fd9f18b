/** What a flooded run looks at in each window. */
import { Backlog } from '../../../workflows/engine/flood';
import type { Waiting } from '../../../workflows/engine/flood';

function backlogOf(...names: readonly string[]): Backlog {
  const backlog = new Backlog();
  names.forEach((name, index) => backlog.add(itemOf(name, index + 1)));
  return backlog;
}

function itemOf(name: string, arrival: number): Waiting {
  return { signal: 'decide', arrival, receivedAt: arrival, input: {}, name };
}

const times = (count: number, name: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => name(index));
const arrivals = (taken: readonly Waiting[]) => taken.map(({ arrival }) => arrival);

describe('messages that wait in a flood', () => {
  it('are read twenty at a time, the name that sent last first, until none waits', () => {
    const backlog = backlogOf(...times(30, (index) => `nobody ${index}`));
    expect(arrivals(backlog.take())).toEqual(times(20, String).map((_, index) => 30 - index));
    expect([backlog.take().length, backlog.isEmpty]).toEqual([10, true]);
  });

  it('are shared among the names: a single message is read in the first window, whatever others send', () => {
    const backlog = backlogOf(...times(150, (index) => `nobody ${index % 3}`), 'grace', ...times(40, () => 'nobody 1'));
    expect(arrivals(backlog.take())).toContain(151);
  });

  it.each([0, 5, 10, 20])(
    "include a message of a person within two windows, among a burst of twenty in that person's name, %i of them before it",
    (before) => {
      const backlog = backlogOf(...times(20, () => 'grace'));
      backlog.clear();
      times(before, () => 'grace').forEach((name, index) => backlog.add(itemOf(name, index + 1)));
      backlog.add(itemOf('grace', 1_000));
      times(20 - before, () => 'grace').forEach((name, index) => backlog.add(itemOf(name, 2_000 + index)));
      expect(arrivals([...backlog.take(), ...backlog.take()])).toContain(1_000);
    },
  );

  it('are bounded: dropped ones are counted, and are neither the first nor the newest of their name', () => {
    const backlog = new Backlog();
    let dropped = backlog.add(itemOf('grace', 1));
    for (let arrival = 2; arrival <= 500; arrival += 1) dropped += backlog.add(itemOf('nobody', arrival));
    expect(dropped).toBe(300);
    expect(arrivals(backlog.take())).toEqual(expect.arrayContaining([1, 2, 500]));
    expect(backlog.clear()).toBe(180);
  });
});
