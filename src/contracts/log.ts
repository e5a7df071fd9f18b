/**
 * Fields of a log entry that people need. Everything else, inputs above all, stays out of the log: a list of what may be
 * written cannot be outrun by a new field, a list of what may not can.
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

/** The worker's log. A field that it would drop does not compile; of an error it keeps code and message. */
export type Log = Readonly<
  Record<'info' | 'warn' | 'error', (fields: Fields & { readonly error?: unknown }, text: string) => void>
>;
