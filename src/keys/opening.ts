import { decodeBase64url } from '../documents/documents';
import { ENVELOPES } from '../documents/envelope';
import type { EnvelopeKind } from '../documents/envelope';
import { SHARE_BYTES } from '../documents/key-shares';
import type { EnvelopeReceipt, EnvelopeVerdictCode } from '../contracts/receipts';
import { RunbookError } from '../errors';
import { Secret } from '../secret';
import type { z } from 'zod';
import { openWithIdentity } from './ceremony-keys';
import { examineEnvelope, receiptOf } from './envelope';
import type { InspectedEnvelope, RefusedEnvelope, SendersOf } from './envelope';
import type { KeyRecord } from './key-records';
import type { PersonLookup } from './people';

/** A key share in hand. For the burst only. */
export interface OpenedShare {
  readonly holder: string;
  readonly seq: number;
  readonly envelopeDigest: string;
  /** Lower-case hexadecimal. */
  readonly share: Secret<'key-share'>;
}

/** What is kept of a share that was opened: nothing of it that helps to use it. */
interface ShareMark {
  /** See {@link placeOf}. */
  readonly place: string;
  /** Characters. */
  readonly length: number;
}

/**
 * Marks of envelopes that were opened and fitted, so that looking at one more does not open all those in hand again. In
 * this process alone; a share with a threshold of 1 has no mark, for its place would be the share itself.
 */
export class OpenedBefore {
  readonly #marks = new Map<string, ShareMark>();

  of(record: KeyRecord, digest: string): ShareMark | undefined {
    return this.#marks.get(nameOf(record, digest));
  }

