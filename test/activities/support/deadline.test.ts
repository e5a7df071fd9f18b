/** A deadline never ends on the strength of a clock alone: not right after a standstill, and not before something was tried. */
import { CancelledFailure } from '@temporalio/common';
import { Deadline, TIMING } from '../../../activities/deadline';
import type { Execution } from '../../../activities/execution';
import { awaitState, readActConfirm } from '../../../activities/read-act-confirm';
import { RunbookError } from '../../../src/errors';
import { failedOf } from '../../support/activity-environment';

function execution(): Execution {
  const needed: Partial<Execution> = {
    signal: new AbortController().signal,
    doubt: { mayHaveSent: false, since: performance.now() },
    spentMs: 0,
    timing: TIMING,
    progress: () => undefined,
    throwIfCancelled: () => undefined,
    assertCurrentAttempt: async () => undefined,
  };
  return needed as Execution;
}

const polling = { describe: (seen: number) => `look ${seen}`, needed: 'it is there', cluster: 'east', pollMs: 5 };
const sending = (act: () => Promise<unknown>) => ({ prepare: () => Promise.resolve(act) });
const notYet = () => new RunbookError('SERVICE_UNAVAILABLE', 'not yet', { retryAfterMs: 5, outcomeKnown: true });

/** What both clocks of this process say: time passes only where the test says so. */
let clockMs = 0;
beforeEach(() => {
  clockMs = 1_000_000;
  for (const each of [Date, performance]) jest.spyOn(each, 'now').mockImplementation(() => clockMs);
});
afterEach(() => jest.restoreAllMocks());

/** As a process sees it that was stopped for so long, or a machine that was paused. */
function standStill(ms: number): void {
  clockMs += ms;
}

/** Looks that are counted; each may do something first. */
function looks(first: (count: number) => void = () => undefined): () => Promise<number> {
  let count = 0;
  return async () => {
    count += 1;
    first(count);
    return count;
  };
}

it('looks once more where the process stood still for longer than the deadline', async () => {
  const read = looks((count) => count === 5 && standStill(60_000));
  const seen = await awaitState(execution(), { ...polling, budgetMs: 20_000, read, until: (count) => count === 6 });
  expect(seen).toBe(6);
});

it('sends nothing more where Temporal gave the attempt up meanwhile', async () => {
  const act = jest.fn(async () => {
    throw notYet();
  });
  const given = new CancelledFailure('given up');
  const here = {
    ...execution(),
    assertCurrentAttempt: () => (act.mock.calls.length === 1 ? Promise.reject(given) : Promise.resolve()),
  };
  const asked = {
    ...polling,
    read: looks(),
    until: () => false,
    budgetMs: 20_000,
    notYet: () => true,
    ...sending(act),
  };
  await expect(readActConfirm(here, asked)).rejects.toBe(given);
  expect(act).toHaveBeenCalledTimes(1);
});

it('has looked four times before it ends, and has made a change three times, however short it is', async () => {
  const soon = () => (clockMs += 1);
  const wait = awaitState(execution(), { ...polling, budgetMs: 1, read: looks(soon), until: () => false });
  expect(await wait.catch(failedOf)).toMatchObject({
    code: 'CONFIRMATION_TIMEOUT',
    message: 'Not seen within 0.001 s: it is there.',
    details: { observed: 'look 4' },
  });

  const act = jest.fn(async () => {
    throw notYet();
  });
  const asked = { ...polling, read: looks(soon), until: () => false, budgetMs: 1, notYet: () => true, ...sending(act) };
  expect(await readActConfirm(execution(), asked).catch(failedOf)).toMatchObject({
    code: 'SERVICE_UNAVAILABLE',
    retryable: false,
  });
  expect(act).toHaveBeenCalledTimes(3);
});

it('counts from the first attempt of the activity, and leaves what settles the doubt of an earlier one', async () => {
  const slow = (ms = 1_000) => looks(() => (clockMs += ms));
  const later = { ...execution(), spentMs: 55_000 };
  const wait = awaitState(later, { ...polling, budgetMs: 60_000, read: slow(), until: () => false });
  // Five seconds were left, and one look that began after them.
  expect(await wait.catch(failedOf)).toMatchObject({
    message: 'Not seen within 60 s: it is there.',
    details: { observed: 'look 6' },
  });

  const doubt = { mayHaveSent: true, since: clockMs };
  const began = clockMs;
  const act = jest.fn(() => Promise.reject(notYet()));
  const asked = {
    ...polling,
    read: slow(500),
    until: () => false,
    budgetMs: 60_000,
    notYet: () => true,
    ...sending(act),
  };
  const failure = await readActConfirm({ ...execution(), spentMs: 3_600_000, doubt }, asked).catch(failedOf);
  // Nobody has to find out what the attempt before this one did.
  expect(failure).toMatchObject({ code: 'SERVICE_UNAVAILABLE', details: { outcomeKnown: true } });
  expect(clockMs - began).toBeLessThan(20_000);
});

it('leaves half of the budget to see a change that was taken, whatever earlier attempts spent', async () => {
  let there = false;
  const began = clockMs;
  const act = jest.fn(async () => undefined);
  // The service takes 25 s to show what it took.
  const read = looks(() => {
    clockMs += 1_000;
    there = act.mock.calls.length > 0 && clockMs - began >= 25_000;
  });
  const asked = { ...polling, read, until: () => there, budgetMs: 60_000, ...sending(act) };
  expect(await readActConfirm({ ...execution(), spentMs: 55_000 }, asked)).toMatchObject({ outcome: 'done', calls: 1 });
  expect(act).toHaveBeenCalledTimes(1);
});

it('ends after as many polls as it was given', async () => {
  const deadline = new Deadline(1, 2);
  clockMs += 5;
  const over: boolean[] = [];
  for (let look = 0; look < 2; look += 1) {
    await deadline.poll(async () => undefined);
    over.push(deadline.isOver);
  }
  expect(over).toEqual([false, true]);
});

it('gives a call that was taken at its very end time to be seen', async () => {
  let takenAt = Infinity;
  let calls = 0;
  const result = await readActConfirm(execution(), {
    ...polling,
    // Slow, and not standing still.
    read: looks(() => (clockMs += 400)),
    until: () => clockMs - takenAt >= 1_000,
    budgetMs: 2_400,
    notYet: () => true,
    ...sending(async () => {
      calls += 1;
      if (calls < 5) throw notYet();
      takenAt = clockMs;
    }),
  });
  expect(result).toMatchObject({ outcome: 'done', calls: 5 });
});
