import { z } from 'zod';
import { tokenUse } from '../contracts/inputs/common';
import { DOCUMENT_TYPES } from './documents';
import type { PinnedKey } from './public-keys';
import { needForHolder, readForHolder, readSigned } from './signed-invitation';
import type { HolderChecks } from './signed-invitation';

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
  /** One of the people named gives operation tokens that were generated without this run. Absent where key shares are asked for. */
  collects: z.literal('tokens').optional(),
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
  const { said, ...signed } = await readSigned(jws, pins, DOCUMENT_TYPES.invitation, invitationPayload);
  return { invitation: said, ...signed };
}

/**
 * What a holder's tool checks before it asks for a key share: the signer is pinned, the type, not expired, the holder is
 * invited. What it says must still be shown to the holder.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function verifyInvitation(jws: unknown, checks: HolderChecks): Promise<VerifiedInvitation> {
  const verified = await readForHolder(readInvitation(jws, checks.pins));
  needForHolder('invitation', verified.invitation, checks);
  return verified;
}
