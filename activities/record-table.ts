import type { z } from 'zod';
import type { RecordChanges, Records } from './record';

type Values = ReadonlyMap<string, unknown>;

/**
 * The entries of one kind in the record, by name, each under `<prefix>:<name>`. A single entry with an empty name is
 * under the prefix itself. An entry that does not match the schema reads as missing, and is never written.
 */
export class RecordTable<T> {
  readonly #prefix: string;
  readonly #schema: z.ZodType<T>;

  constructor(prefix: string, schema: z.ZodType<T>) {
    this.#prefix = prefix;
    this.#schema = schema;
  }

  /** All entries by name. */
  async all(records: Records, deployment: string): Promise<ReadonlyMap<string, T>> {
    const { values } = await records.read(deployment);
    const named = [...values.keys()].filter((key) => key.startsWith(`${this.#prefix}:`));
    return new Map(
      named.flatMap((key) => {
        const name = key.slice(this.#prefix.length + 1);
        const entry = this.from(values, name);
        return entry === undefined ? [] : [[name, entry] as const];
      }),
    );
  }

  async get(records: Records, deployment: string, name = ''): Promise<T | undefined> {
    return this.from((await records.read(deployment)).values, name);
  }

  /**
   * Writes one entry; undefined removes it.
   *
   * @param counts - decides by the current entry, right before the write, whether to write
   * @returns whether the entry was written
   * @throws ZodError before anything is written, if the entry does not match the schema
   */
  async put(
    records: Records,
    deployment: string,
    name: string,
    entry: T | undefined,
    counts: (now: T | undefined) => boolean = () => true,
  ): Promise<boolean> {
    const changes = this.changes([[name, entry]]);
    return records.change(deployment, (values) => (counts(this.from(values, name)) ? changes : undefined));
  }

  /** Changes for entries (also of several tables) that are written at once. Undefined removes an entry. */
  changes(entries: Iterable<readonly [name: string, entry: T | undefined]>): Required<RecordChanges> {
    const put: Record<string, unknown> = {};
    const removed: string[] = [];
    for (const [name, entry] of entries) {
      if (entry === undefined) removed.push(this.#keyOf(name));
      else put[this.#keyOf(name)] = this.#schema.parse(entry);
    }
    return { put, removed };
  }

  /** One entry of the values that were read from the record. */
  from(values: Values, name = ''): T | undefined {
    return this.#schema.safeParse(values.get(this.#keyOf(name))).data;
  }

  #keyOf(name: string): string {
    return name === '' ? this.#prefix : `${this.#prefix}:${name}`;
  }
}
