import { z } from 'zod';
import { NOTIFICATION_EVENTS } from '../contracts/notifications';
import { absolutePath, credentialSource, duration, inMs, isLoopback, name, webAddress } from './schema-values';

const event = z.enum(NOTIFICATION_EVENTS);
const events = z.array(event).min(1, 'a target without events would never be told anything');

/** What every target has. Temporal gives a notification little time: a target that is slow counts as down. */
const common = {
  name,
  timeout: duration.prefault('5s').refine((milliseconds) => milliseconds <= 10_000, 'a target is given 10 s at most'),
};

const webhook = z.strictObject({
  ...common,
  kind: z.literal('webhook'),
  /** The whole address: whoever knows it may post. */
  url: credentialSource,
  /** Sent as `Authorization: Bearer ...`. */
  token: credentialSource.optional(),
  caFile: absolutePath.optional(),
  events: events.default([...NOTIFICATION_EVENTS]),
});

const slack = z.strictObject({
  ...common,
  kind: z.literal('slack'),
  url: credentialSource,
  caFile: absolutePath.optional(),
  events: events.default([...NOTIFICATION_EVENTS]),
});

const pagerduty = z.strictObject({
  ...common,
  kind: z.literal('pagerduty'),
  routingKey: credentialSource,
  /** Where events are enqueued; another address for a relay. */
  url: webAddress.default('https://events.pagerduty.com/v2/enqueue'),
  caFile: absolutePath.optional(),
  events: events.default(['parked', 'escalation', 'outage-started', 'service-ready', 'critical-finding']),
});

const mailbox = z.email('an e-mail address');

const email = z
  .strictObject({
    ...common,
    kind: z.literal('email'),
    host: z.string().min(1),
    port: z.int().min(1).max(65_535),
    /** `tls` from the start, or by `starttls`; `none` on loopback only. */
    security: z.enum(['tls', 'starttls', 'none']).default('starttls'),
    username: z.string().min(1).optional(),
    password: credentialSource.optional(),
    from: mailbox,
    to: z.array(mailbox).min(1),
    caFile: absolutePath.optional(),
    events: events.default([...NOTIFICATION_EVENTS]),
  })
  .superRefine(({ security, host, username, password }, context) => {
    const refuse = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if (security === 'none' && !isLoopback(host)) refuse('security', '"none" is allowed on loopback hosts only');
    if ((username === undefined) !== (password === undefined))
      refuse('password', 'username and password are given together, or neither');
  });

/** Who is told what happens in runs. */
export const notifications = z
  .array(z.discriminatedUnion('kind', [webhook, slack, pagerduty, email]))
  .default([])
  .superRefine((targets, context) => {
    for (const [index, { name }] of targets.entries())
      if (targets.findIndex((each) => each.name === name) < index)
        context.addIssue({ code: 'custom', path: [index, 'name'], message: `${name} is listed twice` });
  })
  .transform((targets) => targets.map(({ timeout, ...rest }) => ({ ...rest, timeoutMs: timeout })));

/** When people who are waited for are reminded, and when others are told. */
export const people = z
  .strictObject({ remindAfter: duration.prefault('10m'), escalateAfter: duration.prefault('20m') })
  .transform(inMs)
  .prefault({});
