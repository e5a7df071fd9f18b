import { execFile } from 'node:child_process';
import type { ExecFileException, ExecFileOptions } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { RunbookError } from '../errors';
import { endWithThisProcess } from './child-process';
import { projectRoot } from './locations';

/** A Temporal CLI, and the first line of its `--version`. */
interface TemporalExecutable {
  readonly path: string;
  readonly version: string;
}

/** Result of one way to obtain a Temporal CLI: the executable, or why there is none. */
type Finding = TemporalExecutable | { readonly reason: string };

/** Options of the search for a server; only tests need to change the defaults. */
export interface FindOptions {
  /** Receives a line of text about work that takes a long time. */
  readonly onProgress?: (line: string) => void;
  readonly environment?: NodeJS.ProcessEnv;
  /** Directory with the `go.mod` and `go.sum` of the build. */
  readonly recipe?: string;
}

const EXECUTABLE_NAME = process.platform === 'win32' ? 'temporal.exe' : 'temporal';
const DOWNLOAD_DEADLINE_MS = 180_000;
const REPORT_EVERY_MS = 15_000;
const KEPT_OUTPUT_LINES = 12;

/**
 * Finds a Temporal server. Tries in this order: the address in `TEMPORAL_ADDRESS` (no server is started then),
 * `temporal` on the PATH, an earlier build, the download through the Temporal SDK, and a build with Go from
 * `tools/temporal`, which takes some minutes the first time. Downloads and builds are kept in the user's cache.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE`, with the four ways and why each failed.
 */
export async function findTemporalServer({
  onProgress = () => undefined,
  environment = process.env,
  recipe = join(projectRoot(), 'tools', 'temporal'),
}: FindOptions = {}): Promise<{ readonly address: string } | TemporalExecutable> {
  const address = environment['TEMPORAL_ADDRESS'];
  if (address) return { address };
  const onPath = await examine('temporal', environment);
  if ('path' in onPath) return onPath;
  const toBuild = readRecipe(recipe, environment);
  const before = 'binary' in toBuild ? await examine(toBuild.binary, environment) : toBuild;
  if ('path' in before) return before;
  const downloaded = await download(environment, onProgress).catch(whyNot);
  if ('path' in downloaded) return downloaded;
  onProgress(`The Temporal CLI could not be downloaded: ${downloaded.reason}`);
  const built = 'binary' in toBuild ? await build(toBuild, environment, onProgress).catch(whyNot) : toBuild;
  if ('path' in built) return built;
  throw new RunbookError(
    'TEMPORAL_UNAVAILABLE',
    [
      'No Temporal server was found. These four ways were tried:',
      '  1. TEMPORAL_ADDRESS with the address of a running server: not set',
      `  2. Temporal CLI on the PATH: ${onPath.reason}`,
      `  3. download of the CLI through the Temporal SDK: ${downloaded.reason}`,
      `  4. build with Go from tools/temporal: ${built.reason}`,
    ].join('\n'),
    { next: 'Set TEMPORAL_ADDRESS, or install the Temporal CLI or Go.' },
  );
}

function whyNot(error: unknown): { readonly reason: string } {
  return { reason: errorMessage(error) };
}

/** Checks that the file runs on this machine. */
async function examine(path: string, environment: NodeJS.ProcessEnv): Promise<Finding> {
  const env = withoutTemporalVariables(environment);
  const { stdout, error } = await run(path, ['--version'], { timeout: 20_000, env });
  if (error?.code === 'ENOENT') return { reason: 'not found' };
  if (error) return { reason: `${path} does not run: ${error.message.split('\n', 1)[0]}` };
  return { path, version: stdout.split('\n', 1)[0] ?? '' };
}

