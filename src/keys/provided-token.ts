import { z } from 'zod';
import type { EnvelopeReceipt } from '../contracts/receipts';
import { RunbookError, isRunbookError } from '../errors';
import { parseOperationToken } from '../documents/operation-tokens';
import type { Secret } from '../secret';
import type { Arrival } from './envelope';
import { examineEnvelope, receiptOf, TOKEN_CONTEXT } from './envelope';
import type { KeyRecord } from './key-records';
import { decryptEnvelope } from './opening';
import type { PersonLookup } from './people';

const tokenPlaintext = z.strictObject({
  ctx: z.literal(TOKEN_CONTEXT),
  inv: z.string(),
  cid: z.string(),
  epoch: z.int(),
  holder: z.string(),
  seq: z.int(),
  cluster: z.string(),
  token: z.string(),
});

/** What became of one envelope, and the token in it where the verdict is `accepted`. */
interface OpenedToken {
  readonly receipt: EnvelopeReceipt;
  readonly provided?: { readonly cluster: string; readonly token: Secret<'operation-token'> };
}

/**
 * Checks and opens one provided token, where the key is: everything that is checked of a key share's envelope, with the
 * type and context of a token, and that what it holds has the form of an operation token.
 *
 * @param envelope as it arrived; anything at all.
 * @throws RunbookError `DOCUMENT_INVALID` where the keys are not those of a ceremony for operation tokens.
 */
export async function openProvidedToken(
  record: KeyRecord,
  envelope: unknown,
  context: { readonly person: PersonLookup } & Arrival,
): Promise<OpenedToken> {
  if (record.kind !== 'operation-token')
    throw new RunbookError('DOCUMENT_INVALID', 'These keys open no operation token.');
  const { cid, epoch, invitationDigest, holders, exp } = record;
  const ceremony = { cid, epoch, invitationDigest, holders, exp, envelopes: 'tokens' } as const;
  const inspected = await examineEnvelope(envelope, { ...context, ceremony });
  if ('refused' in inspected) return { receipt: inspected.refused };
  const { payload } = inspected;
  const plaintext = await decryptEnvelope(record, payload.ct);
  if (plaintext === undefined) return { receipt: receiptOf(inspected, 'does-not-open') };
  const inner = parsed(plaintext);
  plaintext.fill(0);
  const repeated =
    inner !== undefined &&
    (['inv', 'cid', 'epoch', 'holder', 'seq', 'cluster'] as const).every((member) => inner[member] === payload[member]);
  if (!repeated) return { receipt: receiptOf(inspected, 'mismatch') };
  try {
    const token = parseOperationToken(inner.token);
    return { receipt: receiptOf(inspected, 'accepted'), provided: { cluster: inner.cluster, token } };
  } catch (error) {
    if (!isRunbookError(error, 'INVALID_INPUT')) throw error;
    return { receipt: receiptOf(inspected, 'not-a-token') };
  }
}

function parsed(plaintext: Uint8Array): z.infer<typeof tokenPlaintext> | undefined {
  try {
    return tokenPlaintext.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(plaintext)));
  } catch {
    return undefined;
  }
}
