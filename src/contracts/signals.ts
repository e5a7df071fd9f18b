import { z } from 'zod';
import { decoded } from './plain-shares';

/** What the payload converter yields for a payload that it cannot read. It never carries the content. */
export interface Undecodable {
  readonly undecodable: string;
}

/** What the marker may say: the encodings that we know by name, and `unknown`. */
export const UNDECODABLE_ENCODINGS: readonly string[] = [
  'json/plain',
  'json/protobuf',
  'binary/protobuf',
  'binary/plain',
  'binary/null',
  'binary/encrypted',
  'unknown',
];

/**
 * Whether a value is the marker of a payload that could not be read. What people made to look like one is not: receipts
 * repeat the marker's text.
 */
export function isUndecodable(value: unknown): value is Undecodable {
  return (
    typeof value === 'object' &&
    value !== null &&
    'undecodable' in value &&
    typeof value.undecodable === 'string' &&
    UNDECODABLE_ENCODINGS.includes(value.undecodable)
  );
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
  decline: 'decline',
} as const;
export type SignalName = (typeof SIGNALS)[keyof typeof SIGNALS];

/**
 * What is also taken as an update of the same name: the server ends signals for good at 10,000 for one run, and a flood
 * must not silence approvers. Arrival numbers from here on count updates, each name from 1.
 */
export const UPDATES = ['approve', 'decide'] as const;
export type UpdateName = (typeof UPDATES)[number];
export const UPDATES_FROM = 1_000_000;

export const QUERIES = { status: 'status', invitation: 'invitation' } as const;

const name = z.string().trim().min(1).max(100);
const comment = z.string().max(500);

/** `runbooks-approval-v1` (protocol.md). Signed as a JWS, or sent as it is where the inventory lets the person claim. */
export const approvalPayload = z.strictObject({
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  gate: z.string(),
  planDigest: z.string(),
  verdict: z.enum(['approve', 'reject']),
  comment: comment.default(''),
  name,
  iat: z.number().int(),
});
export type ApprovalPayload = z.infer<typeof approvalPayload>;

/** What may be decided about a parked step, or about an interruption inside the outage. */
export const DECISION_ACTIONS = [
  'retry',
  'skip',
  'abort',
  'promote-secondary',
  'promote-back',
  'force',
  'leave',
  /** Cancel somebody else's generation attempt, the one that the parked step names. */
  'cancel-attempt',
] as const;
export type DecisionAction = (typeof DECISION_ACTIONS)[number];

/** `runbooks-decision-v1` (protocol.md). */
export const decisionPayload = z.strictObject({
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  step: z.string(),
  parkingNo: z.number().int().positive(),
  action: z.enum(DECISION_ACTIONS),
  reason: z.string().trim().min(3).max(500),
  name,
  iat: z.number().int(),
});
export type DecisionPayload = z.infer<typeof decisionPayload>;

/** A document as it travels in a signal: signed, or plain members where the inventory lets the person claim. */
export interface SignedDocument {
  readonly document: string;
}

/**
 * Takes a signed document out of the object that the Web UI's form likes better than a bare string: `{document: "..."}`.
 * Everything else is returned as it is.
 */
export function unwrapDocument(input: unknown): unknown {
  if (typeof input !== 'object' || input === null) return input;
  const [[key, value] = [], ...rest] = Object.entries(input);
  return key === 'document' && typeof value === 'string' && rest.length === 0 ? value : input;
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

/** `runbooks-decline-v1`: a holder cannot, or will not, give his share. He may still give it later. */
export const declinePayload = z.strictObject({
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  cid: z.string(),
  epoch: z.number().int().positive(),
  reason: comment.default(''),
  name,
  iat: z.number().int(),
});
export type DeclinePayload = z.infer<typeof declinePayload>;

/** The signals that control a run as a whole. */
export const CONTROL_ACTIONS = ['pause', 'resume', 'abort', 'takeOver'] as const;
export type ControlAction = (typeof CONTROL_ACTIONS)[number];

/** `runbooks-control-v1` (protocol.md): the one argument of `pause`, `resume` and `abort`; `takeOver` brings it in the failover's input. */
export const controlPayload = z.strictObject({
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  action: z.enum(CONTROL_ACTIONS),
  reason: comment.default(''),
  /** `pause` only: hold before the step of this name instead of at once. */
  before: z.string().max(200).optional(),
  name,
  iat: z.number().int(),
});
export type ControlPayload = z.infer<typeof controlPayload>;

/** A signal that waits to be looked at. `arrival` counts the signals of that name in this run, from 1. */
export interface InboxItem {
  readonly signal: SignalName;
  readonly arrival: number;
  readonly receivedAt: number;
  readonly input: unknown;
}
