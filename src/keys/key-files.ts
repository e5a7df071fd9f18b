import { randomBytes, randomUUID } from 'node:crypto';
import { link, open, readFile, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../errors';

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
export async function writeNewFile(directory: string, name: string, content: string): Promise<boolean> {
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
export async function readOwnFile(directory: string, name: string): Promise<string | undefined> {
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
export async function eraseFile(directory: string, name: string): Promise<boolean> {
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
