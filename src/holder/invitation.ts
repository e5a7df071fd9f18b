import { z } from 'zod';
import { tokenUse } from '../contracts/inputs/common';
import { RunbookError } from '../errors';
import { decodeBase64url } from './base64url';
import { DOCUMENT_TYPES, verifyDocument } from './documents';
import { importPublicKey } from './public-keys';
import type { PinnedKey } from './public-keys';
import { clock } from './words';

/** What a target's token may be used for; a root token is asked for as such. */
export const invitationUse = z.enum([...tokenUse.options, 'root-token.generate']);
export type InvitationUse = z.infer<typeof invitationUse>;

const invitationTarget = z.strictObject({
  cluster: z.string(),
  clusterId: z.string(),
  addresses: z.array(z.string()).min(1),
  /** SHA-256 (hexadecimal) of the CA file, empty where system roots are used. */
  caSha256: z.string(),
  uses: z.array(invitationUse).min(1),
});

/** The invitation's members (protocol: "Invitation"). Times in seconds since 1970. */
export const invitationPayload = z.strictObject({
  cid: z.uuid(),
  epoch: z.int().min(1),
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  kind: z.enum(['operation-token', 'root-token']),
  targets: z.array(invitationTarget).min(1),
  requestedBy: z.strictObject({ name: z.string(), how: z.enum(['signed', 'principal', 'claimed']) }),
  reason: z.string(),
  runbook: z.string(),
  inputDigest: z.string(),
  holders: z.array(z.string()).min(1),
  threshold: z.int().min(1),
  recipient: z.string().startsWith('age1pq1'),
  /** Fingerprint of the OpenPGP key to which the token is encrypted: the ceremony's, or the recipient's. */
  pgp: z.string().regex(/^[0-9a-f]{40}$/),
  erasure: z.enum(['memory', 'best-effort']),
  iat: z.int(),
  exp: z.int(),
  useFor: z.int(),
  /** Those of the holders who stand by: asked later, or when somebody declines. Absent where nobody does. */
  standBy: z.array(z.string()).min(1).optional(),
  /** So many shares must come from each of these groups: the site's own policy. Absent where there is none. */
  groups: z
    .array(z.strictObject({ group: z.string(), shares: z.int().min(1) }))
    .min(1)
    .optional(),
  /** The holders enter their shares in the service themselves, and give none to any tool. Absent where they seal them. */
  shares: z.literal('direct').optional(),
});
export type Invitation = z.infer<typeof invitationPayload>;
export type InvitationTarget = z.infer<typeof invitationTarget>;

/** An invitation that a known key signed. */
export interface VerifiedInvitation {
  readonly invitation: Invitation;
  readonly digest: string;
  /** The name under which the signer's key is pinned. */
  readonly environment: string;
}

/**
 * Verifies who signed an invitation and its form. Expiry and holder are for {@link verifyInvitation}.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function readInvitation(jws: unknown, pins: readonly PinnedKey[]): Promise<VerifiedInvitation> {
  const verified = await verifyDocument(jws, DOCUMENT_TYPES.invitation, (kid) => {
    const pin = pins.find((candidate) => candidate.kid === kid);
    return pin && { name: pin.environment, publicKey: importPublicKey(pin.x) };
  });
  const parsed = invitationPayload.safeParse(verified.payload);
  if (!parsed.success)
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation does not have the members of an invitation.');
  return { invitation: parsed.data, digest: verified.digest, environment: verified.signer };
}

/**
 * What a holder's tool checks before it asks for a key share: the signer is pinned, the type, not expired, the holder is
 * invited. What it says must still be shown to the holder.
 *
 * @param options.now milliseconds since 1970.
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function verifyInvitation(
  jws: unknown,
  options: { readonly pins: readonly PinnedKey[]; readonly now: number; readonly holder: string },
): Promise<VerifiedInvitation> {
  const verified = await readInvitation(jws, options.pins);
  if (verified.invitation.exp * 1000 <= options.now) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation is expired; ask for the current one.', {
      observed: `it ended at ${clock(verified.invitation.exp * 1000, options.now)}, and the clock of this device says ${clock(options.now, options.now)}`,
      next: 'Get the current invitation from the run. If the time above is wrong, set the clock of this device.',
    });
  }
  if (!verified.invitation.holders.includes(options.holder)) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation does not invite you.', {
      needed: `one of the names that it invites: ${verified.invitation.holders.join(', ')}`,
      next: 'If one of them is you, give your name exactly so. If none is, your share is not asked for.',
    });
  }
  return verified;
}

/** The key that a document names, unverified: only to tell a person which fingerprint to compare. */
export function namedSigner(jws: string): string | undefined {
  try {
    const bytes = decodeBase64url(jws.split('.')[0] ?? '');
    const header: unknown = JSON.parse(new TextDecoder().decode(bytes));
    const kid: unknown = typeof header === 'object' && header !== null && 'kid' in header ? header.kid : undefined;
    return typeof kid === 'string' && /^[A-Za-z0-9_-]{43}$/.test(kid) ? kid : undefined;
  } catch {
    return undefined;
  }
}
