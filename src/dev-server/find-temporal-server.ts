import { execFile } from 'node:child_process';
import type { ExecFileException, ExecFileOptions } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { constants, readFileSync } from 'node:fs';
import { access, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { RunbookError } from '../errors';
import { endWithThisProcess } from './child-process';
import { projectRoot, userCacheDirectory } from './locations';

/** Takes one line for people about work that takes long. */
export type OnProgress = (line: string) => void;

/** What a Temporal CLI says of itself. */
export interface TemporalExecutable {
  readonly path: string;
  /** First line of `temporal --version`, with the versions of CLI, server and Web UI. */
  readonly version: string;
  /** Options of `temporal server start-dev` that this version has and older ones have not. */
  readonly flags: { readonly disableNewsFetch: boolean };
}

/** Answer of a way to a Temporal CLI: the executable, or why there is none. */
type Finding = { readonly executable: TemporalExecutable } | { readonly reason: string };

/** Where the recipe of the server lies, and where what is made from it is kept. */
export interface TemporalRecipe {
  /** Directory with `go.mod` and `go.sum`. */
  readonly directory: string;
  /** Version of the Temporal CLI that the recipe asks for, without a leading `v`. */
  readonly version: string;
  /** The finished binary. It appears under this name only when it is complete. */
  readonly binary: string;
  /** Its folder, for this recipe on this platform: another recipe never finds this one's binary. */
  readonly cacheDirectory: string;
}

/** What may be chosen while looking for a server; the defaults are right outside tests. */
interface FindOptions {
  readonly onProgress?: OnProgress;
  readonly environment?: NodeJS.ProcessEnv;
  readonly recipe?: TemporalRecipe;
}

/** A Temporal CLI and the way it was had. */
interface FoundExecutable {
  readonly way: 'path' | 'download' | 'build';
  readonly executable: TemporalExecutable;
}

/** Options of `temporal server start-dev` without which this project cannot use a Temporal CLI. */
const NEEDED_FLAGS = ['--http-port', '--ui-port', '--dynamic-config-value'];
const EXECUTABLE_NAME = process.platform === 'win32' ? 'temporal.exe' : 'temporal';
const DOWNLOAD_DEADLINE_MS = 180_000;
const REPORT_EVERY_MS = 15_000;
const KEPT_OUTPUT_LINES = 12;

/**
 * Finds a Temporal server: the address that `TEMPORAL_ADDRESS` gives (then none is started), else an executable as
 * {@link findTemporalExecutable} finds it.
 */
export async function findTemporalServer(
  options: FindOptions = {},
): Promise<{ readonly address: string } | FoundExecutable> {
  const address = (options.environment ?? process.env)['TEMPORAL_ADDRESS'] ?? '';
  return address === '' ? findTemporalExecutable(options) : { address };
}

/**
 * Finds the Temporal CLI: `temporal` on the PATH, else the download of the Temporal SDK, else a build with Go from
 * `tools/temporal`, which takes some minutes the first time. What was downloaded or built before is used before
 * anything is downloaded or built anew.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE`, naming the four ways and what each answered.
 */
export async function findTemporalExecutable(options: FindOptions = {}): Promise<FoundExecutable> {
  const { environment = process.env, onProgress = () => undefined } = options;
  // Read where it is needed: a package has none.
  const recipe = () => options.recipe ?? temporalRecipe(undefined, environment);
  const ways: readonly (readonly [FoundExecutable['way'], () => Promise<Finding>])[] = [
    ['path', () => findOnPath(environment)],
    ['download', () => findDownloaded(environment)],
    ['build', () => examineExecutable(recipe().binary)],
    ['download', () => downloadTemporal(environment, onProgress)],
    ['build', () => buildTemporal(recipe(), environment, onProgress)],
  ];
  // Of two answers of one way the later one says what was tried.
  const reasons = new Map<FoundExecutable['way'], string>();
  for (const [way, look] of ways) {
    const finding = await look();
    if ('executable' in finding) return { way, ...finding };
    reasons.set(way, finding.reason);
  }
  throw new RunbookError(
    'TEMPORAL_UNAVAILABLE',
    [
      'No Temporal server. There are four ways to one:',
      '  1. TEMPORAL_ADDRESS with the address of a running server: not set',
      `  2. the Temporal CLI on the PATH: ${reasons.get('path')}`,
      `  3. the download of the Temporal SDK: ${reasons.get('download')}`,
      `  4. a build with Go from tools/temporal: ${reasons.get('build')}`,
    ].join('\n'),
    { next: 'Install the Temporal CLI or Go, or set TEMPORAL_ADDRESS.' },
  );
}

/** Runs the CLI's `--version` and `--help`: a file that cannot run here, or lacks a needed option, is no finding. */
async function examineExecutable(path: string): Promise<Finding> {
  const ask = (...words: string[]) => run(path, words, { timeout: 20_000, env: withoutTemporalVariables() });
  const [version, help] = await Promise.all([ask('--version'), ask('server', 'start-dev', '--help')]);
  const error = version.error ?? help.error;
  if (error) return { reason: `${path} does not run: ${error.message.split('\n', 1)[0]}` };
  const missing = NEEDED_FLAGS.filter((flag) => !help.stdout.includes(`${flag} `));
  const firstLine = version.stdout.split('\n', 1)[0] ?? '';
  if (missing.length > 0) return { reason: `${path} (${firstLine}) is too old: it has no ${missing.join(', ')}` };
  const flags = { disableNewsFetch: help.stdout.includes('--ui-disable-news-fetch') };
  return { executable: { path, version: firstLine, flags } };
}

/** Looks for the Temporal CLI in the directories of `PATH`, as a shell does. */
async function findOnPath(environment: NodeJS.ProcessEnv): Promise<Finding> {
  const directories = (environment['PATH'] ?? '').split(delimiter).filter((directory) => directory !== '');
  for (const directory of directories) {
    const candidate = join(directory, EXECUTABLE_NAME);
    if (await isExecutable(candidate)) return examineExecutable(candidate);
  }
  return { reason: `no ${EXECUTABLE_NAME} in the ${directories.length} directories of PATH` };
}

/** Whether `path` is there and may be executed by this user. */
async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/**
 * The SDK downloads the CLI only as a part of starting its own test server, which takes no HTTP or UI port. So that
 * server is started for a moment, in a process of its own that can be ended when the download hangs.
 */
const DOWNLOAD_PROGRAM = `
const { TestWorkflowEnvironment } = require(process.argv[1]);
TestWorkflowEnvironment.createLocal({
  server: { executable: { type: 'cached-download', downloadDir: process.argv[2], ttl: '3650 days' } },
}).then((environment) => environment.teardown(), (error) => {
  process.stdout.write(String(error && error.message));
  process.exitCode = 1;
});`;

function downloadDirectory(environment: NodeJS.ProcessEnv): string {
  return join(userCacheDirectory(environment), 'temporal', 'download');
}

/** The CLI that an earlier download left. */
async function findDownloaded(environment: NodeJS.ProcessEnv): Promise<Finding> {
  const directory = downloadDirectory(environment);
  const names = await readdir(directory).catch(() => []);
  // The SDK names the file after itself and its version; beside it lie only unfinished downloads.
  for (const name of names.filter((entry) => /^temporal-cli-.*\d(\.exe)?$/.test(entry)).sort()) {
    const finding = await examineExecutable(join(directory, name));
    if ('executable' in finding) return finding;
  }
  return { reason: 'nothing downloaded so far' };
}

/** Downloads the CLI with the Temporal SDK into the user's cache. Fails within a moment where its host is not reached. */
async function downloadTemporal(environment: NodeJS.ProcessEnv, onProgress: OnProgress): Promise<Finding> {
  const directory = downloadDirectory(environment);
  onProgress('No Temporal CLI here: trying the download of the Temporal SDK.');
  const testing = require.resolve('@temporalio/testing', { paths: [projectRoot()] });
  const made = await mkdir(directory, { recursive: true }).catch((error: unknown) => ({ reason: errorMessage(error) }));
  if (typeof made === 'object') return made;
  const limits = { timeout: DOWNLOAD_DEADLINE_MS, killSignal: 'SIGKILL', env: environment } as const;
  const { error, stdout } = await run(process.execPath, ['-e', DOWNLOAD_PROGRAM, testing, directory], limits);
  const found = await findDownloaded(environment);
  if ('executable' in found || error === undefined) return found;
  const why = error.killed === true ? `not finished within ${DOWNLOAD_DEADLINE_MS / 1000} s` : stdout || error.message;
  const reason = why.trim().split('\n', 1)[0] ?? 'failed';
  onProgress(`The Temporal SDK's download did not work (${reason}).`);
  return { reason };
}

/**
 * Reads the recipe in `directory` (default: `tools/temporal` of this project).
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE` where it names no version.
 */
export function temporalRecipe(
  directory = join(projectRoot(), 'tools', 'temporal'),
  environment: NodeJS.ProcessEnv = process.env,
): TemporalRecipe {
  const [goMod, goSum] = ['go.mod', 'go.sum'].map((name) => {
    try {
      return readFileSync(join(directory, name), 'utf8');
    } catch (cause) {
      throw new RunbookError('TEMPORAL_UNAVAILABLE', `The recipe of the Temporal server is missing in ${directory}.`, {
        next: 'Install the Temporal CLI, or set TEMPORAL_ADDRESS.',
        cause,
      });
    }
  }) as [string, string];
  const version = /^[ \t]*(?:require[ \t]+)?github\.com\/temporalio\/cli v(\S+)/m.exec(goMod)?.[1];
  if (version === undefined)
    throw new RunbookError(
      'TEMPORAL_UNAVAILABLE',
      `${join(directory, 'go.mod')} requires no version of github.com/temporalio/cli.`,
    );
  const hash = createHash('sha256').update(goMod).update('\0').update(goSum).digest('hex').slice(0, 16);
  const name = `${version}-${process.platform}-${process.arch}-${hash}`;
  const cacheDirectory = join(userCacheDirectory(environment), 'temporal', name);
  return { directory, version, cacheDirectory, binary: join(cacheDirectory, EXECUTABLE_NAME) };
}

/**
 * Builds the Temporal CLI with Go from the recipe into the user's cache. The binary gets its name only when it is
 * complete: an interrupted build leaves nothing that could be used, and two at once are slower, not wrong.
 */
async function buildTemporal(
  recipe: TemporalRecipe,
  environment: NodeJS.ProcessEnv,
  onProgress: OnProgress,
): Promise<Finding> {
  const { error, stdout } = await run('go', ['version'], { env: environment, timeout: 30_000 });
  if (error !== undefined) return { reason: 'no go on the PATH' };
  const go = /go version (\S+)/.exec(stdout)?.[1] ?? 'go';
  onProgress(`Building the Temporal server ${recipe.version} with ${go}: once per user, usually 3 to 6 minutes.`);
  const unfinished = join(recipe.cacheDirectory, `unfinished-${randomUUID()}`);
  const begin = Date.now();
  const seconds = () => Math.round((Date.now() - begin) / 1000);
  const timer = setInterval(() => onProgress(`Building the Temporal server: ${seconds()} s so far.`), REPORT_EVERY_MS);
  try {
    await mkdir(recipe.cacheDirectory, { recursive: true });
    const failure = await runGo(recipe, unfinished, environment);
    if (failure !== undefined) return { reason: failure };
    const examined = await examineExecutable(unfinished);
    if ('reason' in examined) return examined;
    await rename(unfinished, recipe.binary);
    onProgress(`Built the Temporal server in ${seconds()} s: ${recipe.binary}`);
    return { executable: { ...examined.executable, path: recipe.binary } };
  } catch (failed) {
    return { reason: errorMessage(failed) };
  } finally {
    clearInterval(timer);
    await rm(unfinished, { force: true });
  }
}

/** @returns why it failed, or undefined. */
async function runGo(
  recipe: TemporalRecipe,
  output: string,
  environment: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  const version = `-X github.com/temporalio/cli/internal/temporalcli.Version=${recipe.version}`;
  const options = ['-mod=readonly', '-ldflags', `-s -w ${version}`, '-o', output];
  const { error, stderr } = await run('go', ['build', ...options, 'github.com/temporalio/cli/cmd/temporal'], {
    cwd: recipe.directory,
    // No cgo: no C compiler is needed. The recipe may ask for a newer Go, which the go command fetches by itself.
    env: { GOTOOLCHAIN: 'auto', ...environment, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '' },
  });
  if (error === undefined) return undefined;
  const said = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('go: downloading '));
  const how = error.signal ?? (typeof error.code === 'number' ? `exit code ${error.code}` : error.message);
  return [`go build ended with ${how}`, ...said.slice(-KEPT_OUTPUT_LINES)].join('\n     ');
}

interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly error?: ExecFileException;
}

/** Runs a program to its end, which is this one's at the latest. */
function run(program: string, parameters: readonly string[], limits: ExecFileOptions): Promise<Ended> {
  return new Promise((resolve) => {
    const child = execFile(program, parameters, { ...limits, encoding: 'utf8' }, (error, stdout, stderr) =>
      resolve({ stdout, stderr, ...(error && { error }) }),
    );
    endWithThisProcess(child);
  });
}

/** The environment without `TEMPORAL_*`, which are meant for clients and must not reach a server that we start. */
export function withoutTemporalVariables(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TEMPORAL_')));
}

/** The message of whatever was thrown. (`instanceof` fails for system errors where modules run in their own context.) */
export function errorMessage(error: unknown): string {
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
}
