import { z } from 'zod';
import type { Records } from '../record';

const members = {
  version: z.literal(1),
  deployment: z.string().regex(/^[a-z0-9-]+$/),
  holder: z.string().regex(/^[a-z0-9-]+$/),
  /** Time of the signal's event. */
  at: z.iso.datetime(),
  how: z.enum(['signed', 'principal', 'claimed']),
  wid: z.string(),
  rid: z.string(),
};
const successSchema = z.strictObject({
  ...members,
  /** The person's key, where the answer was signed. */
  kid: z.string().optional(),
  tool: z.string(),
  /** The workers' key that signed the invitation, which the person has pinned. */
  workers: z.string(),
});
export type RehearsalRecord = z.infer<typeof successSchema>;

/** `reason`: redacted, one line. */
const declineSchema = z.strictObject({ ...members, reason: z.string() });
export type DeclinedRehearsal = z.infer<typeof declineSchema>;

const SCHEMAS = { rehearsed: successSchema, declined: declineSchema } as const;
type Kind = keyof typeof SCHEMAS;
type Last<K extends Kind> = z.infer<(typeof SCHEMAS)[K]>;

/**
 * Keeps the last time that a person rehearsed, or declined to. An older one than what is known is left out.
 *
 * @throws ZodError before anything is written where it is none
 */
export async function keepRehearsal<K extends Kind>(records: Records, kind: K, last: Last<K>): Promise<void> {
  const checked = SCHEMAS[kind].parse(last);
  const key = `${kind}:${checked.holder}`;
  await records.change(checked.deployment, (values) => {
    const known = SCHEMAS[kind].safeParse(values.get(key)).data;
    return known !== undefined && known.at >= checked.at ? undefined : { put: { [key]: checked } };
  });
}

/** Of each person the last time, by name. */
export async function lastRehearsals<K extends Kind>(
  records: Records,
  kind: K,
  deployment: string,
): Promise<ReadonlyMap<string, Last<K>>> {
  const { values } = await records.read(deployment);
  const schema: z.ZodType<Last<K>> = SCHEMAS[kind] as unknown as z.ZodType<Last<K>>;
  const last = [...values].flatMap(([key, value]) => {
    const known = key.startsWith(`${kind}:`) ? schema.safeParse(value).data : undefined;
    return known === undefined ? [] : [[known.holder, known] as const];
  });
  return new Map(last);
}
