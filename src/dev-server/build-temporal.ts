import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { endWithThisProcess } from './child-process';
import { errorMessage, examineExecutable } from './executable';
import type { Finding } from './executable';
import type { OnProgress } from './find-temporal-server';
import type { TemporalRecipe } from './locations';

const PACKAGE = 'github.com/temporalio/cli/cmd/temporal';
const REPORT_EVERY_MS = 5_000;
const KEPT_OUTPUT_LINES = 12;

/**
 * Builds the Temporal CLI with Go from the recipe into the user's cache. The binary gets its name only when it is
 * complete: an interrupted build leaves nothing that could be used, and two at once are slower, not wrong.
 */
export async function buildTemporal(
  recipe: TemporalRecipe,
  environment: NodeJS.ProcessEnv,
  onProgress: OnProgress,
): Promise<Finding> {
  const go = await goVersion(environment);
  if (go === undefined) return { reason: 'no go on the PATH' };
  const unfinished = join(recipe.cacheDirectory, `unfinished-${randomUUID()}`);
  const begin = Date.now();
  const seconds = () => Math.round((Date.now() - begin) / 1000);
  try {
    await mkdir(recipe.cacheDirectory, { recursive: true });
    onProgress(`Building the Temporal server ${recipe.version} with ${go}: once per user, usually 3 to 6 minutes.`);
    const failure = await runGo(recipe, unfinished, environment, (downloaded, compiled) =>
      onProgress(
        `Building the Temporal server: ${downloaded} modules downloaded, ${compiled} packages compiled, ${seconds()} s so far.`,
      ),
    );
    if (failure !== undefined) return { reason: failure };
    const examined = await examineExecutable(unfinished);
    if ('reason' in examined) return examined;
    await rename(unfinished, recipe.binary);
    onProgress(`Built the Temporal server in ${seconds()} s: ${recipe.binary}`);
    return { executable: { ...examined.executable, path: recipe.binary } };
  } catch (error) {
    return { reason: errorMessage(error) };
  } finally {
    await rm(unfinished, { force: true });
  }
}

/** @returns why it failed, or undefined. */
function runGo(
  recipe: TemporalRecipe,
  output: string,
  environment: NodeJS.ProcessEnv,
  report: (downloaded: number, compiled: number) => void,
): Promise<string | undefined> {
  const version = `-X github.com/temporalio/cli/internal/temporalcli.Version=${recipe.version}`;
  // -v names each package once it is compiled: the only progress that the go command shows.
  const parameters = ['build', '-v', '-mod=readonly', '-ldflags', `-s -w ${version}`, '-o', output, PACKAGE];
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
