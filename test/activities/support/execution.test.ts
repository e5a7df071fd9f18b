/** The border to Temporal: what becomes of errors, cancellation, resets and progress. */
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import type { ActivityDependencies } from '../../../activities';
import { currentExecution, oncePerAttempt, interceptActivities, toFailure } from '../../../activities/execution';
import type { Execution } from '../../../activities/execution';
import { ERROR_CODES, RunbookError } from '../../../src/errors';
import type { ErrorCode } from '../../../src/errors';
import { failedOf, withStep } from '../../support/activity-environment';

const RUN = 'a-run';
const TOKEN = 'hvs.CanaryCanaryCanary0123456789';
const NONCE = '0c7ff7d1-9e7c-4ad4-9f04-2f8ed9d1f5b0';
const SHARE = 'ab12'.repeat(16);

const BORDER = interceptActivities({} as ActivityDependencies);
const step = (more: object = {}) => withStep({ name: 's', number: 1, attempt: 1, originalRunId: RUN, ...more });

function environment(activityType = 'readDeployment', attempt = 1, header = step()): MockActivityEnvironment {
  return new MockActivityEnvironment(
    {
      ...{ activityType, attempt, workflowNamespace: 'default' },
      workflowExecution: { workflowId: 'deployment:payments', runId: RUN },
    },
    { logger: new DefaultLogger('ERROR'), interceptors: [header, BORDER] },
  );
}

const inside = <T>(mock: MockActivityEnvironment, body: () => Promise<T>): Promise<T> =>
  mock.run((_input: object) => body(), { kind: 'dr' });

describe('an error of the family', () => {
  it.each(Object.keys(ERROR_CODES) as ErrorCode[])(
    '%s keeps code, retryability and knowledge of the outcome',
    (code) => {
      const told = { observed: 'a', needed: 'b', next: 'c', cluster: 'east', httpStatus: 503 };
      const failure = toFailure(new RunbookError(code, 'why', told));
      const { retryable, outcomeKnown } = ERROR_CODES[code];
      expect(failedOf(failure)).toEqual({ code, message: 'why', retryable, details: { ...told, outcomeKnown } });
    },
  );

  it('asks Temporal to wait as long as the service requested', () => {
    const failure = toFailure(new RunbookError('RATE_LIMITED', 'slow down', { retryAfterMs: 7_000 }));
    expect((failure as ApplicationFailure).nextRetryDelay).toBe(7_000);
  });

  it('is redacted in its message and in every detail, and its cause does not travel', () => {
    const quoting = `token ${TOKEN}, nonce "${NONCE}", key ${SHARE}`;
    const told = { observed: quoting, needed: quoting, next: quoting, cause: new Error(quoting) };
    const failure = toFailure(new RunbookError('BAD_REQUEST', quoting, told));
    const text = JSON.stringify([failure, failure.message, (failure as ApplicationFailure).details]);
    for (const secret of [TOKEN, NONCE, SHARE]) expect(text).not.toContain(secret);
    expect(failure.cause).toBeUndefined();
  });
});

describe('any other error', () => {
  it('shows its name and none of its quotations', () => {
    const unknown = [new SyntaxError(`Unexpected ${TOKEN}`), new TypeError(SHARE), TOKEN, { token: TOKEN }, undefined];
    for (const error of unknown) {
      const failure = toFailure(error) as ApplicationFailure;
      expect(failure.type).toBe('INTERNAL');
      expect(JSON.stringify([failure, failure.message, failure.stack, failure.details])).not.toContain('Canary');
      expect(failure.message).not.toContain(SHARE);
      expect(failure.details).toEqual([{ outcomeKnown: false }]);
    }
  });

  it('a failure that is one of Temporal’s already stays unchanged', () => {
    const ours = ApplicationFailure.nonRetryable('as it is', 'NOT_APPROVED');
    const cancelled = new CancelledFailure('cancelled');
    expect([toFailure(ours), toFailure(cancelled)]).toEqual([ours, cancelled]);
  });
});

