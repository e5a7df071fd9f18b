import { randomUUID } from 'node:crypto';
import { mkdir, open, readFile, readdir, rename, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { errnoOf, RunbookError, isRunbookError } from '../../src/errors';

/** A file that was written this long ago and never became an entry is what a dead worker left. */
const LEFT_AFTER_MS = 3_600_000;

const entrySchema = z.strictObject({
  version: z.literal(1),
  id: z.uuid(),
  /** An operation token where it is not said. */
  kind: z.enum(['operation-token', 'root-token']).optional(),
  deployment: z.string(),
  cluster: z.string(),
  clusterId: z.string(),
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  /** The ceremony whose shares make the token. */
  cid: z.string().optional(),
  /** Whose keys the burst used. Entries of bursts alone have it. */
  epoch: z.int().optional(),
  /**
   * `begun`: shares are or were being given, and the last one was not sent: there is no token. `pending`: it was, and
   * whether a token came of it is not settled. `handed-over`: a root token was made, and its recipient alone can read it.
   */
  state: z.enum(['begun', 'pending', 'alive', 'deleted', 'kept', 'orphan', 'handed-over']),
  /** Digest of the nonce of the attempt: of `pending` the one to which the last share was sent. */
  attempt: z.string().optional(),
  /** First characters of that nonce, by which people find it in the audit log. Entries of bursts alone have it. */
  mark: z.string().optional(),
  /** Of an `orphan` of a burst: what happened, in the words of the alarm. */
  how: z.string().optional(),
  /** Of an `orphan`: the service said that it made the token. No look at the slot takes that back. */
  certain: z.literal(true).optional(),
  /** Of a token that people provided: the digest of its envelope. */
  provided: z.string().optional(),
  /** Fingerprint of the key of the attempt: while it is in the slot, it is this run's. */
  key: z.string().optional(),
  /** Sealed; absent where nobody holds the token. */
  sealed: z.string().optional(),
  /** A root token, encrypted to its recipient alone, until the run has ended. */
  encoded: z.string().optional(),
  /** What the burst that made the token had to tell beside it. */
  made: z
    .strictObject({
      attempts: z.int(),
      badShares: z.array(z.string()),
      closeAfterwards: z.array(z.string()).optional(),
    })
    .optional(),
  /** When a worker told people of it: of an alarm. */
  toldAt: z.string().optional(),
  /** Its deletion was sent then: a refusal since is the proof that it is dead. */
  deletionSentAt: z.string().optional(),
  at: z.string(),
});
export type LedgerEntry = z.infer<typeof entrySchema>;

/**
 * The generated tokens that this site knows of: cluster, run and state, never a readable token. It outlives runs, so that
 * what one run could not delete a later one can. An entry is complete and synced before a call returns.
 */
export class TokenLedger {
  readonly #directory: string;
  readonly #alarm: ((entry: LedgerEntry) => void) | undefined;

  /** @param alarm told of each orphan when it is noted, also where it cannot be */
  constructor(directory: string, alarm?: (entry: LedgerEntry) => void) {
    this.#directory = directory;
    this.#alarm = alarm;
  }

  /** @throws RunbookError PRECONDITION_FAILED where the directory cannot be written */
  async write(entry: LedgerEntry): Promise<void> {
    await this.#put(entry, () => Promise.resolve(true));
  }

  /** @returns whether it counts: `still` is asked last, when only the renaming is left */
  async #put(entry: LedgerEntry, still: () => Promise<boolean>): Promise<boolean> {
    let counts: boolean | undefined;
    try {
      counts = await this.#store(entry, still);
      return counts;
    } finally {
      const isNews = entry.state === 'orphan' && entry.toldAt === undefined && counts !== false;
      if (isNews && this.#alarm) {
        this.#alarm(entry);
        await this.settle(entry, { ...entry, toldAt: new Date().toISOString() }).catch(() => undefined);
      }
    }
  }

  async #store(entry: LedgerEntry, still: () => Promise<boolean>): Promise<boolean> {
    return this.#change(entry.cluster, async () => {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      const file = this.#file(entry.id);
      // Two workers may write one entry at once, as where one was thought dead.
      const written = `${file}.${randomUUID()}.tmp`;
      const handle = await open(written, 'wx', 0o600);
      try {
        await handle
          .writeFile(JSON.stringify(entry))
          .then(() => handle.sync())
          .finally(() => handle.close());
        const counts = await still();
        await (counts ? rename(written, file) : unlink(written));
        return counts;
      } catch (error) {
        await unlink(written).catch(() => undefined);
        throw error;
      }
    });
  }

  /** For an entry of which it turned out that there never was a token. */
  async remove({ id, cluster }: LedgerEntry): Promise<void> {
    await this.#change(cluster, () => unlink(this.#file(id)));
  }

  /**
   * Writes or removes an entry of a worker that is thought to be dead, unless it was changed since it was read: then it
   * lives, and its entry is its own.
   *
   * @returns whether it was done
   */
  async settle(read: LedgerEntry, becomes: LedgerEntry | undefined): Promise<boolean> {
    const still = async () => {
      const now = await this.#read(`${read.id}.json`);
      return now?.state === read.state && now.at === read.at;
    };
    if (becomes !== undefined) return this.#put(becomes, still);
    if (!(await still())) return false;
    await this.remove(read);
    return true;
  }

  /**
   * Every entry of a token that exists, or may, and that somebody here has to do with: also a root token that its run has
   * not delivered to its recipient.
   */
  async open(): Promise<LedgerEntry[]> {
    const past: ReadonlySet<LedgerEntry['state']> = new Set(['deleted', 'begun', 'handed-over']);
    return (await this.all()).filter(({ state, encoded }) => !past.has(state) || encoded !== undefined);
  }

  async all(): Promise<LedgerEntry[]> {
    const names = await readdir(this.#directory).catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return [];
      throw unusable(error, 'read');
    });
    for (const name of names.filter((each) => each.endsWith('.tmp'))) await this.#sweep(join(this.#directory, name));
    const files = names.filter((each) => each.endsWith('.json')).sort();
    return (await Promise.all(files.map((each) => this.#read(each)))).flatMap((entry) => entry ?? []);
  }

  /** Undefined also where another run removed it meanwhile. */
  async #read(name: string): Promise<LedgerEntry | undefined> {
    const text = await readFile(join(this.#directory, name), 'utf8').catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return '';
      throw unusable(error, 'read');
    });
    return entrySchema.safeParse(parse(text)).data;
  }

  async #sweep(written: string): Promise<void> {
    const at = await stat(written).then(
      ({ mtimeMs }) => mtimeMs,
      () => undefined,
    );
    if (at !== undefined && Date.now() - at > LEFT_AFTER_MS) await unlink(written).catch(() => undefined);
  }

  async #change<T>(cluster: string, how: () => Promise<T>): Promise<T> {
    try {
      const done = await how();
      const directory = await open(this.#directory, 'r');
      await directory.sync().finally(() => directory.close());
      return done;
    } catch (error) {
      if (isRunbookError(error)) throw error;
      throw unusable(error, 'written', cluster);
    }
  }

  #file(id: string): string {
    return join(this.#directory, `${id}.json`);
  }
}

/** The state of an entry after an attempt to delete its token. */
export function stateAfter({ state }: { readonly state: 'deleted' | 'kept' | 'unproven' }): LedgerEntry['state'] {
  return state === 'unproven' ? 'alive' : state;
}

function unusable(error: unknown, what: 'read' | 'written', cluster?: string): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `The token ledger of this worker cannot be ${what}.`, {
    cluster,
    observed: errnoOf(error) ?? 'not usable',
    needed: 'a directory on a disk with space, which the worker may write',
    next: 'Put the ledger directory of the worker in order, then retry.',
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
