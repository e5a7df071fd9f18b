import { z } from 'zod';
import { tokenUse } from '../contracts/input-members';
import { clock } from '../contracts/words';
import { RunbookError, isRunbookError } from '../errors';
import { claimedHeader, DOCUMENT_TYPES, SIGNED_DOCUMENT, verifyDocument } from './documents';
import { importPublicKey } from './public-keys';
import type { PinnedKey } from './public-keys';

/** What a target's token may be used for; a root token is asked for as such. */
const invitationUse = z.enum([...tokenUse.options, 'root-token.generate']);
export type InvitationUse = z.infer<typeof invitationUse>;

const invitationTarget = z.strictObject({
  cluster: z.string(),
  clusterId: z.string(),
  addresses: z.array(z.string()).min(1),
  /** SHA-256 (hexadecimal) of the CA file, empty where system roots are used. */
  caSha256: z.string(),
  uses: z.array(invitationUse).min(1),
  /** The cluster unseals itself: its key shares are recovery key shares. Absent where they unseal it. */
  recovery: z.literal(true).optional(),
});
export type InvitationTarget = z.infer<typeof invitationTarget>;

/** What every invitation says. Times in seconds since 1970. */
const common = {
  cid: z.uuid(),
  epoch: z.int().min(1),
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  requestedBy: z.strictObject({ name: z.string(), how: z.enum(['signed', 'principal', 'claimed']) }),
  reason: z.string(),
  runbook: z.string(),
  inputDigest: z.string(),
  holders: z.array(z.string()).min(1),
  recipient: z.string().startsWith('age1pq1'),
  /** Fingerprint of the OpenPGP key to which the token is encrypted: the ceremony's, or the recipient's. */
  pgp: z.string().regex(/^[0-9a-f]{40}$/),
  erasure: z.enum(['memory', 'best-effort']),
  iat: z.int(),
  exp: z.int(),
  useFor: z.int(),
};

/** The members of an invitation to a ceremony (protocol: "Invitation"). */
const ceremonyInvitation = z.strictObject({
  ...common,
  kind: z.enum(['operation-token', 'root-token']),
  targets: z.array(invitationTarget).min(1),
  threshold: z.int().min(1),
  /** Those of the holders who stand by: asked later. Absent where nobody does. */
  standBy: z.array(z.string()).min(1).optional(),
  /** One of the people named gives operation tokens that were generated without this run. Absent where key shares are asked for. */
  collects: z.literal('tokens').optional(),
  /** The operation token is encrypted to a person's key, `pgp`. */
  forPerson: z.literal(true).optional(),
  /** Seconds for which the record keeps the token, sealed, for a later run. */
  keepFor: z.int().min(1).optional(),
});
export type Invitation = z.infer<typeof ceremonyInvitation>;

/** A rehearsal has no targets, no kind of token and no threshold: nothing is made, and no token is encrypted to its key. */
const rehearsalInvitation = z.strictObject({ ...common, deployment: z.string().min(1) });
export type Rehearsal = z.infer<typeof rehearsalInvitation>;

/** The two kinds of invitation: the type of the signed document, and its members. Each check refuses the other kind. */
export const INVITATIONS = {
  ceremony: { typ: DOCUMENT_TYPES.invitation, members: ceremonyInvitation },
  rehearsal: { typ: DOCUMENT_TYPES.rehearsal, members: rehearsalInvitation },
} as const;
export type InvitationKind = keyof typeof INVITATIONS;
export type InvitationOf<K extends InvitationKind> = K extends 'ceremony' ? Invitation : Rehearsal;

/** An invitation that a known key signed. */
export interface VerifiedInvitation<K extends InvitationKind = 'ceremony'> {
  readonly invitation: InvitationOf<K>;
  readonly digest: string;
  /** The name under which the signer's key is pinned. */
  readonly environment: string;
}

/** What a holder's tool knows when it checks what the holder was sent. */
export interface HolderChecks {
  readonly pins: readonly PinnedKey[];
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly holder: string;
}

