import { randomBytes, randomUUID, hash } from 'node:crypto';
import { constants } from 'node:fs';
import type { Stats } from 'node:fs';
import { link, lstat, open, unlink, mkdir, readdir, realpath, statfs } from 'node:fs/promises';
import { join, dirname } from 'node:path';
import { errnoOf, RunbookError } from '../errors';
import { z } from 'zod';
import type { DeepReadonly } from '../contracts/run-facts';
import { jsonIn } from '../contracts/words';
import { Secret } from '../secret';
import type { CeremonyKeys } from './ceremony-keys';
import type { RunContext } from './sealing';

/** The stored keys of one epoch. Times in seconds since 1970, as in the invitation. */
const storedRecord = z.strictObject({
  version: z.literal(1),
  run: z.strictObject({ ns: z.string(), wid: z.string(), rid: z.string() }),
  cid: z.string(),
  epoch: z.int(),
  /** A rehearsal's keys never open what was sent to a ceremony, nor vice versa. */
  kind: z.enum(['operation-token', 'root-token', 'rehearsal']),
  keys: z.strictObject({
    recipient: z.string(),
    identity: z.string(),
    pgpPublicKey: z.string(),
    pgpFingerprint: z.string(),
    pgpPrivateKey: z.string(),
  }),
  /** The signed invitation. */
  invitation: z.string(),
  invitationDigest: z.string(),
  holders: z.array(z.string()),
  threshold: z.int(),
  /** End of the collection. */
  exp: z.int(),
  /** Lifetime in seconds from the first burst. */
  useFor: z.int(),
});
type Stored = z.infer<typeof storedRecord>;

/** What {@link KeyRecords.create} stores. */
export type NewKeyRecord = DeepReadonly<Omit<Stored, 'version' | 'keys'>> & { readonly keys: CeremonyKeys };

/** A stored record. Times in seconds since 1970. */
export type KeyRecord = NewKeyRecord & {
  readonly state: 'collecting' | 'bursting';
  /** When the first burst began; absent while the record collects. */
  readonly firstBurst?: number;
  /** From this time on, the record cannot be read and is swept. */
  readonly destroyAfter: number;
};

/** Identifies a record: its run, ceremony and epoch. Another run with the same ceremony has its own records. */
export type RecordName = Pick<NewKeyRecord, 'run' | 'cid' | 'epoch'>;

/** A record that a sweep destroyed. */
interface DestroyedRecord {
  readonly cid: string;
  readonly epoch: number;
  readonly why: 'expired' | 'run-closed' | 'unreadable';
}

const TMPFS_MAGIC = 0x01021994;

/** Whether files in this directory stay in memory. The directory need not exist yet. */
export async function isMemoryBacked(
  directory: string,
  fileSystemType = async (path: string): Promise<number> => (await statfs(path)).type,
): Promise<boolean> {
  try {
    return (await fileSystemType(directory)) === TMPFS_MAGIC;
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || dirname(directory) === directory) throw error;
    return isMemoryBacked(dirname(directory), fileSystemType);
  }
}

/** The directories of other namespaces beside that of a worker. */
const NAMESPACE_DIRECTORY = /^[0-9a-f]{32}$/;
const RECORD_FILE = /^([0-9a-f-]{36})\.(\d{1,9})\.[0-9a-f]{32}\.key$/;
/** Maximum records of one run on one host at a time; a run that takes days needs only a few. */
const RECORDS_PER_RUN = 32;
const LEFTOVER_AGE_MS = 60_000;

/**
 * Where the workers of one namespace keep their keys, below `RUNBOOKS_KEY_DIR`. A worker whose server does not know a run
 * takes the run for ended and destroys its keys, so workers of two servers must not share a directory.
 *
 * @param namespaceId from `DescribeNamespace`. No two namespaces have the same ID, on one server or on several. The
 *   cluster ID of a server would need a role for the whole server, which workers do not have.
 */
export function directoryOfNamespace(keyDirectory: string, namespaceId: string): string {
  return join(keyDirectory, hash('sha256', namespaceId).slice(0, 32));
}

