import { RunbookError } from '../errors';
import {
  findInvitation,
  namedSigner,
  parseFingerprint,
  parsePublicKey,
  spokenFingerprint,
  verifyRequest,
} from '../documents';
import type { CeremonyRequest, PinnedKey } from '../documents';
import type { MadeFor } from './surroundings';

/** What the holder gave in the first step. */
export interface FirstStep {
  readonly invitation: string;
  /** His own note of the fingerprint, where this copy of the page was not made for a key. */
  readonly note: string;
  readonly holder: string;
}

/**
 * Verifies the invitation with the one key whose fingerprint the holder trusts. A key that came with the invitation
 * counts only where it has that fingerprint.
 *
 * @param now milliseconds since 1970.
 * @throws RunbookError `INVALID_INPUT` where something is missing, `DOCUMENT_INVALID` where the holder must stop.
 */
export async function verifyPasted(given: FirstStep, madeFor: MadeFor, now: number): Promise<CeremonyRequest> {
  const trusted = madeFor.trusted.length > 0 ? madeFor.trusted : [fingerprintOfNote(given.note)];
  const { jws, keys } = findInvitation(given.invitation);
  const signer = namedSigner(jws);
  const noted = parsePublicKey(given.note.trim());
  const whole = [...madeFor.keys, ...keys, ...(noted === undefined ? [] : [noted])].filter(({ kid }) =>
    trusted.includes(kid),
  );
  if (signer === undefined || !trusted.includes(signer)) throw unknownSigner(signer, trusted);
  if (!whole.some(({ kid }) => kid === signer)) throw keyMissing(trusted);
  if (given.holder.trim() === '') {
    throw new RunbookError('INVALID_INPUT', 'Your name is missing.', {
      needed: 'your name as the operators list it',
      next: 'Type it, then check the invitation again.',
    });
  }
  const pins: PinnedKey[] = whole.map((key) => ({ environment: madeFor.environment, ...key }));
  return verifyRequest(jws, { pins, now, holder: given.holder.trim() });
}

function keyMissing(trusted: readonly string[]): RunbookError {
  return new RunbookError(
    'INVALID_INPUT',
    "The workers' public key is missing: a fingerprint alone verifies nothing.",
    {
      needed: `the line with the colon ("<kid>:<x>") of the key ${trusted.map(spokenFingerprint).join(', or ')}`,
      next: 'Paste it below the invitation. It may come from anybody: it must have your fingerprint. "runbook invitation" prints both.',
    },
  );
}

function fingerprintOfNote(note: string): string {
  const trusted = parseFingerprint(note);
  if (trusted !== undefined) return trusted;
  throw new RunbookError(
    'INVALID_INPUT',
    note.trim() === ''
      ? 'The fingerprint from your own note is missing.'
      : 'The fingerprint is not complete, or mistyped.',
    {
      ...(note.trim() === '' ? {} : { observed: `${note.replace(/[\s:-]+/g, '').length} characters` }),
      needed: '64 digits and letters a to f (spaces do not matter), or the whole line with the colon',
      next: 'Take it from your own note. Without a note: call the operators, at a number that you know, and compare it by voice.',
    },
  );
}

function unknownSigner(signer: string | undefined, trusted: readonly string[]): RunbookError {
  return new RunbookError(
    'DOCUMENT_INVALID',
    'STOP. The invitation is signed with another key than the one that you trust. Do not type your share.',
    {
      observed: signer === undefined ? 'no readable signer' : `signed with ${spokenFingerprint(signer)}`,
      needed: `signed with ${trusted.map(spokenFingerprint).join(', or ')}`,
      next: 'Call the operators, at a number that you know. Do not ask whoever sent the invitation. Only where they tell you that the workers have a new key: compare its fingerprint by voice, note it, and use a page made for it.',
    },
  );
}
