import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { RunbookError } from '../errors';

/** The directory of the project's package.json, for the sources and for the compiled program. */
export function projectRoot(): string {
  for (let directory = __dirname; ; directory = dirname(directory)) {
    if (existsSync(join(directory, 'package.json'))) return directory;
    if (dirname(directory) === directory)
      throw new RunbookError('INTERNAL', 'package.json was not found in any parent directory.');
  }
}

/** The version of this program, from package.json. */
export function programVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8'));
  return (manifest as { readonly version: string }).version;
}

/** Path of the compiled `runbook` program. */
export const programFile = (): string => join(projectRoot(), 'dist', 'src', 'cli', 'main.js');
