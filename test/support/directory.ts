import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Creates a directory that is removed after the tests of the file. */
export function temporaryDirectory(name: string, parent = tmpdir()): string {
  const directory = mkdtempSync(join(parent, `${name}-`));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Every file below a key directory (`RUNBOOKS_KEY_DIR`), except the identifiers of the directories. */
export function ceremonyKeyFiles(keyDirectory: string): string[] {
  return readdirSync(keyDirectory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'key-home')
    .map((entry) => join(entry.parentPath, entry.name));
}

/** The subdirectories in which the workers of one key directory keep the keys of each namespace, by their `keyHome`. */
export function keyHomes(keyDirectory: string): ReadonlyMap<string, string> {
  return new Map(
    readdirSync(keyDirectory, { recursive: true, withFileTypes: true })
      .filter(({ name }) => name === 'key-home')
      .map((entry) => [readFileSync(join(entry.parentPath, entry.name), 'utf8'), entry.parentPath]),
  );
}
