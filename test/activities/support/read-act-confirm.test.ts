/** Read, act, confirm: no request is repeated unless reads prove that the one before had no effect. */
import { setTimeout as delay } from 'node:timers/promises';
import { CancelledFailure } from '@temporalio/common';
import { TIMING } from '../../../activities/deadline';
import type { Execution } from '../../../activities/execution';
import { awaitSettled, awaitState, readActConfirm } from '../../../activities/read-act-confirm';
import type { Change, Changed } from '../../../activities/read-act-confirm';
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
    mayBeGivenUp: async () => false,
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
/** The first request does one thing, the others another. */
const firstThen =
  (first: Act, then: Act): Act =>
  (world) =>
    (world.acts === 1 ? first : then)(world);
const failing =
  (...given: ConstructorParameters<typeof TheError>): Act =>
  () => {
    throw new TheError(...given);
  };
const done = (calls: number) => ({ result: { outcome: 'done', calls } });
const fails = (code: string, outcomeKnown: boolean) => ({
  failure: { code, retryable: false, details: { outcomeKnown } },
});

describe('a change', () => {
  it.each<[what: string, acts: number, ended: object, act: Act, more?: More]>([
    [
      'that is there already is not made again',
      0,
      { result: { outcome: 'already', calls: 0 } },
      take,
      { read: async () => true },
    ],
    ['is made once, and counts as done when it is seen', 1, { ...done(1), world: { reads: 2 } }, take],
    ['whose answer was lost after its effect is not repeated', 1, done(1), (world) => (take(world), lose(world))],
    [
      'whose effect is seen late after a lost answer is not repeated',
      1,
      done(1),
      (world) => (setTimeout(() => take(world), 15), lose(world)),
    ],
    [
      'whose answer was lost before its effect is repeated once reads agree that it had none',
      2,
      { ...done(2), world: { reads: 6 } },
      firstThen(lose, take),
    ],
    [
      'whose answers are all lost ends with an outcome that is not known, after three requests',
      3,
      {
        failure: {
          ...fails('OUTCOME_UNKNOWN', false).failure,
          details: { observed: 'not there', needed: 'it is there' },
        },
      },
      lose,
    ],
    [
      'that was taken but is never seen ends with an outcome that is not known',
      1,
      fails('CONFIRMATION_TIMEOUT', false),
      () => undefined,
      { budgetMs: 50 },
    ],
    [
      'that is refused for certain is not repeated',
      1,
      fails('PERMISSION_DENIED', true),
      failing('PERMISSION_DENIED', 'no'),
    ],
    [
      'that is refused although it is there counts as done',
      1,
      done(1),
      (world) => (take(world), failing('BAD_REQUEST', 'already')(world)),
    ],
    [
      'that is refused for now is tried again within the budget, and every request is counted',
      3,
      done(3),
      (world) => (world.acts < 3 ? failing('SERVICE_UNAVAILABLE', 'soon', { retryAfterMs: 5 }) : take)(world),
      { notYet: (error) => error.code === 'SERVICE_UNAVAILABLE' },
    ],
    [
      'that is refused after a lost answer keeps its doubt',
      2,
      fails('SERVICE_UNAVAILABLE', false),
      firstThen(lose, refuse),
    ],
    [
      'that serves once is not sent again while the one without an answer can be under way',
      1,
      done(1),
      firstThen((world) => (setTimeout(() => take(world), 150), lose(world)), refuse),
      { servesOnce: true, underWayMs: 300 },
    ],
    [
      'is not made where what was read forbids it',
      0,
      { failure: { code: 'PRECONDITION_FAILED' } },
      take,
      { allow: failing('PRECONDITION_FAILED', 'neither') as () => void },
    ],
    [
      'lets an error that is not of the family through, without a second request',
      1,
      { failure: { code: 'TypeError' } },
      () => {
        throw new TypeError('a defect');
      },
    ],
  ])('%s', async (_what, acts, ended, act, more = {}) => {
    const seen = await run(act, more);
    expect(seen).toMatchObject(ended);
    expect(seen.world.acts).toBe(acts);
  });

  it('that is refused until the budget ends fails with a known outcome, and Temporal does not try on', async () => {
    const behind = failing('NOT_CAUGHT_UP', 'behind', { retryAfterMs: 20 });
    expect(await run(behind, { budgetMs: 100, notYet: () => true })).toMatchObject(fails('NOT_CAUGHT_UP', true));
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

  it('whose last look fails is not made, and that leaves no doubt, also without an answer', async () => {
    const { world, complete } = change(take);
    const prepare = () => Promise.reject(new TheError('TLS_FAILED', 'no', { outcomeKnown: false }));
    const failure = await readActConfirm(execution(), { ...complete, prepare }).catch(failedOf);
    expect(failure).toMatchObject(fails('TLS_FAILED', true).failure);
    expect(world.acts).toBe(0);
  });

  it.each([
    ['leaves the activity, for Temporal to try again, where nothing else is asked for', undefined, 1, false],
    ['leaves it in doubt where an earlier attempt may have sent it', undefined, 1, true],
    ['is waited for where the change says so', () => true, 2, false],
  ])('is not made while nobody can say whether this attempt counts: that %s', async (_, notYet, asked, doubt) => {
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
  ])('that is refused after a lost answer keeps its doubt where the clock is set meanwhile: it %s', async (_, ms) => {
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

  it.each(['REDIRECT_REFUSED', 'RESPONSE_INVALID', 'TLS_FAILED', 'PERMISSION_DENIED'] as const)(
    'whose effect cannot be read any more (%s) keeps its doubt',
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

  it('that must not be repeated after a lost answer keeps its doubt', async () => {
    let acts = 0;
    const allow = () => {
      if (acts > 0) throw new TheError('PRECONDITION_FAILED', 'neither');
    };
    const { failure, doubt } = await run((world) => ((acts += 1), lose(world)), { allow });
    expect([acts, failure?.code, doubt]).toEqual([1, 'PRECONDITION_FAILED', true]);
  });

  it('that an earlier attempt may have sent: a refusal settles nothing while that request can be under way', async () => {
    const early = await run(refuse, {}, { mayHaveSent: true });
    expect(early).toMatchObject({ doubt: true, failure: { details: { outcomeKnown: false } } });
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

  it('is not made after the activity was cancelled', async () => {
    const controller = new AbortController();
    const { world, complete } = change(take, { allow: () => controller.abort() });
    await expect(readActConfirm(execution(controller), complete)).rejects.toBeInstanceOf(CancelledFailure);
    expect(world.acts).toBe(0);
  });
});

describe('the state before a request that serves once', () => {
  const polling = { describe: String, needed: 'it is there', budgetMs: 1_000, pollMs: 5 };

  async function settled(takesEffectAfterMs: number, mayHaveSent: boolean) {
    const here = execution();
    here.doubt.mayHaveSent = mayHaveSent;
    const began = performance.now();
    const read = async () => performance.now() - began >= takesEffectAfterMs;
    const hurried = { ...here, timing: { ...TIMING, underWayMs: 100 } };
    const there = await awaitSettled(hurried, { ...polling, read, until: (seen) => seen });
    return { there, doubt: here.doubt.mayHaveSent, waited: performance.now() - began };
  }

  it('is seen late where an earlier attempt sent it', async () => {
    expect(await settled(60, true)).toMatchObject({ there: true, doubt: true });
  });

  it('is settled when what an earlier attempt sent cannot be under way any more', async () => {
    const { there, doubt, waited } = await settled(Infinity, true);
    expect([there, doubt, waited > 100]).toEqual([false, false, true]);
  });

  it('is read once where nothing was sent', async () => {
    const { there, waited } = await settled(Infinity, false);
    expect([there, waited < 100]).toEqual([false, true]);
  });
});

describe('waiting for a state', () => {
  const polling = { describe: (seen: number) => `seen ${seen}`, needed: 'three', budgetMs: 1_000, pollMs: 5 };

  it('waits out errors that may pass, and tells what it saw', async () => {
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

  it('throws errors that do not pass at once', async () => {
    const read = () => Promise.reject(new TheError('TLS_FAILED', 'no'));
    await expect(awaitState(execution(), { ...polling, read, until: () => true })).rejects.toMatchObject({
      code: 'TLS_FAILED',
    });
  });

  it('ends with its budget, and names what was observed and needed', async () => {
    const failure = await awaitState(execution(), {
      ...polling,
      budgetMs: 20,
      read: async () => 1,
      until: () => false,
    }).catch(failedOf);
    expect(failure).toMatchObject({
      code: 'CONFIRMATION_TIMEOUT',
      retryable: false,
      details: { observed: 'seen 1', needed: 'three' },
    });
  });

  it('reads once even where the budget is used up', async () => {
    expect(await awaitState(execution(), { ...polling, budgetMs: 0, read: async () => 7, until: () => true })).toBe(7);
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
