import type { EnvelopeVerdict } from '../../src/contracts/ceremony';
import type { EnvelopeReceipt } from '../../src/contracts/receipts';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import { isUndecodable } from '../../src/contracts/signals';
import type { CeremonyFacts, InspectedEnvelope, PersonLookup } from '../../src/keys';
import { examineEnvelope, receiptOf } from '../../src/keys';
import type { ArrivedSignal } from '../approvals/arrived-signals';

const NO_SENDER_TEXT = 'refused: the server recorded nobody as its sender: is authentication on?';

/** What people are told of an envelope. The event is named where what stands in it is to be purged. */
export function verdictOf(
  person: PersonLookup,
  { arrival, eventId }: Pick<ArrivedSignal, 'arrival' | 'eventId'>,
  { verdict: code, holder, seq, envelopeDigest }: EnvelopeReceipt,
): EnvelopeVerdict {
  return {
    ...{ arrival, code, seq, text: ENVELOPE_VERDICTS[code] },
    holder: holder === undefined ? undefined : { name: holder, how: person(holder)?.attestation ?? 'claimed' },
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

/** What the cheap checks on arrival say, which need no key. */
export async function inspect(
  signal: ArrivedSignal,
  ceremony: CeremonyFacts,
  person: PersonLookup,
): Promise<{ readonly verdict: EnvelopeVerdict; readonly passed?: InspectedEnvelope }> {
  const unread = undecodable(signal);
  if (unread) return { verdict: unread };
  const { content, at, principal } = signal;
  const examined = await examineEnvelope(content, { ceremony, person, receivedAt: at, principal });
  const verdict = verdictOf(person, signal, receiptOf(examined));
  if (!('refused' in examined)) return { verdict, passed: examined };
  const unattested = verdict.code === 'wrong-signer' && principal === undefined && verdict.holder?.how === 'principal';
  return { verdict: unattested ? { ...verdict, text: NO_SENDER_TEXT } : verdict };
}
