/* Envelopes that signals brought to a ceremony: checked, opened on the host with the keys; verdicts, and the shares to
   give. */
import type { CeremonyHandle, EnvelopeVerdict } from '../../src/contracts/ceremony';
import { UNFIT_SHARES } from '../../src/contracts/ceremony';
import { holdsTokenAlone } from '../../src/contracts/plain-shares';
import type { EnvelopeReceipt } from '../../src/contracts/receipts';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import { isUndecodable } from '../../src/contracts/signals';
import { RunbookError } from '../../src/errors';
import type { KeyRecord, CheckedShare, People } from '../../src/keys';
import { examineEnvelope, openShares } from '../../src/keys';
import type { Secret } from '../../src/secret';
import type { ArrivedSignal } from '../approvals/arrived-signals';
import { ArrivedSignals } from '../approvals/arrived-signals';
import { currentExecution } from '../execution';

/** A ceremony to which no envelope belongs: only plain text is then recognized. */
const NO_CEREMONY = { cid: '', epoch: 0, invitationDigest: '', holders: [], exp: 0 };
const NO_CEREMONY_TEXT = 'refused: this run is not collecting key shares now';

/** For the time without a ceremony: refuses everything, but still detects a key share in plain text. */
export async function checkUnaskedShares(input: { readonly deployment: string; readonly arrived: readonly number[] }) {
  const { people } = currentExecution().inventory;
  const verdicts: EnvelopeVerdict[] = [];
  for (const signal of await new ArrivedSignals().of('share', input.arrived)) {
    const { arrival } = signal;
    const examined = await examineEnvelope(signal, NO_CEREMONY, people);
    const noticed = 'refused' in examined ? verdictOf(people, signal, examined.refused) : undefined;
    const isReported = noticed?.eventId !== undefined || noticed?.code === 'undecodable';
    verdicts.push(isReported ? noticed : { arrival, code: 'no-ceremony', text: NO_CEREMONY_TEXT });
  }
  return { verdicts };
}

/** A ceremony, and the numbers of the new signals that brought it something. */
export interface Collecting {
  readonly deployment: string;
  readonly ceremony: CeremonyHandle;
  readonly arrived: readonly number[];
}

/**
 * Both stages of the check. Envelopes collected before are checked again together with the new ones.
 *
 * @param input.held - numbers of the signals that brought the collected shares
 */
export async function openEnvelopes(input: Collecting & { readonly held: readonly number[] }) {
  const { run, inventory, keyRecords } = currentExecution();
  const { held, arrived } = input;
  const { cid, epoch } = input.ceremony;
  const opened = await openArrived(await keyRecords.read({ run, cid, epoch }), [...held, ...arrived]);
  const fresh = opened.filter((each) => arrived.includes(each.arrived.arrival));
  return { verdicts: fresh.map((each) => verdictOf(inventory.people, each.arrived, each.receipt)) };
}

const NO_SENDER_TEXT = 'refused: the server recorded no sender (is authentication on?)';

/**
 * What people are told about an envelope, even if it could not be read. Names the event if its content must be purged.
 */
export function verdictOf(
  people: People,
  { arrival, eventId, principal, content }: ArrivedSignal,
  { verdict, holder }: EnvelopeReceipt,
): EnvelopeVerdict {
  if (isUndecodable(content)) return { arrival, code: 'undecodable', text: 'the payload could not be read' };
  const isPlain = verdict === 'plain-text-share';
  const code = isPlain && holdsTokenAlone(content) ? 'plain-text-token' : verdict;
  const how = people.get(holder ?? '')?.attestation ?? 'claimed';
  const isUnattested = code === 'wrong-signer' && principal === undefined && how === 'principal';
  return {
    ...{ arrival, code, text: isUnattested ? NO_SENDER_TEXT : ENVELOPE_VERDICTS[code] },
    holder: holder === undefined ? undefined : { name: holder, how },
    ...(isPlain && { eventId }),
  };
}

/** The envelopes of these signals, opened on the host with the keys. @param given - as for {@link openShares} */
async function openArrived(record: KeyRecord, arrivals: readonly number[], given = 0) {
  const signals = await new ArrivedSignals().of('share', arrivals);
  return openShares(record, signals, currentExecution().inventory.people, given);
}

/** Maximum sets of shares to try before the holders are asked again: enough for every set of 3 out of 5 shares. */
const MAX_SETS = 10;

/** The sets of collected shares that a cluster rejected. */
export interface Tried {
  readonly cluster: string;
  /** The sets that this cluster rejected. */
  readonly rejected: readonly (readonly number[])[];
  /** How many of them since the collected shares changed. */
  readonly tried: number;
}

