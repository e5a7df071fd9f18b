/** The digest of a history: the form is the one of docs/operations.md, to the letter. */
import { createHash } from 'node:crypto';
import type { temporal } from '@temporalio/proto';
import { digestOf } from '../../src/report/run-history';

type History = temporal.api.history.v1.IHistory;

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
const history = (...events: readonly object[]) => ({ events }) as unknown as History;
const LINES = [
  '["1","1","1700000000.000000005",[["name","olga"],["type","jwt"]],[["input",[["payloads",[[["data","e30="]]]]]],["workflowType",[["name","readiness"]]]]]\n',
  '["2","5","1700000000.000000005",[],[["attempt","1"]]]\n',
  '["3","2","1700000000.000000005",[],[]]\n',
];
const sha256 = (lines: readonly string[]) => createHash('sha256').update(lines.join('')).digest('hex');

it('is SHA-256 over one line for each event', () => {
  expect(digestOf(history(STARTED, TASK, COMPLETED))).toEqual({ events: 3, sha256: sha256(LINES) });
});

it('of as many events it is the same later', () => {
  const open = digestOf(history(STARTED));
  expect(open).toEqual({ events: 1, sha256: sha256(LINES.slice(0, 1)) });
  expect(digestOf(history(STARTED, TASK, COMPLETED), open.events)).toEqual(open);
});