/**
 * Creates the key directory (mode 0700) if it does not exist.
 *
 * @param options.storage `memory` requires a tmpfs.
 * @param options.fileSystemType reads the type number of the file system; for tests.
 * @returns the directory without links
 * @throws RunbookError `KEY_STORAGE_REFUSED` if somebody else can write there, or if `memory` is requested and the
 *   directory is not on a tmpfs.
 */
export async function prepareKeyDirectory(options: {
  readonly directory: string;
  readonly storage: 'memory' | 'disk';
  readonly fileSystemType?: (directory: string) => Promise<number>;
}): Promise<string> {
  const directory = await ownDirectory(options.directory).catch(async (error: unknown) => {
    const errno = errnoOf(error);
    if (error instanceof RunbookError || errno === undefined) throw error;
    const { path, uid, mode } = await deepestSeen(options.directory);
    throw notOwn(options.directory, path, `owner ${uid}, mode ${(mode & 0o1777).toString(8)} (${errno})`);
  });
  if (options.storage === 'disk' || (await isMemoryBacked(directory, options.fileSystemType))) return directory;
  const text = `The key directory ${directory} is not on a memory-backed file system (tmpfs).`;
  throw new RunbookError('KEY_STORAGE_REFUSED', text, {
    needed: 'a directory on a tmpfs, such as /dev/shm/runbooks or a memory-backed volume',
    next: 'Choose such a directory, or select disk storage; every invitation then says "best-effort".',
  });
}

/**
 * The ceremony keys of this host: one file per ceremony epoch (protocol: "Key record"). The file is written once and
 * never changed. The time of the first burst is in a separate file, which holds no secret.
 */
export class KeyRecords {
  /** Random identifier of the directory; part of the name of the task queue of the workers that have it. */
  readonly keyHome: string;
  /** How reliably keys can be erased; shown in the invitation. */
  readonly erasure: 'memory' | 'best-effort';
  readonly #directory: string;

  private constructor(directory: string, keyHome: string, erasure: KeyRecords['erasure']) {
    this.#directory = directory;
    this.keyHome = keyHome;
    this.erasure = erasure;
  }

  /**
   * Opens a key directory.
   *
   * @param options.directory of one namespace ({@link directoryOfNamespace})
   * @throws RunbookError `KEY_STORAGE_REFUSED`, as {@link prepareKeyDirectory}
   */
  static async open(options: Parameters<typeof prepareKeyDirectory>[0]): Promise<KeyRecords> {
    const { storage } = options;
    const directory = await prepareKeyDirectory(options);
    await writeNewFile(directory, 'key-home', randomBytes(8).toString('hex'));
    const keyHome = await readOwnFile(directory, 'key-home');
    if (keyHome === undefined || !/^[0-9a-f]{16}$/.test(keyHome)) {
      throw new RunbookError(
        'KEY_STORAGE_REFUSED',
        `The file key-home in ${directory} was not created by this program.`,
      );
    }
    return new KeyRecords(directory, keyHome, storage === 'memory' ? 'memory' : 'best-effort');
  }

  /**
   * Called before keys are created.
   *
   * @throws RunbookError `PRECONDITION_FAILED` if the run already has the maximum number of records.
   */
  async demandRoom(run: RunContext, now = Date.now()): Promise<void> {
    const has = (await this.ofRun(run, now)).length;
    if (has < RECORDS_PER_RUN) return;
    const text = 'This run has asked for key shares too often: it gets no further keys.';
    throw new RunbookError('PRECONDITION_FAILED', text, {
      observed: `${has} rounds with keys on this host`,
      needed: `fewer than ${RECORDS_PER_RUN}`,
      next: 'Stop this run, find out why its rounds fail, and start again.',
    });
  }

