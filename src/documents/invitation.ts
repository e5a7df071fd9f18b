import { z } from 'zod';
import { tokenUse } from '../contracts/input-members';
import { clock } from '../contracts/words';
import { RunbookError, isRunbookError } from '../errors';
import { claimedHeader, DOCUMENT_TYPES, SIGNED_DOCUMENT, verifyDocument } from './documents';
import { importPublicKey } from './public-keys';
import type { PinnedKey } from './public-keys';

/** What a target's token may be used for. A root token is a use of its own. */
const invitationUse = z.enum([...tokenUse.options, 'root-token.generate']);
export type InvitationUse = z.infer<typeof invitationUse>;

const invitationTarget = z.strictObject({
  cluster: z.string(),
  clusterId: z.string(),
  addresses: z.array(z.string()).min(1),
  /** SHA-256 (base64url) of the CA file; empty if the system's root certificates are used. */
  caSha256: z.string(),
  uses: z.array(invitationUse).min(1),
  /** The cluster unseals itself: its key shares are recovery key shares. Absent if key shares unseal it. */
  recovery: z.literal(true).optional(),
});
export type InvitationTarget = z.infer<typeof invitationTarget>;

/** The members of every invitation. Times in seconds since 1970. */
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
  /** Those whose answer counts only with their signature. Absent if there are none. */
  mustSign: z.array(z.string()).min(1).optional(),
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
  /** The holders who stand by and are asked later. Absent if nobody does. */
  standBy: z.array(z.string()).min(1).optional(),
  /**
   * The people named give operation tokens that were generated outside this run. Absent if key shares are asked for.
   */
  collects: z.literal('tokens').optional(),
  /** The operation token is encrypted to a person's key, `pgp`. */
  forPerson: z.literal(true).optional(),
  /** Seconds for which the record keeps the token, sealed, for a later run. */
  keepFor: z.int().min(1).optional(),
});
export type Invitation = z.infer<typeof ceremonyInvitation>;

/** A rehearsal has no targets, no kind of token and no threshold: it generates no token, and its key encrypts none. */
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

/** What a holder's tool knows when it checks an invitation. */
export interface HolderChecks {
  readonly pins: readonly PinnedKey[];
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly holder: string;
}

/**
 * Verifies the signer, the kind and the form of an invitation. {@link verifyInvitation} also checks expiry and holder.
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
  // `members` is the schema of this kind.
  if (parsed.success) return { invitation: parsed.data as InvitationOf<K>, digest, environment: signer };
  throw new RunbookError('DOCUMENT_INVALID', 'The invitation does not have the members that this tool expects.', {
    needed: 'workers and a tool of the same version',
    next: 'Ask the operators for the version of this tool that the workers use.',
  });
}

/**
 * What a holder's tool checks before it asks for anything: the signer is pinned, the kind is right, the invitation has
 * not expired, and the holder is invited. The contents must still be shown to the holder.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function verifyInvitation<K extends InvitationKind = 'ceremony'>(
  jws: unknown,
  { pins, now, holder }: HolderChecks,
  kind: K = 'ceremony' as K,
): Promise<VerifiedInvitation<K>> {
  const what = kind === 'rehearsal' ? 'rehearsal' : 'invitation';
  const verified = await readInvitation(kind, jws, pins).catch(refuseToHolder);
  const { exp, holders } = verified.invitation;
  if (exp * 1000 <= now) {
    throw new RunbookError('DOCUMENT_INVALID', `The ${what} has expired.`, {
      observed: `it ended at ${clock(exp * 1000, now)}; the clock of this device shows ${clock(now, now)}`,
      needed: 'the current invitation, if there is one',
      next:
        what === 'rehearsal'
          ? 'If the clock of this device is right, tell the operators that you missed the rehearsal; nothing is left to do. If it is wrong, set it and try again.'
          : 'Get the current invitation from the run. If the clock of this device is wrong, set it and try again.',
    });
  }
  if (!holders.includes(holder)) {
    throw new RunbookError('DOCUMENT_INVALID', `The ${what} does not invite you.`, {
      observed: `the name "${holder}"`,
      needed: `one of the invited names: ${holders.join(', ')}`,
      next: 'If one of these names is yours, give it exactly as written here. If none is, do not give your share: you are not asked for it.',
    });
  }
  return verified;
}

/** Adds what the holder must do if the document does not verify. */
function refuseToHolder(error: unknown): never {
  if (!isRunbookError(error) || error.next !== undefined) throw error;
  throw new RunbookError('DOCUMENT_INVALID', error.message, {
    needed: 'the invitation exactly as the run shows it',
    next: 'Get it from the run again: a part may be missing or changed. If this happens again, somebody changed it: call the operators, at a number that you already know.',
    cause: error,
  });
}

/** The key ID that a document names. Unverified: use it only to show a person which fingerprint to compare. */
export function namedSigner(jws: string): string | undefined {
  const { kid } = claimedHeader(jws);
  return kid !== undefined && /^[A-Za-z0-9_-]{43}$/.test(kid) ? kid : undefined;
}

/** Tries each run of letters once. Skips what precedes the document in the run, such as the `n` of an escaped `\n`. */
const DOCUMENTS = /(?<![\w-])(?=[\w-]+\.[\w-]+\.[\w-])[\w-]*?(eyJ[\w-]*\.[\w-]+\.[\w-]+)/g;
const LONGEST_TEXT = 64 * 1024;

/**
 * Finds the invitation in pasted text: alone, in the quotes and brackets that the Web UI shows around a query result,
 * broken into lines, or inside a message. Verifies nothing.
 *
 * @throws RunbookError `DOCUMENT_INVALID` if there is none, or more than one. The error quotes nothing from the text.
 */
export function findInvitation(text: string): string {
  if (text.length > LONGEST_TEXT)
    throw noInvitation(`This text is much longer than an invitation: ${text.length} characters.`);
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
    next: 'Copy it again: in the Web UI, the result of the run\'s query "invitation"; in the terminal, the output of "runbook invitation". Paste nothing else.',
  });
}
