import { documentDigest, signDocument } from '../documents/documents';
import { INVITATIONS, readInvitation } from '../documents/invitation';
import type { Invitation, InvitationKind, InvitationOf, Rehearsal } from '../documents/invitation';
import type { PublicKeyEntry } from '../documents/public-keys';
import type { SigningKey } from '../documents/signing-keys';
import type { DeepReadonly } from '../contracts/run-facts';
import { RunbookError, isRunbookError } from '../errors';
import { createCeremonyKeys } from './ceremony-keys';
import type { KeyRecord, KeyRecords } from './key-records';
import type { RunContext } from './sealing';

/** What an invitation is made of. The activity reads it from inventory and service; nothing here is a key. */
type FactsOf<I> = DeepReadonly<
  Omit<I, keyof RunContext | 'recipient' | 'pgp' | 'erasure' | 'iat' | 'exp' | 'useFor'>
> & {
  readonly collectForMs: number;
};

/** What an invitation to a ceremony is made of; `threshold` as read from the service. */
export type InvitationFacts = FactsOf<Invitation> & {
  /** Fingerprint of the recipient's OpenPGP key, where the token is not for us; the ceremony's own otherwise. */
  readonly pgp?: string;
  readonly useForMs: number;
};
export type RehearsalFacts = FactsOf<Rehearsal>;
type CommonFacts = Pick<InvitationFacts, keyof RehearsalFacts & keyof InvitationFacts> &
  Partial<Pick<InvitationFacts, 'useForMs' | 'threshold'>>;

/** A signed invitation and where its keys are. */
export interface CreatedInvitation<K extends InvitationKind = 'ceremony'> {
  readonly jws: string;
  readonly digest: string;
  readonly invitation: InvitationOf<K>;
  readonly keyHome: string;
}

/** How long the key of a rehearsal outlives the collecting, so that an answer of the last second can still be opened. */
const REHEARSAL_GRACE_MS = 120_000;

/**
 * Makes the keys of an epoch, signs the invitation and stores the record; returns when the record is synced. Called
 * again by the same run for the same epoch of the ceremony (a retry after a lost answer) it returns the invitation that
 * exists, so that no holder is asked twice: what it was asked for is what a token generation compares.
 *
 * @param run the activity's own run, never from input.
 * @throws RunbookError `INVALID_INPUT` where fewer holders are invited than the service requires; `STATE_DIVERGED` where
 * the epoch exists and collects no more; `DOCUMENT_INVALID` where the invitation would be larger than 16 KiB.
 */
export async function createInvitation<K extends InvitationKind>(
  records: KeyRecords,
  signingKey: SigningKey,
  run: RunContext,
  kind: K,
  facts: { readonly ceremony: InvitationFacts; readonly rehearsal: RehearsalFacts }[K],
  now = Date.now(),
): Promise<CreatedInvitation<K>> {
  const { keyHome } = records;
  const { collectForMs, useForMs = REHEARSAL_GRACE_MS, ...said }: CommonFacts = facts;
  const { cid, threshold = 0 } = said;
  const find = async (): Promise<CreatedInvitation<K> | undefined> => {
    const record = (await records.ofRun(run, now)).find((each) => each.cid === cid && each.epoch === said.epoch);
    if (record?.state !== 'collecting' || record.exp * 1000 <= now) return undefined;
    const { invitation, digest } = await readOwnInvitation(record, signingKey, kind);
    return { jws: record.invitation, digest, invitation, keyHome };
  };
  const existing = await find();
  if (existing) return existing;
  // Of one that stands it was true when it was made, whatever the inventory lists now.
  if (new Set(said.holders).size < threshold) throw tooFewHolders(said.holders.length, threshold);

  await records.demandRoom(run, now);
  const keys = await createCeremonyKeys();
  const iat = Math.floor(now / 1000);
  const { ns, wid, rid } = run;
  const { typ, members } = INVITATIONS[kind];
  // The schema is the one of this kind.
  const invitation = members.parse({
    ...{ pgp: keys.pgpFingerprint, ...said, ns, wid, rid, recipient: keys.recipient, erasure: records.erasure },
    ...{ iat, exp: iat + Math.ceil(collectForMs / 1000), useFor: Math.ceil(useForMs / 1000) },
  }) as InvitationOf<K>;
  const jws = await signDocument(typ, invitation, signingKey);
  const digest = documentDigest(jws);
  const { epoch, holders, exp, useFor } = invitation;
  const ceremony = kind === 'ceremony' ? INVITATIONS.ceremony.members.parse(invitation) : undefined;
  try {
    await records.create({
      ...{ run, cid, epoch, keys, invitation: jws, invitationDigest: digest, holders, exp, useFor },
      kind: ceremony?.kind ?? 'rehearsal',
      // Nothing is made of the answers to a rehearsal: there is no number at which they would be combined.
      threshold: ceremony?.threshold ?? holders.length,
    });
  } catch (error) {
    // An attempt that was given up for lost went on and was first: its invitation is the one of this epoch.
    const first = isRunbookError(error, 'STATE_DIVERGED') ? await find() : undefined;
    if (first) return first;
    throw error;
  }
  return { jws, digest, invitation, keyHome };
}

function tooFewHolders(listed: number, threshold: number): RunbookError {
  return new RunbookError('INVALID_INPUT', 'Fewer people can be invited than have to give.', {
    observed: `${listed} who have joined`,
    needed: `${threshold}: one for each key share that the service requires, or for a token`,
    next: 'List more people in the ceremony section of the inventory, and let them join.',
  });
}

/**
 * The invitation of a key record, verified with the workers' own key: what a token generation may rely on for targets
 * and uses.
 *
 * @throws RunbookError `DOCUMENT_INVALID`.
 */
export async function readOwnInvitation<K extends InvitationKind = 'ceremony'>(
  record: Pick<KeyRecord, 'invitation'>,
  signingKey: PublicKeyEntry,
  kind: K = 'ceremony' as K,
): Promise<{ readonly invitation: InvitationOf<K>; readonly digest: string }> {
  return readInvitation(kind, record.invitation, [{ environment: 'workers', ...signingKey }]);
}
