import type { z } from 'zod';
import { RunbookError, isRunbookError } from '../errors';
import type { DocumentType } from './documents';
import { claimedHeader, verifyDocument } from './documents';
import { importPublicKey } from './public-keys';
import type { PinnedKey } from './public-keys';
import { clock } from './words';

/** What a holder's tool knows when it checks what he was sent. */
export interface HolderChecks {
  readonly pins: readonly PinnedKey[];
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly holder: string;
}

/** What a known key signed. */
interface Signed<T> {
  readonly said: T;
  readonly digest: string;
  /** The name under which the signer's key is pinned. */
  readonly environment: string;
}

/**
 * Verifies who signed an invitation of one type, and its form.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function readSigned<T>(
  jws: unknown,
  pins: readonly PinnedKey[],
  typ: DocumentType,
  members: z.ZodType<T>,
): Promise<Signed<T>> {
  const verified = await verifyDocument(jws, typ, (kid) => {
    const pin = pins.find((candidate) => candidate.kid === kid);
    return pin && { name: pin.environment, publicKey: importPublicKey(pin.x) };
  });
  const parsed = members.safeParse(verified.payload);
  if (parsed.success) return { said: parsed.data, digest: verified.digest, environment: verified.signer };
  throw new RunbookError('DOCUMENT_INVALID', 'The invitation does not have the members that this tool knows.', {
    needed: 'workers and a tool of the same version',
    next: "Call the operators: they give you the workers' version of this tool.",
  });
}

/** What was read for a holder: where the document does not verify, he is told what to do. */
export async function readForHolder<T>(reading: Promise<T>): Promise<T> {
  return reading.catch((error: unknown) => {
    if (!isRunbookError(error) || error.next !== undefined) throw error;
    throw new RunbookError('DOCUMENT_INVALID', error.message, {
      needed: 'the invitation exactly as the run shows it',
      next: 'Get it again from the run: a part may be missing, or changed. The same again: somebody changed it. Call the operators, at a number that you know.',
      cause: error,
    });
  });
}

/**
 * What a holder's tool checks of every invitation that verified: not over, and for this holder.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export function needForHolder(
  what: 'invitation' | 'rehearsal',
  { exp, holders }: { readonly exp: number; readonly holders: readonly string[] },
  { now, holder }: HolderChecks,
): void {
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
}

/** The key that a document names, unverified: only to tell a person which fingerprint to compare. */
export function namedSigner(jws: string): string | undefined {
  const { kid } = claimedHeader(jws);
  return kid !== undefined && /^[A-Za-z0-9_-]{43}$/.test(kid) ? kid : undefined;
}
