import { RunbookError } from '../errors';
import {
  claimsRehearsal,
  findInvitation,
  namedSigner,
  parseFingerprint,
  parsePublicKey,
  spokenFingerprint,
  verifyInvitation,
  verifyRehearsal,
} from '../holder';
import type { PinnedKey, VerifiedInvitation, VerifiedRehearsal } from '../holder';
import type { MadeFor } from './surroundings';

/** What the holder gave in the first step. */
export interface FirstStep {
  readonly invitation: string;
  /** His own note of the fingerprint, where this copy of the page was not made for a key. */
  readonly note: string;
  readonly holder: string;
}

/** An invitation that holds: to a ceremony, or to a rehearsal of one. */
export type Verified =
  | { readonly kind: 'ceremony'; readonly checked: VerifiedInvitation }
  | { readonly kind: 'rehearsal'; readonly checked: VerifiedRehearsal };

/**
 * Verifies the invitation with the one key whose fingerprint the holder trusts. A key that came with the invitation
 * counts only where it has that fingerprint.
 *
 * @param now milliseconds since 1970.
 * @throws RunbookError `INVALID_INPUT` where something is missing, `DOCUMENT_INVALID` where the holder must stop.
 */
export async function verifyPasted(given: FirstStep, madeFor: MadeFor, now: number): Promise<Verified> {
  const trusted = madeFor.trusted.length > 0 ? madeFor.trusted : [fingerprintOfNote(given.note)];
  const { jws, keys } = findInvitation(given.invitation);
  const signer = namedSigner(jws);
  if (signer === undefined || !trusted.includes(signer)) throw unknownSigner(signer, trusted);
  const noted = parsePublicKey(given.note.trim());
  const pins: PinnedKey[] = [...madeFor.keys, ...keys, ...(noted === undefined ? [] : [noted])]
    .filter(({ kid }) => trusted.includes(kid))
    .map((key) => ({ environment: madeFor.environment || 'your noted key', ...key }));
  if (!pins.some(({ kid }) => kid === signer)) {
    throw new RunbookError(
      'INVALID_INPUT',
      "The workers' public key is missing: a fingerprint alone verifies nothing.",
      {
        needed:
          'the line with the colon ("<kid>:<x>"), pasted below the invitation. It may come from anybody: it must have your fingerprint',
      },
    );
  }
  if (given.holder.trim() === '') throw new RunbookError('INVALID_INPUT', 'Your name is missing.');
  const options = { pins, now, holder: given.holder.trim() };
  // What the document says of itself only chooses the check: each refuses the other kind.
  return claimsRehearsal(jws)
    ? { kind: 'rehearsal', checked: await verifyRehearsal(jws, options) }
    : { kind: 'ceremony', checked: await verifyInvitation(jws, options) };
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
      next: 'Call the operators, at a number that you know. Do not ask whoever sent the invitation.',
    },
  );
}
