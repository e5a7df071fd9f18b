import { randomBytes, randomUUID, createHash } from 'node:crypto';
import { link, open, readFile, stat, unlink, mkdir, readdir, statfs } from 'node:fs/promises';
import { join, dirname } from 'node:path';
import { errnoOf, RunbookError } from '../errors';
import { z } from 'zod';
import type { DeepReadonly } from '../contracts/run-facts';
import { Secret } from '../secret';
import type { CeremonyKeys } from './ceremony-keys';
import type { RunContext } from './sealing';

/** What is stored of the keys of one epoch. Times in seconds since 1970, as in the invitation. */
const storedRecord = z.strictObject({
  version: z.literal(1),
  run: z.strictObject({ ns: z.string(), wid: z.string(), rid: z.string() }),
  cid: z.string(),
  epoch: z.int(),
  /** A rehearsal's keys never open what was sent to a ceremony, nor the other way round. */
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
  /** End of the collecting. */
  exp: z.int(),
  /** Life in seconds from the first burst. */
  useFor: z.int(),
});
type Stored = z.infer<typeof storedRecord>;

/** What {@link KeyRecords.create} stores. */
export type NewKeyRecord = DeepReadonly<Omit<Stored, 'version' | 'keys'>> & { readonly keys: CeremonyKeys };

/** A stored record. Times in seconds since 1970. */
export type KeyRecord = NewKeyRecord & {
  readonly state: 'collecting' | 'bursting';
  /** When the first burst began; missing while the record collects. */
  readonly firstBurst?: number;
  /** From then on the record cannot be read and is swept. */
  readonly destroyAfter: number;
};

/** What names a record: the run that made it, and the round. Another run with the same ceremony has records of its own. */
export type RecordName = Pick<NewKeyRecord, 'run' | 'cid' | 'epoch'>;

/** A record that a sweep destroyed. */
interface DestroyedRecord {
  readonly cid: string;
  readonly epoch: number;
  readonly why: 'expired' | 'run-closed' | 'unreadable';
}

const TMPFS_MAGIC = 0x01021994;

/** Whether what is written into this directory, which may be one to be made, stays in memory. */
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

const RECORD_FILE = /^([0-9a-f-]{36})\.(\d{1,9})\.[0-9a-f]{32}\.key$/;
/** Records that one run may have on one host at a time: a run that goes on for days needs a few. */
const RECORDS_PER_RUN = 32;
const LEFTOVER_AGE_MS = 60_000;

/**
 * The ceremony keys of this host: one file per ceremony epoch (protocol: "Key record"). The file is written once and
 * never changed; the time of the first burst stands in a file beside it, which holds no secret.
 */
export class KeyRecords {
  /** Random identifier of the directory; names the task queue of the workers that have it. */
  readonly keyHome: string;
  /** What may be claimed of erased keys; the invitation says it. */
  readonly erasure: 'memory' | 'best-effort';
  readonly #directory: string;

  private constructor(directory: string, keyHome: string, erasure: KeyRecords['erasure']) {
    this.#directory = directory;
    this.keyHome = keyHome;
    this.erasure = erasure;
  }

  /**
   * Opens the key directory, and makes it (mode 0700) where it does not exist.
   *
   * @param options.storage `memory` demands a tmpfs.
   * @param options.fileSystemType reads the file system's type number; given by tests.
   * @throws RunbookError `KEY_STORAGE_REFUSED` where `memory` is asked for and the directory is not on a tmpfs.
   */
  static async open(options: {
    readonly directory: string;
    readonly storage: 'memory' | 'disk';
    readonly fileSystemType?: (directory: string) => Promise<number>;
  }): Promise<KeyRecords> {
    const { directory, storage } = options;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    if (storage === 'memory' && !(await isMemoryBacked(directory, options.fileSystemType))) {
      throw new RunbookError(
        'KEY_STORAGE_REFUSED',
        `The key directory ${directory} is not on a memory-backed file system (tmpfs).`,
        {
          needed: 'a directory on a tmpfs, such as /dev/shm/runbooks or a memory-backed volume',
          next: 'Choose such a directory, or ask for disk storage, which makes every invitation say "best-effort".',
        },
      );
    }
    await writeNewFile(directory, 'key-home', randomBytes(8).toString('hex'));
    const keyHome = await readOwnFile(directory, 'key-home');
    if (keyHome === undefined || !/^[0-9a-f]{16}$/.test(keyHome)) {
      throw new RunbookError(
        'KEY_STORAGE_REFUSED',
        `The file key-home in ${directory} is not one that this program made.`,
      );
    }
    return new KeyRecords(directory, keyHome, storage === 'memory' ? 'memory' : 'best-effort');
  }

  /**
   * Asked before keys are made.
   *
   * @throws RunbookError `PRECONDITION_FAILED` where the run has as many records as it may have.
   */
  async demandRoom(run: RunContext, now = Date.now()): Promise<void> {
    const has = (await this.ofRun(run, now)).length;
    if (has < RECORDS_PER_RUN) return;
    throw new RunbookError(
      'PRECONDITION_FAILED',
      'This run has asked for key shares too often: no further keys are made.',
      {
        observed: `${has} rounds with keys on this host`,
        needed: `fewer than ${RECORDS_PER_RUN}`,
        next: 'Stop this run, find out why its rounds come to nothing, and start again.',
      },
    );
  }

