import { execFile } from 'node:child_process';
import type { ExecFileException, ExecFileOptions } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { endWithThisProcess } from './child-process';

/** A Temporal CLI, and the first line of its `--version`. */
export interface TemporalExecutable {
  readonly path: string;
  readonly version: string;
}

/** Why something was not obtained. */
export interface Missing {
  readonly reason: string;
}

/** Result of one way to obtain a Temporal CLI: the executable, or why there is none. */
export type Finding = TemporalExecutable | Missing;

/** Pinned files from which a Temporal CLI is made, and where it is kept. */
export interface Recipe {
  readonly directory: string;
  readonly version: string;
  /** Path of the binary for this recipe and platform; the name has a hash, so another recipe never uses it. */
  readonly binary: string;
}

const EXECUTABLE_NAME = process.platform === 'win32' ? 'temporal.exe' : 'temporal';
const KEPT_OUTPUT_LINES = 12;

/** Directory below the user's cache in which Temporal CLIs are kept. */
export function cacheDirectory(environment: NodeJS.ProcessEnv): string {
  const base = environment['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  return join(base, 'replication-runbooks', 'temporal');
}

/**
 * Reads the files of a recipe.
 *
 * @param version - finds the version of the CLI in the first file, as its first group
 */
export function readRecipe(
  directory: string,
  names: readonly string[],
  version: RegExp,
  environment: NodeJS.ProcessEnv,
): Recipe | Missing {
  const files = names.map((name) => join(directory, name));
  if (!files.every((file) => existsSync(file)))
    return { reason: `${names.join(' and ')} ${names.length === 1 ? 'is' : 'are'} missing` };
  const texts = files.map((file) => readFileSync(file, 'utf8'));
  const hash = createHash('sha256').update(texts.join('\0')).digest('hex').slice(0, 16);
  const found = version.exec(texts[0] ?? '')?.[1] ?? 'unknown';
  const name = `${found}-${process.platform}-${process.arch}-${hash}`;
  return { directory, version: found, binary: join(cacheDirectory(environment), name, EXECUTABLE_NAME) };
}

/**
 * Has the binary of a recipe made, and keeps it if it runs. It gets its final name only when it is complete, so two
 * that do the same at the same time are slow but safe.
 *
 * @param make - writes the binary to the given path; returns why it could not, undefined on success
 */
export async function makeBinary(
  { binary }: Recipe,
  environment: NodeJS.ProcessEnv,
  make: (unfinished: string) => Promise<string | undefined>,
): Promise<Finding> {
  const unfinished = `${binary}-${randomUUID()}`;
  try {
    await mkdir(dirname(binary), { recursive: true });
    const failure = await make(unfinished);
    if (failure !== undefined) return { reason: failure };
    const made = await examine(unfinished, environment);
    if ('reason' in made) return made;
    await rename(unfinished, binary);
    return { ...made, path: binary };
  } finally {
    await rm(unfinished, { force: true });
  }
}

/** Checks that the file runs on this machine. */
export async function examine(path: string, environment: NodeJS.ProcessEnv): Promise<Finding> {
  const env = withoutTemporalVariables(environment);
  const { stdout, error } = await run(path, ['--version'], { timeout: 20_000, env });
  if (error?.code === 'ENOENT') return { reason: 'not found' };
  if (error) return { reason: `${path} does not run: ${error.message.split('\n', 1)[0]}` };
  return { path, version: stdout.split('\n', 1)[0] ?? '' };
}

/** The streams of a program that ended, and its error if it failed. */
export type Ended = Readonly<Record<'stdout' | 'stderr', string>> & { readonly error: ExecFileException | null };

/** Runs a program until it ends; it never outlives this process. */
export function run(program: string, parameters: readonly string[], limits: ExecFileOptions): Promise<Ended> {
  return new Promise<Ended>((resolve) => {
    const child = execFile(program, parameters, { ...limits, encoding: 'utf8' }, (error, stdout, stderr) =>
      resolve({ stdout, stderr, error }),
    );
    endWithThisProcess(child);
  });
}

/** How a program failed, with the last lines that it printed. */
export function howItFailed(what: string, error: ExecFileException, lines: readonly string[]): string {
  const how = error.signal ?? `exit code ${String(error.code)}`;
  return [`${what} ended with ${how}`, ...lines.slice(-KEPT_OUTPUT_LINES)].join('\n     ');
}

/** The environment without the `TEMPORAL_*` variables: they are for clients and must not reach a server that we start. */
export function withoutTemporalVariables(environment = process.env): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('TEMPORAL_')));
}
