import { mkdir, readFile, readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

const entrySchema = z.strictObject({
  version: z.literal(1),
  id: z.uuid(),
  deployment: z.string(),
  cluster: z.string(),
  clusterId: z.string(),
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  state: z.enum(['alive', 'deleted', 'kept', 'orphan']),
  /** Sealed; absent where nobody holds the token. */
  sealed: z.string().optional(),
  at: z.string(),
});
export type LedgerEntry = z.infer<typeof entrySchema>;

/**
 * The generated tokens that this site knows of: cluster, run and state, never a readable token. It outlives runs, so that
 * what one run could not delete a later one can.
 */
export class TokenLedger {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async write(entry: LedgerEntry): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const file = this.#file(entry.id);
    await writeFile(`${file}.tmp`, JSON.stringify(entry), { mode: 0o600 });
    await rename(`${file}.tmp`, file);
  }

  /** Every entry that is not known to be deleted. */
  async open(): Promise<LedgerEntry[]> {
    const names = await readdir(this.#directory).catch(() => []);
    const entries: LedgerEntry[] = [];
    for (const name of names.filter((each) => each.endsWith('.json')).sort()) {
      const parsed = entrySchema.safeParse(parse(await readFile(join(this.#directory, name), 'utf8')));
      if (parsed.success && parsed.data.state !== 'deleted') entries.push(parsed.data);
    }
    return entries;
  }

  #file(id: string): string {
    return join(this.#directory, `${id}.json`);
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
