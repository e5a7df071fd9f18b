import { randomUUID } from 'node:crypto';
import { HELD_AFTER_ALL } from '../../../src/contracts/alarms';
import type { EncodedTokenVerdict } from '../../../src/contracts/activities';
import type { Finding } from '../../../src/contracts/run-facts';
import type { Sealed } from '../../../src/contracts/sealed';
import { isRunbookError } from '../../../src/errors';
import type { Secret } from '../../../src/secret';
import type { InvitationTarget, KeyRecord, RunContext } from '../../../src/secrets';
import { openToken, openValue, sealValue } from '../../../src/secrets';
import type { ActivityDependencies } from '../../dependencies';
import type { ArrivedSignal } from '../approvals/arrived-signals';
import type { Clusters } from '../clusters';
import { entriesOf } from './direct-entries';
import { isGeneratedToken, readHandedIn } from './encoded-token';
import type { Execution } from '../execution';
import { awaitClusterId } from '../operation-token';
import type { LedgerEntry, TokenLedger } from './token-ledger';

/** How long a sealed operation token can be opened. The token itself has no lifetime. */
const SEALED_SECONDS = 24 * 3600;

/** A ceremony of this very run, with its keys. */
export interface Held {
  readonly ledger: TokenLedger;
  readonly run: RunContext;
  readonly record: KeyRecord;
  readonly targets: readonly InvitationTarget[];
  /** The holders give their shares to the service themselves. */
  readonly direct: boolean;
}

export type TakenToken = EncodedTokenVerdict & { readonly token?: Sealed<'operation-token'> };

interface Taken {
  readonly verdict: TakenToken;
  readonly findings: readonly Finding[];
}

/**
 * Takes one encoded operation token: decrypts it with the key of this ceremony and no other, looks at its form, seals it
 * for its cluster and uses, and writes the ledger before it is told.
 */
export async function takeHandedIn(
  { sealKeyring, keyRecords }: ActivityDependencies,
  clusters: Clusters,
  execution: Execution,
  held: Held & { readonly deployment: string },
  signal: ArrivedSignal,
): Promise<Taken> {
  const { arrival, eventId } = signal;
  const { ledger, run, record, deployment } = held;
  const only = (verdict: TakenToken): Taken => ({ verdict, findings: [] });
  const refuse = (code: string, text: string) => only({ arrival, code, text: `refused: ${text}` });
  const read = readHandedIn(signal);
  if ('code' in read) return only(read);
  const target = held.targets.find(({ cluster }) => cluster === read.cluster);
  if (!target) return refuse('wrong-cluster', notATarget(held.targets));
  const { cluster, clusterId, uses } = target;
  const opened = await openedByAny(await epochsOf(keyRecords, record), read.encodedToken);
  if (!opened) return refuse('wrong-key', NOT_OURS);
  const { token, key } = opened;
  if (!isGeneratedToken(token.reveal()))
    return refuse('not-a-token', 'it opens with the key of this ceremony, and does not hold a token');
  const known = await entriesOf({ ...held, target });
  const same = await sameToken(sealKeyring, run, known, token);
  if (same && same.handedIn !== eventId)
    return refuse('repeated', `this token of ${cluster} is in hand already; nothing is lost`);
  const accepted = (sealed: Sealed<'operation-token'>): TakenToken => ({
    ...{ arrival, cluster, token: sealed },
    code: 'accepted',
    text: `token of ${cluster} taken: it opens, and has the form of a token`,
  });
  // An attempt of this activity before this one took it, and its answer was lost.
  if (same?.sealed !== undefined) return only(accepted(same.sealed as Sealed<'operation-token'>));
  const settled = missingOf(held, known, key);
  const elsewhere = settled ? [] : await missingElsewhere(held, cluster, key);
  if (elsewhere.length > 0) {
    return refuse(
      'wrong-cluster',
      `no token of ${cluster} is missing, but one of ${elsewhere.join(' and ')} is: was it generated there?`,
    );
  }
  const access = clusters.of(deployment, cluster);
  const answering = await awaitClusterId(access, execution, clusters.deployment(deployment).limits.promoteMs);
  if (answering !== clusterId) return refuse('wrong-cluster', `${cluster} is not the cluster that was asked for`);
  const spec = { kind: 'operation-token', cluster, clusterId, uses, expSeconds: SEALED_SECONDS } as const;
  const sealed = await sealValue(sealKeyring, run, spec, token);
  const entry = settled ?? newEntry(held, target);
  await ledger.write({ ...entry, state: 'alive', sealed, handedIn: eventId, at: new Date().toISOString() });
  return { verdict: accepted(sealed), findings: settled?.state === 'orphan' ? [heldAfterAll(cluster)] : [] };
}