  /**
   * Stores the keys of one epoch, synced before it returns.
   *
   * @throws RunbookError `STATE_DIVERGED` where this epoch has a record: an epoch has exactly one invitation.
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
      throw new RunbookError('STATE_DIVERGED', `Epoch ${record.epoch} of this ceremony has keys already.`);
    }
    return present(stored, undefined);
  }

  /**
   * @param now milliseconds since 1970.
   * @throws RunbookError `KEY_RECORD_MISSING` where it is not on this host, destroyed, or past its time.
   */
  async read(name: RecordName, now = Date.now()): Promise<KeyRecord> {
    const record = await this.#load(fileName(name));
    if (record !== undefined && record !== 'unreadable' && record.destroyAfter * 1000 > now) return record;
    throw new RunbookError(
      'KEY_RECORD_MISSING',
      'The keys of this ceremony epoch are not on this host, expired, or destroyed.',
      {
        next: 'The run asks the holders again with a new invitation.',
      },
    );
  }

  /** The records of one run that are within their time, newest epoch first. */
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

  /** Whether there are keys of a ceremony, of whichever run and epoch. */
  async has(cid: string): Promise<boolean> {
    return (await this.#recordFiles()).some((name) => name.startsWith(`${cid}.`));
  }

  /**
   * Notes the first burst: from now on the record lives for `useFor`. A later call changes nothing.
   *
   * @param now milliseconds since 1970.
   * @throws RunbookError `KEY_RECORD_MISSING`.
   */
  async markFirstBurst(name: RecordName, now: number): Promise<KeyRecord> {
    await this.read(name, now);
    await writeNewFile(this.#directory, burstFileName(fileName(name)), String(Math.floor(now / 1000)));
    return this.read(name, now);
  }

  /** Overwrites and removes the record. False where there was none. */
  async destroy(name: RecordName): Promise<boolean> {
    return this.#destroyFile(fileName(name));
  }

  /**
   * Destroys what is past its time, what belongs to closed runs, and what cannot be read. Works without Temporal: where
   * `isRunClosed` throws, the record waits for its time to end.
   *
   * @param now milliseconds since 1970.
   * @param isRunClosed whether a run has ended, by Workflow ID and Run ID.
   */
  async sweep(
    now: number,
    isRunClosed: (wid: string, rid: string, ns: string) => Promise<boolean>,
  ): Promise<readonly DestroyedRecord[]> {
    await this.#eraseLeftovers(now);
    const destroyed: DestroyedRecord[] = [];
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

  async #recordFiles(): Promise<string[]> {
    return (await readdir(this.#directory)).filter((name) => RECORD_FILE.test(name)).sort();
  }

  async #destroyFile(name: string): Promise<boolean> {
    const existed = await eraseFile(this.#directory, name);
    await eraseFile(this.#directory, burstFileName(name));
    return existed;
  }

  /** A process that died while writing leaves a whole record under a temporary name. */
  async #eraseLeftovers(now: number): Promise<void> {
    for (const name of await readdir(this.#directory)) {
      if (!name.startsWith('.tmp-')) continue;
      const facts = await stat(join(this.#directory, name)).catch(() => undefined);
      if (facts !== undefined && now - facts.mtimeMs > LEFTOVER_AGE_MS) await eraseFile(this.#directory, name);
    }
  }

  async #load(name: string): Promise<KeyRecord | 'unreadable' | undefined> {
    const text = await readOwnFile(this.#directory, name);
    if (text === undefined) return undefined;
    const parsed = parseStored(text);
    if (parsed === undefined || fileName(parsed) !== name) return 'unreadable';
    return present(parsed, await readOwnFile(this.#directory, burstFileName(name)));
  }
}

function fileName({ run: { ns, wid, rid }, cid, epoch }: RecordName): string {
  const run = createHash('sha256')
    .update(JSON.stringify([ns, wid, rid]))
    .digest('hex');
  const name = `${cid}.${epoch}.${run.slice(0, 32)}.key`;
  // Both may come from a signal or an activity input: nothing but a UUID and a number may name a file.
  if (!RECORD_FILE.test(name)) throw new RunbookError('KEY_RECORD_MISSING', 'This is not a ceremony and an epoch.');
  return name;
}

function burstFileName(recordFile: string): string {
  return `${recordFile}.burst`;
}

function parseStored(text: string): Stored | undefined {
  try {
    return storedRecord.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
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
    // A burst may begin until the collecting ends, and the record must then live for `useFor`.
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
 * Writes a new file with mode 0600, complete and synced before it has its name, so that no reader ever sees a part.
 *
 * @returns false where a file of this name exists; it is left as it is.
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

/** The text of a file that this process's user owns; undefined where there is none. */
async function readOwnFile(directory: string, name: string): Promise<string | undefined> {
  const path = join(directory, name);
  try {
    // A file that another user put there is not a record of ours.
    if ((await stat(path)).uid !== process.getuid?.()) return undefined;
    return await readFile(path, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Overwrites a file, syncs, then removes it. On a disk the old blocks may survive all the same: that is what
 * `erasure: best-effort` says.
 *
 * @returns false where there was no such file.
 */
async function eraseFile(directory: string, name: string): Promise<boolean> {
  const path = join(directory, name);
  try {
    const handle = await open(path, 'r+');
    try {
      const { size } = await handle.stat();
      await handle.write(randomBytes(Math.max(size, 1)), 0, size, 0);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await unlink(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
  await syncDirectory(directory);
  return true;
}