describe('an activity', () => {
  it.each([
    [1, 0],
    [2, 33_000],
  ])('counts the time of attempts before attempt %i, by the clock of the server', async (attempt, spent) => {
    const mock = environment('readDeployment', attempt);
    const scheduled = { scheduledTimestampMs: 5_000, currentAttemptScheduledTimestampMs: 38_000 };
    Object.assign(mock.context.info, scheduled);
    expect(await inside(mock, async () => currentExecution().spentMs)).toBe(spent);
  });

  it('acts in the name of the run of its own context, not of the one in its input', async () => {
    const activity = async (_input: object) => currentExecution().run;
    const seen = await environment().run(activity, { run: { ns: 'other', wid: 'other', rid: 'other' } });
    expect(seen).toEqual({ ns: 'default', wid: 'deployment:payments', rid: RUN });
  });

  it('remembers what it read until the end of its attempt; a failed read is tried again', async () => {
    const remembered = oncePerAttempt<string>();
    const read = jest.fn(async () => 'read');
    read.mockRejectedValueOnce(new Error('not now'));
    const attempt = () =>
      inside(environment(), async () => {
        await remembered('one', read).catch(() => undefined);
        return [await remembered('one', read), await remembered('one', read), await remembered('two', read)];
      });
    expect(await attempt()).toEqual(['read', 'read', 'read']);
    expect(read).toHaveBeenCalledTimes(3);
    await attempt();
    expect(read).toHaveBeenCalledTimes(5);
  });

  const rightBefore = () => {
    currentExecution().throwIfCancelled();
    return new Error('it was not cancelled');
  };
  it.each([
    ['as cancelled, from a pause', () => Object.assign(new Error('x'), { name: 'AbortError' }), 'CancelledFailure'],
    ['as cancelled, from a call', () => new RunbookError('REQUEST_CANCELLED', 'x'), 'CancelledFailure'],
    ['as cancelled, right before a call', rightBefore, 'CancelledFailure'],
    ['with another reason', () => new RunbookError('OUTCOME_UNKNOWN', 'sent before that'), 'OUTCOME_UNKNOWN'],
  ])('that was cancelled ends %s', async (_how, reason, code) => {
    const mock = environment();
    const running = inside(mock, async () => {
      await new Promise((resolve) => currentExecution().signal.addEventListener('abort', resolve));
      throw reason();
    });
    mock.cancel();
    expect(await running.catch(failedOf)).toMatchObject({ code });
  });

  it('reports its progress redacted', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    const mock = environment();
    const heartbeats: unknown[] = [];
    mock.on('heartbeat', (details) => heartbeats.push(details));
    const activity = async () => {
      currentExecution().progress(`waiting with ${TOKEN}`);
      jest.advanceTimersByTime(5_000);
    };
    await inside(mock, activity).finally(() => jest.useRealTimers());
    expect(heartbeats).toEqual(Array.from({ length: 3 }, () => ({ progress: 'waiting with [redacted]' })));
  });
});

describe('a changing activity in a run that was reset', () => {
  const body = jest.fn(async () => 'changed');
  const run = (type: string, header: ReturnType<typeof step>) => inside(environment(type, 1, header), body);
  beforeEach(() => body.mockClear());

  it.each([
    ['RUN_WAS_RESET', step({ originalRunId: 'before' })],
    ['INVALID_INPUT', withStep({})],
  ])('does not say with %s that no request was sent, if an attempt before may have sent it', async (code, header) => {
    const failure = await inside(environment('writeMarker', 2, header), body).catch(failedOf);
    expect(failure).toMatchObject({ code, details: { outcomeKnown: false } });
  });

  it('makes no changes until a decision that names this run acknowledges it', async () => {
    for (const more of [{ originalRunId: 'before' }, { originalRunId: 'before', acknowledgedRunId: 'another' }]) {
      const failure = await run('writeMarker', step(more)).catch(failedOf);
      expect(failure).toMatchObject({ code: 'RUN_WAS_RESET', retryable: false, details: { outcomeKnown: true } });
    }
    expect(body).not.toHaveBeenCalled();
    const acknowledged = step({ originalRunId: 'before', acknowledgedRunId: RUN });
    expect(await run('writeMarker', acknowledged)).toBe('changed');
  });

  it('makes no changes if its step is missing, whether or not its name is known', async () => {
    for (const [type, header] of [
      ['writeMarker', withStep({})],
      ['somethingNew', withStep({ originalRunId: RUN })],
    ] as const)
      expect(await run(type, header).catch(failedOf)).toMatchObject({ code: 'INVALID_INPUT', retryable: false });
    expect(body).not.toHaveBeenCalled();
    expect(await run('readDeployment', withStep({}))).toBe('changed');
  });
});

describe('a changing activity whose request may be under way', () => {
  const known = async (attempt: number, body: (execution: Execution) => void, type = 'writeMarker') => {
    const activity = async () => {
      body(currentExecution());
      throw new RunbookError('PRECONDITION_FAILED', 'no', { observed: 'a' });
    };
    const failure = await inside(environment(type, attempt), activity).catch(failedOf);
    return (failure as { details: Record<string, unknown> }).details;
  };

  it('lets no error say that the outcome is known until reads settled it: not after a lost answer, not in a later attempt', async () => {
    expect(await known(1, () => undefined)).toMatchObject({ observed: 'a', outcomeKnown: true });
    expect(await known(1, ({ doubt }) => (doubt.mayHaveSent = true))).toMatchObject({ outcomeKnown: false });
    expect(await known(2, () => undefined)).toMatchObject({ observed: 'a', outcomeKnown: false });
    expect(await known(2, () => undefined, 'readDeployment')).toMatchObject({ outcomeKnown: true });
    expect(await known(2, ({ doubt }) => (doubt.mayHaveSent = false))).toMatchObject({ outcomeKnown: true });
  });
});
