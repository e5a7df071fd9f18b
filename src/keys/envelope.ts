import { hash } from 'node:crypto';
import type { EnvelopeReceipt, EnvelopeVerdictCode } from '../contracts/receipts';
import type { Principal } from '../contracts/run-facts';
import { unwrapDocument } from '../contracts/signals';
import { claimedHeader, claimedPayload, documentDigest } from '../documents/documents';
import { decodeBase64url } from '../documents/base64url';
import { DOCUMENT_TYPES, MAX_DOCUMENT_LENGTH, SIGNED_DOCUMENT, verifyDocument } from '../documents/documents';
import type { DocumentType } from '../documents/documents';
import { envelopePayload, ENVELOPES, tokenEnvelopePayload } from '../documents/envelope';
import type { EnvelopeKind, EnvelopePayload } from '../documents/envelope';
import { someText, textHoldsToken } from '../contracts/plain-shares';
import { looksLikeShare } from '../documents/key-shares';
import type { NewKeyRecord } from './key-records';
import { isSender, keyOfPerson } from './people';
import type { People, PersonFacts } from './people';

/** What stage 1 must know about the ceremony; every member is public. */
type CeremonyFacts = Pick<NewKeyRecord, 'cid' | 'epoch' | 'invitationDigest' | 'holders' | 'exp'>;

/** An envelope as it arrived. */
export interface ArrivedEnvelope {
  /** Unvalidated: anything at all. */
  readonly content: unknown;
  /** Time of the signal's event in milliseconds. Only this time decides about expiry. */
  readonly at: number;
  /** The server's principal on the signal's event, if authentication is on. */
  readonly principal?: Principal | undefined;
}

/** An envelope that passed stage 1. */
export interface InspectedEnvelope {
  readonly payload: EnvelopePayload & { readonly cluster?: string };
  readonly digest: string;
  readonly person: PersonFacts;
}

const ENVELOPE_TYPES: ReadonlySet<string | undefined> = new Set(Object.values(ENVELOPES).map(({ typ }) => typ));

/** The receipt for an envelope that passed stage 1. */
export function receiptOf(
  { payload, digest }: InspectedEnvelope,
  verdict: EnvelopeVerdictCode = 'accepted',
): EnvelopeReceipt {
  return { holder: payload.holder, seq: payload.seq, envelopeDigest: digest, verdict };
}

/**
 * Stage 1, on arrival: cheap, and without ceremony keys. Checks size, form, plain text, ceremony, epoch, holder, the
 * attestation that the inventory requires of this person, and time.
 *
 * @param kind what is collected; envelopes of another kind are refused.
 * @returns the members of an envelope that passes; otherwise a receipt that quotes nothing of what arrived, except a
 * known holder's name and the sequence number.
 */
export async function examineEnvelope(
  { content, at, principal }: ArrivedEnvelope,
  ceremony: CeremonyFacts,
  people: People,
  kind: EnvelopeKind = 'ceremony',
): Promise<InspectedEnvelope | { readonly refused: EnvelopeReceipt }> {
  const wanted = ENVELOPES[kind].typ;
  const read = readEnvelope(unwrapDocument(content), wanted);
  if (typeof read === 'string') return { refused: { envelopeDigest: '', verdict: read } };
  const { payload, digest, jws } = read;
  const person = people.get(payload.holder);
  const refuse = (verdict: EnvelopeVerdictCode) => ({
    // A name that the inventory does not list is the sender's text: it could be anything.
    refused: { ...(person && { holder: person.name, seq: payload.seq }), envelopeDigest: digest, verdict },
  });

  const typ = jws === undefined ? wanted : claimedHeader(jws).typ;
  if (typ !== wanted && ENVELOPE_TYPES.has(typ)) return refuse('other-kind');
  if (payload.cid !== ceremony.cid) return refuse('wrong-ceremony');
  if (payload.epoch !== ceremony.epoch) return refuse('wrong-epoch');
  if (payload.inv !== ceremony.invitationDigest) return refuse('wrong-ceremony');
  if (person === undefined || !ceremony.holders.includes(payload.holder)) return refuse('not-invited');
  const attestation = await checkAttestation(jws, wanted, person, principal);
  if (attestation !== undefined) return refuse(attestation);
  if (at > ceremony.exp * 1000) return refuse('expired');
  return { payload, digest, person };
}

/** Checks what the inventory requires of this person; the envelope cannot lower it. Undefined if it is met. */
async function checkAttestation(
  jws: string | undefined,
  wanted: DocumentType,
  person: PersonFacts,
  principal: Principal | undefined,
): Promise<EnvelopeVerdictCode | undefined> {
  if (jws === undefined) {
    if (person.attestation === 'signed') return 'not-signed';
  } else {
    try {
      await verifyDocument(jws, wanted, (kid) => keyOfPerson(person, kid));
    } catch {
      return 'wrong-signer';
    }
  }
  return person.attestation === 'principal' && !isSender(person, principal) ? 'wrong-signer' : undefined;
}

function readEnvelope(
  input: unknown,
  wanted: DocumentType,
): { payload: InspectedEnvelope['payload']; digest: string; jws: string | undefined } | EnvelopeVerdictCode {
  if (sizeOf(input) > MAX_DOCUMENT_LENGTH) return 'too-large';
  const jws = typeof input === 'string' && SIGNED_DOCUMENT.test(input) ? input : undefined;
  // Unverified: a plain-text share must be found even if the signature is wrong.
  const members = jws === undefined ? input : claimedPayload(jws);
  const type = jws === undefined ? wanted : claimedHeader(jws).typ;
  const parsed = (type === DOCUMENT_TYPES.token ? tokenEnvelopePayload : envelopePayload).safeParse(members);
  if (!parsed.success) {
    const isPlain = (text: string) => looksLikeShare(text) || textHoldsToken(text);
    return someText(withoutExpected(members), isPlain) ? 'plain-text-share' : 'malformed';
  }

  const payload: InspectedEnvelope['payload'] = parsed.data;
  const { cid, inv, holder, ct } = payload;
  const misplaced = looksLikeShare(cid) || looksLikeShare(holder) || (!isDigest(inv) && looksLikeShare(inv));
  if (misplaced || looksLikeShare(ct)) return 'plain-text-share';
  return { payload, digest: jws === undefined ? plainDigest(payload, wanted) : documentDigest(jws), jws };
}

function sizeOf(input: unknown): number {
  try {
    return typeof input === 'string' ? input.length : JSON.stringify(input ?? null).length;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function isDigest(text: string): boolean {
  return decodeBase64url(text)?.length === 32 && text.length === 43;
}

/** An envelope that lacks a member is malformed, not a leak: a digest in its proper place is not taken for a share. */
function withoutExpected(members: unknown): unknown {
  if (typeof members !== 'object' || members === null || Array.isArray(members)) return members;
  return Object.fromEntries(
    Object.entries(members).filter(([key, value]) => !(key === 'inv' && typeof value === 'string' && isDigest(value))),
  );
}

/** Digest of an unsigned envelope, over its members in the order of the protocol. */
function plainDigest(payload: InspectedEnvelope['payload'], typ: DocumentType): string {
  const { cid, epoch, inv, holder, seq, iat, ct, cluster } = payload;
  const members = [typ, cid, epoch, inv, holder, seq, iat, ct, ...(cluster === undefined ? [] : [cluster])];
  return hash('sha256', JSON.stringify(members), 'base64url');
}
