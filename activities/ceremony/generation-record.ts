import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { GeneratedTokenKind, GenerationAttempt } from '../../src/vault';
import { attemptMark } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import type { Sealed } from '../../src/contracts/sealed';
import type { RunContext } from '../../src/keys';
import type { BurstNotes } from './burst';
import type { LedgerEntry, TokenLedger } from './token-ledger';

/** How long what a burst left that made nothing is kept: its attempt can come back with a former leader meanwhile. */
const BEGUN_KEPT_MS = 24 * 3_600_000;

/** How often the entry of a token that was made is written, where the disk refuses it. */
const MAX_WRITES = 3;
const WRITE_AGAIN_MS = 100;

/** Whose token is being made. */
interface GenerationSubject {
  readonly kind: GeneratedTokenKind;
  readonly deployment: string;
  readonly cluster: string;
  readonly clusterId: string;
  readonly run: RunContext;
  readonly cid: string;
  readonly epoch: number;
  /** Fingerprint of the key of the attempt. */
  readonly key: string;
  readonly threshold: number;
}

/** What a burst tells beside its token. */
export type MadeFacts = NonNullable<LedgerEntry['made']>;

/**
 * What the ledger knows of one burst, from before its first share: a token that comes into being is in the ledger
 * whatever happens to the worker, and one that nobody holds is told until the run has said that it knows. A burst that
 * ended before its last share leaves an entry too, which says that there is no token.
 */
export class GenerationRecord implements BurstNotes {
  readonly #ledger: TokenLedger;
  readonly #subject: GenerationSubject;
  /** Of bursts of this run for this cluster whose workers died. */
  readonly #left: readonly LedgerEntry[];
  /** Tokens that may exist and that the run was not told of, by the ID of their entry. */
  readonly #orphans: Map<string, LedgerEntry>;
  #own: LedgerEntry;
  #settled = true;
  /** Digests of the nonces of attempts that this run started for this token. */
  readonly #attempts: Set<string>;

  private constructor(
    ledger: TokenLedger,
    subject: GenerationSubject,
    mine: readonly LedgerEntry[],
    told: readonly string[],
    own: LedgerEntry,
  ) {
    this.#attempts = new Set(mine.flatMap(({ attempt = [] }) => attempt));
    this.#ledger = ledger;
    this.#subject = subject;
    this.#left = mine.filter(({ state }) => state === 'pending' || state === 'begun');
    this.#orphans = new Map(untold(mine, told).map((entry) => [entry.id, entry]));
    this.#own = own;
  }

  /**
   * Notes the burst before it begins.
   *
   * @param told - texts of the alarms that the run knows: what an earlier attempt found is told again where it does not
   */
  static async begin(
    ledger: TokenLedger,
    subject: GenerationSubject,
    told: readonly string[] = [],
  ): Promise<GenerationRecord> {
    const all = await ledger.all(subject.deployment);
    const outdated = Date.now() - BEGUN_KEPT_MS;
    for (const entry of all)
      if (entry.state === 'begun' && Date.parse(entry.at) < outdated && !isOfRun(entry, subject.run))
        await ledger.remove(entry).catch(() => undefined);
    const own = newEntry(subject);
    await ledger.write(own);
    return new GenerationRecord(ledger, subject, ofSubject(all, subject), told, own);
  }

