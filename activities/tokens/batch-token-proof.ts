import { createHash } from 'node:crypto';
import { z } from 'zod';
import { isRunbookError, orElse } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { CredentialFacts } from '../checks/credentials';
import { isBeforeMajor } from '../checks/versions';
import type { ClusterAccess } from '../clusters';
import { currentExecutionIfAny } from '../execution';
import { RecordTable } from '../record-table';
import { readBatchToken } from './operation-token';
import type { ClusterObservation } from '../../src/contracts/observations';

/** Older proofs do not count: the policy may have been emptied since. */
const GOOD_FOR_MS = 24 * 3_600_000;

/** A primary's look-up of a batch token, kept in the record for when no primary answers. Never the token itself. */
const proofSchema = z.object({
  /** ISO time of the look-up. */
  at: z.iso.datetime(),
  /** ISO time; absent if the token does not expire. */
  endsAt: z.iso.datetime().optional(),
  capabilities: z.record(z.string(), z.array(z.string()).readonly()),
  /** SHA-256 of the token, base64url, to check that it is still the same token. */
  digest: z.string(),
});
export type BatchTokenProof = z.infer<typeof proofSchema>;

/** By DR secondary. */
export const batchTokenProofs = new RecordTable('batch-token', proofSchema);

/** The proof to keep of a token that was found ready. */
export function proofOf(
  token: Secret<'batch-token'>,
  { ttlSeconds, capabilities }: Pick<CredentialFacts, 'ttlSeconds' | 'capabilities'>,
): BatchTokenProof {
  const now = Date.now();
  return {
    at: new Date(now).toISOString(),
    ...(ttlSeconds !== undefined && { endsAt: new Date(now + ttlSeconds * 1000).toISOString() }),
    capabilities,
    digest: digestOf(token),
  };
}

/** What was proven about the current token, or why no proof counts. */
type ProvenBefore = { readonly facts: CredentialFacts; readonly told: string } | { readonly why: string };

/** Reads the proof of a DR secondary's batch token from the record: no primary is asked. */
export async function provenBefore(deployment: string, secondary: ClusterAccess): Promise<ProvenBefore> {
  const execution = currentExecutionIfAny();
  if (!execution) return { why: 'the record with its proof cannot be read from here' };
  const { records, signal } = execution;
  try {
    const [token, proof] = await Promise.all([
      readBatchToken(secondary),
      batchTokenProofs.get(records, deployment, secondary.entry.name),
    ]);
    if (!proof) return { why: 'no readiness check proved it while a primary answered' };
    if (proof.digest !== digestOf(token)) return { why: `it is not the token that was proven at ${proof.at}` };
    if (Date.now() - Date.parse(proof.at) > GOOD_FOR_MS) return { why: `its last proof, at ${proof.at}, is too old` };
    const { at, endsAt, capabilities } = proof;
    const ttlSeconds = endsAt === undefined ? undefined : Math.floor((Date.parse(endsAt) - Date.now()) / 1000);
    return {
      facts: { usable: true, type: 'batch', orphan: true, capabilities, ttlSeconds },
      told: `proven by the primary at ${at}, and ${endsAt === undefined ? 'does not expire' : `expires at ${endsAt}`}`,
    };
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return { why: `it cannot be read (${error.code})` };
  }
}

function digestOf(token: Secret<'batch-token'>): string {
  return createHash('sha256').update(token.reveal()).digest('base64url');
}

type Taken = 'taken' | 'refused' | 'not-checkable';

/**
 * Whether a DR secondary accepts a batch token. From version 2.0 it accepts one for reading its generation slot; earlier
 * versions have no read-only call that a batch token authorizes.
 */
export async function acceptedBy(
  secondary: ClusterAccess,
  { version }: Pick<ClusterObservation, 'version'>,
  token: Secret<'batch-token'>,
  signal: AbortSignal,
): Promise<Taken> {
  if (isBeforeMajor(2, version)) return 'not-checkable';
  const read = (sent: Secret<'batch-token'> | undefined) =>
    secondary.client.dr.secondary.generateOperationToken.readAttempt({ token: sent, signal }).then(
      (): Taken => 'taken',
      orElse(signal, ({ code }): Taken => (code === 'PERMISSION_DENIED' ? 'refused' : 'not-checkable')),
    );
  // A service before 2.0 lets everybody in, and proves nothing.
  return version === undefined && (await read(undefined)) !== 'refused' ? 'not-checkable' : read(token);
}
