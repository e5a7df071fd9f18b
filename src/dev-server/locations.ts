import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { RunbookError } from '../errors';

/** The directory of the project's package.json, from sources and from the compiled program alike. */
export function projectRoot(): string {
  for (let directory = __dirname; ; directory = dirname(directory)) {
    if (existsSync(join(directory, 'package.json'))) return directory;
    if (dirname(directory) === directory)
      throw new RunbookError('INTERNAL', 'The directory of package.json was not found.');
  }
}

/** The version of this program, as package.json has it. */
export function programVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8'));
  return (manifest as { readonly version: string }).version;
}

/** The command line program of the build. */
export const programFile = (): string => join(projectRoot(), 'dist', 'src', 'cli', 'main.js');
