import { createHash } from 'node:crypto';
import { incidentKey } from '../../contracts/input-members';
import type { Trigger } from '../../inventory';
import type { Received, Verified } from './signatures';

/** What a verified message asks for. */
export type Wish =
  | {
      readonly wanted: true;
      /** The same for every message about the same incident. */
      readonly incident: string;
      /** The incident as its tool calls it, for the report and for messages to that tool. At most 100 characters. */
      readonly ticket: string;
      /** The `dedup_key` of the incident, if PagerDuty has it. */
      readonly incidentKey?: string | undefined;
    }
  | { readonly wanted: false; readonly why: string }
  /** Slack asks whether somebody listens, before it sends anything. */
  | { readonly wanted: false; readonly why: string; readonly challenge: string };

/** PagerDuty retries for 20 minutes. An older event tells of something that people already work on. */
const MOST_EVENT_AGE_MS = 30 * 60_000;
/** An alert is sent again as long as it fires. What began a day ago is no new incident. */
const MOST_ALERT_AGE_MS = 24 * 3_600_000;
/** Clocks differ. */
const MOST_SKEW_MS = 5 * 60_000;

const no = (why: string): Wish => ({ wanted: false, why });

/** What a message asks for. Reads the body, which must have been verified. `now`: epoch milliseconds. */
export function wishOf(trigger: Trigger, message: Received, verified: Verified, now: number): Wish {
  const body = bodyOf(trigger, message);
  if (body === undefined) return no('the body is neither JSON nor a form');
  const challenge =
    trigger.kind === 'slack' && valueAt(body, 'type') === 'url_verification' && textAt(body, 'challenge');
  if (challenge) return { wanted: false, why: 'verification', challenge: challenge.slice(0, 500) };
  for (const [path, values] of Object.entries(trigger.match))
    if (!values.includes(textAt(body, path) ?? '')) return no(`${path} has none of the values of the trigger`);
  return incidentIn(trigger, body, verified, now);
}

function incidentIn(trigger: Trigger, body: unknown, { id }: Verified, now: number): Wish {
  switch (trigger.kind) {
    case 'pagerduty': {
      if (trigger.match['event.event_type'] === undefined && textAt(body, 'event.event_type') !== 'incident.triggered')
        return no('event.event_type is not incident.triggered');
      if (textAt(body, 'event.data.type') !== 'incident') return no('the event is not about an incident');
      const key = textAt(body, 'event.data.incident_key');
      return (
        tooOld(textAt(body, 'event.occurred_at'), now, MOST_EVENT_AGE_MS) ??
        incident(trigger, textAt(body, 'event.data.id'), key || undefined, key)
      );
    }
    case 'alertmanager':
    case 'grafana':
      return alertGroup(trigger, body, now);
    case 'slack':
      return incident(trigger, textAt(body, 'trigger_id') ?? textAt(body, 'event_id'));
    case 'standard':
      return incident(trigger, id);
    case 'hmac': {
      const late = trigger.occurredAt && tooOld(textAt(body, trigger.occurredAt), now, MOST_EVENT_AGE_MS);
      return late || incident(trigger, textAt(body, trigger.id));
    }
  }
}

/** Alertmanager sends a group of alerts again and again, and once more when it is resolved. */
function alertGroup(trigger: Trigger, body: unknown, now: number): Wish {
  if (textAt(body, 'status') !== 'firing') return no('status is not firing');
  // The earliest alert may be among those that were cut: the same incident would look like another one.
  const cut = valueAt(body, 'truncatedAlerts');
  if (cut !== undefined && cut !== 0) return no('truncatedAlerts is not 0: remove max_alerts from the receiver');
  const groupKey = textAt(body, 'groupKey');
  const alerts = valueAt(body, 'alerts');
  if (groupKey === undefined || !Array.isArray(alerts)) return no('groupKey or alerts is missing');
  const starts = alerts
    .filter((alert) => textAt(alert, 'status') === 'firing')
    .map((alert) => Date.parse(textAt(alert, 'startsAt') ?? ''))
    .filter(Number.isFinite)
    .sort((one, other) => one - other);
  const [earliest, newest] = [starts[0], starts.at(-1)];
  if (earliest === undefined || newest === undefined) return no('no alert with a startsAt is firing');
  // The next outage of the same group begins at another time.
  const key = JSON.stringify([textAt(body, 'receiver'), groupKey, earliest]);
  // The dedup_key of the group's incident, if Alertmanager notifies PagerDuty too.
  const ticket = createHash('sha256').update(groupKey, 'utf8').digest('hex');
  return tooOld(new Date(newest).toISOString(), now, MOST_ALERT_AGE_MS) ?? incident(trigger, key, ticket, ticket);
}

function tooOld(time: string | undefined, now: number, most: number): Wish | undefined {
  // Jira sends Unix milliseconds.
  const at = /^\d{13}$/.test(time ?? '') ? Number(time) : Date.parse(time ?? '');
  if (!Number.isFinite(at)) return no('the time of the event is missing');
  if (now - at > most) return no(`the event is more than ${most / 60_000} min old`);
  if (at - now > MOST_SKEW_MS) return no('the time of the event is in the future: compare the clocks');
  return undefined;
}

/** IDs are unique at their sender: the trigger's name is part of the key. */
function incident({ name }: Trigger, id: string | undefined, ticket = id, dedupKey?: string): Wish {
  if (id === undefined || id === '' || ticket === undefined) return no('the ID of the incident is missing');
  const { data: key } = incidentKey.safeParse(dedupKey);
  return { wanted: true, incident: `${name}:${short(id)}`, ticket: short(ticket), ...(key && { incidentKey: key }) };
}

/** Text of the sender that people see: printable, without spaces, and short. Anything else becomes its SHA-256. */
function short(text: string): string {
  return /^[\w.:/@=+-]{1,100}$/.test(text) ? text : createHash('sha256').update(text, 'utf8').digest('hex');
}

/** The body as JSON; of a Slack command as the members of its form. Undefined if it is neither. */
function bodyOf({ kind }: Trigger, { headers, body }: Received): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(body);
    const type = headers['content-type'];
    if (kind === 'slack' && typeof type === 'string' && type.startsWith('application/x-www-form-urlencoded'))
      return Object.fromEntries(new URLSearchParams(text));
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** The value at a path of members. Only own members are read, so that no name has a special meaning. */
function valueAt(value: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>(
      (at, name) =>
        typeof at === 'object' && at !== null && Object.hasOwn(at, name)
          ? (at as Readonly<Record<string, unknown>>)[name]
          : undefined,
      value,
    );
}

/** As {@link valueAt}, but only a text, number or truth value, as text. */
function textAt(value: unknown, path: string): string | undefined {
  const found = valueAt(value, path);
  return typeof found === 'string' || typeof found === 'number' || typeof found === 'boolean'
    ? String(found)
    : undefined;
}
