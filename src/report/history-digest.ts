import { createHash } from 'node:crypto';
import type { temporal } from '@temporalio/proto';
import type { Report } from '../contracts/report';

type Event = temporal.api.history.v1.IHistoryEvent;
type History = temporal.api.history.v1.IHistory;
export type HistoryDigest = NonNullable<Report['history']>;

/** The members of an event's attributes that count, wherever they stand: a new one of a later server changes no digest. */
const MEMBERS: ReadonlySet<string> = new Set(
  `acceptedRequest activityId activityType applicationFailureInfo attempt cause data details failure identity input
  lastFailure message meta name originalExecutionRunId outcome parentWorkflowExecution payloads reason result runId
  scheduledEventId signalName startedEventId success timerId type updateId workflowExecution workflowId workflowType`.split(
    /\s+/,
  ),
);

/** Members in the order of their names, numbers as decimal strings, bytes as base64 (docs/operations.md has it in words). */
function canonical(value: unknown): unknown {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== 'object' || value === null || 'unsigned' in value) return String(value);
  return Object.entries(value)
    .filter(([name, member]) => MEMBERS.has(name) && member !== null && member !== undefined)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, member]) => [name, canonical(member)]);
}

function lineOf({ eventId, eventType, eventTime, principal, ...event }: Event): string {
  const [, attributes] = Object.entries(event).find(([name, value]) => name.endsWith('EventAttributes') && value) ?? [];
  const time = `${String(eventTime?.seconds ?? 0)}.${String(eventTime?.nanos ?? 0).padStart(9, '0')}`;
  return `${JSON.stringify([String(eventId), String(eventType), time, canonical(principal ?? {}), canonical(attributes ?? {})])}\n`;
}

/**
 * SHA-256 over the first events of a run, in a form that any later look at the same history gives again.
 *
 * @param upTo - how many; all where nothing is given
 */
export function digestOf({ events }: History, upTo?: number): Omit<HistoryDigest, 'closed'> {
  const covered = (events ?? []).slice(0, upTo);
  const hash = createHash('sha256');
  for (const event of covered) hash.update(lineOf(event));
  return { events: covered.length, sha256: hash.digest('hex') };
}

/** What a rendered report says of itself for a later proof. */
export type ReportMark = Pick<Report, 'namespace' | 'workflowId' | 'runId'> & { readonly history: HistoryDigest };

const MARK = /replication-runbooks-report:([\w-]+)/;

/** In letters that no rendering changes; undefined where the report carries no digest. */
export function markOf({ namespace, workflowId, runId, history }: Report): string | undefined {
  const mark = history && JSON.stringify({ namespace, workflowId, runId, history });
  return mark && `replication-runbooks-report:${Buffer.from(mark).toString('base64url')}`;
}

/** The mark in a rendered report, as it claims to be; the caller checks it. */
export function markIn(text: string): unknown {
  const [, mark] = MARK.exec(text) ?? [];
  return mark === undefined ? undefined : JSON.parse(Buffer.from(mark, 'base64url').toString('utf8'));
}
