import { createHash } from 'node:crypto';
import type { z } from 'zod';
import type { Attestation, Principal } from '../contracts/run-facts';
import { unwrapDocument } from '../contracts/signals';
import { approvalPayload, controlPayload, decisionPayload, declinePayload } from '../contracts/payloads';
import type { ControlAction, DecisionAction } from '../contracts/signals';
import type { ApprovalPayload, ControlPayload, DecisionPayload, DeclinePayload } from '../contracts/payloads';
import { RunbookError } from '../errors';
import { DOCUMENT_TYPES, signDocument, strictBase64url, verifyDocument } from './documents';
import type { DocumentType } from './documents';
import { isAmong, keyOfPerson } from './people';
import type { PersonFacts, PersonLookup } from './people';
import { redact } from './redaction';
import type { RunContext } from './sealing';
import type { SigningKey } from './signing-keys';

/** What an approval or decision must fit, read by the activity itself. */
export interface DocumentContext {
  readonly run: RunContext;
  readonly person: PersonLookup;
  /**
   * The server's principal on the signal's event, where authentication is on; a function is asked for it only where the
   * inventory demands it of the person.
   */
  readonly principal?: Principal | (() => Promise<Principal | undefined>) | undefined;
}

/** An approval that fits its gate and its plan, by a person of the inventory. */
export interface VerifiedApproval {
  readonly name: string;
  readonly how: Attestation;
  readonly verdict: 'approve' | 'reject';
  /** Redacted. */
  readonly comment: string;
  /** Seconds since 1970, as the person's machine says; shown, never decides. */
  readonly iat: number;
  /** Tells documents apart: each counts once. */
  readonly digest: string;
}

/** A decision that fits this run and this parking, by a person of the inventory. */
export interface VerifiedDecision {
  readonly name: string;
  readonly how: Attestation;
  readonly action: DecisionAction;
  /** Redacted. */
  readonly reason: string;
  readonly step: string;
  readonly parkingNo: number;
  readonly iat: number;
  readonly digest: string;
}

/** An order to a whole run that fits it, by a person of the inventory. */
export interface VerifiedControl {
  readonly name: string;
  readonly how: Attestation;
  /** Redacted. */
  readonly reason: string;
  readonly before?: string;
  readonly digest: string;
}

/** A decline that fits this run, ceremony and epoch, by a holder who is invited. */
interface VerifiedDecline {
  readonly name: string;
  readonly how: Attestation;
  /** Redacted. */
  readonly reason: string;
  readonly iat: number;
}

function refuse(why: string): never {
  throw new RunbookError('DOCUMENT_INVALID', `The document is refused: ${why}.`);
}

/** Signs an approval (protocol: "Approvals and decisions"). */
export async function signApproval(payload: ApprovalPayload, key: SigningKey): Promise<string> {
  return signDocument(DOCUMENT_TYPES.approval, payload, key);
}

/** Signs a decision about a parked step. */
export async function signDecision(payload: DecisionPayload, key: SigningKey): Promise<string> {
  return signDocument(DOCUMENT_TYPES.decision, payload, key);
}

/**
 * Verifies an approval: form, the attestation that the inventory demands of the named person, the run, the gate and the
 * plan's digest.
 *
 * @param document a JWS, or the plain members where the inventory lets the person claim.
 * @throws RunbookError `DOCUMENT_INVALID`; the text repeats nothing of the document.
 */
export async function verifyApproval(
  document: unknown,
  context: DocumentContext & { readonly gate: string; readonly planDigest: string },
): Promise<VerifiedApproval> {
  const { payload, person, digest, how } = await readAttested(
    document,
    DOCUMENT_TYPES.approval,
    approvalPayload,
    context,
  );
  if (payload.gate !== context.gate) refuse('it is for another gate');
  if (payload.planDigest !== context.planDigest) refuse('it approves another plan than the one of this run');
  const { verdict, iat } = payload;
  return { name: person.name, how, verdict, comment: redact(payload.comment), iat, digest };
}

/**
 * Verifies a decision: form, the attestation that the inventory demands of the named person, the run, the step and the
 * number of the parking, so that one decision never serves two parkings.
 *
 * @param context.parked the step that is parked now; without it every step of this run fits (its caller compares).
 * @throws RunbookError `DOCUMENT_INVALID`; the text repeats nothing of the document.
 */
