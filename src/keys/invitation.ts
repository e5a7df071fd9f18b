import { randomUUID } from 'node:crypto';
import { RunbookError, isRunbookError } from '../errors';
import { invitationPayload, readInvitation } from '../documents/invitation';
import type { Invitation } from '../documents/invitation';
import { createCeremonyKeys } from './ceremony-keys';
import { DOCUMENT_TYPES, documentDigest, signDocument } from './documents';
import type { KeyRecord, KeyRecords } from './key-records';
import type { RunContext } from './sealing';
import type { PublicKeyEntry, SigningKey } from './signing-keys';

export { verifyInvitation } from '../documents/invitation';
export type { Invitation, InvitationTarget } from '../documents/invitation';

/** What an invitation is made of. The activity reads it from inventory and service; nothing here is a key. */
export interface InvitationFacts extends Pick<Invitation, 'kind' | 'targets' | 'requestedBy' | 'reason' | 'runbook'> {
  readonly inputDigest: string;
  readonly holders: readonly string[];
  /** Those of the holders who stand by. */
  readonly standBy?: readonly string[];
  /** How many shares must come from which groups. */
  readonly groups?: readonly { readonly group: string; readonly shares: number }[];
  /** As read from the service. */
  readonly threshold: number;
  readonly epoch: number;
  /** The ceremony that this epoch belongs to; a new one where it is not given. */
  readonly cid?: string;
  /** Fingerprint of the recipient's OpenPGP key, where the token is not for us; the ceremony's own otherwise. */
  readonly pgp?: string;
  /** Operation tokens that people generated themselves; key shares where it is not given. */
  readonly collects?: 'tokens' | undefined;
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

  await records.demandRoom(run, now);
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
    ...(facts.standBy && { standBy: facts.standBy }),
    ...(facts.groups && { groups: facts.groups }),
    threshold: facts.threshold,
    recipient: keys.recipient,
    pgp: facts.pgp ?? keys.pgpFingerprint,
    erasure: records.erasure,
    iat,
    exp: iat + Math.ceil(facts.collectForMs / 1000),
    useFor: Math.ceil(facts.useForMs / 1000),
    ...(facts.collects && { collects: facts.collects }),
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
    (record) =>
      record.kind !== 'rehearsal' &&
      record.epoch === facts.epoch &&
      (facts.cid === undefined || record.cid === facts.cid),
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
    collects,
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
      collects ?? 'shares',
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
