import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { RunbookError } from '../errors';

/** Per-user cache directory of the project: `$XDG_CACHE_HOME` or `~/.cache`, as other command line programs have it. */
export function userCacheDirectory(environment: NodeJS.ProcessEnv = process.env): string {
  const base = environment['XDG_CACHE_HOME'];
  return join(base !== undefined && base !== '' ? base : join(homedir(), '.cache'), 'replication-runbooks');
}

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
