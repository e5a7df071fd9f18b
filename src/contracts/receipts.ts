/** What became of an envelope that a holder sent, with the text that people see. */
export const ENVELOPE_VERDICTS = {
  accepted: 'accepted',
  'too-large': 'refused: larger than 16 KiB',
  malformed: 'refused: not an envelope as `runbook share` makes it',
  'plain-text-share':
    'refused: it seems to hold a key share in plain text. Treat that share as exposed: purge the event and rekey',
  'wrong-ceremony': 'refused: made for another invitation',
  'wrong-epoch': 'refused: made for an earlier or later round of this ceremony; ask for the current invitation',
  'not-invited': 'refused: the named holder is not invited to this ceremony',
  'not-signed': 'refused: the inventory demands a signature of this holder',
  'wrong-signer': 'refused: not sent or signed by the named holder',
  expired: 'refused: arrived after the invitation expired',
  'rehearsal-envelope':
    'refused: made for a rehearsal, it holds no key share; run `runbook share` again with the current invitation',
  'share-in-rehearsal':
    'refused: made for a ceremony, and this is a rehearsal, which asks for no key share; run `runbook share` again, it makes the value itself',
  'does-not-open': 'refused: not encrypted to this invitation and to nothing else; make it again',
  mismatch: 'refused: the encrypted part says something else than the envelope around it; make it again',
  'wrong-length': 'refused: the key share does not have the length of a key share of this cluster',
  'same-share-as-another': 'refused: another holder already gave this key share',
  repeated: 'already received: this very envelope is in hand',
  superseded: 'replaced by a later envelope of the same holder',
  'keys-gone': 'refused: the keys of this ceremony were destroyed; ask for a new invitation',
} as const;

/** A stable code for what became of an envelope. */
export type EnvelopeVerdictCode = keyof typeof ENVELOPE_VERDICTS;

/** All that may be said of an envelope outside the process that checked it. */
export interface EnvelopeReceipt {
  /** Name from the inventory; missing where what arrived names nobody whom the inventory knows. */
  readonly holder?: string;
  /** The envelope's sequence number; missing where it could not be read. */
  readonly seq?: number;
  /** Base64url SHA-256 of the envelope; empty where what arrived is no envelope. */
  readonly envelopeDigest: string;
  readonly verdict: EnvelopeVerdictCode;
}
