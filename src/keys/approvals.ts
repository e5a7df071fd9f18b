import { hash } from 'node:crypto';
import type { z } from 'zod';
import { nextCommandOf } from '../contracts/next-commands';
import type { Attestation, Principal } from '../contracts/run-facts';
import { approvalPayload, controlPayload, decisionPayload } from '../contracts/payloads';
import type { ApprovalPayload, ControlPayload, DecisionPayload } from '../contracts/payloads';
import { unwrapDocument } from '../contracts/signals';
import type { ControlAction } from '../contracts/signals';
import type { GateName } from '../contracts/gates';
import { RunbookError } from '../errors';
import {
  claimedPayload,
  DOCUMENT_TYPES,
  documentDigest,
  MAX_DOCUMENT_LENGTH,
  SIGNED_DOCUMENT,
  verifyDocument,
} from '../documents/documents';
import type { DocumentType } from '../documents/documents';
import { isSender, keyOfPerson } from './people';
import type { People } from './people';
import { redact } from '../secret';
import type { RunContext } from './sealing';

/** What an approval or decision must match. The activity reads it itself. */
export interface DocumentContext {
  readonly run: RunContext;
  readonly people: People;
  /** The server's principal on the signal's event, if authentication is on. */
  readonly principal?: Principal | undefined;
}

/** A verified statement of a person in the inventory about this run. Texts are redacted; `iat` is only shown. */
type Verified<P> = Omit<P, keyof RunContext> & {
  readonly how: Attestation;
  /** Identifies the document, however often and in whatever form it is sent: each counts once. */
  readonly digest: string;
};
export type VerifiedApproval = Omit<Verified<ApprovalPayload>, 'gate' | 'planDigest'>;
export type VerifiedDecision = Verified<DecisionPayload>;
export type VerifiedControl = Verified<ControlPayload>;

function refuse(why: string, next?: string): never {
  throw new RunbookError('DOCUMENT_INVALID', `The document is refused: ${why}.`, { next });
}

/**
 * Verifies an approval: form, the attestation that the inventory requires of the named person, the run, the gate and
 * the plan's digest.
 *
 * @param document a JWS, or the plain members if the inventory accepts claims of this person.
 * @throws RunbookError `DOCUMENT_INVALID`; the message quotes nothing of the document.
 */
export async function verifyApproval(
  document: unknown,
  context: DocumentContext & { readonly gate: GateName; readonly planDigest: string },
): Promise<VerifiedApproval> {
  const approval = await readAttested(document, DOCUMENT_TYPES.approval, approvalPayload, context);
  const { run, gate } = context;
  if (approval.gate !== gate)
    refuse(
      `it is for another gate; gate ${gate} is open`,
      `\`${nextCommandOf.status(run.wid)}\` shows what the run waits for. A gate that has passed cannot be taken back: \`${nextCommandOf.control('abort', run.wid)}\` stops the run`,
    );
  if (approval.planDigest !== context.planDigest)
    refuse(
      'it is for another plan; the plan of this run may have changed',
      `read the current plan: \`${nextCommandOf.approve(run.wid, gate)}\``,
    );
  return approval;
}

/**
 * Verifies a decision: form, the attestation that the inventory requires of the named person, and the run. The caller
 * must compare the step and how often it has parked, so that one decision never serves twice.
 *
 * @throws RunbookError `DOCUMENT_INVALID`; the message quotes nothing of the document.
 */
export function verifyDecision(document: unknown, context: DocumentContext): Promise<VerifiedDecision> {
  return readAttested(document, DOCUMENT_TYPES.decision, decisionPayload, context);
}

/**
 * Verifies an order to a complete run: form, the attestation that the inventory requires of the named person, the run
 * and the action. For a take-over also the input of the failover that it orders.
 *
 * @throws RunbookError `DOCUMENT_INVALID`; the message quotes nothing of the document.
 */
export async function verifyControl(
  document: unknown,
  context: DocumentContext & { readonly action: ControlAction; readonly inputDigest?: string | undefined },
): Promise<VerifiedControl> {
  const order = await readAttested(document, DOCUMENT_TYPES.control, controlPayload, context);
  if (order.action !== context.action) refuse('its action is not that of its signal');
  if (order.inputDigest !== context.inputDigest) refuse('it orders a failover with another input');
  return order;
}

/** The digest that a signed document has once it is verified; undefined for anything else. Verifies nothing. */
export function digestOfSigned(input: unknown): string | undefined {
  const document = unwrapDocument(input);
  const isSigned =
    typeof document === 'string' && document.length <= MAX_DOCUMENT_LENGTH && SIGNED_DOCUMENT.test(document);
  return isSigned ? documentDigest(document) : undefined;
}

