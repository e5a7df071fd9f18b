import { howItFailed, makeBinary, readRecipe, run } from './temporal-executable';
import type { Finding, Missing, Recipe } from './temporal-executable';

const REPORT_EVERY_MS = 15_000;

/** The recipe of the build. */
export function readBuild(directory: string, environment: NodeJS.ProcessEnv): Recipe | Missing {
  return readRecipe(directory, ['go.mod', 'go.sum'], /github\.com\/temporalio\/cli v(\S+)/, environment);
}

/** Builds the Temporal CLI from source with Go, and keeps it in the user's cache. */
export async function build(
  recipe: Recipe,
  environment: NodeJS.ProcessEnv,
  onProgress: (line: string) => void,
): Promise<Finding> {
  const { directory, version } = recipe;
  const begin = Date.now();
  const seconds = () => Math.round((Date.now() - begin) / 1000);
  onProgress(`Building Temporal ${version} with Go. This is needed once per user and usually takes 3 to 6 minutes.`);
  const timer = setInterval(() => onProgress(`Building Temporal: ${seconds()} s so far.`), REPORT_EVERY_MS);
  try {
    const built = await makeBinary(recipe, environment, (to) => runGo(directory, to, version, environment));
    if ('path' in built) onProgress(`Built Temporal in ${seconds()} s: ${built.path}`);
    return built;
  } finally {
    clearInterval(timer);
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
  return howItFailed('go build', error, lines);
}
