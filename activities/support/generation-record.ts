import { createHash, randomUUID } from 'node:crypto';
import type { GeneratedTokenKind, GenerationAttempt } from '../../src/client';
import type { Finding } from '../../src/contracts/run-facts';
import type { Sealed } from '../../src/contracts/sealed';
import type { RunContext } from '../../src/secrets';
import type { BurstNotes } from './burst';
import type { LedgerEntry, TokenLedger } from './token-ledger';

/** How long what a burst left that made nothing is kept: its attempt can come back with a former leader meanwhile. */
const BEGUN_KEPT_MS = 24 * 3_600_000;

/** Whose token is being made. */
export interface GenerationSubject {
  readonly kind: GeneratedTokenKind;
  readonly deployment: string;
  readonly cluster: string;
  readonly clusterId: string;
  readonly run: RunContext;
  readonly cid: string;
  /** Fingerprint of the key of the attempt. */
  readonly key: string;
  readonly threshold: number;
}

/**
 * What the ledger knows of one burst, from before its first share: a token that comes into being is in the ledger
 * whatever happens to the worker, and one that nobody holds is reported by the attempt that finds its entry. A burst
 * that ended before its last share leaves an entry too, which says that there is no token.
 */
export class GenerationRecord implements BurstNotes {
  readonly #ledger: TokenLedger;
  readonly #subject: GenerationSubject;
  /** Of bursts of this run for this cluster whose workers died. */
  readonly #left: readonly LedgerEntry[];
  #untold: readonly LedgerEntry[] = [];
  #own: LedgerEntry;
  #settled = true;
  /** Digests of the nonces of attempts that this run started for this token. */
  readonly #attempts: Set<string>;

  private constructor(
    ledger: TokenLedger,
    subject: GenerationSubject,
    mine: readonly LedgerEntry[],
    left: readonly LedgerEntry[],
    own: LedgerEntry,
  ) {
    this.#attempts = new Set(mine.flatMap(({ attempt = [] }) => attempt));
    this.#ledger = ledger;
    this.#subject = subject;
    this.#left = left;
    this.#own = own;
  }

  /** Notes the burst before it begins. */
  static async begin(ledger: TokenLedger, subject: GenerationSubject): Promise<GenerationRecord> {
    const { run, cluster, cid, kind } = subject;
    const all = await ledger.all();
    const outdated = Date.now() - BEGUN_KEPT_MS;
    for (const entry of all)
      if (entry.state === 'begun' && Date.parse(entry.at) < outdated) await ledger.remove(entry).catch(() => undefined);
    const mine = all.filter(
      (entry) =>
        entry.ns === run.ns &&
        entry.wid === run.wid &&
        entry.rid === run.rid &&
        entry.cluster === cluster &&
        (entry.kind ?? 'operation-token') === kind &&
        entry.cid === cid,
    );
    const left = mine.filter(({ state }) => state === 'pending' || state === 'begun');
    const own = newEntry(subject);
    await ledger.write(own);
    return new GenerationRecord(ledger, subject, mine, left, own);
  }

