import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { tokenUse } from '../contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../errors';
import { createCeremonyKeys } from './ceremony-keys';
import { DOCUMENT_TYPES, documentDigest, signDocument, verifyDocument } from './documents';
import type { KeyRecord, KeyRecords } from './key-records';
import type { RunContext } from './sealing';
import { importPublicKey } from './signing-keys';
import type { PublicKeyEntry, SigningKey } from './signing-keys';

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
});
export type Invitation = z.infer<typeof invitationPayload>;
export type InvitationTarget = z.infer<typeof invitationTarget>;

/** What an invitation is made of. The activity reads it from inventory and service; nothing here is a key. */
export interface InvitationFacts extends Pick<Invitation, 'kind' | 'targets' | 'requestedBy' | 'reason' | 'runbook'> {
  readonly inputDigest: string;
  readonly holders: readonly string[];
  /** As read from the service. */
  readonly threshold: number;
  readonly epoch: number;
  /** The ceremony that this epoch belongs to; a new one where it is not given. */
  readonly cid?: string;
  /** Fingerprint of the recipient's OpenPGP key, where the token is not for us; the ceremony's own otherwise. */
  readonly pgp?: string;
  readonly collectForMs: number;
  readonly useForMs: number;
}

/** A signed invitation and where its keys are. */
export interface CreatedInvitation {
  readonly jws: string;
  readonly digest: string;
  readonly invitation: Invitation;
  readonly keyHome: string;
}

/**
 * Makes the keys of an epoch, signs the invitation and stores the record; returns when the record is synced. Called
 * again by the same run for the same epoch, targets and policy (a retry after a lost answer) it returns the invitation
 * that exists, so that no holder is asked twice.
 *
 * @param run the activity's own run, never from input.
 * @throws RunbookError `INVALID_INPUT` where fewer holders are invited than the service requires; `STATE_DIVERGED` where
 * the epoch exists with other targets; `DOCUMENT_INVALID` where the invitation would be larger than 16 KiB.
 */
export async function createInvitation(
  records: KeyRecords,
  signingKey: SigningKey,
  run: RunContext,
  facts: InvitationFacts,
  now = Date.now(),
): Promise<CreatedInvitation> {
  if (new Set(facts.holders).size < facts.threshold) {
    throw new RunbookError('INVALID_INPUT', 'Fewer holders are listed than the service requires key shares.', {
      observed: `${facts.holders.length} holders`,
      needed: `${facts.threshold} key shares`,
      next: 'List more holders in the ceremony section of the inventory.',
    });
  }
  const existing = await findExisting(records, signingKey, run, facts, now);
  if (existing !== undefined) return { ...existing, keyHome: records.keyHome };

  const keys = await createCeremonyKeys();
  const iat = Math.floor(now / 1000);
  const invitation = invitationPayload.parse({
    cid: facts.cid ?? randomUUID(),
    epoch: facts.epoch,
    ns: run.ns,
    wid: run.wid,
    rid: run.rid,
    kind: facts.kind,
    targets: facts.targets,
    requestedBy: facts.requestedBy,
    reason: facts.reason,
    runbook: facts.runbook,
    inputDigest: facts.inputDigest,
    holders: [...facts.holders],
    threshold: facts.threshold,
    recipient: keys.recipient,
    pgp: facts.pgp ?? keys.pgpFingerprint,
    erasure: records.erasure,
    iat,
    exp: iat + Math.ceil(facts.collectForMs / 1000),
    useFor: Math.ceil(facts.useForMs / 1000),
  });
  const jws = await signDocument(DOCUMENT_TYPES.invitation, invitation, signingKey);
  const digest = documentDigest(jws);
  const { cid, epoch, kind, holders, threshold, exp, useFor } = invitation;
  const made = {
    run,
    cid,
    epoch,
    kind,
    keys,
    invitation: jws,
    invitationDigest: digest,
    holders,
    threshold,
    exp,
    useFor,
  };
  try {
    await records.create(made);
  } catch (error) {
    // An attempt that was given up for lost went on and was first: its invitation is the one of this epoch.
    const first = isRunbookError(error, 'STATE_DIVERGED')
      ? await findExisting(records, signingKey, run, facts, now)
      : undefined;
    if (first === undefined) throw error;
    return { ...first, keyHome: records.keyHome };
  }
  return { jws, digest, invitation, keyHome: records.keyHome };
}

async function findExisting(
  records: KeyRecords,
  signingKey: SigningKey,
  run: RunContext,
  facts: InvitationFacts,
  now: number,
): Promise<Omit<CreatedInvitation, 'keyHome'> | undefined> {
  const found = (await records.ofRun(run, now)).filter(
    (record) => record.epoch === facts.epoch && (facts.cid === undefined || record.cid === facts.cid),
  );
  for (const record of found) {
    const { invitation, digest } = await readOwnInvitation(record, signingKey);
    const sameRecipient = facts.pgp === undefined || facts.pgp === invitation.pgp;
    if (record.state === 'collecting' && record.exp * 1000 > now && sameRecipient && sameQuestion(invitation, facts)) {
      return { jws: record.invitation, digest, invitation };
    }
  }
  return undefined;
}

function sameQuestion(invitation: Invitation, facts: InvitationFacts): boolean {
  const question = ({
    kind,
    targets,
    requestedBy,
    reason,
    runbook,
    inputDigest,
    holders,
    threshold,
  }: typeof facts | Invitation) =>
    JSON.stringify([
      kind,
      targets.map(({ cluster, clusterId, addresses, caSha256, uses }) => [
        cluster,
        clusterId,
        addresses,
        caSha256,
        uses,
      ]),
      requestedBy.name,
      requestedBy.how,
      reason,
      runbook,
      inputDigest,
      holders,
      threshold,
    ]);
  return question(invitation) === question(facts);
}

/**
 * The invitation of a key record, verified with the workers' own key: what a burst may rely on for targets and uses.
 *
 * @throws RunbookError `DOCUMENT_INVALID`.
 */
export async function readOwnInvitation(
  record: Pick<KeyRecord, 'invitation'>,
  signingKey: PublicKeyEntry,
): Promise<{ readonly invitation: Invitation; readonly digest: string }> {
  return readInvitation(record.invitation, [{ environment: 'workers', ...signingKey }]);
}

/** A workers' public key that somebody pinned for an environment. */
export interface PinnedKey extends PublicKeyEntry {
  readonly environment: string;
}

async function readInvitation(
  jws: unknown,
  pins: readonly PinnedKey[],
): Promise<{ invitation: Invitation; digest: string; environment: string }> {
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
): Promise<{ readonly invitation: Invitation; readonly digest: string; readonly environment: string }> {
  const verified = await readInvitation(jws, options.pins);
  if (verified.invitation.exp * 1000 <= options.now) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation is expired; ask for the current one.');
  }
  if (!verified.invitation.holders.includes(options.holder)) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation does not invite you.');
  }
  return verified;
}
