/* The key shares of a generation: which are in hand, and which of them are tried together. */
import { UNFIT_SHARES } from '../../src/contracts/ceremony';
import type { EnvelopeReceipt } from '../../src/contracts/receipts';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import { RunbookError } from '../../src/errors';
import type { KeyRecord, OpenedShare } from '../../src/keys';
import { openShares } from '../../src/keys';
import { ArrivedSignals } from '../approvals/arrived-signals';
import type { ActivityContext } from '../execution';

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
export interface ArrivedShare extends OpenedShare {
  readonly arrival: number;
}

/**
 * The shares that signals brought, in their order.
 *
 * @throws RunbookError SHARES_MISSING where fewer fit together than are needed
 */
export async function openInHand(
  { inventory, run }: ActivityContext,
  record: KeyRecord,
  arrivals: readonly number[],
): Promise<ArrivedShare[]> {
  const signals = await new ArrivedSignals(run).of('share', arrivals);
  const { shares, receipts } = await openShares(record, signals, inventory.people);
  if (shares.length < record.threshold) throw sharesMissing(receipts, record.threshold);
  const counted = signals.filter((_signal, index) => receipts[index]?.verdict === 'accepted');
  return shares.map((share, index) => ({ ...share, arrival: counted[index]?.arrival ?? 0 }));
}

/** The last share of a set, which alone is opened, and whose shares the set has: the others were given already. */
export async function openLast({ inventory, run }: ActivityContext, record: KeyRecord, set: readonly number[]) {
  const signals = await new ArrivedSignals(run).of('share', set);
  const { shares, receipts } = await openShares(record, signals, inventory.people, signals.length - 1);
  const givers = new Set(receipts.flatMap(({ verdict, holder }) => (verdict === 'accepted' ? (holder ?? []) : [])));
  if (givers.size < signals.length) throw sharesMissing(receipts, signals.length);
  return { last: shares[0], givers: [...givers] };
}

function sharesMissing(receipts: readonly EnvelopeReceipt[], needed: number): RunbookError {
  const fit = receipts.filter(({ verdict }) => verdict === 'accepted').length;
  return new RunbookError('SHARES_MISSING', `Only ${fit} of ${needed} key shares verify.`, {
    about: UNFIT_SHARES,
    observed: `${fit}${unfitInWords(receipts)}`,
    needed: `${needed}`,
    next: 'Who is named gives his share again, or a further holder gives his.',
  });
}

export function holdersOf(shares: readonly ArrivedShare[]): string[] {
  return shares.map(({ holder }) => holder);
}

/** Some mistakes show only beside the shares of others, such as an odd length: whose share counts no more, and why. */
function unfitInWords(receipts: readonly EnvelopeReceipt[]): string {
  const unfit = receipts.filter(({ verdict }) => verdict !== 'accepted' && verdict !== 'superseded');
  return unfit.map(({ holder = 'somebody', verdict }) => `; ${holder}: ${ENVELOPE_VERDICTS[verdict]}`).join('');
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
      next: 'At least one of these shares is wrong, and none is proven to be. A holder corrects his, or a further holder gives his: then subsets tell which. No set is tried twice.',
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