/**
 * Verifies who signed an invitation, its kind and its form. Expiry and holder are for {@link verifyInvitation}.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function readInvitation<K extends InvitationKind>(
  kind: K,
  jws: unknown,
  pins: readonly PinnedKey[],
): Promise<VerifiedInvitation<K>> {
  const { typ, members } = INVITATIONS[kind];
  const { payload, digest, signer } = await verifyDocument(jws, typ, (kid) => {
    const pin = pins.find((candidate) => candidate.kid === kid);
    return pin && { name: pin.environment, publicKey: importPublicKey(pin.x) };
  });
  const parsed = members.safeParse(payload);
  // The schema is the one of this kind.
  if (parsed.success) return { invitation: parsed.data as InvitationOf<K>, digest, environment: signer };
  throw new RunbookError('DOCUMENT_INVALID', 'The invitation does not have the members that this tool knows.', {
    needed: 'workers and a tool of the same version',
    next: "Call the operators: they give you the workers' version of this tool.",
  });
}

/**
 * What a holder's tool checks before it asks for anything: the signer is pinned, the kind, not expired, the holder is
 * invited. What the invitation says must still be shown to the holder.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function verifyInvitation<K extends InvitationKind = 'ceremony'>(
  jws: unknown,
  { pins, now, holder }: HolderChecks,
  kind: K = 'ceremony' as K,
): Promise<VerifiedInvitation<K>> {
  const what = kind === 'rehearsal' ? 'rehearsal' : 'invitation';
  const verified = await readInvitation(kind, jws, pins).catch(tellHolder);
  const { exp, holders } = verified.invitation;
  if (exp * 1000 <= now) {
    throw new RunbookError('DOCUMENT_INVALID', `The ${what} is expired.`, {
      observed: `it ended at ${clock(exp * 1000, now)}, and the clock of this device says ${clock(now, now)}`,
      needed: 'the current one, if there is one',
      next:
        what === 'rehearsal'
          ? 'If the time above is right, nothing is left to do: tell the operators that you missed it. If not, set the clock of this device.'
          : 'Get the current invitation from the run. If the time above is wrong, set the clock of this device.',
    });
  }
  if (!holders.includes(holder)) {
    throw new RunbookError('DOCUMENT_INVALID', `The ${what} does not invite you.`, {
      observed: `the name "${holder}"`,
      needed: `one of the names that it invites: ${holders.join(', ')}`,
      next: 'If one of them is you, give your name exactly so. If none is, your share is not asked for.',
    });
  }
  return verified;
}

/** Where the document does not verify, the holder is told what to do. */
function tellHolder(error: unknown): never {
  if (!isRunbookError(error) || error.next !== undefined) throw error;
  throw new RunbookError('DOCUMENT_INVALID', error.message, {
    needed: 'the invitation exactly as the run shows it',
    next: 'Get it again from the run: a part may be missing, or changed. The same again: somebody changed it. Call the operators, at a number that you know.',
    cause: error,
  });
}

/** The key that a document names, unverified: only to tell a person which fingerprint to compare. */
export function namedSigner(jws: string): string | undefined {
  const { kid } = claimedHeader(jws);
  return kid !== undefined && /^[A-Za-z0-9_-]{43}$/.test(kid) ? kid : undefined;
}

/** Each run of letters is begun once; what stands before the document in it, such as the rest of `\n`, is passed over. */
const DOCUMENTS = /(?<![\w-])(?=[\w-]+\.[\w-]+\.[\w-])[\w-]*?(eyJ[\w-]*\.[\w-]+\.[\w-]+)/g;
const LONGEST_TEXT = 64 * 1024;

/**
 * Finds the invitation in what was pasted: alone, in the quotes and brackets in which the Web UI shows the answer of a
 * query, broken into lines, or in a message around it. Nothing of it is verified.
 *
 * @throws RunbookError `DOCUMENT_INVALID` where there is none, or more than one. Nothing of the text is repeated.
 */
export function findInvitation(text: string): string {
  if (text.length > LONGEST_TEXT)
    throw noInvitation(`This text is far longer than an invitation: ${text.length} characters.`);
  const alone = text.replace(/[\s"'[\]<>]+/g, '');
  if (SIGNED_DOCUMENT.test(alone)) return alone;
  const [jws, ...others] = new Set([...text.matchAll(DOCUMENTS)].flatMap(([, found]) => found ?? []));
  if (jws === undefined) throw noInvitation('There is no invitation in this text.');
  if (others.length > 0) throw noInvitation('There is more than one invitation in this text.');
  return jws;
}

function noInvitation(message: string): RunbookError {
  return new RunbookError('DOCUMENT_INVALID', message, {
    needed: 'the invitation: one long line that begins with "eyJ" and has two dots',
    next: 'Copy it again: in the Web UI the answer of the query "invitation" of the run, or what "runbook invitation" printed. Nothing else of a message is needed.',
  });
}
