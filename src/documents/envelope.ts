import { Encrypter } from 'age-encryption';
import { z } from 'zod';
import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import { encodeBase64url } from './base64url';
import { DOCUMENT_TYPES, signDocument } from './documents';
import type { DocumentType } from './documents';
import type { Invitation } from './invitation';
import { parseShare } from './key-shares';
import { parseOperationToken } from './operation-tokens';
import type { SigningKey } from './signing-keys';

/** Context of the encrypted part: it is of no use in another protocol. */
export const SHARE_CONTEXT = 'runbooks/share/v1';
/** As {@link SHARE_CONTEXT}, of a provided token. */
export const TOKEN_CONTEXT = 'runbooks/token/v1';

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

/** As {@link envelopePayload}, around an operation token that people generated themselves (protocol: "Provided token"). */
export const tokenEnvelopePayload = envelopePayload.extend({ cluster: z.string() });
export type TokenEnvelopePayload = z.infer<typeof tokenEnvelopePayload>;

/** What every envelope of a holder says of itself. */
export interface EnvelopeOptions {
  /** Digest of the invitation that is answered. */
  readonly inv: string;
  readonly holder: string;
  /** Counts the holder's envelopes; the highest valid one counts. */
  readonly seq: number;
  readonly signingKey?: SigningKey | undefined;
  /** Milliseconds since 1970. */
  readonly now?: number | undefined;
}

/**
 * Encrypts `content` to the recipient of one invitation and to nobody else, with the members of the envelope repeated
 * inside; signed where a key is given.
 *
 * @param outer further members of the envelope.
 * @param typ type of the signed document; `ctx` is the context of its encrypted part.
 * @returns the JWS, or the plain members for a holder without a signing key.
 */
export async function sealEnvelope<O extends object>(
  { typ, ctx }: { readonly typ: DocumentType; readonly ctx: string },
  { cid, epoch, recipient }: Pick<Invitation, 'cid' | 'epoch' | 'recipient'>,
  { inv, holder, seq, signingKey, now = Date.now() }: EnvelopeOptions,
  content: Readonly<Record<string, string>>,
  outer: O,
): Promise<string | (EnvelopePayload & O)> {
  const encrypter = new Encrypter();
  encrypter.addRecipient(recipient);
  const file = await encrypter.encrypt(JSON.stringify({ ctx, inv, cid, epoch, holder, seq, ...outer, ...content }));
  const ct = encodeBase64url(file);
  const payload = { cid, epoch, inv, holder, seq, iat: Math.floor(now / 1000), ct, ...outer };
  return signingKey === undefined ? payload : signDocument(typ, payload, signingKey);
}

/**
 * Makes a holder's envelope: the share encrypted to the invitation's recipient and nobody else, signed where a key is
 * given.
 *
 * @returns the JWS, or the plain members for a holder without a signing key.
 * @throws RunbookError `INVALID_INPUT` where the share is none.
 */
export async function createEnvelope({
  invitation,
  invitationDigest: inv,
  share,
  ...options
}: Omit<EnvelopeOptions, 'inv'> & {
  readonly invitation: Pick<Invitation, 'cid' | 'epoch' | 'recipient' | 'collects'>;
  readonly invitationDigest: string;
  readonly share: Secret<'key-share'>;
}): Promise<string | EnvelopePayload> {
  if (invitation.collects === 'tokens') throw noShareWanted();
  const content = { share: parseShare(share.reveal()).reveal() };
  return sealEnvelope({ typ: DOCUMENT_TYPES.share, ctx: SHARE_CONTEXT }, invitation, { ...options, inv }, content, {});
}

/**
 * As {@link createEnvelope}, with an operation token of one of the invitation's clusters.
 *
 * @throws RunbookError `INVALID_INPUT` where it is no such token, or the run takes none of that cluster.
 */
export async function createTokenEnvelope({
  invitation,
  invitationDigest: inv,
  cluster,
  token,
  ...options
}: Omit<EnvelopeOptions, 'inv'> & {
  readonly invitation: Invitation;
  readonly invitationDigest: string;
  readonly cluster: string;
  readonly token: Secret<'operation-token'>;
}): Promise<string | TokenEnvelopePayload> {
  if (invitation.collects !== 'tokens' || !invitation.targets.some((target) => target.cluster === cluster))
    throw new RunbookError('INVALID_INPUT', 'This run asks for no operation token of that cluster.', {
      next: 'Name a cluster of the invitation, on which the token was generated.',
    });
  const content = { token: parseOperationToken(token.reveal()).reveal() };
  const types = { typ: DOCUMENT_TYPES.token, ctx: TOKEN_CONTEXT };
  return sealEnvelope(types, invitation, { ...options, inv }, content, { cluster });
}

/** In a run to which people give tokens, a key share is given to nothing but the service. */
export function noShareWanted(): RunbookError {
  return new RunbookError('INVALID_INPUT', 'This run takes no key shares: yours is not asked for.', {
    needed: 'an operation token that people generated with the command line of the service',
    next: 'Keep your key share. Whoever has the operation token gives it: `runbook provide-token`.',
  });
}

/** The input of signal `share`: `{document}` where the envelope is signed, else its plain members. */
export function envelopeInput<P extends EnvelopePayload>(envelope: string | P): { readonly document: string } | P {
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
    const document = z.strictObject({ document: z.string().regex(JWS) });
    return z.union([document, tokenEnvelopePayload, envelopePayload]).parse(JSON.parse(text));
  } catch {
    throw new RunbookError('INVALID_INPUT', 'This is not an envelope; nothing was sent.', {
      needed: 'the one line that "runbook share --output" or the holder\'s page made',
      next: 'Ask the holder for the whole line. Did he send a key share instead? Treat it as exposed: tell the operators now.',
    });
  }
}