  /** Fingerprints under which bursts of this run whose workers died may have left an attempt in the slot. */
  get earlierKeys(): ReadonlySet<string> {
    return new Set(this.#left.flatMap(({ key }) => (key === undefined ? [] : [key])));
  }

  get alarms(): readonly Finding[] {
    return [...this.#orphans.values()].map(alarmOf);
  }

  /** Whether this run started the attempt of this nonce. The recipient of a root token may start others by hand. */
  startedAttempt(nonce: string): boolean {
    return this.#attempts.has(digestOf(nonce));
  }

  mine(nonce: string): void {
    this.#attempts.add(digestOf(nonce));
  }

  async started(nonce: string): Promise<void> {
    this.mine(nonce);
    if (this.#isRoot) await this.#note({ attempt: digestOf(nonce) });
  }

  get #isRoot(): boolean {
    return this.#subject.kind === 'root-token';
  }

  stillWaits(attempt: GenerationAttempt): boolean {
    return madeNothing(this.#subject, attempt);
  }

  doubts(attempt: GenerationAttempt): boolean {
    return this.#about(attempt).length > 0;
  }

  async takenBack(attempt: GenerationAttempt): Promise<void> {
    for (const entry of this.#about(attempt)) {
      this.#orphans.delete(entry.id);
      await this.#drop(entry).catch(() => undefined);
    }
  }

  #about({ nonce }: GenerationAttempt): readonly LedgerEntry[] {
    if (nonce === undefined) return [];
    return [...this.#orphans.values()].filter((entry) => !entry.certain && entry.attempt === digestOf(nonce));
  }

  async earlier(look: () => Promise<unknown>): Promise<void> {
    const pending = this.#left.filter(({ state }) => state === 'pending');
    for (const entry of pending) this.#orphans.set(entry.id, orphanedByDeath(entry));
    if (pending.length > 0) await look();
    for (const entry of this.#left) {
      const orphan = this.#orphans.get(entry.id);
      if (orphan === undefined && entry.state === 'pending') continue;
      // What cannot be written stays as it is: the next attempt judges it again. Who was thought dead may be slow.
      const settled = await this.#ledger.settle(entry, orphan ?? nothingOf(entry)).catch(() => true);
      if (!settled) this.#orphans.delete(entry.id);
    }
  }

  async lastShare(nonce: string): Promise<void> {
    await this.#note({ state: 'pending', attempt: digestOf(nonce), mark: attemptMark(nonce) });
  }

  async nothingMade(): Promise<void> {
    if (this.#own.state === 'pending')
      await this.#note({ state: 'begun', ...(!this.#isRoot && { attempt: undefined }) });
  }

  async notSent(): Promise<void> {
    const { state } = this.#own;
    if (state === 'pending') await this.#ledger.settle(this.#own, this.#dropped(this.#own));
  }

  /** The burst goes on with an entry of its own. */
  async orphaned(how: string, certain = false): Promise<void> {
    this.#settled = false;
    await this.lost(how, certain);
    const next = newEntry(this.#subject);
    await this.#ledger.write(next);
    this.#own = next;
    this.#settled = true;
  }

  async alive(sealed: Sealed<'operation-token'>, made: MadeFacts): Promise<void> {
    await this.#insist({ state: 'alive', sealed, made });
  }

  /** The token of this burst exists, or may, and cannot be held. */
  async lost(how: string, certain = true): Promise<void> {
    const orphan = { ...orphanEntry(this.#own, how), ...(certain && { certain }) };
    this.#orphans.set(orphan.id, orphan);
    await this.#note(orphan);
  }

  /** The token is for its recipient, who alone can read it: kept until the run has it for certain. */
  async handedOver(encoded: string, made: MadeFacts): Promise<void> {
    await this.#insist({ state: 'handed-over', encoded, made });
  }

  /** The burst ended without a token: what stays in the ledger is what it orphaned. */
  async withoutToken(): Promise<void> {
    if (this.#settled) await this.#drop(this.#own);
  }

  /** There is no token. The attempt may be there still, or come back: of a root token only its nonce says whose it is. */
  async #drop(entry: LedgerEntry): Promise<void> {
    const died = this.#left.find(({ id }) => id === entry.id);
    if (died) {
      // As it was judged here, or as the dead worker left it where that could not be written.
      const settled = await this.#ledger.settle(entry, nothingOf(died));
      return void (settled || (await this.#ledger.settle(died, nothingOf(died))));
    }
    const left = this.#dropped(entry);
    await (left === undefined ? this.#ledger.remove(entry) : this.#ledger.write(left));
  }

  #dropped(entry: LedgerEntry): LedgerEntry | undefined {
    return this.#isRoot && entry.attempt !== undefined ? nothingOf(entry) : undefined;
  }

  /** A disk that fails once is no reason for an alarm about a token that the run holds. */
  async #insist(change: Partial<LedgerEntry>): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#note(change);
      } catch (error) {
        if (tries === MAX_WRITES) throw error;
        await delay(tries * WRITE_AGAIN_MS);
      }
    }
  }

  async #note(change: Partial<LedgerEntry>): Promise<void> {
    const written = { ...this.#own, ...change, at: new Date().toISOString() };
    await this.#ledger.write(written);
    this.#own = written;
  }
}

/**
 * There is no token. Of a burst whose worker died the entry stays until the ceremony has come to its end: it shows then
 * that this ledger is the one of that burst.
 */
function nothingOf(entry: LedgerEntry): LedgerEntry {
  return { ...entry, state: 'begun', how: undefined };
}

/** The token that an earlier attempt made, and that the run did not hear of: it died before it could report. */
interface MadeBefore {
  readonly entry: LedgerEntry & { readonly made: MadeFacts };
  /** What else that attempt found and could not tell. */
  readonly alarms: readonly Finding[];
}

/** Looks for tokens of this very ceremony, key and cluster that are in the ledger, the newest first. */
export async function madeBefore(
  ledger: TokenLedger,
  subject: Omit<GenerationSubject, 'threshold' | 'epoch'>,
  told: readonly string[] = [],
): Promise<readonly MadeBefore[]> {
  const state = subject.kind === 'root-token' ? 'handed-over' : 'alive';
  const mine = ofSubject(await ledger.all(subject.deployment), subject);
  const alarms = untold(mine, told).map(alarmOf);
  return mine
    .flatMap((entry) => {
      const { made, key, clusterId } = entry;
      const fits = entry.state === state && key === subject.key && clusterId === subject.clusterId;
      return fits && made !== undefined ? [{ entry: { ...entry, made }, alarms }] : [];
    })
    .sort((one, other) => other.entry.at.localeCompare(one.entry.at));
}

/**
 * Whether an attempt that is in the slot has certainly made no token. With a key of the program's own each that is there
 * has not: the service forgets it with the token. A recipient's key may be one that the service cannot encrypt to: its
 * handler dies then with the token made, and the attempt stays at progress 0 (facts, findings against a real server, 9).
 */
function madeNothing(
  { kind, threshold }: Pick<GenerationSubject, 'kind' | 'threshold'>,
  { started, progress }: GenerationAttempt,
): boolean {
  return started && (kind === 'operation-token' || (threshold > 1 && progress === threshold - 1));
}

function ofSubject(
  entries: readonly LedgerEntry[],
  { run, cluster, cid, kind }: Pick<GenerationSubject, 'run' | 'cluster' | 'cid' | 'kind'>,
): LedgerEntry[] {
  return entries.filter(
    (entry) =>
      isOfRun(entry, run) &&
      entry.cluster === cluster &&
      (entry.kind ?? 'operation-token') === kind &&
      entry.cid === cid,
  );
}

export function isOfRun({ ns, wid, rid }: LedgerEntry, run: RunContext): boolean {
  return ns === run.ns && wid === run.wid && rid === run.rid;
}

export function untold(entries: readonly LedgerEntry[], told: readonly string[]): LedgerEntry[] {
  return entries.filter(
    (entry) => entry.state === 'orphan' && entry.how !== undefined && !told.includes(alarmOf(entry).text),
  );
}

function orphanEntry(entry: LedgerEntry, how: string): LedgerEntry {
  return { ...entry, state: 'orphan', how: entry.mark === undefined ? how : `attempt ${entry.mark}: ${how}` };
}

export function orphanedByDeath(entry: LedgerEntry): LedgerEntry {
  return orphanEntry(entry, `a worker ended in the middle of giving the last share, ${entry.at}`);
}

export function alarmOf({ kind = 'operation-token', cluster, how = 'its burst did not end' }: LedgerEntry): Finding {
  return orphanFinding(kind, cluster, how);
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
      next: `Whoever has the encoded answer gives it to the recipient. A root token has no lifetime. Go through \`auth/token/accessors\` of ${cluster} and revoke by accessor each token with policy root whose creation time is that of this run; look for its use in the audit log.`,
    };
  }
  return {
    severity: 'critical',
    code: 'orphan-token',
    text: `An operation token of ${cluster} may exist that nobody holds: ${how}.`,
    next: `An operation token has no lifetime. Ask the service's vendor how to end it, or end all of them by disabling and re-enabling DR on ${cluster} when it is safe; look for its use in the audit log until then.`,
  };
}

function newEntry({ kind, deployment, cluster, clusterId, run, cid, epoch, key }: GenerationSubject): LedgerEntry {
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
    epoch,
    key,
    state: 'begun',
    at: new Date().toISOString(),
  };
}
