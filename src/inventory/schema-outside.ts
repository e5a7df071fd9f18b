import { z } from 'zod';
import { NOTIFICATION_EVENTS } from '../contracts/notifications';
import { absolutePath, atMost, credentialSource, duration, inMs, mistakesOf, name, webAddress } from './schema-values';

/* What lies outside the service: how clients are stopped and released, how service is seen, who is told of runs. */

/** Longer than this Temporal ends the attempt: what takes longer is begun by the hook, and watched elsewhere. */
const LONGEST_MS = 150_000;
/** A snapshot may take long. */
const LONGEST_SNAPSHOT_MS = 5 * 3_600_000;

/** Headers that the call sets itself, or that would change where it goes. */
const RESERVED_HEADERS =
  /^(host|connection|content-(length|type)|transfer-encoding|upgrade|expect|te|trailer|keep-alive)$/i;

const headerName = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'not the name of a header')
  .refine((header) => !RESERVED_HEADERS.test(header), 'the call sets this header itself');

/** A command on the worker, or an HTTP call: told apart by their members, so that a mistake is named where it stands. */
const hook = (longestMs = LONGEST_MS) => {
  const common = {
    timeout: atMost(longestMs, `a hook of this kind takes at most ${longestMs / 1000} s`, '30s'),
    /** Whether doing it again does no harm: only then is it tried again without anyone being asked. */
    idempotent: z.boolean().default(false),
  };
  const command = z
    .strictObject({
      command: z
        .array(z.string().min(1))
        .min(1)
        .refine((words) => words[0]?.startsWith('/'), 'a command starts with the absolute path of a program'),
      ...common,
    })
    .transform((given) => ({ kind: 'command' as const, ...inMs(given) }));
  const call = z
    .strictObject({
      url: webAddress,
      /** The value of each header is read from its source at every use. */
      headers: z.record(headerName, credentialSource).default({}),
      caFile: absolutePath.optional(),
      ...common,
    })
    .transform((given) => ({ kind: 'call' as const, ...inMs(given) }));
  return z.unknown().transform((value, context): z.infer<typeof command> | z.infer<typeof call> => {
    const isCall = typeof value === 'object' && value !== null && 'url' in value;
    const parsed = (isCall ? call : command).safeParse(value);
    if (parsed.success) return parsed.data;
    for (const { path, message } of parsed.error.issues.flatMap(mistakesOf))
      context.addIssue({ code: 'custom', path: [...path], message });
    return z.NEVER;
  });
};

const probe = z
  .strictObject({
    url: webAddress,
    expectStatus: z.array(z.int().min(100).max(599)).min(1).default([200]),
    timeout: duration.prefault('5s'),
    caFile: absolutePath.optional(),
  })
  .transform((given) => ({ kind: 'probe' as const, ...inMs(given) }));

/** How clients and old primaries are stopped, redirected and released, and how service is seen. */
export const hooks = z
  .strictObject({
    quiesce: hook().optional(),
    release: hook().optional(),
    traffic: hook().optional(),
    fence: hook().optional(),
    unfence: hook().optional(),
    snapshot: hook(LONGEST_SNAPSHOT_MS).optional(),
    probe: probe.optional(),
  })
  .default({});

/** What every target has. Temporal gives a notification little time: a target that is slow counts as down. */
const target = <K extends string>(kind: K, events: readonly (typeof NOTIFICATION_EVENTS)[number][]) => ({
  name,
  kind: z.literal(kind),
  timeout: atMost(10_000, 'a target is given 10 s at most', '5s'),
  caFile: absolutePath.optional(),
  events: z
    .array(z.enum(NOTIFICATION_EVENTS))
    .min(1, 'a target without events would never be told anything')
    .default([...events]),
});

const webhook = z.strictObject({
  ...target('webhook', NOTIFICATION_EVENTS),
  /** The whole address: anybody who knows it may post. */
  url: credentialSource,
  /** Sent as `Authorization: Bearer ...`. */
  token: credentialSource.optional(),
});

const slack = z.strictObject({ ...target('slack', NOTIFICATION_EVENTS), url: credentialSource });

const pagerduty = z.strictObject({
  ...target('pagerduty', ['parked', 'escalation', 'outage-started', 'service-ready', 'critical-finding']),
  routingKey: credentialSource,
  /** Where events are enqueued; another address for a relay. */
  url: webAddress.default('https://events.pagerduty.com/v2/enqueue'),
});

/** Who is told what happens in runs. */
export const notifications = z
  .array(z.discriminatedUnion('kind', [webhook, slack, pagerduty]).transform(inMs))
  .default([]);
