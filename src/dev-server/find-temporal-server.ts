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

/** Answer of a way to a Temporal CLI: the executable, or why there is none. */
type Finding = TemporalExecutable | { readonly reason: string };

/** What may be chosen while looking for a server; the defaults are right outside tests. */
export interface FindOptions {
  /** Takes one line for people about work that takes long. */
  readonly onProgress?: (line: string) => void;
  readonly environment?: NodeJS.ProcessEnv;
  /** Directory with `go.mod` and `go.sum`. */
  readonly recipe?: string;
}

const EXECUTABLE_NAME = process.platform === 'win32' ? 'temporal.exe' : 'temporal';
const DOWNLOAD_DEADLINE_MS = 180_000;
const REPORT_EVERY_MS = 15_000;
const KEPT_OUTPUT_LINES = 12;

/**
 * Finds a Temporal server: the address that `TEMPORAL_ADDRESS` gives (then none is started), else a Temporal CLI: `temporal`
 * on the PATH, else what was built before, else the download of the Temporal SDK, else a build with Go from
 * `tools/temporal`, which takes some minutes the first time. What was downloaded or built is kept.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE`, naming the four ways and what each answered.
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
  onProgress(`The download of the Temporal SDK did not work: ${downloaded.reason}`);
  const built = 'binary' in toBuild ? await build(toBuild, environment, onProgress).catch(whyNot) : toBuild;
  if ('path' in built) return built;
  throw new RunbookError(
    'TEMPORAL_UNAVAILABLE',
    [
      'No Temporal server. There are four ways to one:',
      '  1. TEMPORAL_ADDRESS with the address of a running server: not set',
      `  2. the Temporal CLI on the PATH: ${onPath.reason}`,
      `  3. the download of the Temporal SDK: ${downloaded.reason}`,
      `  4. a build with Go from tools/temporal: ${built.reason}`,
    ].join('\n'),
    { next: 'Install the Temporal CLI or Go, or set TEMPORAL_ADDRESS.' },
  );
}

function whyNot(error: unknown): { readonly reason: string } {
  return { reason: errorMessage(error) };
}

/** A file that cannot run here is no finding. */
async function examine(path: string, environment: NodeJS.ProcessEnv): Promise<Finding> {
  const env = withoutTemporalVariables(environment);
  const { stdout, error } = await run(path, ['--version'], { timeout: 20_000, env });
  if (error?.code === 'ENOENT') return { reason: 'there is none' };
  if (error) return { reason: `${path} does not run: ${error.message.split('\n', 1)[0]}` };
  return { path, version: stdout.split('\n', 1)[0] ?? '' };
}

function cacheDirectory(environment: NodeJS.ProcessEnv): string {
  const base = environment['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  return join(base, 'replication-runbooks', 'temporal');
}

/**
 * The SDK downloads the CLI only as a part of starting its own test server, which takes no HTTP or UI port. That server is
 * started for a moment, in a process of its own that can be ended where the download hangs.
 */
const DOWNLOAD_PROGRAM = `
const { TestWorkflowEnvironment } = require(process.argv[1]);
TestWorkflowEnvironment.createLocal({
  server: { executable: { type: 'cached-download', downloadDir: process.argv[2], ttl: '3650 days' } },
}).then((environment) => environment.teardown(), (error) => {
  process.stdout.write(String(error && error.message));
  process.exitCode = 1;
});`;

/** What the SDK downloaded before, or downloads now, into the user's cache. Fails within a moment where its host is not reached. */
async function download(environment: NodeJS.ProcessEnv, onProgress: (line: string) => void): Promise<Finding> {
  const directory = join(cacheDirectory(environment), 'download');
  await mkdir(directory, { recursive: true });
  const before = await findDownloaded(directory, environment);
  if ('path' in before) return before;
  onProgress('No Temporal CLI here: trying the download of the Temporal SDK.');
  const testing = require.resolve('@temporalio/testing', { paths: [projectRoot()] });
  const limits = { timeout: DOWNLOAD_DEADLINE_MS, killSignal: 'SIGKILL', env: environment } as const;
  const { error, stdout } = await run(process.execPath, ['-e', DOWNLOAD_PROGRAM, testing, directory], limits);
  const why = error?.killed === true ? `not finished within ${DOWNLOAD_DEADLINE_MS / 1000} s` : stdout;
  return error ? { reason: why.trim().split('\n', 1)[0] || error.message } : findDownloaded(directory, environment);
}

/** The SDK names the file after itself and its version; beside it lie only unfinished downloads. */
async function findDownloaded(directory: string, environment: NodeJS.ProcessEnv): Promise<Finding> {
  const name = (await readdir(directory)).find((entry) => /^temporal-cli-.*\d(\.exe)?$/.test(entry));
  return name === undefined ? { reason: 'nothing was downloaded' } : examine(join(directory, name), environment);
}

interface Recipe {
  readonly directory: string;
  readonly version: string;
  /** Where what is made of this recipe for this platform lies: another recipe never finds it. */
  readonly binary: string;
}

/** An installed package has none. */
function readRecipe(directory: string, environment: NodeJS.ProcessEnv): Recipe | { readonly reason: string } {
  const files = ['go.mod', 'go.sum'].map((name) => join(directory, name));
  if (!files.every((file) => existsSync(file))) return { reason: 'no recipe here' };
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
  // It gets its name only when it is complete: two builds at once are slower, not wrong.
  const unfinished = `${binary}-${randomUUID()}`;
  const begin = Date.now();
  const seconds = () => Math.round((Date.now() - begin) / 1000);
  onProgress(`Building the Temporal server ${version} with Go: once per user, usually 3 to 6 minutes.`);
  const timer = setInterval(() => onProgress(`Building the Temporal server: ${seconds()} s so far.`), REPORT_EVERY_MS);
  try {
    await mkdir(dirname(binary), { recursive: true });
    const failure = await runGo(directory, unfinished, version, environment);
    if (failure !== undefined) return { reason: failure };
    const built = await examine(unfinished, environment);
    if ('reason' in built) return built;
    await rename(unfinished, binary);
    onProgress(`Built the Temporal server in ${seconds()} s: ${binary}`);
    return { ...built, path: binary };
  } finally {
    clearInterval(timer);
    await rm(unfinished, { force: true });
  }
}

/** @returns why it failed, or undefined. */
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
    // No cgo: no C compiler is needed. The recipe may ask for a newer Go, which the go command fetches by itself.
    env: { GOTOOLCHAIN: 'auto', ...environment, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '' },
  });
  if (error === undefined) return undefined;
  if (error.code === 'ENOENT') return 'no go on the PATH';
  const said = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('go: downloading '));
  const how = error.signal ?? `exit code ${String(error.code)}`;
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
export function withoutTemporalVariables(environment = process.env): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('TEMPORAL_')));
}

/** The message of whatever was thrown. (`instanceof` fails for system errors where modules run in their own context.) */
export function errorMessage(error: unknown): string {
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
}
