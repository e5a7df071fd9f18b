import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Creates a directory that is removed after the tests of the file. */
export function temporaryDirectory(name: string, parent = tmpdir()): string {
  const directory = mkdtempSync(join(parent, `${name}-`));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