  /** Fingerprints under which bursts of this run whose workers died may have left an attempt in the slot. */
  get earlierKeys(): ReadonlySet<string> {
    return new Set(this.#left.flatMap(({ key }) => (key === undefined ? [] : [key])));
  }

  /** Whether this run started the attempt of this nonce. The recipient of a root token may start others by hand. */
  startedAttempt(nonce: string): boolean {
    return this.#attempts.has(digestOf(nonce));
  }

  async started(nonce: string): Promise<void> {
    this.#attempts.add(digestOf(nonce));
    if (this.#isRoot) await this.#note({ attempt: digestOf(nonce) });
  }

  get #isRoot(): boolean {
    return this.#subject.kind === 'root-token';
  }

  /**
   * An attempt that still waits for its last share made no token: what gave it died before the service took it. Whatever
   * else is seen, or nothing, leaves the doubt.
   */
  async earlier(look: () => Promise<GenerationAttempt | undefined>): Promise<readonly Finding[]> {
    const { kind, threshold } = this.#subject;
    const pending = this.#left.filter(({ state }) => state === 'pending');
    const present = pending.length > 0 ? await look() : undefined;
    const waiting =
      present?.started === true && present.nonce !== undefined && threshold > 1 && present.progress === threshold - 1
        ? digestOf(present.nonce)
        : undefined;
    this.#untold = pending.filter(({ attempt }) => attempt === undefined || attempt !== waiting);
    for (const entry of this.#left) if (!this.#untold.includes(entry)) await this.#drop(entry).catch(() => undefined);
    return this.#untold.map((entry) =>
      orphanFinding(kind, entry.cluster, `a worker ended in the middle of giving the last share, ${entry.at}`),
    );
  }

  async lastShare(nonce: string): Promise<void> {
    await this.#note({ state: 'pending', attempt: digestOf(nonce) });
  }

  async nothingMade(): Promise<void> {
    if (this.#own.state === 'pending')
      await this.#note({ state: 'begun', ...(!this.#isRoot && { attempt: undefined }) });
  }

  /** A token may exist that nobody holds; the burst goes on with an entry of its own. */
  async orphaned(): Promise<void> {
    this.#settled = false;
    await this.#note({ state: 'orphan' });
    const next = newEntry(this.#subject);
    await this.#ledger.write(next);
    this.#own = next;
    this.#settled = true;
  }

  async alive(sealed: Sealed<'operation-token'>): Promise<void> {
    await this.#note({ state: 'alive', sealed });
  }

  /** The token of this burst exists, and cannot be held. */
  async lost(): Promise<void> {
    await this.#note({ state: 'orphan' });
  }

  /** The token is in the hands of its recipient, and of nobody here. */
  async handedOver(): Promise<void> {
    await this.#ledger.remove(this.#own);
  }

  /** The burst ended without a token: what stays in the ledger is what it orphaned. */
  async withoutToken(): Promise<void> {
    if (this.#settled) await this.#drop(this.#own);
  }

  /** There is no token. The attempt may be there still, or come back: of a root token only its nonce says whose it is. */
  async #drop(entry: LedgerEntry): Promise<void> {
    if (this.#isRoot && entry.attempt !== undefined) await this.#ledger.write({ ...entry, state: 'begun' });
    else await this.#ledger.remove(entry);
  }

  /** What earlier attempts left is about to be told: it is not told again. */
  async told(): Promise<void> {
    for (const entry of this.#untold) await this.#write({ ...entry, state: 'orphan' });
  }

  async #note(change: Partial<LedgerEntry>): Promise<void> {
    this.#own = await this.#write({ ...this.#own, ...change });
  }

  async #write(entry: LedgerEntry): Promise<LedgerEntry> {
    const written = { ...entry, at: new Date().toISOString() };
    await this.#ledger.write(written);
    return written;
  }
}

export function digestOf(nonce: string): string {
  return createHash('sha256').update(nonce).digest('base64url');
}

export function orphanFinding(kind: GeneratedTokenKind, cluster: string, how: string): Finding {
  if (kind === 'root-token') {
    return {
      severity: 'critical',
      code: 'orphan-root-token',
      text: `A root token of ${cluster} may exist that nobody holds: ${how}.`,
      next: `Whoever has the encoded answer gives it to the recipient (while the run asks for it: runbook submit-token WORKFLOW-ID --cluster ${cluster}). A root token has no lifetime. Go through auth/token/accessors of ${cluster} and revoke by accessor each token with policy root whose creation time is that of this run; look for its use in the audit log.`,
    };
  }
  return {
    severity: 'critical',
    code: 'orphan-token',
    text: `An operation token of ${cluster} may exist that nobody holds: ${how}.`,
    next: `Whoever has the encoded answer hands it in while the run is open: runbook submit-token WORKFLOW-ID --cluster ${cluster}. An operation token has no lifetime. Ask the service's vendor how to end it, or end all of them by disabling and re-enabling DR on ${cluster} when it is safe; look for its use in the audit log until then.`,
  };
}

function newEntry({ kind, deployment, cluster, clusterId, run, cid, key }: GenerationSubject): LedgerEntry {
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
    key,
    state: 'begun',
    at: new Date().toISOString(),
  };
}
