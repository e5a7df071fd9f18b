import { defaultPayloadConverter } from '@temporalio/common';
import type { temporal } from '@temporalio/proto';

type Event = temporal.api.history.v1.IHistoryEvent;
type Long = NonNullable<Event['eventId']>;

/** How an activity in a constructed history ended. */
export type ActivityEnd =
  'running' | { readonly result: unknown } | { readonly code: string; readonly outcomeKnown: boolean };

let lastEventId = 1_000_000;

/** The events of one activity, scheduled and closed at `at` (epoch ms), as a server records them. */
export function activityEvents(type: string, input: object, end: ActivityEnd, at = Date.now()): Event[] {
  const eventTime = { seconds: Math.floor(at / 1000) as unknown as Long, nanos: (at % 1000) * 1_000_000 };
  const encode = (value: unknown) => ({ payloads: [defaultPayloadConverter.toPayload(value)] });
  const scheduledEventId = ++lastEventId as unknown as Long;
  const activityType = { name: type };
  const scheduled = { eventTime, eventId: scheduledEventId };
  const events: Event[] = [
    { ...scheduled, activityTaskScheduledEventAttributes: { activityType, input: encode(input) } },
  ];
  if (end === 'running') return events;
  const closed = { eventTime, eventId: ++lastEventId as unknown as Long };
  if ('result' in end)
    events.push({
      ...closed,
      activityTaskCompletedEventAttributes: { scheduledEventId, result: encode(end.result) },
    });
  else {
    const { code, outcomeKnown } = end;
    const applicationFailureInfo = { type: code, details: encode({ outcomeKnown }) };
    events.push({
      ...closed,
      activityTaskFailedEventAttributes: { scheduledEventId, failure: { message: 'x', applicationFailureInfo } },
    });
  }
  return events;
}
