import { z } from 'zod';
import { RunbookError } from '../errors';
import { REHEARSAL_CONTEXT } from '../documents/rehearsal';
import type { EnvelopeReceipt, EnvelopeVerdictCode } from '../contracts/receipts';
import { Secret } from '../secret';
import { openWithIdentity } from './ceremony-keys';
import { strictBase64url } from './documents';
import { examineEnvelope, receiptOf, SHARE_CONTEXT } from './envelope';
import type { InspectedEnvelope, SendersOf } from './envelope';
import type { KeyRecord } from './key-records';
import { SHARE_BYTES } from './key-shares';
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

const sharePlaintext = z.strictObject({
  ctx: z.literal(SHARE_CONTEXT),
  inv: z.string(),
  cid: z.string(),
  epoch: z.int(),
  holder: z.string(),
  seq: z.int(),
  share: z.string(),
});

/**
 * Stage 2, where the keys are: every envelope of a ceremony in the order of arrival, those in hand first. Checks again
 * what stage 1 checked (but the time of arrival), then that each opens with this record's key and nothing else, that
 * the inner part repeats the outer one, the share's length, and that no two holders gave the same share.
 *
 * @param envelopes as they arrived.
 * @param sendersOf without it no envelope of a person counts whom only the server attests.
 * @returns one receipt per envelope, in the same order. No share.
 */
export async function checkEnvelopes(
  record: KeyRecord,
  envelopes: readonly unknown[],
  person: PersonLookup,
  sendersOf?: SendersOf,
): Promise<readonly EnvelopeReceipt[]> {
  return (await openAll(record, envelopes, person, sendersOf)).map(({ receipt }) => receipt);
}

/**
 * As {@link checkEnvelopes}, for envelopes of which most were looked at before: while it is read what arrived, those in
 * hand are checked.
 *
 * @param arriving - what comes after those in hand, and has just passed stage 1 for this record
 * @returns a receipt for each, those in hand first
 */
export async function checkFurtherEnvelopes(
  record: KeyRecord,
  inHand: readonly unknown[],
  arriving: Promise<readonly InspectedEnvelope[]>,
  person: PersonLookup,
  before: OpenedBefore,
  sendersOf?: SendersOf,
): Promise<readonly EnvelopeReceipt[]> {
  const look = new Look(record, person, sendersOf, before);
  await look.add(inHand);
  await look.take(await arriving);
  return look.judged().map(({ receipt }) => receipt);
}

/**
 * As {@link checkEnvelopes}, and gives the shares that count: each holder's valid envelope with the highest sequence
 * number, in the order of arrival. For the burst only.
 */
