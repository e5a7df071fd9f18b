import { execFile } from 'node:child_process';
import type { ExecFileException, ExecFileOptions } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { RunbookError } from '../errors';
import { endWithThisProcess } from './child-process';
import { projectRoot } from './locations';

/** A Temporal CLI, and the first line of its `--version`. */
export interface TemporalExecutable {
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
const REPORT_EVERY_MS = 15_000;
const KEPT_OUTPUT_LINES = 12;

/**
 * Finds a Temporal server: the address that `TEMPORAL_ADDRESS` gives (then none is started), else a Temporal CLI: `temporal`
 * on the PATH, else a build with Go from `tools/temporal`, which takes some minutes the first time and is kept.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE`, naming the three ways and what each answered.
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
  const built = await findBuilt(recipe, environment, onProgress).catch((error: unknown) => ({
    reason: errorMessage(error),
  }));
  if ('path' in built) return built;
  throw new RunbookError(
    'TEMPORAL_UNAVAILABLE',
    [
      'No Temporal server. There are three ways to one:',
      '  1. TEMPORAL_ADDRESS with the address of a running server: not set',
      `  2. the Temporal CLI on the PATH: ${onPath.reason}`,
      `  3. a build with Go from tools/temporal: ${built.reason}`,
    ].join('\n'),
    { next: 'Install the Temporal CLI or Go, or set TEMPORAL_ADDRESS.' },
  );
}

/** A file that cannot run here is no finding. */
async function examine(path: string, environment: NodeJS.ProcessEnv): Promise<Finding> {
  const env = withoutTemporalVariables(environment);
  const { stdout, error } = await run(path, ['--version'], { timeout: 20_000, env });
  if (error?.code === 'ENOENT') return { reason: 'there is none' };
  if (error) return { reason: `${path} does not run: ${error.message.split('\n', 1)[0]}` };
  return { path, version: stdout.split('\n', 1)[0] ?? '' };
}

/** What was built before from the same recipe for this platform, in the user's cache, or is built now. */
async function findBuilt(
  recipe: string,
  environment: NodeJS.ProcessEnv,
  onProgress: (line: string) => void,
): Promise<Finding> {
  const [goMod, goSum] = ['go.mod', 'go.sum'].map((name) => readFileSync(join(recipe, name), 'utf8'));
  const hash = createHash('sha256').update(`${goMod}\0${goSum}`).digest('hex').slice(0, 16);
  const version = /github\.com\/temporalio\/cli v(\S+)/.exec(goMod ?? '')?.[1] ?? 'unknown';
  const base = environment['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  const name = `${version}-${process.platform}-${process.arch}-${hash}`;
  const binary = join(base, 'replication-runbooks', 'temporal', name, EXECUTABLE_NAME);
  const before = await examine(binary, environment);
  if ('path' in before) return before;

  // It gets its name only when it is complete: two builds at once are slower, not wrong.
  const unfinished = `${binary}-${randomUUID()}`;
  const begin = Date.now();
  const seconds = () => Math.round((Date.now() - begin) / 1000);
  onProgress(`Building the Temporal server ${version} with Go: once per user, usually 3 to 6 minutes.`);
  const timer = setInterval(() => onProgress(`Building the Temporal server: ${seconds()} s so far.`), REPORT_EVERY_MS);
  try {
    await mkdir(dirname(binary), { recursive: true });
    const failure = await runGo(recipe, unfinished, version, environment);
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
  recipe: string,
  output: string,
  version: string,
  environment: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  const named = `-X github.com/temporalio/cli/internal/temporalcli.Version=${version}`;
  const options = ['-mod=readonly', '-ldflags', `-s -w ${named}`, '-o', output];
  const { error, stderr } = await run('go', ['build', ...options, 'github.com/temporalio/cli/cmd/temporal'], {
    cwd: recipe,
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
