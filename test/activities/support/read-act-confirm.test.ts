/** Read, act, confirm: no request is repeated unless reads prove that the one before had no effect, and no wait ends too early. */
import { setTimeout as delay } from 'node:timers/promises';
import { CancelledFailure } from '@temporalio/common';
import { awaitSettled, awaitState, readActConfirm } from '../../../activities/read-act-confirm';
import type { Execution } from '../../../activities/execution';
import type { Change, Changed } from '../../../activities/read-act-confirm';
import { TIMING } from '../../../activities/timing';
import { RunbookError as TheError } from '../../../src/errors';
import type { Failed } from '../../support/activity-environment';
import { failedOf } from '../../support/activity-environment';

interface World {
  there: boolean;
  acts: number;
  reads: number;
}

function execution(controller = new AbortController()): Execution & { readonly told: string[] } {
  const told: string[] = [];
  const throwIfCancelled = () => {
    if (controller.signal.aborted) throw new CancelledFailure('cancelled');
  };
  return {
    told,
    signal: controller.signal,
    run: { ns: 'n', wid: 'w', rid: 'r' },
    step: undefined,
    doubt: { mayHaveSent: false, since: performance.now() },
    spentMs: 0,
    timing: TIMING,
    progress: (text) => void told.push(text),
    throwIfCancelled,
    assertCurrentAttempt: async () => throwIfCancelled(),
    mayBeReplaced: async () => false,
  };
}

const lost = () => new TheError('CONNECTION_LOST', 'the connection broke');
const refused = (retryable = false) => new TheError('SERVICE_UNAVAILABLE', 'no', { retryable, outcomeKnown: true });

type Act = (world: World) => void;
type More = Partial<Omit<Change<boolean>, 'prepare'>> & { readonly underWayMs?: number | undefined };

/** A change over a world of one flag: `act` says what each request does. */
function change(act: Act, more: More = {}) {
  const world: World = { there: false, acts: 0, reads: 0 };
  const complete: Change<boolean> = {
    read: async () => {
      world.reads += 1;
      return world.there;
    },
    until: (there) => there,
    budgetMs: 1_500,
    describe: (there) => (there ? 'there' : 'not there'),
    needed: 'it is there',
    cluster: 'east',
    pollMs: 10,
    prepare: async () => async () => {
      world.acts += 1;
      act(world);
    },
    ...more,
  };
  return { world, complete };
}

type Ended = {
  readonly world: World;
  readonly result?: Changed<boolean>;
  readonly failure?: Failed;
  /** Whether the activity ends in doubt: `executeActivity` then says so of every error. */
  readonly doubt: boolean;
};

async function run(
  act: Act,
  { underWayMs = TIMING.underWayMs, ...more }: More = {},
  earlier: Partial<Execution['doubt']> = {},
): Promise<Ended> {
  const { world, complete } = change(act, more);
  const here = { ...execution(), timing: { ...TIMING, underWayMs } };
  Object.assign(here.doubt, earlier);
  try {
    const result = await readActConfirm(here, complete);
    return { world, result, doubt: here.doubt.mayHaveSent };
  } catch (error) {
    return { world, failure: failedOf(error), doubt: here.doubt.mayHaveSent };
  }
}

const take: Act = (world) => {
  world.there = true;
};
const lose: Act = () => {
  throw lost();
};
const refuse: Act = () => {
  throw refused();
};
const failing =
  (...given: ConstructorParameters<typeof TheError>): Act =>
  () => {
    throw new TheError(...given);
  };
/** One after the other in one request. */
const both =
  (...acts: readonly Act[]): Act =>
  (world) =>
    acts.forEach((act) => act(world));
/** The first requests do one thing, those after them another. */
const firstThen =
  (first: Act, then: Act, times = 1): Act =>
  (world) =>
    (world.acts <= times ? first : then)(world);
const late =
  (ms: number): Act =>
  (world) =>
    void setTimeout(() => take(world), ms);
const soon = failing('SERVICE_UNAVAILABLE', 'soon', { retryAfterMs: 5 });
const done = (calls: number, reads?: number) => ({
  result: { outcome: 'done', calls },
  ...(reads && { world: { reads } }),
});
const fails = (code: string, outcomeKnown: boolean, more: object = {}) => ({
  failure: { code, retryable: false, details: { outcomeKnown, ...more } },
});
const defect: Act = () => {
  throw new TypeError('a defect');
};
const NOT_SEEN = { observed: 'not there', needed: 'it is there' };
const forbids = failing('PRECONDITION_FAILED', 'neither') as () => void;

