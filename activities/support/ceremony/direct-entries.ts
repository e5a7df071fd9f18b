import type { GeneratedTokenKind, GenerationAttempt } from '../../../src/client';
import type { InvitationTarget, KeyRecord, RunContext } from '../../../src/secrets';
import { digestOf } from './generation-record';
import type { AttemptKey } from './generation-slot';
import type { LedgerEntry, TokenLedger } from './token-ledger';

/** Where the ledger has the tokens of one ceremony on one cluster. */
export interface DirectEntries {
  readonly ledger: TokenLedger;
  readonly run: RunContext;
  readonly record: Pick<KeyRecord, 'kind' | 'cid'>;
  readonly target: Pick<InvitationTarget, 'cluster'>;
}

/** What the ledger knows of the tokens of this ceremony on this cluster that exist, or may. */
export async function entriesOf(direct: DirectEntries): Promise<readonly LedgerEntry[]> {
  return ofCeremony(await direct.ledger.open(), direct);
}

/** As {@link entriesOf}, with those whose matter is over. */
export async function everyEntryOf(direct: DirectEntries): Promise<readonly LedgerEntry[]> {
  return ofCeremony(await direct.ledger.all(), direct);
}

function ofCeremony(entries: readonly LedgerEntry[], { run, record, target }: DirectEntries): readonly LedgerEntry[] {
  return entries.filter(
    (entry) =>
      entry.ns === run.ns &&
      entry.wid === run.wid &&
      entry.rid === run.rid &&
      entry.cluster === target.cluster &&
      (entry.kind ?? 'operation-token') === record.kind &&
      entry.cid === record.cid,
  );
}

/**
 * Ours by the key of this ceremony. A recipient of a root token may use his key by hand: there it is ours only where the
 * ledger knows the attempt.
 */
export function isOurs(
  kind: GeneratedTokenKind,
  key: AttemptKey | undefined,
  mine: readonly LedgerEntry[],
  present: GenerationAttempt,
): boolean {
  const { pgpFingerprint } = present;
  if (pgpFingerprint === undefined) return false;
  if (mine.some((entry) => isOf(entry, present))) return true;
  if (kind === 'root-token') return false;
  return pgpFingerprint === key?.pgpFingerprint || mine.some((entry) => entry.key === pgpFingerprint);
}

/** Whether the ledger's entry is of this very attempt. */
export function isOf({ attempt }: LedgerEntry, { nonce }: GenerationAttempt): boolean {
  return nonce !== undefined && attempt === digestOf(nonce);
}