  keep(record: KeyRecord, digest: string, mark: ShareMark): void {
    if (record.threshold === 1) return;
    const [oldest] = this.#marks.keys();
    if (oldest !== undefined && this.#marks.size >= MARKS_KEPT) this.#marks.delete(oldest);
    this.#marks.set(nameOf(record, digest), mark);
  }
}

const MARKS_KEPT = 1000;

/** The digest stands for the envelope, the recipient for the keys that opened it. */
function nameOf({ cid, epoch, keys }: KeyRecord, digest: string): string {
  return [cid, epoch, keys.recipient, digest].join(' ');
}

/**
 * Which of the key's shares it is. Two for the same place cannot be combined. The last byte of a share is its
 * x-coordinate; with a threshold of 1 the share is the key itself and has none.
 */
function placeOf(share: Secret<'key-share'>, threshold: number): string {
  return threshold === 1 ? share.reveal() : share.reveal().slice(-2);
}

/**
 * Stage 2, where the keys are: every envelope of a ceremony in the order of arrival, those in hand first. Checks again
 * what stage 1 checked (but the time of arrival), then that each opens with this record's key and nothing else, that
 * the inner part repeats the outer one, the share's length, and that no two holders gave the same share. For envelopes of
 * which most were looked at before: while it is read what arrived, those in hand are checked.
 *
 * @param inHand as they arrived.
 * @param arriving what comes after those in hand, and has just passed stage 1 for this record
 * @param sendersOf without it no envelope of a person counts whom only the server attests.
 * @returns a receipt for each, those in hand first. No share.
 */
export async function checkFurtherEnvelopes(
  record: KeyRecord,
  inHand: readonly unknown[],
  arriving: Promise<readonly InspectedEnvelope[]>,
  person: PersonLookup,
  before: OpenedBefore,
  sendersOf?: SendersOf,
): Promise<readonly EnvelopeReceipt[]> {
  const [held, arrived] = await Promise.all([examineAll(record, inHand, person, sendersOf), arriving]);
  return (await openAll(record, [...held, ...arrived], before)).map(({ receipt }) => receipt);
}

/**
 * As {@link checkFurtherEnvelopes}, and gives the shares that count: each holder's valid envelope with the highest
 * sequence number, in the order of arrival. For the token generation only.
 */
export async function openShares(
  record: KeyRecord,
  envelopes: readonly unknown[],
  person: PersonLookup,
  sendersOf?: SendersOf,
): Promise<{ readonly receipts: readonly EnvelopeReceipt[]; readonly shares: readonly OpenedShare[] }> {
  const all = await openAll(record, await examineAll(record, envelopes, person, sendersOf));
  return {
    receipts: all.map(({ receipt }) => receipt),
    shares: all.flatMap(({ receipt, opened }) =>
      receipt.verdict === 'accepted' && opened !== undefined ? [opened] : [],
    ),
  };
}

interface Examined {
  receipt: EnvelopeReceipt;
  /** Where it opened, and may count. */
  readonly mark?: ShareMark;
  /** Not where it was opened before. */
  readonly opened?: OpenedShare;
}

async function examineAll(
  { cid, epoch, invitationDigest, holders, exp }: KeyRecord,
  envelopes: readonly unknown[],
  person: PersonLookup,
  sendersOf: SendersOf | undefined,
): Promise<readonly (InspectedEnvelope | RefusedEnvelope)[]> {
  const ceremony = { cid, epoch, invitationDigest, holders, exp };
  const all: (InspectedEnvelope | RefusedEnvelope)[] = [];
  for (const envelope of envelopes) all.push(await examineEnvelope(envelope, { ceremony, person, sendersOf }));
  return all;
}

/** Opens those that passed stage 1, in the order of their arrival, and judges each beside the others. */
async function openAll(
  record: KeyRecord,
  examined: readonly (InspectedEnvelope | RefusedEnvelope)[],
  before?: OpenedBefore,
): Promise<readonly Examined[]> {
  if (record.kind === 'rehearsal') throw new RunbookError('DOCUMENT_INVALID', 'A rehearsal collects no key shares.');
  const all: Examined[] = [];
  for (const each of examined) {
    if ('refused' in each) all.push({ receipt: each.refused });
    else if (!isFor(record, each)) throw new RunbookError('INTERNAL', 'An envelope was checked for another one.');
    else if (all.some(({ receipt }) => receipt.envelopeDigest === each.digest))
      all.push({ receipt: receiptOf(each, 'repeated') });
    else all.push(await openOne(record, each, before));
  }
  for (const { receipt, mark } of all) if (mark) before?.keep(record, receipt.envelopeDigest, mark);
  refuseSupersededAndSame(all);
  refuseOddLengths(all);
  return all;
}

function isFor({ cid, epoch, invitationDigest, holders }: KeyRecord, { payload }: InspectedEnvelope): boolean {
  const same = payload.cid === cid && payload.epoch === epoch && payload.inv === invitationDigest;
  return same && holders.includes(payload.holder);
}

async function openOne(
  record: KeyRecord,
  inspected: InspectedEnvelope,
  before: OpenedBefore | undefined,
): Promise<Examined> {
  const { digest: envelopeDigest, payload } = inspected;
  const known = before?.of(record, envelopeDigest);
  if (known) return { receipt: receiptOf(inspected, 'accepted'), mark: known };
  const opened = await openEnvelope(record, 'ceremony', inspected);
  if ('verdict' in opened) return { receipt: receiptOf(inspected, opened.verdict) };
  const text = opened.content.share;
  const bytes = text.length / 2;
  const fits = /^([0-9a-f]{2})*$/.test(text) && bytes >= SHARE_BYTES.shortest && bytes <= SHARE_BYTES.longest;
  if (!fits) return { receipt: receiptOf(inspected, 'wrong-length') };
  const share = new Secret('key-share', text);
  const mark = { place: placeOf(share, record.threshold), length: text.length };
  const { holder, seq } = payload;
  return { receipt: receiptOf(inspected, 'accepted'), mark, opened: { holder, seq, envelopeDigest, share } };
}

const REPEATED = ['inv', 'cid', 'epoch', 'holder', 'seq', 'cluster'] as const;

/** What an envelope of one kind holds, or why it does not count: it opens with this record's key and no other, and repeats itself inside. */
export async function openEnvelope<K extends EnvelopeKind>(
  { keys }: Pick<KeyRecord, 'keys'>,
  kind: K,
  { payload }: InspectedEnvelope,
): Promise<
  { readonly content: z.infer<(typeof ENVELOPES)[K]['plaintext']> } | { readonly verdict: EnvelopeVerdictCode }
> {
  const file = decodeBase64url(payload.ct);
  const plaintext = file && hasOneRecipient(file) ? await openWithIdentity(keys, file) : undefined;
  if (plaintext === undefined) return { verdict: 'does-not-open' };
  const inner = parsed(plaintext);
  // From here on the secret is a string, which nothing can erase; the bytes can be.
  plaintext.fill(0);
  const content = ENVELOPES[kind].plaintext.safeParse(inner);
  if (!content.success) return { verdict: mixedUp(kind, inner) };
  const same = REPEATED.every((member) => Reflect.get(content.data, member) === Reflect.get(payload, member));
  // The schema is the one of this kind.
  return same ? { content: content.data as z.infer<(typeof ENVELOPES)[K]['plaintext']> } : { verdict: 'mismatch' };
}

/** A real share in a rehearsal, and the other way round, is told by name. */
function mixedUp(kind: EnvelopeKind, inner: unknown): EnvelopeVerdictCode {
  const ctx = typeof inner === 'object' && inner !== null && 'ctx' in inner ? inner.ctx : undefined;
  const isOf = (other: EnvelopeKind) => ctx === ENVELOPES[other].plaintext.shape.ctx.value;
  if (kind === 'ceremony' && isOf('rehearsal')) return 'rehearsal-envelope';
  return kind === 'rehearsal' && isOf('ceremony') ? 'share-in-rehearsal' : 'mismatch';
}

function parsed(plaintext: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(plaintext));
  } catch {
    return undefined;
  }
}

