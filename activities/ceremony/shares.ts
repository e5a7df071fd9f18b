/* What signals brought to a ceremony, read where it arrived and opened where the keys are: verdicts, and the shares to give. */
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

/** Nothing that arrives is meant for it: only plain text is told apart. */
const NO_CEREMONY = { cid: '', epoch: 0, invitationDigest: '', holders: [], exp: 0 };
const NO_CEREMONY_TEXT = 'refused: this run collects no key shares now';

/** While no ceremony is under way: everything is refused, and a key share in plain text is still noticed. */
export async function checkUnaskedShares(input: {
  readonly deployment: string;
  readonly arrived: readonly number[];
}): Promise<{ readonly verdicts: readonly EnvelopeVerdict[] }> {
  const { run, inventory } = currentExecution();
  const { people } = inventory;
  const verdicts: EnvelopeVerdict[] = [];
  for (const signal of await new ArrivedSignals(run).of('share', input.arrived)) {
    const { arrival } = signal;
    const examined = await examineEnvelope(signal, NO_CEREMONY, people);
    const noticed = 'refused' in examined ? verdictOf(people, signal, examined.refused) : undefined;
    const isTold = noticed?.eventId !== undefined || noticed?.code === 'undecodable';
    verdicts.push(isTold ? noticed : { arrival, code: 'no-ceremony', text: NO_CEREMONY_TEXT });
  }
  return { verdicts };
}

/** Both stages of the check: those in hand are looked at again beside what arrived. */
export async function openEnvelopes(input: {
  readonly deployment: string;
  readonly ceremony: CeremonyHandle;
  /** Numbers of the signals that brought the shares in hand, and of those that arrived. */
  readonly held: readonly number[];
  readonly arrived: readonly number[];
}): Promise<{ readonly verdicts: readonly EnvelopeVerdict[] }> {
  const { run, inventory, keyRecords } = currentExecution();
  const { held, arrived } = input;
  const { cid, epoch } = input.ceremony;
  const opened = await openArrived(await keyRecords.read({ run, cid, epoch }), [...held, ...arrived]);
  const fresh = opened.filter((each) => arrived.includes(each.arrived.arrival));
  return { verdicts: fresh.map((each) => verdictOf(inventory.people, each.arrived, each.receipt)) };
}

const NO_SENDER_TEXT = 'refused: the server recorded nobody as its sender: is authentication on?';

/**
 * What people are told of an envelope, also of one that could not be read. The event is named where what stands in it is to
 * be purged.
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

/** What these signals brought, opened where the keys are. @param given - as {@link openShares} has it */
async function openArrived(record: KeyRecord, arrivals: readonly number[], given = 0) {
  const { run, inventory } = currentExecution();
  const signals = await new ArrivedSignals(run).of('share', arrivals);
  return openShares(record, signals, inventory.people, given);
}

/** Sets of shares that are tried at most before the holders are asked again: every set of 3 out of 5 shares. */
const MAX_SETS = 10;

/** What a cluster rejected of the shares in hand. */
export interface Tried {
  readonly cluster: string;
  /** The sets that this cluster rejected. */
  readonly rejected: readonly (readonly number[])[];
  /** How many of them since the shares in hand changed. */
  readonly tried: number;
}

/** A share in hand, with the number of the signal that brought it. */
export interface ArrivedShare {
  readonly arrival: number;
  readonly holder: string;
  readonly share: Secret<'key-share'>;
}

/**
 * The shares that signals brought, in their order.
 *
 * @throws RunbookError SHARES_MISSING where fewer fit together than are needed
 */
export async function openInHand(record: KeyRecord, arrivals: readonly number[]): Promise<ArrivedShare[]> {
  const opened = await openArrived(record, arrivals);
  const shares = opened.flatMap(({ arrived: { arrival }, receipt: { holder }, share }) =>
    share && holder !== undefined ? { arrival, holder, share } : [],
  );
  if (shares.length < record.threshold) throw sharesMissing(opened, record.threshold);
  return shares;
}

/** The last share of a set, which alone is opened, and whose shares the set has: the others were given already. */
export async function openLast(record: KeyRecord, set: readonly number[]) {
  const opened = await openArrived(record, set, set.length - 1);
  const givers = new Set(opened.flatMap(({ receipt }) => (fits(receipt) ? (receipt.holder ?? []) : [])));
  if (givers.size < set.length) throw sharesMissing(opened, set.length);
  return { last: opened.at(-1)?.share, givers: [...givers] };
}

function fits({ verdict }: EnvelopeReceipt): boolean {
  return verdict === 'accepted';
}

/** Some mistakes show only beside the shares of others, such as an odd length: whose share counts no more, and why. */
function sharesMissing(opened: readonly CheckedShare[], needed: number): RunbookError {
  const receipts = opened.map(({ receipt }) => receipt);
  const unfit = receipts.filter((receipt) => !fits(receipt) && receipt.verdict !== 'superseded');
  const whose = unfit.map(({ holder = 'somebody', verdict }) => `; ${holder}: ${ENVELOPE_VERDICTS[verdict]}`).join('');
  const fit = receipts.filter(fits).length;
  return new RunbookError('SHARES_MISSING', `Only ${fit} of ${needed} key shares verify.`, {
    about: UNFIT_SHARES,
    observed: `${fit}${whose}`,
    needed: `${needed}`,
    next: 'Those who are named give their shares again, or a further holder gives theirs.',
  });
}

export function holdersOf(shares: readonly ArrivedShare[]): string[] {
  return shares.map(({ holder }) => holder);
}

/**
 * The set of shares to try now: the earliest holders' first, and once one was rejected those with the newest share, since the
 * others were tried before it came.
 *
 * @throws RunbookError SHARES_REJECTED where none is left, or enough were tried since the shares in hand changed
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
      observed: `${tried} of ${all} possible ${all === 1 ? 'set' : 'sets'} tried, ${tried < all ? `at most ${MAX_SETS} at a time, ` : ''}and all rejected; holders: ${holdersOf(shares).join(', ')}`,
      needed: `${threshold} shares of this cluster's key`,
      next: 'At least one of these shares is wrong, and none is proven to be. A holder corrects theirs, or a further holder gives theirs: then subsets tell which. No set is tried twice.',
    },
  );
}

/** Every set of `size` shares, with those of the first ones first. */
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
