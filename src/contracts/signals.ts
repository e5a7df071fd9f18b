import { decoded } from './plain-shares';

/** What the payload converter yields for a payload that it cannot read. It never carries anything of the payload. */
export const UNDECODABLE = { undecodable: true } as const;

/** Whether a value is that marker. */
export function isUndecodable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'undecodable' in value && value.undecodable === true;
}

/** Of what people send: a document of ours has 16 KiB at most. */
const MOST_BYTES = 20 * 1024;

/**
 * The payloads of a signal or an update as they may be decoded: of what is longer an empty one, which becomes the marker.
 * Megabytes of small values would take seconds, at each replay of the run.
 */
export function withinBounds<P extends { readonly data?: Uint8Array | null }>(payloads: readonly P[]): P[] {
  const bytes = payloads.reduce((sum, { data }) => sum + (data?.length ?? 0), 0);
  return bytes > MOST_BYTES ? [{} as P] : [...payloads];
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
 * What is also taken as an update of the same name: the server takes only so many signals for one run, and a flood must
 * not silence approvers. Arrival numbers from here on count updates, each name from 1.
 */
export const UPDATES = ['approve', 'decide'] as const;
export type UpdateName = (typeof UPDATES)[number];
export const UPDATES_FROM = 1_000_000;

/** So many in one run are a flood: people are warned long before the server takes no more. */
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
 * Takes a signed document out of the object that the Web UI's form likes better than a bare string: `{document: "..."}`.
 * Everything else is returned as it is.
 */
export function unwrapDocument(input: unknown): unknown {
  if (typeof input !== 'object' || input === null || !('document' in input)) return input;
  const { document } = input;
  return typeof document === 'string' && Object.keys(input).length === 1 ? document : input;
}

/** The name that a document, or the plain members in its place, says to be of: nobody has looked whether that is true. */
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
  if (document.length > 16 * 1024) return undefined;
  try {
    return JSON.parse(decoded(document.split('.')[1] ?? ''));
  } catch {
    return undefined;
  }
}

/** The signals that control a run as a whole. */
export const CONTROL_ACTIONS = ['pause', 'resume', 'abort', 'takeOver'] as const;
export type ControlAction = (typeof CONTROL_ACTIONS)[number];

/** A signal that waits to be looked at. `arrival` counts the signals of that name in this run, from 1. */
export interface InboxItem {
  readonly signal: SignalName | 'unknown';
  readonly arrival: number;
  readonly receivedAt: number;
  readonly input: unknown;
}
