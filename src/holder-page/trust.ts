import { RunbookError } from '../errors';
import { findInvitation } from '../documents/pasted';
import { namedSigner } from '../documents/invitation';
import { parseFingerprint, parsePublicKey, spokenFingerprint } from '../documents/public-keys';
import { verifyRequest } from '../documents/ceremony-request';
import type { CeremonyRequest } from '../documents/ceremony-request';
import type { PublicKeyEntry } from '../documents/public-keys';

/** What was written into this copy of the page when it was made; all of it public. */
export interface MadeFor {
  /** Thumbprints of the workers' keys that count. */
  readonly trusted: readonly string[];
  /** Those of them that are here whole. */
  readonly keys: readonly PublicKeyEntry[];
  readonly environment: string;
  readonly holder: string;
  readonly version: string;
}

/** Reads what this copy was made for. Nothing of the address of the page counts. */
export function readMadeFor(): MadeFor {
  const content = (name: string) => document.querySelector(`meta[name="${name}"]`)?.getAttribute('content') ?? '';
  const words = content('workers-keys').split(/\s+/).filter(Boolean);
  return {
    trusted: words.flatMap((word) => parseFingerprint(word) ?? []),
    keys: words.flatMap((word) => parsePublicKey(word) ?? []),
    environment: content('environment'),
    holder: content('holder'),
    version: content('version'),
  };
}

/** What the holder gave in the first step. */
interface FirstStep {
  readonly invitation: string;
  /** Their own note of the fingerprint, where this copy of the page was not made for a key. */
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
  const { note, holder } = given;
  const trusted = madeFor.trusted.length > 0 ? madeFor.trusted : [fingerprintOfNote(note)];
  const shown = trusted.map(spokenFingerprint).join(', or ');
  const { jws, keys } = findInvitation(given.invitation);
  const signer = namedSigner(jws);
  if (signer === undefined || !trusted.includes(signer))
    throw new RunbookError(
      'DOCUMENT_INVALID',
      'STOP. The invitation is signed with another key than the one that you trust. Do not type your share.',
      {
        observed: signer === undefined ? 'no readable signer' : `signed with ${spokenFingerprint(signer)}`,
        needed: `signed with ${shown}`,
        next: 'Call the operators, at a number that you know, not the sender of the invitation. Only if they tell you that the workers have a new key: compare its fingerprint by voice, note it, and use a page made for it.',
      },
    );
  const noted = parsePublicKey(note.trim());
  const whole = [...madeFor.keys, ...keys, ...(noted ? [noted] : [])].filter(({ kid }) => trusted.includes(kid));
  if (!whole.some(({ kid }) => kid === signer))
    throw new RunbookError(
      'INVALID_INPUT',
      "The workers' public key is missing: a fingerprint alone verifies nothing.",
      {
        needed: `the line with the colon ("<kid>:<x>") of the key ${shown}`,
        next: 'Paste it below the invitation. It may come from anybody: it must have your fingerprint. "runbook invitation" prints both.',
      },
    );
  if (holder === '')
    throw new RunbookError('INVALID_INPUT', 'Your name is missing.', {
      needed: 'your name as the operators list it',
      next: 'Type it, then check the invitation again.',
    });
  const pins = whole.map((key) => ({ environment: madeFor.environment, ...key }));
  return verifyRequest(jws, { pins, now, holder });
}

function fingerprintOfNote(note: string): string {
  const trusted = parseFingerprint(note);
  if (trusted !== undefined) return trusted;
  const count = note.replace(/[\s:-]+/g, '').length;
  const message =
    count === 0 ? 'The fingerprint from your own note is missing.' : 'The fingerprint is not complete, or mistyped.';
  throw new RunbookError('INVALID_INPUT', message, {
    ...(count > 0 && { observed: `${count} characters` }),
    needed: '64 digits and letters a to f (spaces do not matter), or the whole line with the colon',
    next: 'Take it from your own note. Without a note: call the operators, at a number that you know, and compare it by voice.',
  });
}
