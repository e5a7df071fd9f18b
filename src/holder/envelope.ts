import { Encrypter } from 'age-encryption';
import { z } from 'zod';
import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import { encodeBase64url } from './base64url';
import { DOCUMENT_TYPES, signDocument } from './documents';
import type { Invitation } from './invitation';
import { parseShare } from './key-shares';
import type { SigningKey } from './signing-keys';

/** Context of the encrypted part: it is of no use in another protocol. */
export const SHARE_CONTEXT = 'runbooks/share/v1';

const JWS = /^eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

/** The envelope's members (protocol: "Envelope"). `iat` in seconds; it is shown and decides nothing. */
export const envelopePayload = z.strictObject({
  cid: z.string(),
  epoch: z.int().min(1),
  inv: z.string(),
  holder: z.string(),
  seq: z.int().min(0),
  iat: z.int(),
  ct: z.string(),
});
export type EnvelopePayload = z.infer<typeof envelopePayload>;

/**
 * Makes a holder's envelope: the share encrypted to the invitation's recipient and nobody else, signed where a key is
 * given.
 *
 * @param options.seq counts the holder's envelopes; the highest valid one counts.
 * @returns the JWS, or the plain members for a holder without a signing key.
 * @throws RunbookError `INVALID_INPUT` where the share is none, or the run takes none.
 */
export async function createEnvelope(options: {
  readonly invitation: Pick<Invitation, 'cid' | 'epoch' | 'recipient' | 'shares'>;
  readonly invitationDigest: string;
  readonly holder: string;
  readonly seq: number;
  readonly share: Secret<'key-share'>;
  readonly signingKey?: SigningKey;
  readonly now?: number;
}): Promise<string | EnvelopePayload> {
  const { invitation, holder, seq, invitationDigest: inv } = options;
  const { cid, epoch } = invitation;
  if (invitation.shares === 'direct') {
    throw new RunbookError('INVALID_INPUT', 'This run takes no key shares: enter yours in the service yourself.', {
      next: 'The run shows the nonce and the exact command: look at its status.',
    });
  }
  const share = parseShare(options.share.reveal()).reveal();
  const encrypter = new Encrypter();
  encrypter.addRecipient(invitation.recipient);
  const file = await encrypter.encrypt(JSON.stringify({ ctx: SHARE_CONTEXT, inv, cid, epoch, holder, seq, share }));
  const payload: EnvelopePayload = {
    cid,
    epoch,
    inv,
    holder,
    seq,
    iat: Math.floor((options.now ?? Date.now()) / 1000),
    ct: encodeBase64url(file),
  };
  return options.signingKey === undefined ? payload : signDocument(DOCUMENT_TYPES.share, payload, options.signingKey);
}

/** The input of signal `share`: `{document}` where the envelope is signed, else its plain members. */
export function envelopeInput(envelope: string | EnvelopePayload): { readonly document: string } | EnvelopePayload {
  return typeof envelope === 'string' ? { document: envelope } : envelope;
}

/**
 * Reads an envelope that a holder made elsewhere, as it stands in his file: whoever passes it on must not pass on
 * anything else, least of all a share in the clear.
 *
 * @throws RunbookError `INVALID_INPUT`; nothing of the text is repeated.
 */
export function readEnvelopeText(text: string): { readonly document: string } | EnvelopePayload {
  try {
    return z.union([z.strictObject({ document: z.string().regex(JWS) }), envelopePayload]).parse(JSON.parse(text));
  } catch {
    throw new RunbookError('INVALID_INPUT', 'This is not an envelope; nothing was sent.', {
      needed: 'the one line that "runbook share --output" or the holder\'s page made',
    });
  }
}
