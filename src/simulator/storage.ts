import { hash } from 'node:crypto';
import { ServiceFault } from './messages';
import { KINDS } from './stored';
import type { ReplicationKind, StoredValue } from './stored';

/**
 * Which secondaries an entry replicates to: DR secondaries receive `everything` and `cluster`, performance secondaries
 * only `everything`. `local` entries stay on the cluster but count in `last_wal`.
 */
type Scope = 'everything' | 'cluster' | 'local';

interface WalEntry {
  readonly index: bigint;
  readonly key: string;
  readonly value: StoredValue | null;
  readonly at: number;
}

/** Entries kept for lagging secondaries (`logshipper_buffer_length`); a secondary further behind must compare again. */
const LOG_LENGTH = 16_384;
const ROOT_BITS = 160n;
const ROOT_MASK = (1n << ROOT_BITS) - 1n;

function scopeOf(key: string): Scope {
  if (key.startsWith('local/')) return 'local';
  return key.startsWith('token/') || key.startsWith('cluster/') ? 'cluster' : 'everything';
}

/** Whether the entry with this key replicates to secondaries of this kind. */
export function replicates(key: string, kind: ReplicationKind): boolean {
  const scope = scopeOf(key);
  return scope === 'everything' || (scope === 'cluster' && kind === 'dr');
}

function digestOf(key: string, value: StoredValue): bigint {
  return BigInt(`0x${hash('sha1', `${key}\0${JSON.stringify(value)}`)}`);
}

/**
 * The storage of a cluster, with its write-ahead log. The Merkle roots are sums of the digests of the replicated
 * entries, so they are equal on two clusters exactly if both have the same data.
 */
export class Storage {
  /** The disk is full: calls that write fail. Replicated writes are not affected. */
  isFull = false;
  readonly #values = new Map<string, StoredValue>();
  readonly #digests = new Map<string, bigint>();
  readonly #roots: Record<ReplicationKind, bigint> = { dr: 0n, performance: 0n };
  #log: WalEntry[] = [];
  #last: bigint;
  readonly #lastOf: Record<ReplicationKind, bigint>;

  /** @param start WAL index before the first write; uint64 */
  constructor(start: bigint) {
    this.#last = start;
    this.#lastOf = { dr: start, performance: start };
  }

  get(key: string): StoredValue | undefined {
    return this.#values.get(key);
  }

  /** The entry with this key, if it has this type. */
  read<T extends StoredValue['type']>(type: T, key: string): Extract<StoredValue, { type: T }> | undefined {
    const isOfType = (value: StoredValue | undefined): value is Extract<StoredValue, { type: T }> =>
      value?.type === type;
    const value = this.#values.get(key);
    return isOfType(value) ? value : undefined;
  }

  keys(prefix: string): string[] {
    return [...this.#values.keys()].filter((key) => key.startsWith(prefix)).sort();
  }

  /** Writes one entry, or deletes it for null, as the cluster itself does; returns its WAL index. */
  write(key: string, value: StoredValue | null, at: number): bigint {
    this.#place(key, value);
    this.#last += 1n;
    for (const kind of KINDS) if (replicates(key, kind)) this.#lastOf[kind] = this.#last;
    this.#log.push({ index: this.#last, key, value, at });
    if (this.#log.length > 2 * LOG_LENGTH) this.#log = this.#log.slice(-LOG_LENGTH);
    return this.#last;
  }

  /** Makes a write that a client requested. The error text is that of the Raft library, which passes on a file error. */
  writeForCaller(key: string, value: StoredValue | null, at: number): void {
    if (this.isFull)
      throw new ServiceFault(500, ['1 error occurred:\n\t* write raft/raft.db: no space left on device\n\n']);
    this.write(key, value, at);
  }

  get lastWal(): bigint {
    return this.#last;
  }

  lastWalOf(kind: ReplicationKind): bigint {
    return this.#lastOf[kind];
  }

  /** The Merkle root of the entries that replicate for this kind: 40 hex digits. */
  rootOf(kind: ReplicationKind): string {
    return this.#roots[kind].toString(16).padStart(40, '0');
  }

  /** Entries after an index, in order; null if the log no longer goes back that far. */
  entriesAfter(index: bigint): WalEntry[] | null {
    const first = this.#log[0];
    if (first === undefined || index >= this.#last) return index >= this.#last ? [] : null;
    if (index < first.index - 1n) return null;
    return this.#log.slice(Number(index - first.index) + 1);
  }

  /** All entries that replicate to a secondary of this kind. */
  *replicated(kind: ReplicationKind): Generator<[string, StoredValue]> {
    for (const [key, value] of this.#values) if (replicates(key, kind)) yield [key, value];
  }

  /**
   * Makes the replicated entries equal to those of a source, like the comparison of Merkle trees; writes only
   * differences. Returns the number of own entries that were lost: absent from the source, or there in another version.
   */
  replaceReplicated(kind: ReplicationKind, source: Iterable<[string, StoredValue]>, at: number): number {
    const wanted = new Map(source);
    let discarded = 0;
    for (const [key, value] of [...this.replicated(kind)]) {
      const target = wanted.get(key);
      if (target === undefined) {
        this.write(key, null, at);
        discarded += 1;
      } else if (digestOf(key, target) !== digestOf(key, value)) discarded += 1;
    }
    for (const [key, value] of wanted) if (this.#digests.get(key) !== digestOf(key, value)) this.write(key, value, at);
    return discarded;
  }

  /** Deletes all entries, as `secondary/enable` does. */
  wipe(): void {
    this.#values.clear();
    this.#digests.clear();
    this.#roots.dr = 0n;
    this.#roots.performance = 0n;
    this.#log = [];
  }

  #place(key: string, value: StoredValue | null): void {
    const before = this.#digests.get(key) ?? 0n;
    const after = value === null ? 0n : digestOf(key, value);
    for (const kind of KINDS)
      if (replicates(key, kind)) this.#roots[kind] = (this.#roots[kind] - before + after) & ROOT_MASK;
    if (value === null) {
      this.#values.delete(key);
      this.#digests.delete(key);
    } else {
      this.#values.set(key, value);
      this.#digests.set(key, after);
    }
  }
}
