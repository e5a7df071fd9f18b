import type { EnvelopeVerdict } from '../../src/contracts/ceremony';
import type { EnvelopeReceipt } from '../../src/contracts/receipts';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import { isUndecodable } from '../../src/contracts/signals';
import type { PersonLookup } from '../../src/keys';
import type { ArrivedSignal } from '../approvals/arrived-signals';

const NO_SENDER_TEXT = 'refused: the server recorded nobody as its sender: is authentication on?';

/** What people are told of an envelope. The event is named where what stands in it is to be purged. */
export function verdictOf(
  person: PersonLookup,
  { arrival, eventId, principal }: ArrivedSignal,
  { verdict: code, holder, seq, envelopeDigest }: EnvelopeReceipt,
): EnvelopeVerdict {
  const how = person(holder ?? '')?.attestation ?? 'claimed';
  const isUnattested = code === 'wrong-signer' && principal === undefined && how === 'principal';
  return {
    ...{ arrival, code, seq, text: isUnattested ? NO_SENDER_TEXT : ENVELOPE_VERDICTS[code] },
    holder: holder === undefined ? undefined : { name: holder, how },
    digest: envelopeDigest === '' ? undefined : envelopeDigest,
    ...(code === 'plain-text-share' ? { eventId } : {}),
  };
}

/** The verdict on a signal whose payload could not be read; undefined where it could. */
export function undecodable({ arrival, content }: ArrivedSignal): EnvelopeVerdict | undefined {
  if (!isUndecodable(content)) return undefined;
  const text = `the payload could not be read (encoding ${content.undecodable}); send JSON`;
  return { arrival, code: 'undecodable', text };
}
