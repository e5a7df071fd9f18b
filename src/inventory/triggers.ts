import { z } from 'zod';
import { RUNBOOK_NAMES } from '../contracts/names';
import { absolutePath, headerName, name } from './schema-values';

/* Which messages of incident tools start which run (`runbook gateway --receive`). */

/** A member of the message, such as `event.data.service.id`. */
const memberPath = z
  .string()
  .regex(/^[\w-]{1,100}(\.[\w-]{1,100}){0,9}$/, 'a path of members such as event.data.service.id');

const wanted = z.string().min(1);

/** All of these members must have one of these values. */
const match = z
  .record(memberPath, z.union([wanted.transform((one) => [one]), z.array(wanted).min(1)], 'a text or a list of texts'))
  .refine((given) => Object.keys(given).length > 0, 'a trigger without a condition would start for every message');

const common = {
  name,
  /** The file has one secret per line; while a secret is being replaced, both. It is read at every message. */
  secret: z.strictObject({ file: absolutePath }, 'a secret is { file: /absolute/path }'),
  match,
  runbook: z.enum(RUNBOOK_NAMES),
  deployment: name,
  /** The rest of the runbook's input. */
  input: z.record(z.string(), z.unknown()).default({}),
};

const kind = <K extends string>(value: K) => ({ ...common, kind: z.literal(value) });

/** Grafana sends a time stamp only if its administrator names the header. Without one, an old message would count. */
const grafana = z.strictObject({
  ...kind('grafana'),
  signatureHeader: headerName.default('x-grafana-alerting-signature'),
  timeHeader: headerName.default('x-grafana-alerting-signature-timestamp'),
});

/** Any other sender that signs with HMAC-SHA256. */
const hmac = z
  .strictObject({
    ...kind('hmac'),
    /** The header with the signatures, separated by commas; `prefix` precedes each, such as `sha256=`. */
    signature: z.strictObject({
      header: headerName,
      prefix: z.string().max(20).default(''),
      encoding: z.enum(['hex', 'base64']).default('hex'),
    }),
    /** The header with the Unix time in seconds. What is signed is then time, separator and body. */
    time: z
      .strictObject({
        header: headerName,
        prefix: z.string().max(20).default(''),
        separator: z.string().max(5).default('.'),
      })
      .optional(),
    /** If no time is signed: the member of the body with the time of the event: ISO 8601, or Unix milliseconds. */
    occurredAt: memberPath.optional(),
    /** The member of the body that is the same each time that the same event is sent. */
    id: memberPath,
  })
  .refine(({ time, occurredAt }) => (time === undefined) !== (occurredAt === undefined), {
    path: ['time'],
    message: 'give exactly one of time and occurredAt: without a time, an old message would count for ever',
  });

export const triggers = z
  .array(
    z.discriminatedUnion('kind', [
      z.strictObject(kind('pagerduty')),
      z.strictObject(kind('alertmanager')),
      grafana,
      z.strictObject(kind('slack')),
      z.strictObject(kind('standard')),
      hmac,
    ]),
  )
  .max(100)
  .default([]);

/** Which messages of one sender start a run, and which run. */
export type Trigger = Readonly<z.infer<typeof triggers>[number]>;

/** Members of the input that the gateway sets, or that only a person may decide. */
export const NOT_BY_TRIGGER = ['deployment', 'ticket', 'incidentKey', 'requestedBy', 'takeOver', 'takeOverDocument'];

/** What a trigger may start: what reads, or waits at its gates. */
export function isHarmless({ runbook, input }: Pick<Trigger, 'runbook' | 'input'>): boolean {
  return runbook === 'readiness' || runbook === 'drFailover' || input['dryRun'] === true;
}

/**
 * The complete input of the run that a trigger starts.
 *
 * @param incident - for status, report and notifications
 */
export function inputOfTrigger(
  { name, runbook, deployment, input }: Trigger,
  { ticket, incidentKey }: { readonly ticket: string; readonly incidentKey?: string | undefined },
): Record<string, unknown> {
  if (runbook === 'readiness') return { deployment };
  const reason = `started by the trigger ${name}`;
  const requestedBy = `trigger ${name}`;
  return { reason, ...input, deployment, requestedBy, ticket, ...(incidentKey !== undefined && { incidentKey }) };
}
