import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { withBuildLock } from './build-lock';
import { errorMessage } from './error-message';
import { examineExecutable, isExecutable } from './executable';
import type { Finding } from './executable';
import type { OnProgress } from './find-temporal-server';
import type { TemporalRecipe } from './locations';
import { endWithThisProcess } from './process-guard';

const PACKAGE = 'github.com/temporalio/cli/cmd/temporal';
const REPORT_EVERY_MS = 5_000;
const KEPT_OUTPUT_LINES = 12;

/**
 * Builds the Temporal CLI with Go from the recipe into the user's cache, or waits for another process that does.
 * The binary gets its name only when it is complete, so an interrupted build leaves nothing that could be used.
 */
export async function buildTemporal(
  recipe: TemporalRecipe,
  environment: NodeJS.ProcessEnv,
  onProgress: OnProgress,
): Promise<Finding> {
  const go = await goVersion(environment);
  if (go === undefined) return { reason: 'no go on the PATH' };
  try {
    await mkdir(recipe.cacheDirectory, { recursive: true });
    const waiting = (seconds: number, holder: string): void =>
      onProgress(`Waiting for the build of the Temporal server by ${holder}: ${seconds} s so far.`);
    const failure = await withBuildLock(join(recipe.cacheDirectory, 'build.lock'), waiting, async () => {
      if (await isExecutable(recipe.binary)) return undefined;
      onProgress(`Building the Temporal server ${recipe.version} with ${go}: once per user, usually 3 to 6 minutes.`);
      return build(recipe, environment, onProgress);
    });
    return failure === undefined ? await examineExecutable(recipe.binary) : { reason: failure };
  } catch (error) {
    return { reason: errorMessage(error) };
  }
}

/** @returns why it failed, or undefined. */
async function build(
  recipe: TemporalRecipe,
  environment: NodeJS.ProcessEnv,
  onProgress: OnProgress,
): Promise<string | undefined> {
  await removeUnfinished(recipe.cacheDirectory);
  const unfinished = join(recipe.cacheDirectory, `unfinished-${randomUUID()}`);
  const begin = Date.now();
  try {
    const failure = await runGo(goBuildParameters(recipe, unfinished), recipe, environment, (downloaded, compiled) => {
      const seconds = Math.round((Date.now() - begin) / 1000);
      onProgress(
        `Building the Temporal server: ${downloaded} modules downloaded, ${compiled} packages compiled, ${seconds} s so far.`,
      );
    });
    if (failure !== undefined) return failure;
    const examined = await examineExecutable(unfinished);
    if ('reason' in examined) return examined.reason;
    await rename(unfinished, recipe.binary);
    onProgress(`Built the Temporal server in ${Math.round((Date.now() - begin) / 1000)} s: ${recipe.binary}`);
    return undefined;
  } finally {
    await rm(unfinished, { force: true });
  }
}

function goBuildParameters(recipe: TemporalRecipe, output: string): string[] {
  const version = `-X github.com/temporalio/cli/internal/temporalcli.Version=${recipe.version}`;
  // -v names each package once it is compiled: the only progress that the go command shows.
  return ['build', '-v', '-mod=readonly', '-ldflags', `-s -w ${version}`, '-o', output, PACKAGE];
}

function runGo(
  parameters: readonly string[],
  recipe: TemporalRecipe,
  environment: NodeJS.ProcessEnv,
  report: (downloaded: number, compiled: number) => void,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn('go', parameters, {
      cwd: recipe.directory,
      stdio: ['ignore', 'ignore', 'pipe'],
      // No cgo: no C compiler is needed. The recipe may ask for a newer Go, which the go command fetches by itself.
      env: { GOTOOLCHAIN: 'auto', ...environment, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '' },
    });
    endWithThisProcess(child);
    let downloaded = 0;
    let compiled = 0;
    const last: string[] = [];
    const timer = setInterval(() => report(downloaded, compiled), REPORT_EVERY_MS);
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (line.startsWith('go: downloading ')) downloaded += 1;
      else if (/^[\w./-]+$/.test(line)) compiled += 1;
      else last.push(line);
      if (last.length > KEPT_OUTPUT_LINES) last.shift();
    });
    const finish = (failure: string | undefined): void => {
      clearInterval(timer);
      resolve(failure);
    };
    child.once('error', (error) => finish(error.message));
    child.once('close', (code, signal) => {
      finish(
        code === 0 ? undefined : [`go build ended with ${signal ?? `exit code ${code}`}`, ...last].join('\n     '),
      );
    });
  });
}

function goVersion(environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile('go', ['version'], { env: environment, timeout: 30_000 }, (error, stdout) => {
      resolve(error === null ? (/go version (\S+)/.exec(stdout)?.[1] ?? 'go') : undefined);
    });
  });
}

/** Removes what builds of killed processes left; a build that runs now is at most some minutes old. */
async function removeUnfinished(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!name.startsWith('unfinished-')) continue;
    const path = join(directory, name);
    const facts = await stat(path).catch(() => undefined);
    if (facts !== undefined && Date.now() - facts.mtimeMs > 3_600_000) await rm(path, { force: true });
  }
}
