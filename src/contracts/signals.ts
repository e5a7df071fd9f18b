import { z } from 'zod';

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
  /** Take a key share that arrived in plain text, with the rekey that this makes mandatory. */
  'use-share',
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

/** The one argument of `pause`, `resume` and `abort`. */
export const runControl = z.strictObject({
  by: name,
  reason: comment.default(''),
  /** `pause` only: hold before the step of this name instead of at once. */
  before: z.string().max(200).optional(),
});
export type RunControl = z.infer<typeof runControl>;

/** A signal that waits to be looked at. `arrival` counts the signals of that name in this run, from 1. */
export interface InboxItem {
  readonly signal: SignalName;
  readonly arrival: number;
  readonly receivedAt: number;
  readonly input: unknown;
}
