import { hex } from '@scure/base';
import { z } from 'zod';
import { claimedHeader, DOCUMENT_TYPES } from './documents';
import { sealEnvelope } from './envelope';
import type { EnvelopeOptions, EnvelopePayload } from './envelope';
import type { PinnedKey } from './public-keys';
import { needForHolder, readForHolder, readSigned } from './signed-invitation';
import type { HolderChecks } from './signed-invitation';

/** Context of the encrypted part of an answer to a rehearsal: it is of no use in a ceremony. */
export const REHEARSAL_CONTEXT = 'runbooks/rehearsal-share/v1';

/** As long as the longest key share, so that the envelope of a rehearsal is as long as a real one. */
const DUMMY_BYTES = 33;

/**
 * The members of the invitation to a rehearsal. The shape is that of an invitation to a ceremony, but there are no
 * targets, no kind of token and no threshold: nothing is made. Times in seconds since 1970.
 */
export const rehearsalPayload = z.strictObject({
  cid: z.uuid(),
  epoch: z.int().min(1),
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  deployment: z.string().min(1),
  requestedBy: z.strictObject({ name: z.string(), how: z.enum(['signed', 'principal', 'claimed']) }),
  reason: z.string(),
  runbook: z.string(),
  inputDigest: z.string(),
  holders: z.array(z.string()).min(1),
  recipient: z.string().startsWith('age1pq1'),
  /** Fingerprint of the OpenPGP key of this rehearsal; no token is encrypted to it. */
  pgp: z.string().regex(/^[0-9a-f]{40}$/),
  erasure: z.enum(['memory', 'best-effort']),
  iat: z.int(),
  exp: z.int(),
  useFor: z.int(),
});
export type Rehearsal = z.infer<typeof rehearsalPayload>;

/** An invitation to a rehearsal that a known key signed. */
export interface VerifiedRehearsal {
  readonly rehearsal: Rehearsal;
  readonly digest: string;
  /** The name under which the signer's key is pinned. */
  readonly environment: string;
}

/** What a holder's tool says of itself: a name and a version. */
const toolName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9 .+-]{0,39}$/);

/** What is encrypted in an answer to a rehearsal. There is no member `share`. */
export const rehearsalPlaintext = z.strictObject({
  ctx: z.literal(REHEARSAL_CONTEXT),
  inv: z.string(),
  cid: z.string(),
  epoch: z.int(),
  holder: z.string(),
  seq: z.int(),
  /** Random, made by the holder's tool; it means nothing. */
  dummy: z.string().regex(/^([0-9a-f]{2}){33}$/),
  tool: toolName,
});

/**
 * Whether a document says that it invites to a rehearsal. Unverified: it only tells which check to make, and each check
 * refuses the other type of document.
 */
export function claimsRehearsal(jws: string): boolean {
  return claimedHeader(jws).typ === DOCUMENT_TYPES.rehearsal;
}

/**
 * Verifies who signed the invitation to a rehearsal, and its form.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function readRehearsal(jws: unknown, pins: readonly PinnedKey[]): Promise<VerifiedRehearsal> {
  const { said, ...signed } = await readSigned(jws, pins, DOCUMENT_TYPES.rehearsal, rehearsalPayload);
  return { rehearsal: said, ...signed };
}

/**
 * What a holder's tool checks before it answers a rehearsal: the same as before it asks for a key share.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function verifyRehearsal(jws: unknown, checks: HolderChecks): Promise<VerifiedRehearsal> {
  const verified = await readForHolder(readRehearsal(jws, checks.pins));
  needForHolder('rehearsal', verified.rehearsal, checks);
  return verified;
}

/**
 * A holder's answer to a rehearsal. The value in it is made here, from the system's source of random numbers: there is
 * no way to hand a key share in.
 *
 * @param options.tool name and version of the program, for the result of the rehearsal.
 * @returns the JWS, or the plain members for a holder without a signing key.
 */
export async function createRehearsalEnvelope({
  rehearsal,
  rehearsalDigest: inv,
  tool,
  ...options
}: Omit<EnvelopeOptions, 'inv'> & {
  readonly rehearsal: Pick<Rehearsal, 'cid' | 'epoch' | 'recipient'>;
  readonly rehearsalDigest: string;
  readonly tool: string;
}): Promise<string | EnvelopePayload> {
  const dummy = hex.encode(globalThis.crypto.getRandomValues(new Uint8Array(DUMMY_BYTES)));
  const content = { dummy, tool: toolName.parse(tool) };
  const kind = { typ: DOCUMENT_TYPES.rehearsalShare, ctx: REHEARSAL_CONTEXT };
  return sealEnvelope(kind, rehearsal, { ...options, inv }, content, {});
}
