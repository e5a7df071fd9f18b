import { z } from 'zod';

/* The kinds of value that an inventory is made of. */

const NAME = /^[a-z0-9-]+$/;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A name of a deployment, cluster, DR set, group or person. */
export const name = z.string().regex(NAME, 'a name consists of lower-case letters, digits and hyphens');

/** A duration such as `500ms`, `30s`, `10m`, `4h` or `7d`, as milliseconds. */
export const duration = z.string('a duration is a number with a unit, such as 30s').transform((text, context) => {
  const [, amount, unit = ''] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? [];
  const milliseconds = Number(amount) * (UNITS[unit] ?? Number.NaN);
  if (milliseconds > 0) return milliseconds;
  context.addIssue({ code: 'custom', message: 'a duration is a positive number with a unit: ms, s, m, h or d' });
  return z.NEVER;
});

type InMs<T> = { readonly [N in keyof T & string as `${N}Ms`]: T[N] };

/** Durations by the names that the program gives them, which say their unit: `catchUp` becomes `catchUpMs`. */
export function inMs<T extends Readonly<Record<string, number>>>(durations: T): InMs<T> {
  return Object.fromEntries(Object.entries(durations).map(([name, value]) => [`${name}Ms`, value])) as InMs<T>;
}

/** A mistake with the path of the member that it is about. */
export interface Mistake {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** What a schema found, with one mistake for each unknown field, at its own place. */
export function mistakesOf(issue: z.core.$ZodIssue): Mistake[] {
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({ path: [...issue.path, key], message: 'unknown field' }));
  if (issue.code === 'invalid_key')
    return [{ path: issue.path, message: issue.issues[0]?.message ?? 'not a name that is taken here' }];
  const missing = issue.code === 'invalid_type' && issue.message.endsWith('received undefined');
  return [{ path: issue.path, message: missing ? 'missing' : issue.message }];
}

/** Whether a host name of an address stays on this machine. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname);
}

/** An origin: scheme, host and port, without path or credentials. HTTPS, or HTTP on loopback. */
export const origin = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const fail = (message: string) => {
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  };
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    return fail('not an http(s) address');
  if (url.username !== '' || url.password !== '') return fail('an address holds no user name and no password');
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') return fail('an address holds no path');
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    return fail('plain http is allowed on loopback addresses only');
  return url.origin;
});

/** Where a secret is read from. `file` is read again at every use. Never an inline value. */
export const credentialSource = z
  .unknown()
  .superRefine((value, context) => {
    if (typeof value === 'object' && value !== null && ('approle' in value || 'kubernetes' in value)) {
      context.addIssue({ code: 'custom', message: 'approle and kubernetes are not available in this version' });
    }
  })
  .pipe(
    z.union(
      [
        z.strictObject({ env: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/) }),
        z.strictObject({ file: z.string().startsWith('/') }),
      ],
      'a source is { env: VARIABLE } or { file: /absolute/path }; the secret itself never stands in the inventory',
    ),
  );

/** An address to call, with path: HTTPS, or HTTP on loopback. */
export const webAddress = z.url({ protocol: /^https?$/ }).superRefine((text, context) => {
  const url = new URL(text);
  const refuse = (message: string) => context.addIssue({ code: 'custom', message });
  if (url.username !== '' || url.password !== '') refuse('an address holds no user name and no password');
  if (url.protocol === 'http:' && !isLoopback(url.hostname)) refuse('plain http is allowed on loopback addresses only');
});

/** A file by its absolute path. */
export const absolutePath = z.string().startsWith('/', 'a file is given by its absolute path');