/** The header of a binary age file names its recipients: there must be ours alone, so that nobody else can read it. */
function hasOneRecipient(file: Uint8Array): boolean {
  const [header = ''] = Buffer.from(file).toString('latin1').split('\n---', 1);
  const stanzas = header.split('\n').filter((line) => line.startsWith('-> '));
  return stanzas.length === 1 && stanzas[0]?.startsWith('-> mlkem768x25519 ') === true;
}

type Fitting = Examined & { readonly mark: ShareMark };

function accepted(all: readonly Examined[]): Fitting[] {
  return all.filter((one): one is Fitting => one.receipt.verdict === 'accepted' && one.mark !== undefined);
}

function setVerdict(one: Examined, verdict: EnvelopeVerdictCode): void {
  one.receipt = { ...one.receipt, verdict };
}

/**
 * A holder's highest valid sequence number counts; of two with the same number the one that came first. A share that
 * another holder has in hand is not valid, and becomes so when that holder corrects his: nobody has to send it again.
 */
function refuseSupersededAndSame(all: readonly Examined[]): void {
  const held = new Map<string | undefined, Fitting>();
  const place = (one: Fitting): EnvelopeVerdictCode => {
    const { holder, seq = 0 } = one.receipt;
    const others = [...held.values()].filter((other) => other.receipt.holder !== holder);
    if (others.some((other) => other.mark.place === one.mark.place)) return 'same-share-as-another';
    const current = held.get(holder);
    if (current !== undefined && (current.receipt.seq ?? 0) >= seq) return 'superseded';
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

/** The service takes a share that is too short without a word and fails at the threshold: the majority tells it. */
function refuseOddLengths(all: readonly Examined[]): void {
  const counted = accepted(all);
  const counts = new Map<number, number>();
  for (const { mark } of counted) counts.set(mark.length, (counts.get(mark.length) ?? 0) + 1);
  const usual = [...counts].find(([, count]) => count * 2 > counted.length)?.[0];
  if (usual === undefined) return;
  for (const one of counted) if (one.mark.length !== usual) setVerdict(one, 'wrong-length');
}