function cacheDirectory(environment: NodeJS.ProcessEnv): string {
  const base = environment['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  return join(base, 'replication-runbooks', 'temporal');
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
async function download(environment: NodeJS.ProcessEnv, onProgress: (line: string) => void): Promise<Finding> {
  const directory = join(cacheDirectory(environment), 'download');
  await mkdir(directory, { recursive: true });
  const before = await findDownloaded(directory, environment);
  if ('path' in before) return before;
  onProgress('No Temporal CLI on this machine: downloading it through the Temporal SDK.');
  const testing = require.resolve('@temporalio/testing', { paths: [projectRoot()] });
  const limits = { timeout: DOWNLOAD_DEADLINE_MS, killSignal: 'SIGKILL', env: environment } as const;
  const { error, stdout } = await run(process.execPath, ['-e', DOWNLOAD_PROGRAM, testing, directory], limits);
  const why = error?.killed === true ? `not finished within ${DOWNLOAD_DEADLINE_MS / 1000} s` : stdout;
  return error ? { reason: why.trim().split('\n', 1)[0] || error.message } : findDownloaded(directory, environment);
}

/** The SDK names the file after itself and its version; other files in the directory are unfinished downloads. */
async function findDownloaded(directory: string, environment: NodeJS.ProcessEnv): Promise<Finding> {
  const name = (await readdir(directory)).find((entry) => /^temporal-cli-.*\d(\.exe)?$/.test(entry));
  return name === undefined ? { reason: 'nothing was downloaded' } : examine(join(directory, name), environment);
}

interface Recipe {
  readonly directory: string;
  readonly version: string;
  /** Path of the binary for this recipe and platform; the name has a hash, so another recipe never uses it. */
  readonly binary: string;
}

/** Reads `go.mod` and `go.sum`; an installed package does not contain them. */
function readRecipe(directory: string, environment: NodeJS.ProcessEnv): Recipe | { readonly reason: string } {
  const files = ['go.mod', 'go.sum'].map((name) => join(directory, name));
  if (!files.every((file) => existsSync(file))) return { reason: 'go.mod and go.sum are missing' };
  const [goMod, goSum] = files.map((file) => readFileSync(file, 'utf8'));
  const hash = createHash('sha256').update(`${goMod}\0${goSum}`).digest('hex').slice(0, 16);
  const version = /github\.com\/temporalio\/cli v(\S+)/.exec(goMod ?? '')?.[1] ?? 'unknown';
  const name = `${version}-${process.platform}-${process.arch}-${hash}`;
  return { directory, version, binary: join(cacheDirectory(environment), name, EXECUTABLE_NAME) };
}

async function build(
  { directory, version, binary }: Recipe,
  environment: NodeJS.ProcessEnv,
  onProgress: (line: string) => void,
): Promise<Finding> {
  // The binary gets its final name only when it is complete, so concurrent builds are slow but safe.
  const unfinished = `${binary}-${randomUUID()}`;
  const begin = Date.now();
  const seconds = () => Math.round((Date.now() - begin) / 1000);
  onProgress(`Building Temporal ${version} with Go. This is needed once per user and usually takes 3 to 6 minutes.`);
  const timer = setInterval(() => onProgress(`Building Temporal: ${seconds()} s so far.`), REPORT_EVERY_MS);
  try {
    await mkdir(dirname(binary), { recursive: true });
    const failure = await runGo(directory, unfinished, version, environment);
    if (failure !== undefined) return { reason: failure };
    const built = await examine(unfinished, environment);
    if ('reason' in built) return built;
    await rename(unfinished, binary);
    onProgress(`Built Temporal in ${seconds()} s: ${binary}`);
    return { ...built, path: binary };
  } finally {
    clearInterval(timer);
    await rm(unfinished, { force: true });
  }
}

/** @returns why the build failed; undefined on success. */
async function runGo(
  directory: string,
  output: string,
  version: string,
  environment: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  const named = `-X github.com/temporalio/cli/internal/temporalcli.Version=${version}`;
  const options = ['-mod=readonly', '-ldflags', `-s -w ${named}`, '-o', output];
  const { error, stderr } = await run('go', ['build', ...options, 'github.com/temporalio/cli/cmd/temporal'], {
    cwd: directory,
    // Without cgo no C compiler is needed. If go.mod requires a newer Go, the go command downloads it.
    env: { GOTOOLCHAIN: 'auto', ...environment, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '' },
  });
  if (error === null) return undefined;
  if (error.code === 'ENOENT') return 'go is not on the PATH';
  const lines = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('go: downloading '));
  const how = error.signal ?? `exit code ${String(error.code)}`;
  return [`go build ended with ${how}`, ...lines.slice(-KEPT_OUTPUT_LINES)].join('\n     ');
}

/** Runs a program until it ends; it never outlives this process. */
function run(program: string, parameters: readonly string[], limits: ExecFileOptions) {
  type Ended = Readonly<Record<'stdout' | 'stderr', string>> & { readonly error: ExecFileException | null };
  return new Promise<Ended>((resolve) => {
    const child = execFile(program, parameters, { ...limits, encoding: 'utf8' }, (error, stdout, stderr) =>
      resolve({ stdout, stderr, error }),
    );
    endWithThisProcess(child);
  });
}

/** The environment without the `TEMPORAL_*` variables: they are for clients and must not reach a server that we start. */
export function withoutTemporalVariables(environment = process.env): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('TEMPORAL_')));
}

/** The message of a thrown value. `instanceof` does not recognize system errors if modules run in their own context. */
export function errorMessage(error: unknown): string {
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
}