describe('a change', () => {
  it.each<[what: string, acts: number, ended: object, act: Act, more?: More]>([
    ['there already', 0, { result: { outcome: 'already', calls: 0 } }, take, { read: async () => true }],
    ['made once, and done when its effect is confirmed', 1, done(1, 2), take],
    ['not repeated after an answer that was lost after its effect', 1, done(1), both(take, lose)],
    ['not repeated if that effect is confirmed late', 1, done(1), both(late(15), lose)],
    ['repeated once reads agree that it had no effect', 2, done(2, 6), firstThen(lose, take)],
    ['given up after three answers that were lost', 3, fails('OUTCOME_UNKNOWN', false, NOT_SEEN), lose],
    ['refused for certain', 1, fails('PERMISSION_DENIED', true), failing('PERMISSION_DENIED', 'no')],
    ['refused although it is there', 1, done(1), both(take, failing('BAD_REQUEST', 'already'))],
    ['refused for now', 3, done(3), firstThen(soon, take, 2), { notYet: ({ code }) => code === 'SERVICE_UNAVAILABLE' }],
    ['refused after a lost answer, and in doubt', 2, fails('SERVICE_UNAVAILABLE', false), firstThen(lose, refuse)],
    [
      'serving once, and not sent again while the one without an answer can be under way',
      1,
      done(1),
      firstThen(both(late(150), lose), refuse),
      { servesOnce: true, underWayMs: 300 },
    ],
    ['forbidden by what was read', 0, { failure: { code: 'PRECONDITION_FAILED' } }, take, { allow: forbids }],
    ['ended by an error that is not of the family', 1, { failure: { code: 'TypeError' } }, defect],
  ])('%s', async (_what, acts, ended, act, more = {}) => {
    const seen = await run(act, more);
    expect(seen).toMatchObject(ended);
    expect(seen.world.acts).toBe(acts);
  });

  it('is not repeated while the state cannot be read', async () => {
    const { world, complete } = change(lose, { budgetMs: 100 });
    const read = async () => {
      if (world.acts > 0) throw new TheError('UNREACHABLE', 'away');
      return complete.read();
    };
    const failure = await readActConfirm(execution(), { ...complete, read }).catch(failedOf);
    expect(failure).toMatchObject(fails('CONFIRMATION_TIMEOUT', false).failure);
    expect(world.acts).toBe(1);
  });

  it('that must not be repeated after a lost answer keeps its doubt', async () => {
    let acts = 0;
    const allow = () => {
      if (acts > 0) throw new TheError('PRECONDITION_FAILED', 'neither');
    };
    const { failure, doubt } = await run((world) => ((acts += 1), lose(world)), { allow });
    expect([acts, failure?.code, doubt]).toEqual([1, 'PRECONDITION_FAILED', true]);
  });

  it('whose last check fails is not made, and that leaves no doubt, also without an answer', async () => {
    const { world, complete } = change(take);
    const prepare = () => Promise.reject(new TheError('TLS_FAILED', 'no', { outcomeKnown: false }));
    const failure = await readActConfirm(execution(), { ...complete, prepare }).catch(failedOf);
    expect(failure).toMatchObject(fails('TLS_FAILED', true).failure);
    expect(world.acts).toBe(0);
  });

  it.each([
    ['leaves the activity, for Temporal to try again, by default', undefined, 1, false],
    ['leaves it in doubt if an earlier attempt may have sent it', undefined, 1, true],
    ['is waited for if the change says so', () => true, 2, false],
  ])('is not made while it is unknown whether this attempt counts: that %s', async (_, notYet, asked, doubt) => {
    const { world, complete } = change(take);
    const here = execution();
    here.doubt.mayHaveSent = doubt;
    let asks = 0;
    const assertCurrentAttempt = async () => {
      asks += 1;
      if (asks === 1) throw new TheError('TEMPORAL_UNAVAILABLE', 'away', { retryable: true, outcomeKnown: true });
    };
    const ended = await readActConfirm({ ...here, assertCurrentAttempt }, { ...complete, ...(notYet && { notYet }) })
      .then(({ outcome }) => outcome)
      .catch(failedOf);
    expect([asks, world.acts, here.doubt.mayHaveSent]).toEqual([asked, asked - 1, doubt]);
    if (notYet) expect(ended).toBe('done');
    else expect(ended).toMatchObject({ code: 'TEMPORAL_UNAVAILABLE', retryable: true });
  });

  it.each([
    ['may be under way for the usual time', undefined],
    ['serves once', 400],
  ])('that is refused after a lost answer keeps its doubt if the clock is set meanwhile: it %s', async (_, ms) => {
    const { now } = Date;
    let stepMs = 0;
    const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() + stepMs);
    const began = performance.now();
    const set: Act = (world) => ((stepMs = 60_000), lose(world));
    const { failure, doubt, world } = await run(firstThen(set, refuse), {
      servesOnce: ms !== undefined,
      underWayMs: ms,
    });
    clock.mockRestore();
    expect(failure?.code).toBe('SERVICE_UNAVAILABLE');
    // What serves once is not sent again before its time, by a clock that nobody sets; a refusal then is certain.
    expect([world.acts, doubt, performance.now() - began >= (ms ?? 0)]).toEqual([2, ms === undefined, true]);
  });

  it.each(['RESPONSE_INVALID', 'TLS_FAILED', 'PERMISSION_DENIED'] as const)(
    'whose effect can no longer be read (%s) keeps its doubt',
    async (code) => {
      let sent = false;
      const read = async () => {
        if (sent) throw new TheError(code, 'no', { outcomeKnown: true });
        return false;
      };
      const { failure, doubt } = await run(() => (sent = true), { read });
      expect([failure?.code, doubt]).toEqual([code, true]);
    },
  );

  it('that an earlier attempt may have sent: a refusal settles it only once that request cannot be under way', async () => {
    const early = await run(refuse, {}, { mayHaveSent: true });
    expect(early).toMatchObject({ doubt: true, failure: { details: { outcomeKnown: false } } });
  });

  it('that an earlier attempt may have sent, and that is confirmed late, does not settle that attempt', async () => {
    const here = { ...execution(), doubt: { mayHaveSent: true, since: performance.now() } };
    const { world, complete } = change(take);
    late(15)(world);
    const seen = await awaitSettled(here, complete);
    expect([seen, here.doubt.mayHaveSent, world.acts]).toEqual([true, true, 0]);
  });

  it('that an earlier attempt may have sent long ago: reads that agree settle it', async () => {
    const { failure, doubt, world } = await run(
      (world) =>
        failing('SERVICE_UNAVAILABLE', 'no', { retryable: world.acts < 5, outcomeKnown: true, retryAfterMs: 5 })(world),
      { notYet: (error) => error.retryable, budgetMs: 10_000 },
      { mayHaveSent: true, since: performance.now() - 60_000 },
    );
    expect(failure).toMatchObject(fails('SERVICE_UNAVAILABLE', true).failure);
    expect([world.acts, doubt]).toEqual([5, false]);
  });
});

