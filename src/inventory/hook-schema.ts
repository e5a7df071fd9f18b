import { z } from 'zod';
import { absolutePath, credentialSource, duration, mistakesOf, webAddress } from './schema-values';

/** Longer than this Temporal ends the attempt: what takes longer is begun by the hook, and watched elsewhere. */
const LONGEST_MS = 150_000;
/** A dump of what a cluster wrote may take long. */
const LONGEST_DUMP_MS = 5 * 3_600_000;

/** Headers that the call sets itself, or that would change where it goes. */
const RESERVED_HEADERS =
  /^(host|connection|content-(length|type)|transfer-encoding|upgrade|expect|te|trailer|keep-alive)$/i;

const common = (longestMs: number) => ({
  timeout: duration.prefault('30s').refine((milliseconds) => milliseconds <= longestMs, {
    message: `a hook of this kind takes at most ${longestMs / 1000} s`,
  }),
  /** Whether doing it again does no harm: only then is it tried again without anyone being asked. */
  idempotent: z.boolean().default(false),
});

const commandHook = (longestMs: number) =>
  z
    .strictObject({
      command: z
        .array(z.string().min(1))
        .min(1)
        .refine((words) => words[0]?.startsWith('/'), {
          message: 'a command starts with the absolute path of a program',
        }),
      /** As whom it runs, by number; only a worker that runs as root can. */
      user: z.strictObject({ uid: z.int().min(1), gid: z.int().min(1) }).optional(),
      ...common(longestMs),
    })
    .transform(({ timeout, ...rest }) => ({ kind: 'command' as const, ...rest, timeoutMs: timeout }));

const headerName = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'not the name of a header')
  .refine((name) => !RESERVED_HEADERS.test(name), 'the call sets this header itself');

const callHook = (longestMs: number) =>
  z
    .strictObject({
      url: webAddress,
      method: z.enum(['POST', 'PUT', 'PATCH', 'DELETE']).default('POST'),
      /** The value of each header is read from its source at every use. */
      headers: z.record(headerName, credentialSource).default({}),
      expectStatus: z.array(z.int().min(200).max(599)).min(1).default([200, 201, 202, 204]),
      caFile: absolutePath.optional(),
      ...common(longestMs),
    })
    .transform(({ timeout, ...rest }) => ({ kind: 'call' as const, ...rest, timeoutMs: timeout }));

/** A command on the worker, or an HTTP call: told apart by their members, so that a mistake is told where it stands. */
const hook = (longestMs = LONGEST_MS) => {
  const [command, call] = [commandHook(longestMs), callHook(longestMs)];
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
  .transform(({ timeout, ...rest }) => ({ kind: 'probe' as const, ...rest, timeoutMs: timeout }));

/** What lies outside the service: how clients and old primaries are stopped, led and let go, and how service is seen. */
export const hooks = z
  .strictObject({
    quiesce: hook().optional(),
    release: hook().optional(),
    traffic: hook().optional(),
    fence: hook().optional(),
    unfence: hook().optional(),
    dump: hook(LONGEST_DUMP_MS).optional(),
    probe: probe.optional(),
  })
  .default({});