export async function openShares(
  record: KeyRecord,
  envelopes: readonly unknown[],
  person: PersonLookup,
  sendersOf?: SendersOf,
): Promise<{ readonly receipts: readonly EnvelopeReceipt[]; readonly shares: readonly OpenedShare[] }> {
  const all = await openAll(record, envelopes, person, sendersOf);
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

async function openAll(
  record: KeyRecord,
  envelopes: readonly unknown[],
  person: PersonLookup,
  sendersOf: SendersOf | undefined,
): Promise<readonly Examined[]> {
  const look = new Look(record, person, sendersOf);
  await look.add(envelopes);
  return look.judged();
}

/** One look at envelopes, in the order of their arrival. */
class Look {
  readonly #record: KeyRecord;
  readonly #person: PersonLookup;
  readonly #sendersOf: SendersOf | undefined;
  readonly #before: OpenedBefore | undefined;
  readonly #all: Examined[] = [];
  readonly #seen = new Set<string>();

  constructor(record: KeyRecord, person: PersonLookup, sendersOf: SendersOf | undefined, before?: OpenedBefore) {
    if (record.kind === 'rehearsal') throw new RunbookError('DOCUMENT_INVALID', 'A rehearsal collects no key shares.');
    this.#record = record;
    this.#person = person;
    this.#sendersOf = sendersOf;
    this.#before = before;
  }

  async add(envelopes: readonly unknown[]): Promise<void> {
    const { cid, epoch, invitationDigest, holders, exp } = this.#record;
    const ceremony = { cid, epoch, invitationDigest, holders, exp };
    for (const envelope of envelopes) {
      const examined = await examineEnvelope(envelope, { ceremony, person: this.#person, sendersOf: this.#sendersOf });
      if ('refused' in examined) this.#all.push({ receipt: examined.refused });
      else await this.take([examined]);
    }
  }

  /** Those that passed stage 1. @throws RunbookError INTERNAL where one passed it for something else */
  async take(passed: readonly InspectedEnvelope[]): Promise<void> {
    for (const inspected of passed) {
      if (!isFor(this.#record, inspected))
        throw new RunbookError('INTERNAL', 'An envelope was checked for another one.');
      if (this.#seen.has(inspected.digest)) {
        this.#all.push({ receipt: receiptOf(inspected, 'repeated') });
      } else {
        this.#seen.add(inspected.digest);
        this.#all.push(await this.#open(inspected));
      }
    }
  }

  /** What each is beside the others. */
  judged(): readonly Examined[] {
    for (const { receipt, mark } of this.#all) if (mark) this.#before?.keep(this.#record, receipt.envelopeDigest, mark);
    refuseSupersededAndSame(this.#all);
    refuseOddLengths(this.#all);
    return this.#all;
  }

  async #open(inspected: InspectedEnvelope): Promise<Examined> {
    const mark = this.#before?.of(this.#record, inspected.digest);
    if (mark) return { receipt: receiptOf(inspected, 'accepted'), mark };
    return openEnvelope(this.#record, inspected);
  }
}

function isFor({ cid, epoch, invitationDigest, holders }: KeyRecord, { payload }: InspectedEnvelope): boolean {
  const same = payload.cid === cid && payload.epoch === epoch && payload.inv === invitationDigest;
  return same && holders.includes(payload.holder);
}

async function openEnvelope(record: KeyRecord, inspected: InspectedEnvelope): Promise<Examined> {
  const { payload, digest } = inspected;
  const refuse = (verdict: EnvelopeVerdictCode): Examined => ({ receipt: receiptOf(inspected, verdict) });

  const plaintext = await decryptEnvelope(record, payload.ct);
  if (plaintext === undefined) return refuse('does-not-open');

  const inner = parsePlaintext(plaintext);
  const isRehearsal = inner === undefined && contextOf(plaintext) === REHEARSAL_CONTEXT;
  // From here on the share is a string, which nothing can erase; the bytes can be.
  plaintext.fill(0);
  if (inner === undefined) return refuse(isRehearsal ? 'rehearsal-envelope' : 'mismatch');
  const repeated = (['inv', 'cid', 'epoch', 'holder', 'seq'] as const).every(
    (member) => inner[member] === payload[member],
  );
  if (!repeated) return refuse('mismatch');
  if (!/^([0-9a-f]{2})*$/.test(inner.share)) return refuse('wrong-length');
  const bytes = inner.share.length / 2;
  if (bytes < SHARE_BYTES.shortest || bytes > SHARE_BYTES.longest) return refuse('wrong-length');

  const { holder, seq } = payload;
  const share = new Secret('key-share', inner.share);
  const mark = { place: placeOf(share, record.threshold), length: inner.share.length };
  return { receipt: receiptOf(inspected, 'accepted'), mark, opened: { holder, seq, envelopeDigest: digest, share } };
}

/** What an envelope holds; undefined unless it is encrypted to this record's key and to nothing else. */
export async function decryptEnvelope({ keys }: Pick<KeyRecord, 'keys'>, ct: string): Promise<Uint8Array | undefined> {
  const file = strictBase64url(ct);
  if (file === undefined || !hasOneRecipient(file)) return undefined;
  return openWithIdentity(keys, file);
}

/** What the encrypted part says that it is for. */
export function contextOf(plaintext: Uint8Array): unknown {
  try {
    const inner: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(plaintext));
    return typeof inner === 'object' && inner !== null && 'ctx' in inner ? inner.ctx : undefined;
  } catch {
    return undefined;
  }
}

/** The header of a binary age file names its recipients: there must be ours alone, so that nobody else can read it. */
function hasOneRecipient(file: Buffer): boolean {
  const header = file.subarray(0, file.indexOf('\n---')).toString('latin1');
  const stanzas = header.split('\n').filter((line) => line.startsWith('-> '));
  return stanzas.length === 1 && stanzas[0]?.startsWith('-> mlkem768x25519 ') === true;
}

function parsePlaintext(plaintext: Uint8Array): z.infer<typeof sharePlaintext> | undefined {
  try {
    return sharePlaintext.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(plaintext)));
  } catch {
    return undefined;
  }
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
