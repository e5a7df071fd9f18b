import { constants } from 'node:fs';
import { lstat, open, rename, unlink } from 'node:fs/promises';
import type { Stats } from 'node:fs';
import { basename, dirname } from 'node:path';
import { errnoOf, RunbookError, isRunbookError } from '../../src/errors';
import { readCredential } from '../../src/inventory';
import { Secret } from '../../src/secret';
import type { BatchTokenStore } from './batch-token-store';

/** Rights of others, and the right of a group to write: nobody else may read a token, or put another in its place. */
const OTHERS = 0o007;
const GROUP_WRITES = 0o020;

/**
 * A batch token in a file of mode 0600. A new one replaces the old one as a whole: written beside it, synced, renamed.
 * One writer at a time: the lock of the rotation.
 */
export class BatchTokenFile implements BatchTokenStore {
  readonly where: string;
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
    this.where = `file ${file}`;
  }

  async check(): Promise<void> {
    const directory = dirname(this.#file);
    const found = await this.#look(directory);
    if (found?.isDirectory() !== true) throw this.#refused(`${directory} is not a directory`, 'a directory');
    if ((found.mode & (OTHERS | GROUP_WRITES)) !== 0)
      throw this.#refused(
        `mode ${(found.mode & 0o777).toString(8)} of ${directory}`,
        'a directory that others cannot enter and its group cannot write to: mode 0750 or 0700',
      );
    const own = process.getuid?.();
    if (own !== undefined && found.uid !== own && found.uid !== 0)
      throw this.#refused(`${directory} belongs to user ${found.uid}`, "the worker's user or root");
    const file = await this.#look(this.#file);
    if (file !== undefined && !file.isFile())
      throw this.#refused(
        `${this.#file} is ${file.isSymbolicLink() ? 'a symbolic link' : 'no regular file'}`,
        'a file',
      );
  }

  async read(): Promise<Secret<'batch-token'> | undefined> {
    try {
      return new Secret('batch-token', (await readCredential({ file: this.#file })).reveal());
    } catch (error) {
      if (isRunbookError(error, 'CREDENTIAL_UNAVAILABLE')) return undefined;
      throw error;
    }
  }

  async replace(token: Secret<'batch-token'>): Promise<void> {
    await this.check();
    const next = `${this.#file}.new`;
    // What a worker left that died between writing and renaming; never followed where it is a link.
    await unlink(next).catch(ignoreMissing);
    const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants;
    try {
      const handle = await open(next, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600);
      try {
        await handle.chmod(0o600);
        await handle.writeFile(`${token.reveal()}\n`);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(next, this.#file);
    } catch (error) {
      await unlink(next).catch(() => undefined);
      throw this.#refused(errnoOf(error) ?? 'it cannot be written', 'a file that can be written');
    }
    const directory = await open(dirname(this.#file), 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }

  async #look(path: string): Promise<Stats | undefined> {
    try {
      return await lstat(path);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return undefined;
      throw this.#refused(`${path}: ${errnoOf(error) ?? 'not readable'}`, 'a directory that can be looked at');
    }
  }

  #refused(observed: string, needed: string): RunbookError {
    return new RunbookError('PRECONDITION_FAILED', `The batch token cannot be kept as ${basename(this.#file)}.`, {
      observed,
      needed,
      next: `Put the place of the token in order on this worker: ${this.where}.`,
    });
  }
}

function ignoreMissing(error: unknown): void {
  if (errnoOf(error) !== 'ENOENT') throw error;
}
