import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { RunbookError } from '../errors';

/** Where the recipe of the server lies, and where what is made from it is kept. */
export interface TemporalRecipe {
  /** Directory with `go.mod` and `go.sum`. */
  readonly directory: string;
  /** Version of the Temporal CLI that the recipe asks for, without a leading `v`. */
  readonly version: string;
  /** Per-user cache directory of this recipe on this platform: another recipe never finds this one's binary. */
  readonly cacheDirectory: string;
  /** The finished binary. It appears under this name only when it is complete. */
  readonly binary: string;
}

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

/**
 * Reads the recipe in `directory` (default: `tools/temporal` of this project).
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE` where the files are missing or name no version.
 */
export function temporalRecipe(
  directory = join(projectRoot(), 'tools', 'temporal'),
  environment: NodeJS.ProcessEnv = process.env,
): TemporalRecipe {
  let goMod: string;
  let goSum: string;
  try {
    goMod = readFileSync(join(directory, 'go.mod'), 'utf8');
    goSum = readFileSync(join(directory, 'go.sum'), 'utf8');
  } catch (cause) {
    throw new RunbookError('TEMPORAL_UNAVAILABLE', `The recipe of the Temporal server is missing in ${directory}.`, {
      cause,
    });
  }
  const version = /^[ \t]*(?:require[ \t]+)?github\.com\/temporalio\/cli v(\S+)/m.exec(goMod)?.[1];
  if (version === undefined) {
    throw new RunbookError(
      'TEMPORAL_UNAVAILABLE',
      `${join(directory, 'go.mod')} requires no version of github.com/temporalio/cli.`,
    );
  }
  const hash = createHash('sha256').update(goMod).update('\0').update(goSum).digest('hex').slice(0, 16);
  const name = `${version}-${process.platform}-${process.arch}-${hash}`;
  const cacheDirectory = join(userCacheDirectory(environment), 'temporal', name);
  return { directory, version, cacheDirectory, binary: join(cacheDirectory, executableName()) };
}

/** File name of the Temporal CLI on this platform. */
export function executableName(): string {
  return process.platform === 'win32' ? 'temporal.exe' : 'temporal';
}