const NOT_OURS =
  'it does not open with the key of this ceremony: it belongs to another run, to an epoch of this one whose keys are gone, or to an attempt that somebody else started';

export function notATarget(targets: readonly InvitationTarget[]): string {
  return `this ceremony makes no token of that cluster, only of ${targets.map(({ cluster }) => cluster).join(', ')}`;
}

/** The keys of every epoch of this ceremony that are here: a token of an earlier one is no less alive. */
async function epochsOf(keyRecords: ActivityDependencies['keyRecords'], record: KeyRecord): Promise<KeyRecord[]> {
  const others = (await keyRecords.ofRun(record.run)).filter(
    ({ cid, kind, epoch }) => cid === record.cid && kind === record.kind && epoch !== record.epoch,
  );
  return [record, ...others];
}

async function openedByAny(
  records: readonly KeyRecord[],
  encodedToken: string,
): Promise<{ readonly token: Secret<'operation-token'>; readonly key: string } | undefined> {
  for (const { keys } of records) {
    try {
      return { token: await openToken(keys, 'operation-token', encodedToken), key: keys.pgpFingerprint };
    } catch (error) {
      if (!isRunbookError(error, 'RESPONSE_INVALID')) throw error;
    }
  }
  return undefined;
}

/**
 * The token with this key that is known to be missing. In a ceremony with sealed shares an entry under way belongs to its
 * burst, which settles it itself.
 */
function missingOf({ direct }: Held, known: readonly LedgerEntry[], key: string): LedgerEntry | undefined {
  const ofKey = known.filter((entry) => entry.key === undefined || entry.key === key);
  return ofKey.find(({ state }) => direct && state === 'pending') ?? ofKey.find(({ state }) => state === 'orphan');
}

async function missingElsewhere(held: Held, cluster: string, key: string): Promise<string[]> {
  const others = held.targets.filter((each) => each.cluster !== cluster);
  const missing = await Promise.all(
    others.map(async (each) => missingOf(held, await entriesOf({ ...held, target: each }), key)),
  );
  return others.filter((_, index) => missing[index] !== undefined).map((each) => each.cluster);
}

/** The living token of the ledger that is this very one. */
async function sameToken(
  sealKeyring: ActivityDependencies['sealKeyring'],
  run: RunContext,
  known: readonly LedgerEntry[],
  token: Secret<'operation-token'>,
): Promise<LedgerEntry | undefined> {
  for (const entry of known) {
    if (entry.sealed === undefined) continue;
    const { cluster, clusterId } = entry;
    const spec = { kind: 'operation-token', cluster, clusterId, use: 'dr.operation-token.delete' } as const;
    const held = await openValue(sealKeyring, run, entry.sealed as Sealed<'operation-token'>, {
      ...spec,
      forDeletion: true,
    }).catch((error: unknown) => {
      if (isRunbookError(error)) return undefined;
      throw error;
    });
    if (held?.reveal() === token.reveal()) return entry;
  }
  return undefined;
}

function newEntry(
  { run, record, deployment }: Held & { readonly deployment: string },
  { cluster, clusterId }: InvitationTarget,
): LedgerEntry {
  const { ns, wid, rid } = run;
  return {
    ...{ version: 1, id: randomUUID(), deployment, cluster, clusterId, ns, wid, rid, cid: record.cid },
    state: 'pending',
    at: new Date().toISOString(),
  };
}

/** The alarm stays where it is: this says what became of it. */
function heldAfterAll(cluster: string): Finding {
  return {
    severity: 'info',
    code: HELD_AFTER_ALL,
    text: `A token of ${cluster} that nobody held was handed in: this run holds it now, and deletes it at its end.`,
    next: 'See below that its deletion is proven. Where more than one alarm was raised, the others stand.',
  };
}
