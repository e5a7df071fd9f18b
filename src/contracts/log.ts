/**
 * The fields that a log entry may have. Everything else, above all inputs, stays out of the log: a list of allowed fields cannot be
 * outrun by a new field, but a list of forbidden ones can.
 */
export const LOGGED_FIELDS = [
  'sdkComponent',
  'taskQueue',
  'namespace',
  'workflowId',
  'runId',
  'workflowType',
  'activityType',
  'activityId',
  'attempt',
  'isLocal',
  'durationMs',
  'code',
  'cluster',
  'deployment',
  'step',
  'cid',
  'epoch',
  'openRuns',
  'state',
  'keyHome',
  'path',
  'digests',
  'target',
  'event',
  'why',
  'until',
  'ttlSeconds',
] as const;

type Fields = Readonly<Partial<Record<(typeof LOGGED_FIELDS)[number], string | number | boolean>>>;

/** The worker's log. A field that it would drop does not compile. Of an error it keeps code and message. */
export type Log = Readonly<
  Record<'info' | 'warn' | 'error', (fields: Fields & { readonly error?: unknown }, text: string) => void>
>;