describe('the state before a request that serves once', () => {
  it.each([
    ['is settled once what an earlier attempt sent cannot be under way any more', true],
    ['is read once if no request was sent', false],
  ])('%s', async (_, mayHaveSent) => {
    const here = { ...execution(), timing: { ...TIMING, underWayMs: 100 } };
    here.doubt.mayHaveSent = mayHaveSent;
    const began = performance.now();
    const there = await awaitSettled(here, {
      ...{ describe: String, needed: 'it is there', budgetMs: 1_000, pollMs: 5, cluster: 'east' },
      read: async () => false,
      until: (seen) => seen,
    });
    expect([there, here.doubt.mayHaveSent, performance.now() - began > 100]).toEqual([false, false, mayHaveSent]);
  });
});

describe('waiting for a state', () => {
  const polling = { describe: (seen: number) => `seen ${seen}`, needed: 'three', budgetMs: 1_000, pollMs: 5 };

  it('waits out errors that may pass, and reports the observed states', async () => {
    const here = execution();
    let reads = 0;
    const read = async () => {
      reads += 1;
      if (reads === 1) throw new TheError('UNREACHABLE', 'away');
      return reads;
    };
    expect(await awaitState(here, { ...polling, read, until: (seen) => seen >= 3 })).toBe(3);
    expect(here.told).toEqual(['waiting for three; observed UNREACHABLE: away', 'waiting for three; observed seen 2']);
  });

  it('ends at once when the activity is cancelled, in the middle of a pause too', async () => {
    const controller = new AbortController();
    const waiting = awaitState(execution(controller), {
      ...polling,
      budgetMs: 60_000,
      pollMs: 60_000,
      read: async () => 1,
      until: () => false,
    });
    await delay(1);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    await expect(
      awaitState(execution(controller), { ...polling, read: async () => 1, until: () => true }),
    ).rejects.toBeInstanceOf(CancelledFailure);
  });
});

