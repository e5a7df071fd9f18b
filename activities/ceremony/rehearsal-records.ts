import { randomUUID } from 'node:crypto';
import { mkdir, open, readFile, readdir, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { errnoOf, RunbookError } from '../../src/errors';
import { attest, isAttested } from '../../src/keys';
import type { AttestedFacts, SealKeyring } from '../../src/keys';

const said = {
  version: z.literal(1),
  deployment: z.string().regex(/^[a-z0-9-]+$/),
  holder: z.string().regex(/^[a-z0-9-]+$/),
  /** Time of the signal's event. */
  at: z.iso.datetime(),
  how: z.enum(['signed', 'principal', 'claimed']),
  wid: z.string(),
  rid: z.string(),
  /** The mark of the worker that saw it: what has none is not believed. Absent before it is kept. */
  attested: z.string().optional(),
};
const recordSchema = z.strictObject({
  ...said,
  /** The person's key, where the answer was signed. */
  kid: z.string().optional(),
  tool: z.string(),
  /** The workers' key that signed the invitation, which the person has pinned. */
  workers: z.string(),
});
export type RehearsalRecord = z.infer<typeof recordSchema>;

/** `reason`: redacted, one line. */
const declineSchema = z.strictObject({ ...said, reason: z.string() });
export type DeclinedRehearsal = z.infer<typeof declineSchema>;

/**
 * The last of something that each person did in a rehearsal: one small file per deployment and person, in a directory
 * beside the token ledger that all workers share. It outlives runs and the retention of the namespace, and nothing in it
 * is secret.
 */
class LastOfEach<
  T extends {
    readonly deployment: string;
    readonly holder: string;
    readonly at: string;
    readonly attested?: string | undefined;
  },
> {
  readonly #directory: string;
  readonly #schema: z.ZodType<T>;
  readonly #kind: AttestedFacts['kind'];
  readonly #keyring: SealKeyring;

  constructor(directory: string, schema: z.ZodType<T>, kind: AttestedFacts['kind'], keyring: SealKeyring) {
    this.#directory = directory;
    this.#schema = schema;
    this.#kind = kind;
    this.#keyring = keyring;
  }

  #facts({ deployment, at }: T): AttestedFacts {
    return { deployment, kind: this.#kind, time: Date.parse(at) };
  }

  /**
   * Keeps a record, synced before it returns. An older one than what is known is left out.
   *
   * @throws ZodError before anything is written where it is no such record; RunbookError PRECONDITION_FAILED where the
   * directory cannot be written
   */
  async keep(record: T): Promise<void> {
    const { attested: _none, ...content } = this.#schema.parse(record);
    const checked = { ...content, attested: attest(this.#keyring, this.#facts(record), content) };
    const file = join(this.#directory, `${record.deployment}.${record.holder}.json`);
    try {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      const known = await this.#read(file);
      if (typeof known === 'object' && known.at >= record.at) return;
      // Several workers share the directory: each writes under a name of its own, and the last rename counts.
      const temporary = `${file}.${randomUUID()}.tmp`;
      const handle = await open(temporary, 'wx', 0o600);
      try {
        await handle
          .writeFile(JSON.stringify(checked))
          .then(() => handle.sync())
          .finally(() => handle.close());
        await rename(temporary, file);
      } catch (error) {
        await unlink(temporary).catch(() => undefined);
        throw error;
      }
      const directory = await open(this.#directory, 'r');
      await directory.sync().finally(() => directory.close());
    } catch (error) {
      throw unusable(error, 'written');
    }
  }

  /**
   * The last record of each person of a deployment, by name. What cannot be read counts as none, and so does what no worker
   * attested, which is named.
   *
   * @throws RunbookError PRECONDITION_FAILED where the directory is there and cannot be read
   */
  async of(deployment: string): Promise<Known<T>> {
    const names = await readdir(this.#directory).catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return [];
      throw unusable(error, 'read');
    });
    const last = new Map<string, T>();
    const unattested: string[] = [];
    for (const name of names.filter((each) => each.startsWith(`${deployment}.`) && each.endsWith('.json'))) {
      const record = await this.#read(join(this.#directory, name));
      if (record === 'unattested') unattested.push(name);
      else if (record?.deployment === deployment) last.set(record.holder, record);
    }
    return { last, unattested };
  }

  async #read(file: string): Promise<T | 'unattested' | undefined> {
    try {
      const parsed = this.#schema.safeParse(JSON.parse(await readFile(file, 'utf8')));
      if (!parsed.success) return undefined;
      const { attested, ...content } = parsed.data;
      return isAttested(this.#keyring, this.#facts(parsed.data), content, attested) ? parsed.data : 'unattested';
    } catch {
      return undefined;
    }
  }
}

/** What is known of a deployment. */
interface Known<T> {
  readonly last: ReadonlyMap<string, T>;
  /** Files whose records no worker attested. */
  readonly unattested: readonly string[];
}

/** The last success of each person. */
export class RehearsalRecords extends LastOfEach<RehearsalRecord> {
  /** @param ledgerDirectory where the ledger of generated tokens lives */
  constructor(ledgerDirectory: string, keyring: SealKeyring) {
    super(join(ledgerDirectory, 'rehearsals'), recordSchema, 'rehearsal', keyring);
  }
}

/** The last time that each person said that he cannot answer. */
export class DeclinedRehearsals extends LastOfEach<DeclinedRehearsal> {
  /** @param ledgerDirectory where the ledger of generated tokens lives */
  constructor(ledgerDirectory: string, keyring: SealKeyring) {
    super(join(ledgerDirectory, 'declined-rehearsals'), declineSchema, 'rehearsal-declined', keyring);
  }
}

function unusable(error: unknown, what: 'read' | 'written'): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `The records of rehearsals of this worker cannot be ${what}.`, {
    observed: errnoOf(error) ?? 'not usable',
    needed: 'a directory on a disk with space, which the worker may write',
    next: 'Put the ledger directory of the worker in order; the holder then sends the answer again.',
  });
}
