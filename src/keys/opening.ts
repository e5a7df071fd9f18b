import { claimedHeader } from '../documents/documents';
import { decodeBase64url } from '../documents/base64url';
import { ENVELOPES } from '../documents/envelope';
import type { EnvelopeKind } from '../documents/envelope';
import { SHARE_BYTES, parseOperationToken } from '../documents/key-shares';
import type { EnvelopeReceipt, EnvelopeVerdictCode } from '../contracts/receipts';
import type { Attestation } from '../contracts/run-facts';
import { unwrapDocument } from '../contracts/signals';
import { RunbookError, isRunbookError } from '../errors';
import { Secret } from '../secret';
import type { z } from 'zod';
import { openWithIdentity } from './ceremony-keys';
import { examineEnvelope, receiptOf } from './envelope';
import type { ArrivedEnvelope, InspectedEnvelope } from './envelope';
import type { KeyRecord } from './key-records';
import type { People } from './people';

/** An envelope with its receipt and, if it counts, its key share: lower-case hexadecimal, for the generation only. */
export interface CheckedShare<A extends ArrivedEnvelope = ArrivedEnvelope> {
  readonly arrived: A;
  readonly receipt: EnvelopeReceipt;
  readonly share?: Secret<'key-share'> | undefined;
}

/** One answer to a rehearsal. It proves that this person's tool, key and access work. */
export interface RehearsalAnswer {
  readonly holder: string;
  readonly how: Attestation;
  /** The key that signed it; absent if it was not signed. */
  readonly kid?: string;
  /** Name and version that the holder's tool reports. */
  readonly tool: string;
}

interface Examined {
  receipt: EnvelopeReceipt;
  /** Present if it opened and may count. */
  readonly opened?: { readonly holder: string; readonly seq: number; readonly share: Secret<'key-share'> };
}

/**
 * Runs both stages on every envelope of a ceremony, in the order of arrival, on the host that has the keys. After stage
 * 1 it checks that only this record's key opens the envelope, that the inner members repeat the outer ones, the share's
 * length, and that no two holders gave the same share.
 *
 * @param given how many of the first envelopes the cluster already has: those are verified but not opened.
 * @returns each envelope with its receipt, and with its share if it counts. Per holder, the valid envelope with the
 * highest sequence number counts.
 */
export async function openShares<A extends ArrivedEnvelope>(
  record: KeyRecord,
  envelopes: readonly A[],
  people: People,
  given = 0,
): Promise<CheckedShare<A>[]> {
  const all: (Examined & { readonly arrived: A })[] = [];
  for (const arrived of envelopes.slice(0, given)) {
    const examined = await examineEnvelope(arrived, record, people);
    all.push({ arrived, receipt: 'refused' in examined ? examined.refused : receiptOf(examined) });
  }
  for (const arrived of envelopes.slice(given)) {
    const opened = await openEnvelope(record, 'ceremony', arrived, people);
    // A refused envelope was not collected: its own holder may send the same one again.
    const isRepeated = all.some((each) => each.opened && each.receipt.envelopeDigest === opened.receipt.envelopeDigest);
    if (!('content' in opened)) all.push({ arrived, ...opened });
    else if (isRepeated) all.push({ arrived, receipt: receiptOf(opened.envelope, 'repeated') });
    else all.push({ arrived, ...shareIn(opened.envelope, opened.content.share) });
  }
  refuseSupersededAndSame(all, record.threshold);
  refuseOddLengths(all);
  return all.map(({ arrived, receipt, opened }) => {
    return { arrived, receipt, share: receipt.verdict === 'accepted' ? opened?.share : undefined };
  });
}

function shareIn(envelope: InspectedEnvelope, text: string): Examined {
  const bytes = text.length / 2;
  const fits = /^([0-9a-f]{2})*$/.test(text) && bytes >= SHARE_BYTES.shortest && bytes <= SHARE_BYTES.longest;
  if (!fits) return { receipt: receiptOf(envelope, 'wrong-length') };
  const { holder, seq } = envelope.payload;
  return { receipt: receiptOf(envelope), opened: { holder, seq, share: new Secret('key-share', text) } };
}

/**
 * Checks and opens one provided token on the host that has the key. The checks are those of a key share's envelope,
 * with the type and context of a token; the content must also have the form of an operation token.
 */
export async function openProvidedToken(
  record: KeyRecord,
  arrived: ArrivedEnvelope,
  people: People,
): Promise<{
  readonly receipt: EnvelopeReceipt;
  readonly provided?: { readonly cluster: string; readonly token: Secret<'operation-token'> };
}> {
  const opened = await openEnvelope(record, 'tokens', arrived, people);
  if (!('content' in opened)) return opened;
  const { cluster, token } = opened.content;
  try {
    return { receipt: opened.receipt, provided: { cluster, token: parseOperationToken(token) } };
  } catch (error) {
    if (!isRunbookError(error, 'INVALID_INPUT')) throw error;
    return { receipt: receiptOf(opened.envelope, 'not-a-token') };
  }
}

/**
 * Checks and opens one answer to a rehearsal on the host that has the key. The checks are those of a ceremony's
 * envelope, with the types and context of a rehearsal. The value in it is dropped.
 */
export async function openRehearsalAnswer(
  record: KeyRecord,
  arrived: ArrivedEnvelope,
  people: People,
): Promise<{ readonly receipt: EnvelopeReceipt; readonly answer?: RehearsalAnswer }> {
  const opened = await openEnvelope(record, 'rehearsal', arrived, people);
  if (!('content' in opened)) return opened;
  const { receipt, envelope, content } = opened;
  const { name: holder, attestation: how } = envelope.person;
  // The signature was verified before, so the key ID is no longer just a claim.
  const document = unwrapDocument(arrived.content);
  const kid = typeof document === 'string' ? claimedHeader(document).kid : undefined;
  return { receipt, answer: { holder, how, tool: content.tool, ...(kid === undefined ? {} : { kid }) } };
}

