import type { EnvelopeReceipt } from '../contracts/receipts';
import type { Attestation } from '../contracts/run-facts';
import { unwrapDocument } from '../contracts/signals';
import { claimedHeader } from '../documents/documents';
import { parseOperationToken } from '../documents/operation-tokens';
import { RunbookError, isRunbookError } from '../errors';
import type { Secret } from '../secret';
import { examineEnvelope, receiptOf } from './envelope';
import type { Arrival, InspectedEnvelope } from './envelope';
import type { KeyRecord } from './key-records';
import { openEnvelope } from './opening';
import type { PersonLookup } from './people';

/** What became of one envelope, and the token in it where the verdict is `accepted`. */
interface OpenedToken {
  readonly receipt: EnvelopeReceipt;
  readonly provided?: { readonly cluster: string; readonly token: Secret<'operation-token'> };
}

/** What one answer to a rehearsal proves: this person's tool, key and access work. */
export interface RehearsalAnswer {
  readonly holder: string;
  readonly how: Attestation;
  /** The key with which it was signed; absent where it was not signed. */
  readonly kid?: string;
  /** What the holder's tool says of itself. */
  readonly tool: string;
}

/** What became of one envelope; the answer where the verdict is `accepted`. */
interface OpenedAnswer {
  readonly receipt: EnvelopeReceipt;
  readonly answer?: RehearsalAnswer;
}

type Context = { readonly person: PersonLookup } & Arrival;

/**
 * Checks and opens one provided token, where the key is: everything that is checked of a key share's envelope, with the
 * type and context of a token, and that what it holds has the form of an operation token.
 *
 * @param envelope as it arrived; anything at all.
 * @throws RunbookError `DOCUMENT_INVALID` where the keys are not those of a ceremony for operation tokens.
 */
export async function openProvidedToken(record: KeyRecord, envelope: unknown, context: Context): Promise<OpenedToken> {
  if (record.kind !== 'operation-token')
    throw new RunbookError('DOCUMENT_INVALID', 'These keys open no operation token.');
  const inspected = await examine(record, 'tokens', envelope, context);
  if ('refused' in inspected) return { receipt: inspected.refused };
  const opened = await openEnvelope(record, 'tokens', inspected);
  if ('verdict' in opened) return { receipt: receiptOf(inspected, opened.verdict) };
  const { cluster } = opened.content;
  try {
    const token = parseOperationToken(opened.content.token);
    return { receipt: receiptOf(inspected, 'accepted'), provided: { cluster, token } };
  } catch (error) {
    if (!isRunbookError(error, 'INVALID_INPUT')) throw error;
    return { receipt: receiptOf(inspected, 'not-a-token') };
  }
}

/**
 * Checks and opens one answer to a rehearsal, where the key is: everything that is checked of an envelope of a ceremony,
 * with the types and the context of a rehearsal. The value in it is dropped.
 *
 * @param envelope as it arrived; anything at all.
 * @throws RunbookError `DOCUMENT_INVALID` where the record is a ceremony's.
 */
export async function openRehearsalAnswer(
  record: KeyRecord,
  envelope: unknown,
  context: Context,
): Promise<OpenedAnswer> {
  if (record.kind !== 'rehearsal')
    throw new RunbookError('DOCUMENT_INVALID', 'The keys of a ceremony open no answer to a rehearsal.');
  const inspected = await examine(record, 'rehearsal', envelope, context);
  if ('refused' in inspected) return { receipt: inspected.refused };
  const opened = await openEnvelope(record, 'rehearsal', inspected);
  if ('verdict' in opened) return { receipt: receiptOf(inspected, opened.verdict) };
  const { name: holder, attestation: how } = inspected.person;
  // The key that the envelope names: its signature was verified before.
  const document = unwrapDocument(envelope);
  const kid = typeof document === 'string' ? claimedHeader(document).kid : undefined;
  const { tool } = opened.content;
  return {
    receipt: receiptOf(inspected, 'accepted'),
    answer: { holder, how, tool, ...(kid === undefined ? {} : { kid }) },
  };
}

function examine(
  { cid, epoch, invitationDigest, holders, exp }: KeyRecord,
  envelopes: 'tokens' | 'rehearsal',
  envelope: unknown,
  context: Context,
): Promise<InspectedEnvelope | { readonly refused: EnvelopeReceipt }> {
  return examineEnvelope(envelope, { ...context, ceremony: { cid, epoch, invitationDigest, holders, exp, envelopes } });
}
