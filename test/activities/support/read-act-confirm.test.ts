/** Read, act, confirm: no request is repeated unless reads prove that the one before had no effect. */
import { setTimeout as delay } from 'node:timers/promises';
import { CancelledFailure } from '@temporalio/common';
import { TIMING } from '../../../activities/deadline';
import type { Execution } from '../../../activities/execution';
import { awaitSettled, awaitState, readActConfirm } from '../../../activities/read-act-confirm';
import type { Change, Changed } from '../../../activities/read-act-confirm';
import type { RunbookError } from '../../../src/errors';
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

/** A change over a world of one flag: `act` says what each request does. */
function change(act: (world: World) => void, more: Partial<Change<boolean>> = {}) {
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
    act: async () => {
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
  /** Whether the activity ends in doubt: `executeChange` then says so of every error. */
  readonly doubt: boolean;
};

async function run(
  act: (world: World) => void,
  more: Partial<Change<boolean>> = {},
  earlier: Partial<Execution['doubt']> = {},
): Promise<Ended> {
  const { world, complete } = change(act, more);
  const here = execution();
  Object.assign(here.doubt, earlier);
  try {
    const result = await readActConfirm(here, complete);
    return { world, result, doubt: here.doubt.mayHaveSent };
  } catch (error) {
    return { world, failure: failedOf(error), doubt: here.doubt.mayHaveSent };
  }
}

const take = (world: World) => {
  world.there = true;
};

describe('a change', () => {
  it('that is there already is not made again', async () => {
    const { world, result } = await run(take, { read: async () => true });
    expect(result).toMatchObject({ outcome: 'already', calls: 0 });
    expect(world.acts).toBe(0);
  });

  it('is made once, and counts as done when it is seen', async () => {
    const { world, result } = await run(take);
    expect(result).toMatchObject({ outcome: 'done', state: true, calls: 1 });
    expect(result?.calledAt).toBeGreaterThan(0);
    expect(world).toMatchObject({ acts: 1, reads: 2 });
  });

  it('whose answer was lost after its effect is not repeated', async () => {
    const { world, result } = await run((world) => {
      world.there = true;
      throw lost();
    });
    expect(result).toMatchObject({ outcome: 'done', calls: 1 });
    expect(world.acts).toBe(1);
  });

  it('whose effect is seen late after a lost answer is not repeated', async () => {
    const { world, result } = await run(
      (world) => {
        setTimeout(() => take(world), 15);
        throw lost();
      },
      { pollMs: 10 },
    );
    expect(result?.outcome).toBe('done');
    expect(world.acts).toBe(1);
  });

  it('whose answer was lost before its effect is repeated once reads agree that it had none', async () => {
    const { world, result } = await run((world) => {
      if (world.acts === 1) throw lost();
      world.there = true;
    });
    expect(result).toMatchObject({ outcome: 'done', calls: 2 });
    expect(world).toMatchObject({ acts: 2 });
    expect(world.reads).toBeGreaterThanOrEqual(5);
  });

  it('is not repeated while the state cannot be read', async () => {
    let acts = 0;
    let reads = 0;
    const { complete } = change(() => undefined, {
      budgetMs: 100,
      read: async () => {
        reads += 1;
        if (acts > 0) throw new TheError('UNREACHABLE', 'away');
        return false;
      },
      act: async () => {
        acts += 1;
        throw lost();
      },
    });
    const failure = failedOf(await readActConfirm(execution(), complete).catch((error: unknown) => error));
    expect(failure).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', details: { outcomeKnown: false } });
    expect([acts, reads > 3]).toEqual([1, true]);
  });

  it('whose answers are all lost ends with an outcome that is not known, after three requests', async () => {
    const { world, failure } = await run(() => {
      throw lost();
    });
    expect(failure).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      retryable: false,
      details: { outcomeKnown: false, observed: 'not there', needed: 'it is there' },
    });
    expect(world.acts).toBe(3);
  });

  it('that was taken but is never seen ends with an outcome that is not known', async () => {
    const { world, failure } = await run(() => undefined, { budgetMs: 50 });
    expect(failure).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', retryable: false, details: { outcomeKnown: false } });
    expect(world.acts).toBe(1);
  });

  it('that is refused for certain is not repeated', async () => {
    const { world, failure } = await run(() => {
      throw new TheError('PERMISSION_DENIED', 'no');
    });
    expect(failure).toMatchObject({ code: 'PERMISSION_DENIED', retryable: false, details: { outcomeKnown: true } });
    expect(world.acts).toBe(1);
  });

  it('that is refused although it is there counts as done', async () => {
    const { result } = await run((world) => {
      world.there = true;
      throw new TheError('BAD_REQUEST', 'already');
    });
    expect(result).toMatchObject({ outcome: 'done', calls: 1 });
  });

  it('that is refused for now is tried again within the budget, and every request is counted', async () => {
    const { world, result } = await run(
      (world) => {
        if (world.acts < 3) throw new TheError('SERVICE_UNAVAILABLE', 'soon', { retryAfterMs: 5 });
        world.there = true;
      },
      { notYet: (error: RunbookError) => error.code === 'SERVICE_UNAVAILABLE' },
    );
    expect(result).toMatchObject({ outcome: 'done', calls: 3 });
    expect(world.acts).toBe(3);
  });

  it('that is refused until the budget ends fails with a known outcome, and Temporal does not try on', async () => {
    const { failure } = await run(
      () => {
        throw new TheError('NOT_CAUGHT_UP', 'behind', { retryAfterMs: 20 });
      },
      { budgetMs: 100, notYet: () => true },
    );
    expect(failure).toMatchObject({ code: 'NOT_CAUGHT_UP', retryable: false, details: { outcomeKnown: true } });
  });

  it('that is refused after a lost answer keeps its doubt', async () => {
    const { world, failure } = await run((world) => {
      throw world.acts === 1 ? lost() : refused();
    });
    expect(failure).toMatchObject({ code: 'SERVICE_UNAVAILABLE', details: { outcomeKnown: false } });
    expect(world.acts).toBe(2);
  });

  it.each([
    ['may be under way for the usual time', undefined],
    ['serves once', 400],
  ])('that is refused after a lost answer keeps its doubt where the clock is set meanwhile: it %s', async (_, ms) => {
    const { now } = Date;
    let stepMs = 0;
    const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() + stepMs);
    const began = performance.now();
    let sent = 0;
    const read = async () => {
      if (sent > 0) stepMs = 60_000;
      return false;
    };
    const act = () => {
      sent += 1;
      throw sent === 1 ? lost() : refused();
    };
    const { failure, doubt } = await run(act, { read, underWayMs: ms });
    clock.mockRestore();
    expect(failure?.code).toBe('SERVICE_UNAVAILABLE');
    // What serves once is not sent again before its time, by a clock that nobody sets.
    expect([sent, doubt, performance.now() - began >= (ms ?? 0)]).toEqual([2, ms === undefined, true]);
  });

  it.each(['REDIRECT_REFUSED', 'RESPONSE_INVALID', 'TLS_FAILED', 'PERMISSION_DENIED'] as const)(
    'whose effect cannot be read any more (%s) keeps its doubt',
    async (code) => {
      let sent = false;
      const { failure, doubt } = await run(
        () => {
          sent = true;
        },
        {
          read: async () => {
            if (sent) throw new TheError(code, 'no', { outcomeKnown: true });
            return false;
          },
        },
      );
      expect([failure?.code, doubt]).toEqual([code, true]);
    },
  );

  it('that must not be repeated after a lost answer keeps its doubt', async () => {
    let acts = 0;
    const { failure, doubt } = await run(
      () => {
        acts += 1;
        throw lost();
      },
      {
        allow: () => {
          if (acts > 0) throw new TheError('PRECONDITION_FAILED', 'neither');
        },
      },
    );
    expect([acts, failure?.code, doubt]).toEqual([1, 'PRECONDITION_FAILED', true]);
  });

  it('that an earlier attempt may have sent: a refusal settles nothing while that request can be under way', async () => {
    const act = () => {
      throw refused();
    };
    const early = await run(act, {}, { mayHaveSent: true });
    expect(early).toMatchObject({ doubt: true, failure: { details: { outcomeKnown: false } } });
  });

  it('that an earlier attempt may have sent long ago: reads that agree settle it', async () => {
    const { failure, doubt, world } = await run(
      (world) => {
        throw new TheError('SERVICE_UNAVAILABLE', 'no', {
          retryable: world.acts < 5,
          outcomeKnown: true,
          retryAfterMs: 5,
        });
      },
      { notYet: (error) => error.retryable, budgetMs: 10_000 },
      { mayHaveSent: true, since: performance.now() - 60_000 },
    );
    expect(failure).toMatchObject({ code: 'SERVICE_UNAVAILABLE', details: { outcomeKnown: true } });
    expect([world.acts, doubt]).toEqual([5, false]);
  });

  it('that serves once is not sent again while the one without an answer can be under way', async () => {
    const { world, result } = await run(
      (world) => {
        if (world.acts > 1) throw refused();
        setTimeout(() => take(world), 150);
        throw lost();
      },
      { underWayMs: 300 },
    );
    expect(result).toMatchObject({ outcome: 'done', calls: 1 });
    expect(world.acts).toBe(1);
  });

  it('that serves once is sent again when it cannot be under way any more, and a refusal then is certain', async () => {
    const began = performance.now();
    const { world, failure, doubt } = await run(
      (world) => {
        throw world.acts === 1 ? lost() : refused();
      },
      { underWayMs: 80, budgetMs: 20 },
    );
    expect(failure).toMatchObject({ code: 'SERVICE_UNAVAILABLE', details: { outcomeKnown: true } });
    expect([world.acts, doubt, performance.now() - began >= 80]).toEqual([2, false, true]);
  });

  it('is not made where what was read forbids it', async () => {
    const { world, failure } = await run(take, {
      allow: () => {
        throw new TheError('PRECONDITION_FAILED', 'neither');
      },
    });
    expect(failure?.code).toBe('PRECONDITION_FAILED');
    expect(world.acts).toBe(0);
  });

  it('is not made after the activity was cancelled', async () => {
    const controller = new AbortController();
    const { world, complete } = change(take, { allow: () => controller.abort() });
    await expect(readActConfirm(execution(controller), complete)).rejects.toBeInstanceOf(CancelledFailure);
    expect(world.acts).toBe(0);
  });

  it('lets an error that is not of the family through, without a second request', async () => {
    const { world, failure } = await run(() => {
      throw new TypeError('a defect');
    });
    expect(failure?.code).toBe('TypeError');
    expect(world.acts).toBe(1);
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