/** A collected share, with the number of the signal that brought it. */
export interface ArrivedShare {
  readonly arrival: number;
  readonly holder: string;
  readonly share: Secret<'key-share'>;
}

/**
 * The shares that signals brought, in the order of the signals.
 *
 * @throws RunbookError SHARES_MISSING if fewer fit together than are needed
 */
export async function openInHand(record: KeyRecord, arrivals: readonly number[]): Promise<ArrivedShare[]> {
  const opened = await openArrived(record, arrivals);
  const shares = opened.flatMap(({ arrived: { arrival }, receipt: { holder }, share }) =>
    share && holder !== undefined ? { arrival, holder, share } : [],
  );
  if (shares.length < record.threshold) throw sharesMissing(opened, record.threshold);
  return shares;
}

/** The last share of a set, and the holders of the set. Only the last one is opened: the others were already given. */
export async function openLast(record: KeyRecord, set: readonly number[]) {
  const opened = await openArrived(record, set, set.length - 1);
  const givers = new Set(opened.flatMap(({ receipt }) => (fits(receipt) ? (receipt.holder ?? []) : [])));
  if (givers.size < set.length) throw sharesMissing(opened, set.length);
  return { last: opened.at(-1)?.share, givers: [...givers] };
}

function fits({ verdict }: EnvelopeReceipt): boolean {
  return verdict === 'accepted';
}

/**
 * Some mistakes, such as an unusual length, show only next to other shares: the error names whose share no longer
 * counts, and why.
 */
function sharesMissing(opened: readonly CheckedShare[], needed: number): RunbookError {
  const receipts = opened.map(({ receipt }) => receipt);
  const unfit = receipts.filter((receipt) => !fits(receipt) && receipt.verdict !== 'superseded');
  const whose = unfit.map(({ holder = 'somebody', verdict }) => `; ${holder}: ${ENVELOPE_VERDICTS[verdict]}`).join('');
  const fit = receipts.filter(fits).length;
  return new RunbookError('SHARES_MISSING', `Only ${fit} of ${needed} key shares are valid.`, {
    about: UNFIT_SHARES,
    observed: `${fit}${whose}`,
    needed: `${needed}`,
    next: 'The holders named here give their shares again, or another holder gives theirs.',
  });
}

export function holdersOf(shares: readonly ArrivedShare[]): string[] {
  return shares.map(({ holder }) => holder);
}

/**
 * The set of shares to try now: the earliest shares first. After a rejection, sets with the newest share come first,
 * because the others were tried before it came.
 *
 * @throws RunbookError SHARES_REJECTED if no set is left, or enough were tried since the collected shares changed
 */
export function nextSet(
  { cluster, rejected, tried }: Tried,
  { threshold }: KeyRecord,
  shares: readonly ArrivedShare[],
): readonly ArrivedShare[] {
  const markOf = (arrivals: readonly number[]) => arrivals.toSorted((one, other) => one - other).join(' ');
  const known = new Set(rejected.map(markOf));
  const inOrder = known.size === 0 ? shares : [...shares.slice(-1), ...shares.slice(0, -1)];
  if (tried < MAX_SETS)
    for (const set of setsOf(inOrder, threshold)) if (!known.has(markOf(set.map(({ arrival }) => arrival)))) return set;
  const all = countSets(shares.length, threshold);
  throw new RunbookError(
    'SHARES_REJECTED',
    `${cluster} rejected ${tried} ${tried === 1 ? 'set' : 'sets'} of ${threshold} out of ${shares.length} key shares.`,
    {
      cluster,
      observed: `${tried} of ${all} possible ${all === 1 ? 'set' : 'sets'} tried${tried < all ? ` (at most ${MAX_SETS} at a time)` : ''}, all rejected; holders: ${holdersOf(shares).join(', ')}`,
      needed: `${threshold} shares of this cluster's key`,
      next: 'At least one of these shares is wrong; which one is unknown. A holder corrects theirs, or another holder gives theirs: further sets then show which one is wrong. No set is tried twice.',
    },
  );
}

/** Every set of `size` shares; sets with the first shares come first. */
function* setsOf<S>(shares: readonly S[], size: number): Generator<readonly S[]> {
  if (size === 0) yield [];
  else
    for (const [index, share] of shares.entries())
      for (const rest of setsOf(shares.slice(index + 1), size - 1)) yield [share, ...rest];
}

/** How many sets of `size` there are among `count` shares. */
function countSets(count: number, size: number): number {
  let sets = 1;
  for (let taken = 1; taken <= size; taken += 1) sets = (sets * (count - size + taken)) / taken;
  return sets;
}