export async function verifyDecision(
  document: unknown,
  context: DocumentContext & { readonly parked?: { readonly step: string; readonly parkingNo: number } },
): Promise<VerifiedDecision> {
  const { payload, person, digest, how } = await readAttested(
    document,
    DOCUMENT_TYPES.decision,
    decisionPayload,
    context,
  );
  const { step, parkingNo, action, iat } = payload;
  if (context.parked !== undefined) {
    if (step !== context.parked.step) refuse('it decides about another step than the one that is parked');
    if (parkingNo !== context.parked.parkingNo) refuse('it decides about another parking of this step');
  }
  return { name: person.name, how, action, reason: redact(payload.reason), step, parkingNo, iat, digest };
}

/** Signs an order to a whole run: to hold it, let it go on, end it, or become a failover. */
export async function signControl(payload: ControlPayload, key: SigningKey): Promise<string> {
  return signDocument(DOCUMENT_TYPES.control, payload, key);
}

/**
 * Verifies an order to a whole run: form, the attestation that the inventory demands of the named person, the run and
 * what is ordered.
 *
 * @throws RunbookError `DOCUMENT_INVALID`; the text repeats nothing of the document.
 */
export async function verifyControl(
  document: unknown,
  context: DocumentContext & { readonly action: ControlAction },
): Promise<VerifiedControl> {
  const { payload, person, digest, how } = await readAttested(
    document,
    DOCUMENT_TYPES.control,
    controlPayload,
    context,
  );
  if (payload.action !== context.action) refuse('it orders something else than its signal');
  const { before } = payload;
  const reason = redact(payload.reason);
  return { name: person.name, how, reason, ...(before === undefined ? {} : { before: redact(before) }), digest };
}

/** Signs a holder's decline. */
export async function signDecline(payload: DeclinePayload, key: SigningKey): Promise<string> {
  return signDocument(DOCUMENT_TYPES.decline, payload, key);
}

/**
 * Verifies a decline: form, the attestation that the inventory demands of the named person, the run, the ceremony and
 * its epoch, and that this person is invited.
 *
 * @throws RunbookError `DOCUMENT_INVALID`; the text repeats nothing of the document.
 */
export async function verifyDecline(
  document: unknown,
  context: DocumentContext & {
    readonly ceremony: { readonly cid: string; readonly epoch: number; readonly holders: readonly string[] };
  },
): Promise<VerifiedDecline> {
  const { payload, person, how } = await readAttested(document, DOCUMENT_TYPES.decline, declinePayload, context);
  const { cid, epoch, holders } = context.ceremony;
  if (payload.cid !== cid) refuse('it is for another ceremony');
  if (payload.epoch !== epoch) refuse('it is for another round of this ceremony');
  if (!holders.includes(person.name)) refuse('the named person is not asked for a key share here');
  // One line: it is shown among others.
  const reason = redact(payload.reason).replace(/\s+/g, ' ').trim();
  return { name: person.name, how, reason, iat: payload.iat };
}

interface Attestable extends RunContext {
  readonly name: string;
}

async function readAttested<T extends Attestable>(
  input: unknown,
  typ: DocumentType,
  schema: z.ZodType<T>,
  context: DocumentContext,
): Promise<{ payload: T; person: PersonFacts; digest: string; how: Attestation }> {
  const document = unwrapDocument(input);
  const jws = typeof document === 'string' ? document : undefined;
  const claimed = parsePayload(schema, jws === undefined ? document : unverifiedPayload(jws));
  const person = context.person(claimed.name) ?? refuse('the inventory does not know the person that it names');

  const signed = jws === undefined ? undefined : await verifyDocument(jws, typ, (kid) => keyOfPerson(person, kid));
  const payload = signed === undefined ? claimed : parsePayload(schema, signed.payload);
  if (signed === undefined && person.attestation === 'signed')
    refuse('the inventory demands a signature of this person');
  if (person.attestation === 'principal') {
    const { principal } = context;
    const sender = typeof principal === 'function' ? await principal() : principal;
    if (sender === undefined) refuse('the server recorded nobody as its sender: is authentication on?');
    if (!isAmong(person, [sender])) refuse('the server saw somebody else send it');
  }
  const { ns, wid, rid } = context.run;
  if (payload.ns !== ns || payload.wid !== wid) refuse('it is for another workflow');
  if (payload.rid !== rid) refuse('it is for another run of this workflow');
  return {
    payload,
    person,
    digest:
      signed?.digest ??
      createHash('sha256')
        .update(JSON.stringify([typ, ...Object.entries(payload).sort()]))
        .digest('base64url'),
    how: person.attestation,
  };
}

function parsePayload<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  return parsed.success ? parsed.data : refuse('it does not have the members that it must have');
}

/** The name in a document tells whose keys to try; nothing else is used before the signature verifies. */
function unverifiedPayload(jws: string): unknown {
  try {
    const bytes = strictBase64url(jws.split('.')[1] ?? '');
    return bytes === undefined ? undefined : JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}