interface Attestable extends RunContext {
  readonly name: string;
}

async function readAttested<T extends Attestable>(
  input: unknown,
  typ: DocumentType,
  schema: z.ZodType<T>,
  context: DocumentContext,
): Promise<Verified<T>> {
  const document = unwrapDocument(input);
  const jws = typeof document === 'string' ? document : undefined;
  // The name in a document selects the keys to try; nothing else is used before the signature verifies.
  const claimed = parsePayload(schema, jws === undefined ? document : claimedPayload(jws));
  const person = context.people.get(claimed.name) ?? refuse('it names a person whom the inventory does not list');

  const signed = jws === undefined ? undefined : await verifyDocument(jws, typ, (kid) => keyOfPerson(person, kid));
  const payload = signed === undefined ? claimed : parsePayload(schema, signed.payload);
  if (signed === undefined && person.attestation === 'signed')
    refuse('the inventory requires a signature of this person: add --key-file YOUR-KEY-FILE to the command');
  if (person.attestation === 'principal') {
    if (context.principal === undefined) refuse('the server recorded no sender (is authentication on?)');
    if (!isSender(person, context.principal)) refuse('the server recorded somebody else as its sender');
  }
  const { ns, wid, rid, ...statement } = payload;
  if (ns !== context.run.ns || wid !== context.run.wid) refuse('it is for another workflow');
  if (rid !== context.run.rid) refuse('it is for another run of this workflow');
  return {
    ...redactedTexts(statement),
    how: person.attestation,
    digest: signed?.digest ?? hash('sha256', JSON.stringify([typ, ...Object.entries(payload).sort()]), 'base64url'),
  };
}

/** Redacts what a person wrote, which may contain anything. Names are compared, and stay unchanged. */
function redactedTexts<T extends object>(statement: T): T {
  const entries = Object.entries(statement).map(([member, value]: [string, unknown]) => [
    member,
    typeof value === 'string' && ['comment', 'reason'].includes(member) ? redact(value) : value,
  ]);
  return Object.fromEntries(entries) as T;
}

function parsePayload<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  return parsed.success ? parsed.data : refuse('it does not have the required members');
}

/** Who must approve (a gate of the inventory satisfies it). */
interface GateRule {
  /** How many different people must approve. */
  readonly approvals: number;
  /** Each of these groups must be represented; only their members count. */
  readonly groups: readonly string[];
  readonly excludeRequester: boolean;
  /** Names of the members, to show who is missing. */
  readonly approvers: readonly string[];
}

/** A verified approval with the groups of its person, from the inventory. */
export interface CountedApproval {
  readonly name: string;
  readonly groups: readonly string[];
  readonly verdict: 'approve' | 'reject';
}

/**
 * Evaluates a gate's policy: `approvals` different people out of `groups`, every group represented (one person may
 * represent several), the requester not counted if excluded. A rejection by anybody who may approve closes the gate,
 * even by the requester, and even after that person's own approval. Pure.
 *
 * @param requester name of the person who asked for the run.
 * @returns what is `missing`, as text for people (empty if the gate is satisfied or rejected); who rejected first;
 * whose approvals count, in the order of arrival.
 */
export function evaluateGate(policy: GateRule, requester: string | undefined, approvals: readonly CountedApproval[]) {
  const members = approvals.filter(({ groups }) => groups.some((group) => policy.groups.includes(group)));
  const excluded = policy.excludeRequester ? requester : undefined;
  const counted = new Map<string, CountedApproval>();
  for (const approval of members) {
    const counts = approval.verdict === 'approve' && approval.name !== excluded && !counted.has(approval.name);
    if (counts) counted.set(approval.name, approval);
  }
  const approvedBy = [...counted.keys()];

  const rejection = members.find(({ verdict }) => verdict === 'reject');
  if (rejection !== undefined) return { satisfied: false, missing: [], rejectedBy: rejection.name, approvedBy };

  const missing: string[] = [];
  const others = excluded === undefined ? '' : `, other than the requester ${excluded}`;
  const lacking = policy.approvals - counted.size;
  const left = policy.approvers.filter((name) => name !== excluded && !counted.has(name));
  if (lacking > 0)
    missing.push(`${lacking} more${left.length > 0 ? ` of ${left.join(', ')}` : ': no other approver has joined'}`);
  for (const group of policy.groups) {
    const represented = [...counted.values()].some(({ groups }) => groups.includes(group));
    if (!represented && policy.groups.length > 1) missing.push(`an approval by a member of ${group}${others}`);
  }
  return { satisfied: missing.length === 0, missing, approvedBy };
}
