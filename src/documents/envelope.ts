import { Encrypter } from 'age-encryption';
import { hex } from '@scure/base';
import { z } from 'zod';
import { jsonIn } from '../contracts/words';
import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import { DOCUMENT_TYPES, SIGNED_DOCUMENT, signDocument } from './documents';
import { encodeBase64url } from './base64url';
import type { Invitation } from './invitation';
import { parseShare } from './key-shares';
import type { SigningKey } from './signing-keys';

/** The length of the longest key share, so that the envelope of a rehearsal is as long as a real one. */
const DUMMY_BYTES = 33;

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
 * As {@link envelopePayload}, around an operation token that people generated themselves (protocol: "Provided token").
 */
export const tokenEnvelopePayload = envelopePayload.extend({ cluster: z.string() });
export type TokenEnvelopePayload = z.infer<typeof tokenEnvelopePayload>;

/** The name and version that a holder's tool reports. */
const toolName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9 .+-]{0,39}$/);

/** What is encrypted: a context that prevents use elsewhere, the outer members repeated, and the content. */
const plaintext = <C extends string, T extends z.ZodRawShape>(ctx: C, content: T) =>
  z.strictObject({
    ctx: z.literal(ctx),
    inv: z.string(),
    cid: z.string(),
    epoch: z.int(),
    holder: z.string(),
    seq: z.int(),
    ...content,
  });

/** The kinds of envelope: the type of the signed document, and what is encrypted in it. No kind passes for another. */
export const ENVELOPES = {
  ceremony: { typ: DOCUMENT_TYPES.share, plaintext: plaintext('runbooks/share/v1', { share: z.string() }) },
  tokens: {
    typ: DOCUMENT_TYPES.token,
    plaintext: plaintext('runbooks/token/v1', { cluster: z.string(), token: z.string() }),
  },
  /** Has no member `share`. `dummy` is a random, meaningless value that the holder's tool generates. */
  rehearsal: {
    typ: DOCUMENT_TYPES.rehearsalShare,
    plaintext: plaintext('runbooks/rehearsal-share/v1', {
      dummy: z.string().regex(/^([0-9a-f]{2}){33}$/),
      tool: toolName,
    }),
  },
} as const;
export type EnvelopeKind = keyof typeof ENVELOPES;

/** What every kind of envelope needs. */
interface EnvelopeOptions {
  readonly invitation: Pick<Invitation, 'cid' | 'epoch' | 'recipient'>;
  /** Digest of the invitation that is answered. */
  readonly invitationDigest: string;
  readonly holder: string;
  /** Counts the holder's envelopes; the highest valid one counts. */
  readonly seq: number;
  readonly signingKey?: SigningKey | undefined;
  /** Milliseconds since 1970. */
  readonly now?: number | undefined;
}

/**
 * Encrypts `content` to the recipient of one invitation and to nobody else, with the members of the envelope repeated
 * inside. Signs the envelope if a key is given.
 *
 * @param outer further members of the envelope.
 * @returns the JWS, or the plain members for a holder without a signing key.
 */
export async function sealEnvelope<O extends object>(
  kind: EnvelopeKind,
  { invitation, invitationDigest: inv, holder, seq, signingKey, now = Date.now() }: EnvelopeOptions,
  content: Readonly<Record<string, string>>,
  outer: O,
): Promise<string | (EnvelopePayload & O)> {
  const { cid, epoch, recipient } = invitation;
  const { typ, plaintext } = ENVELOPES[kind];
  const ctx = plaintext.shape.ctx.value;
  const encrypter = new Encrypter();
  encrypter.addRecipient(recipient);
  const file = await encrypter.encrypt(JSON.stringify({ ctx, inv, cid, epoch, holder, seq, ...outer, ...content }));
  const payload = { cid, epoch, inv, holder, seq, iat: Math.floor(now / 1000), ct: encodeBase64url(file), ...outer };
  return signingKey === undefined ? payload : signDocument(typ, payload, signingKey);
}

/**
 * Creates a holder's envelope: the share encrypted to the invitation's recipient and to nobody else, signed if a key is
 * given.
 *
 * @returns the JWS, or the plain members for a holder without a signing key.
 * @throws RunbookError `INVALID_INPUT` if it is not a key share, or the run asks for tokens instead.
 */
export async function createEnvelope({
  share,
  ...options
}: EnvelopeOptions & {
  readonly invitation: Pick<Invitation, 'collects'>;
  readonly share: Secret<'key-share'>;
}): Promise<string | EnvelopePayload> {
  if (options.invitation.collects === 'tokens') throw noShareWanted();
  return sealEnvelope('ceremony', options, { share: parseShare(share.reveal()).reveal() }, {});
}

/**
 * A holder's answer to a rehearsal. Its value is generated here, by the system's random number generator: a key share
 * cannot be passed in.
 *
 * @param options.tool name and version of the program, shown in the result of the rehearsal.
 * @returns the JWS, or the plain members for a holder without a signing key.
 */
export async function createRehearsalEnvelope({
  tool,
  ...options
}: EnvelopeOptions & { readonly tool: string }): Promise<string | EnvelopePayload> {
  const dummy = hex.encode(globalThis.crypto.getRandomValues(new Uint8Array(DUMMY_BYTES)));
  return sealEnvelope('rehearsal', options, { dummy, tool: toolName.parse(tool) }, {});
}

/** The error if somebody wants to give a key share to a run that asks for tokens. */
export function noShareWanted(): RunbookError {
  return new RunbookError('INVALID_INPUT', 'Do not give your key share: this run takes no key shares.', {
    needed: "an operation token that people generated with the service's command line",
    next: 'Keep your key share. The person who has the operation token gives it with `runbook provide-token`.',
  });
}

/** The input of signal `share`: `{document}` if the envelope is signed, otherwise its plain members. */
export function envelopeInput<P extends EnvelopePayload>(envelope: string | P): { readonly document: string } | P {
  return typeof envelope === 'string' ? { document: envelope } : envelope;
}

/**
 * Reads an envelope that a holder created elsewhere from the text of a file. The person who passes it on must not pass
 * on anything else, least of all a share in plain text.
 *
 * @throws RunbookError `INVALID_INPUT`; the error quotes nothing from the text.
 */
export function readEnvelopeText(text: string): { readonly document: string } | EnvelopePayload {
  const document = z.strictObject({ document: z.string().regex(SIGNED_DOCUMENT) });
  const { data } = z.union([document, tokenEnvelopePayload, envelopePayload]).safeParse(jsonIn(text));
  if (data !== undefined) return data;
  throw new RunbookError('INVALID_INPUT', 'This is not an envelope; nothing was sent.', {
    needed: 'the one line that "runbook share --print" or the holder\'s page printed',
    next: 'Ask the holder for the complete line. If they sent a key share instead, treat it as exposed: tell the operators now.',
  });
}
