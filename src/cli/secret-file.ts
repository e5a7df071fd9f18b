import { mkdir, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errnoOf, RunbookError } from '../errors';

/** @throws RunbookError `INVALID_INPUT` where the file exists: a key is never overwritten. */
export async function writeSecretFile(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  try {
    await writeFile(path, content, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    throw existing(path);
  }
}

/** @throws RunbookError `INVALID_INPUT` where the file exists, before anything is asked for. */
export async function refuseExisting(path: string): Promise<void> {
  if ((await stat(path).catch(() => undefined)) !== undefined) throw existing(path);
}

function existing(path: string): RunbookError {
  return new RunbookError('INVALID_INPUT', `The file ${path} exists; a key is never overwritten.`, {
    needed: 'the path of a new file',
    next: 'Give another path, or move the old file away where it is not needed any more.',
  });
}
