import { z } from 'zod';
import { durationMs } from '../contracts/words';
import { addressMistake } from '../secret';

/* The kinds of value in an inventory, and how a mistake in one is described. */

/** A mistake, with the path of the member that it concerns. */
export interface Mistake {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** The mistakes of a schema issue; each unknown field gives a mistake at its own place. */
export function mistakesOf(issue: z.core.$ZodIssue): Mistake[] {
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({ path: [...issue.path, key], message: 'unknown field' }));
  if (issue.code === 'invalid_key')
    return [{ path: issue.path, message: issue.issues[0]?.message ?? 'not a name that is accepted here' }];
  const missing = issue.code === 'invalid_type' && issue.message.endsWith('received undefined');
  return [{ path: issue.path, message: missing ? 'missing' : issue.message }];
}

/** A name of a deployment, cluster, DR set, group or person. */
export const name = z.string().regex(/^[a-z0-9-]+$/, 'a name consists of lowercase letters, digits and hyphens');

/** Entries by name; each entry has its own name as a member. */
export const byName = <T extends z.ZodType<object>>(entry: T) =>
  z
    .record(name, entry)
    .transform((given) => new Map(Object.entries(given).map(([name, each]) => [name, { ...each, name }])));

/** A file by its absolute path. */
export const absolutePath = z.string().startsWith('/', 'a file is given by its absolute path');

/** A name of an HTTP header. */
export const headerName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'not a header name');

/** A duration in the inventory; {@link inMs} adds its unit to the member's name. */
interface Duration {
  readonly ms: number;
}

/** A duration such as `500ms`, `30s`, `10m`, `4h` or `7d`. */
export const duration = z
  .string('a duration is a number with a unit, such as 30s')
  .transform((text, context): Duration => {
    const ms = durationMs(text) ?? 0;
    if (ms > 0) return { ms };
    context.addIssue({ code: 'custom', message: 'a duration is a positive number with a unit: ms, s, m, h or d' });
    return z.NEVER;
  });

/** A duration with a maximum. */
export const atMost = (longest: number, message: string, usual: string) =>
  duration.prefault(usual).refine(({ ms }) => ms <= longest, message);

type InMs<T> = T extends unknown
  ? {
      readonly [N in keyof T as T[N] extends Duration ? `${N & string}Ms` : N]: T[N] extends Duration ? number : T[N];
    }
  : never;

/** Renames durations so that the name contains the unit: `catchUp` becomes `catchUpMs`. */
export function inMs<T extends object>(given: T): InMs<T> {
  const renamed = Object.entries(given).map(([name, value]: [string, unknown]) =>
    isDuration(value) ? [`${name}Ms`, value.ms] : [name, value],
  );
  return Object.fromEntries(renamed) as InMs<T>;
}

/** An object whose durations are renamed by {@link inMs}. */
export const section = <S extends z.ZodRawShape>(shape: S) => z.strictObject(shape).transform(inMs);

function isDuration(value: unknown): value is Duration {
  return typeof value === 'object' && value !== null && 'ms' in value && typeof value.ms === 'number';
}

/** An address to call, with path. */
export const webAddress = z.string().superRefine((text, context) => {
  const message = addressMistake(text);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});

/** An origin: scheme, host and port, without path. */
export const origin = webAddress.transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) return z.NEVER;
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    context.addIssue({ code: 'custom', message: 'an address must not contain a path' });
  return url.origin;
});

/** The address that a primary gives its secondaries. The text is kept: `URL` would drop port 443, which the service needs. */
export const clusterAddress = z
  .string()
  .refine((text) => origin.safeParse(text).success && text.startsWith('https:'))
  .transform((text) => text.replace(/\/$/, ''));

/** Where a secret is read from. `file` is read again at every use. Never an inline value. */
const env = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/);
export const credentialSource = z.union(
  [z.strictObject({ env }), z.strictObject({ file: z.string().startsWith('/') })],
  'a source is { env: VARIABLE } or { file: /absolute/path }; the inventory never contains the secret itself',
);

/** Where an auth method is mounted. `ownMount`: nobody but the workers logs in there. */
const mounted = (usual: string) => ({
  mount: z
    .string()
    .regex(/^[\w-]+(\/[\w-]+)*$/, 'the path of an auth method, such as approle')
    .default(usual),
  ownMount: z.boolean().default(false),
});
const role = z.string().min(1);
const SERVICE_ACCOUNT = { file: '/var/run/secrets/kubernetes.io/serviceaccount/token' };

/** How the workers log in, by the name of the auth method. The resulting token is kept in memory only. */
const LOGINS = {
  approle: z.strictObject({ roleId: role, secretId: credentialSource, ...mounted('approle') }),
  kubernetes: z.strictObject({ role, jwt: credentialSource.default(SERVICE_ACCOUNT), ...mounted('kubernetes') }),
  jwt: z.strictObject({ role, jwt: credentialSource, ...mounted('jwt') }),
  cert: z.strictObject({
    certificateFile: absolutePath,
    keyFile: absolutePath,
    role: role.optional(),
    ...mounted('cert'),
  }),
};
type Logins = { readonly [M in keyof typeof LOGINS]: Readonly<z.infer<(typeof LOGINS)[M]>> };
/** A login to the service, used instead of a token. */
export type Login = { readonly [M in keyof Logins]: { readonly method: M } & Logins[M] }[keyof Logins];

/** A source, or one login. Each mistake in a login is reported at its own place. */
export const credential = z
  .strictObject(
    { env, file: absolutePath, ...LOGINS },
    'a credential is { env: VARIABLE }, { file: /absolute/path } or a login { approle | kubernetes | jwt | cert: ... }; the inventory never contains the secret itself',
  )
  .partial()
  .transform(({ env, file, ...logins }, context): z.infer<typeof credentialSource> | Login => {
    const given = Object.entries(logins).flatMap(([method, login]) => (login ? [{ method, ...login } as Login] : []));
    const all = [...(env === undefined ? [] : [{ env }]), ...(file === undefined ? [] : [{ file }]), ...given];
    const [one] = all;
    if (one !== undefined && all.length === 1) return one;
    context.addIssue({ code: 'custom', message: 'give exactly one of env, file, approle, kubernetes, jwt, cert' });
    return z.NEVER;
  });
