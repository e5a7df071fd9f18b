import { z } from 'zod';
import { absolutePath, duration, name } from './schema-values';

/** A token role or policy of the service. */
const objectName = z.string().regex(/^[A-Za-z0-9][\w.-]*$/, 'a name of a role or policy of the service');
const pathOfKey = z
  .string()
  .regex(/^[^/\s]+(\/[^/\s]+)*$/, 'a path without a slash at its ends')
  .refine((text) => !text.split('/').some((part) => part === '.' || part === '..'), 'a path without dots alone');

/** The service caps a batch token at this by default. */
const LONGEST_MS = 768 * 3_600_000;

/** A key of a key-value engine of another deployment. */
const keyValuePlace = z.strictObject({
  deployment: name,
  /** Needed where that deployment has several: its primary has the key, whichever cluster that is. */
  drSet: name.optional(),
  mount: pathOfKey,
  path: pathOfKey,
  version: z.union([z.literal(1), z.literal(2)], 'the version of the engine: 1 or 2').default(2),
  field: z.string().min(1).default('token'),
});

const sink = z.union(
  [z.strictObject({ file: absolutePath }), z.strictObject({ keyValue: keyValuePlace })],
  'one of { file: /absolute/path }, { keyValue: { deployment, mount, path } }',
);

/** How `batchTokenRotation` makes the batch token of one DR set, and where it puts it. */
export const batchTokenRotation = z
  .strictObject({
    role: objectName.default('runbooks-batch'),
    policy: objectName.default('runbooks-batch'),
    ttl: duration.prefault('8h'),
    sink,
  })
  .transform(({ ttl, ...rest }, context) => {
    if (ttl <= LONGEST_MS) return { ...rest, ttlMs: ttl };
    context.addIssue({ code: 'custom', path: ['ttl'], message: 'the service caps a batch token at 768h: 32d' });
    return z.NEVER;
  });