/** The error if the keys of a record are not for such envelopes. */
const MISUSED = {
  ceremony: 'A rehearsal collects no key shares.',
  tokens: 'These keys do not open operation tokens.',
  rehearsal: 'The keys of a ceremony do not open answers to a rehearsal.',
} as const satisfies Readonly<Record<EnvelopeKind, string>>;

function isFor({ kind }: KeyRecord, envelopes: EnvelopeKind): boolean {
  if (envelopes === 'tokens') return kind === 'operation-token';
  return (kind === 'rehearsal') === (envelopes === 'rehearsal');
}

const REPEATED = ['inv', 'cid', 'epoch', 'holder', 'seq', 'cluster'] as const;

type Content<K extends EnvelopeKind> = z.infer<(typeof ENVELOPES)[K]['plaintext']>;

/**
 * The content of an envelope of one kind, or a receipt that says why it does not count. It must pass stage 1, open with
 * this record's key and no other, and repeat its outer members inside.
 *
 * @throws RunbookError `DOCUMENT_INVALID` if the record's keys are not for such envelopes.
 */
async function openEnvelope<K extends EnvelopeKind>(
  record: KeyRecord,
  kind: K,
  arrived: ArrivedEnvelope,
  people: People,
): Promise<
  | { readonly receipt: EnvelopeReceipt }
  | { readonly receipt: EnvelopeReceipt; readonly envelope: InspectedEnvelope; readonly content: Content<K> }
> {
  if (!isFor(record, kind)) throw new RunbookError('DOCUMENT_INVALID', MISUSED[kind]);
  const envelope = await examineEnvelope(arrived, record, people, kind);
  if ('refused' in envelope) return { receipt: envelope.refused };
  const file = decodeBase64url(envelope.payload.ct);
  const plaintext = file && hasOneRecipient(file) ? await openWithIdentity(record.keys, file) : undefined;
  if (plaintext === undefined) return { receipt: receiptOf(envelope, 'does-not-open') };
  const { data } = ENVELOPES[kind].plaintext.safeParse(parsed(plaintext));
  // From here on the secret is also a string, which cannot be erased. The bytes can.
  plaintext.fill(0);
  const same = REPEATED.every((member) => data && Reflect.get(data, member) === Reflect.get(envelope.payload, member));
  if (!data || !same) return { receipt: receiptOf(envelope, 'mismatch') };
  // The schema is that of this kind.
  return { receipt: receiptOf(envelope), envelope, content: data as Content<K> };
}

function parsed(plaintext: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(plaintext));
  } catch {
    return undefined;
  }
}

/** The header of a binary age file lists its recipients. Ours must be the only one, so that nobody else can read it. */
function hasOneRecipient(file: Uint8Array): boolean {
  const [header = ''] = Buffer.from(file).toString('latin1').split('\n---', 1);
  const stanzas = header.split('\n').filter((line) => line.startsWith('-> '));
  return stanzas.length === 1 && stanzas[0]?.startsWith('-> mlkem768x25519 ') === true;
}

type Fitting = Examined & Required<Pick<Examined, 'opened'>>;

function accepted(all: readonly Examined[]): Fitting[] {
  return all.filter((one): one is Fitting => one.receipt.verdict === 'accepted' && one.opened !== undefined);
}

function setVerdict(one: Examined, verdict: EnvelopeVerdictCode): void {
  one.receipt = { ...one.receipt, verdict };
}

/**
 * Which of the key's shares it is; two shares for the same place cannot be combined. The last byte of a share is its
 * x-coordinate. With a threshold of 1 the share is the key itself and has none.
 */
function placeOf({ opened: { share } }: Fitting, threshold: number): string {
  return threshold === 1 ? share.reveal() : share.reveal().slice(-2);
}

/**
 * Per holder, the highest valid sequence number counts; of two equal numbers, the first to arrive. A share that another
 * holder already gave is not valid. It becomes valid when that holder corrects theirs: nobody has to send it again.
 */
function refuseSupersededAndSame(all: readonly Examined[], threshold: number): void {
  const held = new Map<string, Fitting>();
  const place = (one: Fitting): EnvelopeVerdictCode => {
    const { holder, seq } = one.opened;
    const others = [...held.values()].filter((other) => other.opened.holder !== holder);
    if (others.some((other) => placeOf(other, threshold) === placeOf(one, threshold))) return 'same-share-as-another';
    const current = held.get(holder);
    if (current !== undefined && current.opened.seq >= seq) return 'superseded';
    if (current !== undefined) setVerdict(current, 'superseded');
    held.set(holder, one);
    return 'accepted';
  };
  let waiting = accepted(all);
  for (let before = Number.POSITIVE_INFINITY; waiting.length > 0 && waiting.length < before;) {
    before = waiting.length;
    for (const one of waiting) setVerdict(one, place(one));
    waiting = waiting.filter((one) => one.receipt.verdict === 'same-share-as-another');
  }
}

/**
 * The service silently accepts a share that is too short and fails at the threshold, so the majority's length decides.
 */
function refuseOddLengths(all: readonly Examined[]): void {
  const counted = accepted(all);
  const lengthOf = ({ opened }: Fitting) => opened.share.reveal().length;
  const isUsual = (length: number) => counted.filter((each) => lengthOf(each) === length).length * 2 > counted.length;
  const usual = counted.map(lengthOf).find(isUsual);
  if (usual === undefined) return;
  for (const one of counted) if (lengthOf(one) !== usual) setVerdict(one, 'wrong-length');
}
