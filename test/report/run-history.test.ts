import { defaultPayloadConverter } from '@temporalio/common';
import type { temporal } from '@temporalio/proto';
import { readHistory, tailOf } from '../../src/report/run-history';

type History = temporal.api.history.v1.IHistory;

const payloads = (value: unknown) => ({ payloads: [defaultPayloadConverter.toPayload(value)] });
/** Events with plain numbers where the client has Long: the reader takes both. */
const history = (...events: readonly object[]): History =>
  ({ events: events.map((event, index) => ({ eventId: index + 1, ...event })) }) as unknown as History;
const scheduled = (type: string) => ({
  activityTaskScheduledEventAttributes: { activityType: { name: type }, input: payloads({ cluster: 'west' }) },
});
const failed = (code: string, details?: object) => ({
  activityTaskFailedEventAttributes: {
    scheduledEventId: 1,
    failure: { message: 'm', applicationFailureInfo: { type: code, ...(details && { details: payloads(details) }) } },
  },
});

describe('a failed activity', () => {
  it('says whether its effect is known, and never guesses it', () => {
    const promote = (event: object) => readHistory(history(scheduled('promoteDrSecondary'), event)).activities[0];
    const completed = { activityTaskCompletedEventAttributes: { scheduledEventId: 1, result: payloads({ calls: 1 }) } };
    expect(promote(completed)).toMatchObject({ state: 'completed', input: { cluster: 'west' }, result: { calls: 1 } });
    const known = (event: object) => [promote(event)?.state, promote(event)?.failure?.outcomeKnown];
    expect(known(failed('NOT_CAUGHT_UP'))).toEqual(['failed', true]);
    expect(known(failed('NOT_CAUGHT_UP', { outcomeKnown: false }))).toEqual(['failed', false]);
    for (const code of ['CONNECTION_LOST', 'TypeError', 'SOMETHING_NEW', ''])
      expect(known(failed(code))).toEqual(['failed', false]);
    for (const timeoutType of [1, 3, 4]) {
      const failure = { timeoutFailureInfo: { timeoutType } };
      expect(known({ activityTaskTimedOutEventAttributes: { scheduledEventId: 1, failure } })).toEqual([
        'failed',
        false,
      ]);
    }
  });
});

describe('the end of a history', () => {
  it('says how the run was closed, and which activities Temporal took', () => {
    expect(tailOf(history(scheduled('runHook')))).toBeUndefined();
    const terminated = { workflowExecutionTerminatedEventAttributes: { reason: 'enough' }, principal: { name: 'mia' } };
    expect(tailOf(history(scheduled('runHook'), scheduled('runHook'), terminated))).toEqual({
      close: { how: 'terminated', at: 0, reason: 'enough', by: { name: 'mia', how: 'principal' } },
      ordered: { runHook: 2 },
      events: 3,
    });
  });

  it('quotes no message of an error that is not ours', () => {
    const failure = { message: 'Unexpected token in "canary-7f3a"', applicationFailureInfo: { type: 'SyntaxError' } };
    const tail = tailOf(history({ workflowExecutionFailedEventAttributes: { failure } }));
    expect(tail?.close.failure?.code).toBe('SyntaxError');
    expect(JSON.stringify(tail)).not.toContain('canary-7f3a');
  });
});

it('a history is never trusted to have a shape', () => {
  const results = [null, 7, 'text', [], { plan: 'x', verdicts: 7 }];
  const mangled = results.flatMap((result, index) => [
    scheduled('assessDrSwitchover'),
    { activityTaskCompletedEventAttributes: { scheduledEventId: 2 * index + 1, result: payloads(result) } },
  ]);
  expect(() => readHistory(history(...mangled))).not.toThrow();
  expect(readHistory({})).toMatchObject({ activities: [], eventCount: 0 });
});
