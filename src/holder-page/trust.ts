import { RunbookError } from '../errors';
import {
  findInvitation,
  followStatements,
  namedSigner,
  parseFingerprint,
  parsePublicKey,
  spokenFingerprint,
  verifyAsked,
} from '../holder';
import type { Asked, KeyStatement, PinnedKey } from '../holder';
import type { MadeFor } from './surroundings';

/** What the holder gave in the first step. */
export interface FirstStep {
  readonly invitation: string;
  /** His own note of the fingerprint, where this copy of the page was not made for a key. */
  readonly note: string;
  readonly holder: string;
}

/** What holds, and how it came that its key is trusted. */
export interface Verified {
  readonly asked: Asked;
  /** By these statements the trusted key vouched for the one that signed, one after the other; usually none. */
  readonly followed: readonly KeyStatement[];
}

/**
 * Verifies the invitation with the one key whose fingerprint the holder trusts, or with one for which it vouches. A key
 * that came with the invitation counts only where it has that fingerprint.
 *
 * @param now milliseconds since 1970.
 * @throws RunbookError `INVALID_INPUT` where something is missing, `DOCUMENT_INVALID` where the holder must stop.
 */
export async function verifyPasted(given: FirstStep, madeFor: MadeFor, now: number): Promise<Verified> {
  const trusted = madeFor.trusted.length > 0 ? madeFor.trusted : [fingerprintOfNote(given.note)];
  const { jws, keys, statements } = findInvitation(given.invitation);
  const signer = namedSigner(jws);
  const noted = parsePublicKey(given.note.trim());
  const whole = [...madeFor.keys, ...keys, ...(noted === undefined ? [] : [noted])].filter(({ kid }) =>
    trusted.includes(kid),
  );
  const { followed, refusals } = await followStatements(whole, statements, now);
  const over = followed.filter(({ retire }) => retire * 1000 <= now).map(({ previous }) => previous);
  const counting = [...whole, ...followed.map(({ key }) => key)].filter(({ kid }) => !over.includes(kid));
  if (!counting.some(({ kid }) => kid === signer)) {
    const couldVouch = statements.length > 0 && whole.length < trusted.length;
    if (signer === undefined || (!trusted.includes(signer) && !couldVouch))
      throw unknownSigner(signer, trusted, refusals);
    if (over.includes(signer)) throw overSigner(signer);
    throw keyMissing(trusted);
  }
  if (given.holder.trim() === '') {
    throw new RunbookError('INVALID_INPUT', 'Your name is missing.', {
      needed: 'your name as the operators list it',
      next: 'Type it, then check the invitation again.',
    });
  }
  const pins: PinnedKey[] = counting.map((key) => ({ environment: madeFor.environment, ...key }));
  return { asked: await verifyAsked(jws, { pins, now, holder: given.holder.trim() }), followed };
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

function overSigner(signer: string): RunbookError {
  return new RunbookError(
    'DOCUMENT_INVALID',
    'STOP. The invitation is signed with a key that does not count any more. Do not type your share.',
    {
      observed: `signed with ${spokenFingerprint(signer)}, which another key has followed`,
      needed: 'signed with the key that the workers use now',
      next: 'Call the operators, at a number that you know: somebody may have the old key.',
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

function unknownSigner(
  signer: string | undefined,
  trusted: readonly string[],
  refusals: readonly RunbookError[],
): RunbookError {
  const signed = signer === undefined ? 'no readable signer' : `signed with ${spokenFingerprint(signer)}`;
  return new RunbookError(
    'DOCUMENT_INVALID',
    'STOP. The invitation is signed with another key than the one that you trust. Do not type your share.',
    {
      observed: [signed, ...new Set(refusals.map(({ message }) => message))].join('. '),
      needed: `signed with ${trusted.map(spokenFingerprint).join(', or ')}`,
      next: 'Call the operators, at a number that you know. Do not ask whoever sent the invitation.',
    },
  );
}