describe('a deadline never ends because of a clock alone', () => {
  const polling = { describe: (seen: number) => `look ${seen}`, needed: 'it is there', cluster: 'east', pollMs: 5 };
  /** What is not there, and may come. */
  const never = { ...polling, until: () => false, notYet: () => true };
  const sending = (act: () => Promise<unknown>) => ({ prepare: () => Promise.resolve(act) });
  const notYet = () => new TheError('SERVICE_UNAVAILABLE', 'not yet', { retryAfterMs: 5, outcomeKnown: true });

  /** What both clocks of this process say: time passes only where the test says so. */
  let clockMs = 0;
  beforeEach(() => {
    clockMs = 1_000_000;
    for (const each of [Date, performance]) jest.spyOn(each, 'now').mockImplementation(() => clockMs);
  });
  afterEach(() => jest.restoreAllMocks());

  /** Looks that are counted; each may do something first. */
  function looks(first: (count: number) => void = () => undefined): () => Promise<number> {
    let count = 0;
    return async () => {
      count += 1;
      first(count);
      return count;
    };
  }

  it('has read four times before it ends, and has made a change three times, however short it is', async () => {
    const soon = () => (clockMs += 1);
    const wait = awaitState(execution(), { ...never, budgetMs: 1, read: looks(soon) });
    expect(await wait.catch(failedOf)).toMatchObject({
      code: 'CONFIRMATION_TIMEOUT',
      message: 'Not observed within 0.001 s: it is there.',
      details: { observed: 'look 4' },
    });

    const act = jest.fn(async () => {
      throw notYet();
    });
    const asked = { ...never, read: looks(soon), budgetMs: 1, ...sending(act) };
    expect(await readActConfirm(execution(), asked).catch(failedOf)).toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      retryable: false,
    });
    expect(act).toHaveBeenCalledTimes(3);
  });

  it('counts from the first attempt of the activity, and leaves time to settle the doubt of an earlier one', async () => {
    const slow = (ms = 1_000) => looks(() => (clockMs += ms));
    const later = { ...execution(), spentMs: 55_000 };
    const wait = awaitState(later, { ...never, budgetMs: 60_000, read: slow() });
    // Five seconds were left, and one look that began after them.
    expect(await wait.catch(failedOf)).toMatchObject({
      message: 'Not observed within 60 s: it is there.',
      details: { observed: 'look 6' },
    });

    const doubt = { mayHaveSent: true, since: clockMs };
    const began = clockMs;
    const act = jest.fn(() => Promise.reject(notYet()));
    const asked = { ...never, read: slow(500), budgetMs: 60_000, ...sending(act) };
    const failure = await readActConfirm({ ...execution(), spentMs: 3_600_000, doubt }, asked).catch(failedOf);
    // Nobody has to find out what the attempt before this one did.
    expect(failure).toMatchObject({ code: 'SERVICE_UNAVAILABLE', details: { outcomeKnown: true } });
    expect(clockMs - began).toBeLessThan(20_000);
  });

  it('leaves half of the budget to confirm an accepted change, whatever earlier attempts spent', async () => {
    let there = false;
    const began = clockMs;
    const act = jest.fn(async () => undefined);
    // The service takes 25 s to show what it took.
    const read = looks(() => {
      clockMs += 1_000;
      there = act.mock.calls.length > 0 && clockMs - began >= 25_000;
    });
    const asked = { ...polling, read, until: () => there, budgetMs: 60_000, ...sending(act) };
    expect(await readActConfirm({ ...execution(), spentMs: 55_000 }, asked)).toMatchObject({
      outcome: 'done',
      calls: 1,
    });
    expect(act).toHaveBeenCalledTimes(1);
  });
});