  /**
   * Stores the keys of one epoch, synced before it returns.
   *
   * @throws RunbookError `STATE_DIVERGED` if this epoch already has a record: an epoch has exactly one invitation.
   */
  async create(record: NewKeyRecord): Promise<KeyRecord> {
    const { identity, pgpPrivateKey, ...keys } = record.keys;
    const { ns, wid, rid } = record.run;
    const stored: Stored = {
      version: 1,
      ...record,
      run: { ns, wid, rid },
      holders: [...record.holders],
      keys: { ...keys, identity: identity.reveal(), pgpPrivateKey: pgpPrivateKey.reveal() },
    };
    if (!(await writeNewFile(this.#directory, fileName(record), JSON.stringify(stored)))) {
      throw new RunbookError('STATE_DIVERGED', `Epoch ${record.epoch} of this ceremony already has keys.`);
    }
    return present(stored, undefined);
  }

  /**
   * @param now milliseconds since 1970.
   * @throws RunbookError `KEY_RECORD_MISSING` if it is not on this host, was destroyed, or has expired.
   */
  async read(name: RecordName, now = Date.now()): Promise<KeyRecord> {
    const record = await this.#load(fileName(name));
    if (record !== undefined && record !== 'unreadable' && record.destroyAfter * 1000 > now) return record;
    const text = 'The keys of this ceremony epoch are not on this host, have expired, or were destroyed.';
    throw new RunbookError('KEY_RECORD_MISSING', text, {
      next: 'The run asks the holders again with a new invitation.',
    });
  }

  /** The unexpired records of one run, newest epoch first. */
  async ofRun(run: RunContext, now = Date.now()): Promise<readonly KeyRecord[]> {
    const records: KeyRecord[] = [];
    for (const name of await this.#recordFiles()) {
      const record = await this.#load(name);
      if (record === undefined || record === 'unreadable' || record.destroyAfter * 1000 <= now) continue;
      const { ns, wid, rid } = record.run;
      if (ns === run.ns && wid === run.wid && rid === run.rid) records.push(record);
    }
    return records.sort((a, b) => b.epoch - a.epoch);
  }

  /** Whether there are keys of a ceremony, of any run and epoch. */
  async has(cid: string): Promise<boolean> {
    return (await this.#recordFiles()).some((name) => name.startsWith(`${cid}.`));
  }

  /**
   * Records the first burst: from now on the record lives for `useFor`. Later calls change nothing.
   *
   * @param now milliseconds since 1970.
   * @throws RunbookError `KEY_RECORD_MISSING`.
   */
  async markFirstBurst(name: RecordName, now: number): Promise<KeyRecord> {
    await this.read(name, now);
    await writeNewFile(this.#directory, burstFileName(fileName(name)), String(Math.floor(now / 1000)));
    return this.read(name, now);
  }

  /** Overwrites and removes the record. Returns false if there was none. */
  async destroy(name: RecordName): Promise<boolean> {
    return this.#destroyFile(fileName(name));
  }

  /**
   * Destroys records that have expired, that belong to closed runs, or that cannot be read. Works without Temporal: if
   * `isRunClosed` throws, the record stays until it expires. Of other namespaces, it destroys only what has expired,
   * which nobody can use: perhaps no worker of theirs starts again.
   *
   * @param now milliseconds since 1970.
   * @param isRunClosed whether a run has ended, by Workflow ID and Run ID.
   */
  async sweep(
    now: number,
    isRunClosed: (wid: string, rid: string, ns: string) => Promise<boolean>,
  ): Promise<readonly DestroyedRecord[]> {
    await this.#eraseLeftovers(now);
    const destroyed = await this.#sweepExpiredBeside(now);
    for (const name of await this.#recordFiles()) {
      const record = await this.#load(name);
      if (record === undefined) continue;
      const why = await reasonToDestroy(record, now, isRunClosed);
      if (why === undefined || !(await this.#destroyFile(name))) continue;
      const [, cid = '', epoch] = RECORD_FILE.exec(name) ?? [];
      destroyed.push({ cid, epoch: Number(epoch), why });
    }
    return destroyed;
  }

  async #sweepExpiredBeside(now: number): Promise<DestroyedRecord[]> {
    const destroyed: DestroyedRecord[] = [];
    const above = dirname(this.#directory);
    for (const entry of await readdir(above, { withFileTypes: true })) {
      const directory = join(above, entry.name);
      if (!entry.isDirectory() || !NAMESPACE_DIRECTORY.test(entry.name) || directory === this.#directory) continue;
      const beside = new KeyRecords(directory, '', this.erasure);
      for (const name of await beside.#recordFiles()) {
        const record = await beside.#load(name);
        if (record === undefined || record === 'unreadable' || record.destroyAfter * 1000 > now) continue;
        const { cid, epoch } = record;
        if (await beside.#destroyFile(name)) destroyed.push({ cid, epoch, why: 'expired' });
      }
    }
    return destroyed;
  }

  async #recordFiles(): Promise<string[]> {
    return (await readdir(this.#directory)).filter((name) => RECORD_FILE.test(name)).sort();
  }

  async #destroyFile(name: string): Promise<boolean> {
    const existed = await eraseFile(this.#directory, name);
    await eraseFile(this.#directory, burstFileName(name));
    return existed;
  }

  /** A process that died while writing may leave a complete record under a temporary name. */
  async #eraseLeftovers(now: number): Promise<void> {
    for (const name of await readdir(this.#directory)) {
      if (!name.startsWith('.tmp-')) continue;
      const facts = await lstat(join(this.#directory, name)).catch(() => undefined);
      if (facts !== undefined && now - facts.mtimeMs > LEFTOVER_AGE_MS) await eraseFile(this.#directory, name);
    }
  }

  async #load(name: string): Promise<KeyRecord | 'unreadable' | undefined> {
    const text = await readOwnFile(this.#directory, name);
    if (text === undefined) return undefined;
    const { data } = storedRecord.safeParse(jsonIn(text));
    if (data === undefined || fileName(data) !== name) return 'unreadable';
    return present(data, await readOwnFile(this.#directory, burstFileName(name)));
  }
}

function fileName({ run: { ns, wid, rid }, cid, epoch }: RecordName): string {
  const run = hash('sha256', JSON.stringify([ns, wid, rid]));
  const name = `${cid}.${epoch}.${run.slice(0, 32)}.key`;
  // Both may come from a signal or an activity input: only a UUID and a number may be part of a file name.
  if (!RECORD_FILE.test(name))
    throw new RunbookError('KEY_RECORD_MISSING', 'This does not identify a ceremony and an epoch.');
  return name;
}

function burstFileName(recordFile: string): string {
  return `${recordFile}.burst`;
}

function present(stored: Stored, burst: string | undefined): KeyRecord {
  const { version: _version, keys, ...rest } = stored;
  const { identity, pgpPrivateKey } = keys;
  const firstBurst = burst === undefined ? undefined : Number(burst);
  return {
    ...rest,
    keys: {
      ...keys,
      identity: new Secret('private-key', identity),
      pgpPrivateKey: new Secret('private-key', pgpPrivateKey),
    },
    state: firstBurst === undefined ? 'collecting' : 'bursting',
    ...(firstBurst === undefined ? {} : { firstBurst }),
    // A burst may begin until the collection ends, and the record must then live for `useFor`.
    destroyAfter: (firstBurst ?? stored.exp) + stored.useFor,
  };
}

async function reasonToDestroy(
  record: KeyRecord | 'unreadable',
  now: number,
  isRunClosed: (wid: string, rid: string, ns: string) => Promise<boolean>,
): Promise<DestroyedRecord['why'] | undefined> {
  if (record === 'unreadable') return 'unreadable';
  if (record.destroyAfter * 1000 <= now) return 'expired';
  const { wid, rid, ns } = record.run;
  const closed = await isRunClosed(wid, rid, ns).catch(() => false);
  return closed ? 'run-closed' : undefined;
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Writes a new file with mode 0600. It is complete and synced before it gets its name, so no reader sees a partial
 * file.
 *
 * @returns false if a file of this name exists; that file stays unchanged.
 */
async function writeNewFile(directory: string, name: string, content: string): Promise<boolean> {
  const temporary = join(directory, `.tmp-${randomUUID()}`);
  const handle = await open(temporary, 'wx', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  try {
    await link(temporary, join(directory, name));
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    throw error;
  } finally {
    await unlink(temporary);
    await syncDirectory(directory);
  }
}

/** The text of a file that this process's user owns; undefined if there is none. */
async function readOwnFile(directory: string, name: string): Promise<string | undefined> {
  try {
    const handle = await open(join(directory, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      // A file that another user put there is not our record.
      return isOwnFile(await handle.stat()) ? await handle.readFile('utf8') : undefined;
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ELOOP') return undefined;
    throw error;
  }
}

function isOwnFile(facts: Stats): boolean {
  return facts.isFile() && facts.uid === process.geteuid?.();
}

/** The directory itself, or that of the ones above it in which the next one cannot be seen or made. */
async function deepestSeen(path: string): Promise<Pick<Stats, 'uid' | 'mode'> & { readonly path: string }> {
  try {
    const { uid, mode } = await lstat(path);
    return { path, uid, mode };
  } catch (error) {
    if (path === dirname(path)) throw error;
    return deepestSeen(dirname(path));
  }
}

function notOwn(
  directory: string,
  path: string,
  observed: string,
  needed = `a directory of user ${process.geteuid?.() ?? 'unknown'} with mode 700`,
): RunbookError {
  const text = `The key directory ${directory} is not safe from other users of this host.`;
  return new RunbookError('KEY_STORAGE_REFUSED', text, {
    ...{ observed: `${path}: ${observed}`, needed },
    next: 'Set RUNBOOKS_KEY_DIR to a directory that only the user of the worker can write, such as /run/replication-runbooks/keys. Find out who made the one that is there.',
  });
}

/**
 * Another user of this host who made the directory first, or who can replace it, could read keys as they are written, or
 * have the sweep overwrite files of ours.
 *
 * @returns the directory without links: whoever owns a link above it could let it lead elsewhere later.
 * @throws RunbookError `KEY_STORAGE_REFUSED`
 */
async function ownDirectory(directory: string): Promise<string> {
  const own = process.geteuid?.();
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const isLink = (await lstat(directory)).isSymbolicLink();
  const real = await realpath(directory);
  const facts = await lstat(real);
  const mode = facts.mode & 0o777;
  if (isLink || facts.uid !== own || mode !== 0o700)
    throw notOwn(
      directory,
      directory,
      isLink ? 'not a directory itself' : `owner ${facts.uid}, mode ${mode.toString(8)}`,
    );
  for (let parent = dirname(real); ; parent = dirname(parent)) {
    const { uid, mode: bits } = await lstat(parent);
    const isOpen = (bits & 0o022) !== 0 && (bits & 0o1000) === 0;
    if ((uid !== 0 && uid !== own) || isOpen)
      throw notOwn(
        directory,
        parent,
        `owner ${uid}, mode ${(bits & 0o1777).toString(8)}`,
        'owned by root or the user of the worker, and sticky if others can write there',
      );
    if (parent === dirname(parent)) return real;
  }
}

/**
 * Overwrites a file, syncs, then removes it. On a disk the old blocks may still survive: that is the meaning of
 * `erasure: best-effort`. A link, or a file of another owner, is only removed: what it leads to may be a file of
 * somebody else.
 *
 * @returns false if there was no such file.
 */
async function eraseFile(directory: string, name: string): Promise<boolean> {
  const path = join(directory, name);
  try {
    await overwrite(path);
    await unlink(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
  await syncDirectory(directory);
  return true;
}

async function overwrite(path: string): Promise<void> {
  let handle;
  try {
    handle = await open(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (errnoOf(error) === 'ELOOP') return;
    throw error;
  }
  try {
    const facts = await handle.stat();
    if (!isOwnFile(facts)) return;
    await handle.write(randomBytes(Math.max(facts.size, 1)), 0, facts.size, 0);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
