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

/** The contents of an invitation. The activity reads them from the inventory and the service; none of them is a key. */
type FactsOf<I> = DeepReadonly<
  Omit<I, keyof RunContext | 'recipient' | 'pgp' | 'erasure' | 'iat' | 'exp' | 'useFor'>
> & {
  readonly collectForMs: number;
};

/** The contents of an invitation to a ceremony. `threshold` is read from the service. */
export type InvitationFacts = FactsOf<Invitation> & {
  /** Fingerprint of the recipient's OpenPGP key, if the token is for a person. Defaults to the ceremony's own key. */
  readonly pgp?: string;
  readonly useForMs: number;
};
export type RehearsalFacts = FactsOf<Rehearsal>;
type CommonFacts = Pick<InvitationFacts, keyof RehearsalFacts & keyof InvitationFacts> &
  Partial<Pick<InvitationFacts, 'useForMs' | 'threshold'>>;

/** A signed invitation, and the home of its keys. */
export interface CreatedInvitation<K extends InvitationKind = 'ceremony'> {
  readonly jws: string;
  readonly digest: string;
  readonly invitation: InvitationOf<K>;
  readonly keyHome: string;
}

/**
 * How long the key of a rehearsal outlives the collection, so that an answer of the last second can still be opened.
 */
const REHEARSAL_GRACE_MS = 120_000;

/**
 * Creates the keys of an epoch, signs the invitation and stores the record. Returns when the record is synced. If the
 * same run calls it again for the same epoch (a retry after a lost answer), it returns the existing invitation, so that
 * no holder is asked twice. A token generation compares its request with that invitation.
 *
 * @param run the activity's own run, never from input.
 * @throws RunbookError `INVALID_INPUT` if fewer holders are invited than the service requires; `STATE_DIVERGED` if the
 * epoch exists and no longer collects; `DOCUMENT_INVALID` if the invitation would be larger than 16 KiB.
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
  const { collectForMs, useForMs = REHEARSAL_GRACE_MS, ...contents }: CommonFacts = facts;
  const { cid, threshold = 0 } = contents;
  const find = async (): Promise<CreatedInvitation<K> | undefined> => {
    const record = (await records.ofRun(run, now)).find((each) => each.cid === cid && each.epoch === contents.epoch);
    if (record?.state !== 'collecting' || record.exp * 1000 <= now) return undefined;
    const { invitation, digest } = await readOwnInvitation(record, signingKey, kind);
    return { jws: record.invitation, digest, invitation, keyHome };
  };
  const existing = await find();
  if (existing) return existing;
  // Not checked for an existing invitation: it had enough holders when it was created, whatever the inventory lists
  // now.
  if (new Set(contents.holders).size < threshold)
    throw new RunbookError('INVALID_INPUT', 'Fewer people can be invited than are needed.', {
      observed: `${contents.holders.length} people who have joined`,
      needed: `${threshold}: one for each key share that the service requires, or one for a token`,
      next: 'List more people in the ceremony section of the inventory, and ask them to join.',
    });

  await records.demandRoom(run, now);
  const keys = await createCeremonyKeys();
  const iat = Math.floor(now / 1000);
  const { ns, wid, rid } = run;
  const { typ, members } = INVITATIONS[kind];
  // `members` is the schema of this kind.
  const invitation = members.parse({
    ...{ pgp: keys.pgpFingerprint, ...contents, ns, wid, rid, recipient: keys.recipient, erasure: records.erasure },
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
      // A rehearsal never combines its answers, so it has no real threshold.
      threshold: ceremony?.threshold ?? holders.length,
    });
  } catch (error) {
    // An earlier attempt that was thought lost continued and came first: its invitation is the one of this epoch.
    const first = isRunbookError(error, 'STATE_DIVERGED') ? await find() : undefined;
    if (first) return first;
    throw error;
  }
  return { jws, digest, invitation, keyHome };
}

/**
 * The invitation of a key record, verified with the workers' own key. A token generation may rely on its targets and
 * uses.
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
