import { RunbookError } from '../errors';
import { buildTemporal } from './build-temporal';
import { downloadTemporal, findDownloaded } from './download-temporal';
import { examineExecutable, findOnPath, isExecutable } from './executable';
import type { Finding, TemporalExecutable } from './executable';
import { temporalRecipe } from './locations';
import type { TemporalRecipe } from './locations';

/** Takes one line for people about work that takes long. */
export type OnProgress = (line: string) => void;

/** What may be chosen while looking for a server; the defaults are right outside tests. */
interface FindOptions {
  readonly onProgress?: OnProgress;
  readonly environment?: NodeJS.ProcessEnv;
  readonly recipe?: TemporalRecipe;
}

/** A Temporal CLI and the way it was had. */
interface FoundExecutable {
  readonly kind: 'executable';
  readonly way: 'path' | 'download' | 'build';
  readonly executable: TemporalExecutable;
}

/** A server that somebody else runs, or the executable to start one with. */
type FoundServer = { readonly kind: 'address'; readonly address: string } | FoundExecutable;

/**
 * Finds a Temporal server: `TEMPORAL_ADDRESS` where it is set (then none is started), else an executable as
 * {@link findTemporalExecutable} finds it.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE`, naming the four ways and what each answered.
 */
export async function findTemporalServer(options: FindOptions = {}): Promise<FoundServer> {
  const address = (options.environment ?? process.env)['TEMPORAL_ADDRESS'];
  if (address !== undefined && address !== '') return { kind: 'address', address };
  return findTemporalExecutable(options);
}

/**
 * Finds the Temporal CLI: `temporal` on the PATH, else the download of the Temporal SDK, else a build with Go from
 * `tools/temporal`, which takes some minutes the first time. What was downloaded or built before is used before
 * anything is downloaded or built anew.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE`, naming the four ways and what each answered.
 */
export async function findTemporalExecutable(options: FindOptions = {}): Promise<FoundExecutable> {
  const environment = options.environment ?? process.env;
  const onProgress = options.onProgress ?? (() => undefined);
  const onPath = await findOnPath(environment);
  if ('executable' in onPath) return { kind: 'executable', way: 'path', executable: onPath.executable };

  const recipe = options.recipe ?? temporalRecipe(undefined, environment);
  const kept = await findDownloaded(environment);
  if ('executable' in kept) return { kind: 'executable', way: 'download', executable: kept.executable };
  if (await isExecutable(recipe.binary)) {
    const built = await examineExecutable(recipe.binary);
    if ('executable' in built) return { kind: 'executable', way: 'build', executable: built.executable };
  }

  const downloaded = await downloadTemporal(environment, onProgress);
  if ('executable' in downloaded) return { kind: 'executable', way: 'download', executable: downloaded.executable };
  onProgress(`The Temporal SDK's download did not work (${downloaded.reason}).`);
  const built = await buildTemporal(recipe, environment, onProgress);
  if ('executable' in built) return { kind: 'executable', way: 'build', executable: built.executable };
  throw noServer(onPath, downloaded, built);
}

function noServer(onPath: Finding, downloaded: Finding, built: Finding): RunbookError {
  const answer = (finding: Finding): string => ('reason' in finding ? finding.reason : 'found');
  return new RunbookError(
    'TEMPORAL_UNAVAILABLE',
    [
      'No Temporal server. There are four ways to one:',
      '  1. TEMPORAL_ADDRESS with the address of a running server: not set',
      `  2. the Temporal CLI on the PATH: ${answer(onPath)}`,
      `  3. the download of the Temporal SDK: ${answer(downloaded)}`,
      `  4. a build with Go from tools/temporal: ${answer(built)}`,
    ].join('\n'),
    { next: 'Install the Temporal CLI or Go, or set TEMPORAL_ADDRESS.' },
  );
}
