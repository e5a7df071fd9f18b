import { decoded } from './plain-shares';
import { jsonIn } from './words';

/** What the payload converter returns for a payload that it cannot read. It never contains anything of the payload. */
export const UNDECODABLE = { undecodable: true } as const;

/** Whether a value is that marker. */
export function isUndecodable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'undecodable' in value && value.undecodable === true;
}

/** Maximum size of what people send. A document of this project has at most 16 KiB. */
export const MOST_BYTES = 20 * 1024;

/**
 * The payloads of a signal or an update as they may be decoded. Payloads that are too long are replaced by an empty one, which
 * becomes the marker: megabytes of small values would take seconds at each replay of the run.
 */
export function withinBounds<P extends { readonly data?: Uint8Array | null }>(
  payloads: readonly P[],
  most = MOST_BYTES,
): P[] {
  const bytes = payloads.reduce((sum, { data }) => sum + (data?.length ?? 0), 0);
  return bytes > most ? [{} as P] : [...payloads];
}

/** Names of the signals that every runbook accepts. */
export const SIGNALS = {
  share: 'share',
  approve: 'approve',
  decide: 'decide',
  pause: 'pause',
  resume: 'resume',
  abort: 'abort',
  takeOver: 'takeOver',
} as const;
export type SignalName = (typeof SIGNALS)[keyof typeof SIGNALS];

/**
 * Signals that are also accepted as an update of the same name: the server accepts only a limited number of signals per run, and
 * a flood must not silence approvers. Arrival numbers from `UPDATES_FROM` on count updates, per name.
 */
export const UPDATES = ['approve', 'decide'] as const;
export type UpdateName = (typeof UPDATES)[number];
export const UPDATES_FROM = 1_000_000;

/** This many in one run are a flood. People are warned long before the server accepts no more. */
export const MANY_SIGNALS = 500;

export const QUERIES = { status: 'status', report: 'report', invitation: 'invitation' } as const;

/** What may be decided about a parked step, or about an interruption inside the outage. */
export const DECISION_ACTIONS = [
  'retry',
  'skip',
  'abort',
  'promote-secondary',
  'promote-back',
  'force',
  'leave',
] as const;
export type DecisionAction = (typeof DECISION_ACTIONS)[number];

/**
 * Unwraps a signed document from the object that the Web UI's form prefers to a bare string: `{document: "..."}`. Everything
 * else is returned unchanged.
 */
export function unwrapDocument(input: unknown): unknown {
  if (typeof input !== 'object' || input === null || !('document' in input)) return input;
  const { document } = input;
  return typeof document === 'string' && Object.keys(input).length === 1 ? document : input;
}

/** The name in a document, or in the plain members sent instead. Nobody has checked that it is true. */
export function nameIn(input: unknown): string | undefined {
  const document = unwrapDocument(input);
  const members = typeof document === 'string' ? parsed(document) : document;
  if (typeof members !== 'object' || members === null) return undefined;
  const { name, holder, takeOverDocument } = members as Readonly<Record<string, unknown>>;
  if (takeOverDocument !== undefined) return nameIn(takeOverDocument);
  const found = name ?? holder;
  return typeof found === 'string' ? found.slice(0, 100) : undefined;
}

function parsed(document: string): unknown {
  return document.length > 16 * 1024 ? undefined : jsonIn(decoded(document.split('.')[1] ?? ''));
}

/** The signals that control a run as a whole. */
export const CONTROL_ACTIONS = ['pause', 'resume', 'abort', 'takeOver'] as const;
export type ControlAction = (typeof CONTROL_ACTIONS)[number];

/** A signal that waits to be processed. `arrival` counts the signals of that name in this run, from 1. */
export interface InboxItem {
  readonly signal: SignalName | 'unknown';
  readonly arrival: number;
  readonly receivedAt: number;
  readonly input: unknown;
}

/** In the refusal of an update for which there is no room at the moment. */
export const SEND_AGAIN = 'send it again in ten seconds';
