import { createHash } from 'node:crypto';
import type { temporal } from '@temporalio/proto';
import { renderHtml, renderMarkdown } from '../../src/report/render';
import { digestOf, markIn, readHistory, tailOf } from '../../src/report/run-history';
import { reportOf } from '../../src/report/report-of-run';
import { IDENTITY, RunBuilder } from './support/run-builder';
import { defaultPayloadConverter } from '@temporalio/common';

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
  it('shows how the run was closed, and which activities Temporal accepted', () => {
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

/** The digest of a history: the form is the one that `digestOf` tells, to the letter. */

/** As the client gives it, with plain numbers where it has Long. */
const event = (eventId: number, eventType: number, attributes: object) => ({
  ...{ eventId, eventType, eventTime: { seconds: 1_700_000_000, nanos: 5 } },
  ...attributes,
});
const STARTED = event(1, 1, {
  workflowExecutionStartedEventAttributes: {
    workflowType: { name: 'readiness' },
    input: { payloads: [{ metadata: { encoding: new Uint8Array([1]) }, data: new Uint8Array([123, 125]) }] },
    someMemberOfALaterServer: 'does not count',
  },
  principal: { type: 'jwt', name: 'olga' },
});
const TASK = event(2, 5, { workflowTaskScheduledEventAttributes: { attempt: 1 } });
const COMPLETED = event(3, 2, { workflowExecutionCompletedEventAttributes: {} });
const historyOf = (...events: readonly object[]) => ({ events }) as unknown as History;
const LINES = [
  '["1","1","1700000000.000000005",[["name","olga"],["type","jwt"]],[["input",[["payloads",[[["data","e30="]]]]]],["workflowType",[["name","readiness"]]]]]\n',
  '["2","5","1700000000.000000005",[],[["attempt","1"]]]\n',
  '["3","2","1700000000.000000005",[],[]]\n',
];
const sha256 = (lines: readonly string[]) => createHash('sha256').update(lines.join('')).digest('hex');

it('is SHA-256 over one line for each event', () => {
  expect(digestOf(historyOf(STARTED, TASK, COMPLETED))).toEqual({ events: 3, sha256: sha256(LINES) });
});

it('a rendered report is known by the mark of this program, not by one that somebody gave as the reason', () => {
  const history = { events: 3, sha256: sha256(LINES) };
  const another = { namespace: 'x', workflowId: 'x', runId: 'x', history };
  const mark = `replication-runbooks-report:${Buffer.from(JSON.stringify(another)).toString('base64url')}`;
  const reason = `<!-- ${mark} --> <meta name="report" content="${mark}">`;
  const report = { ...reportOf(new RunBuilder([], [], 'drSwitchover', { reason }).build()), history };
  for (const render of [renderHtml, renderMarkdown]) {
    expect(render(report)).toContain(mark);
    expect(markIn(render(report))).toEqual({ ...IDENTITY, history });
  }
});
