import { randomUUID } from 'node:crypto';
import type { GeneratedTokenKind } from '../../src/client';
import type { Finding } from '../../src/contracts/run-facts';
import type { Sealed } from '../../src/contracts/sealed';
import type { RunContext } from '../../src/secrets';
import type { LedgerEntry, TokenLedger } from './token-ledger';

/** Whose token is being made. */
export interface GenerationSubject {
  readonly kind: GeneratedTokenKind;
  readonly deployment: string;
  readonly cluster: string;
  readonly clusterId: string;
  readonly run: RunContext;
  readonly cid: string;
}

/**
 * What the ledger knows of one burst, from before its first share: a token that comes into being is in the ledger
 * whatever happens to the worker, and one that nobody holds is reported by the attempt that finds its entry.
 */
export class GenerationRecord {
  readonly #ledger: TokenLedger;
  readonly #subject: GenerationSubject;
  readonly #earlier: readonly LedgerEntry[];
  #pending: LedgerEntry;
  #settled = true;

  private constructor(
    ledger: TokenLedger,
    subject: GenerationSubject,
    earlier: readonly LedgerEntry[],
    pending: LedgerEntry,
  ) {
    this.#ledger = ledger;
    this.#subject = subject;
    this.#earlier = earlier;
    this.#pending = pending;
  }

  /** Notes the burst before it begins. Entries of earlier attempts that died in theirs become {@link findings}. */
  static async begin(ledger: TokenLedger, subject: GenerationSubject): Promise<GenerationRecord> {
    const { run, cluster, cid, kind } = subject;
    const earlier = (await ledger.open()).filter(
      (entry) =>
        entry.state === 'pending' &&
        entry.ns === run.ns &&
        entry.wid === run.wid &&
        entry.rid === run.rid &&
        entry.cluster === cluster &&
        (entry.kind ?? 'operation-token') === kind &&
        entry.cid === cid,
    );
    const pending = newEntry(subject);
    await ledger.write(pending);
    return new GenerationRecord(ledger, subject, earlier, pending);
  }

  /** What earlier attempts may have left behind. */
  findings(): Finding[] {
    return this.#earlier.map((entry) =>
      orphanFinding(this.#subject.kind, entry.cluster, `a worker ended in the middle of giving shares, ${entry.at}`),
    );
  }

  /** A token may exist that nobody holds; the burst goes on with an entry of its own. */
  async orphaned(): Promise<void> {
    this.#settled = false;
    await this.#mark(this.#pending, 'orphan');
    const next = newEntry(this.#subject);
    await this.#ledger.write(next);
    this.#pending = next;
    this.#settled = true;
  }

  async alive(sealed: Sealed<'operation-token'>): Promise<void> {
    await this.#ledger.write({ ...this.#pending, state: 'alive', sealed, at: new Date().toISOString() });
  }

  /** The token of this burst exists, and cannot be held. */
  async lost(): Promise<void> {
    await this.#mark(this.#pending, 'orphan');
  }

  /** The token is in the hands of its recipient, and of nobody here. */
  async handedOver(): Promise<void> {
    await this.#ledger.remove(this.#pending);
  }

  /** The burst ended without a token: what stays in the ledger is what it orphaned. */
  async withoutToken(): Promise<void> {
    if (this.#settled) await this.#ledger.remove(this.#pending);
  }

  /** The findings of earlier attempts are about to be told: they are not told again. */
  async told(): Promise<void> {
    for (const entry of this.#earlier) await this.#mark(entry, 'orphan');
  }

  async #mark(entry: LedgerEntry, state: LedgerEntry['state']): Promise<void> {
    await this.#ledger.write({ ...entry, state, at: new Date().toISOString() });
  }
}

export function orphanFinding(kind: GeneratedTokenKind, cluster: string, how: string): Finding {
  if (kind === 'root-token') {
    return {
      severity: 'critical',
      code: 'orphan-root-token',
      text: `A root token of ${cluster} may exist that nobody holds: ${how}.`,
      next: `A root token has no lifetime. Go through auth/token/accessors of ${cluster} and revoke by accessor each token with policy root whose creation time is that of this run; look for its use in the audit log.`,
    };
  }
  return {
    severity: 'critical',
    code: 'orphan-token',
    text: `An operation token of ${cluster} may exist that nobody holds: ${how}.`,
    next: `An operation token has no lifetime. Ask the service's vendor how to end it, or end all of them by disabling and re-enabling DR on ${cluster} when it is safe; look for its use in the audit log until then.`,
  };
}

function newEntry({ kind, deployment, cluster, clusterId, run, cid }: GenerationSubject): LedgerEntry {
  return {
    version: 1,
    id: randomUUID(),
    ...(kind === 'operation-token' ? {} : { kind }),
    deployment,
    cluster,
    clusterId,
    ns: run.ns,
    wid: run.wid,
    rid: run.rid,
    cid,
    state: 'pending',
    at: new Date().toISOString(),
  };
}
