import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { executableName } from './locations';

/** What a Temporal CLI says of itself. */
export interface TemporalExecutable {
  readonly path: string;
  /** First line of `temporal --version`, with the versions of CLI, server and Web UI. */
  readonly version: string;
  /** Options of `temporal server start-dev` that this version has and older ones have not. */
  readonly flags: { readonly disableNewsFetch: boolean };
}

/** Options of `temporal server start-dev` without which this project cannot use a Temporal CLI. */
const NEEDED_FLAGS = ['--http-port', '--ui-port', '--search-attribute', '--dynamic-config-value'];

/** Answer of a way to a Temporal CLI: the executable, or why there is none. */
export type Finding = { readonly executable: TemporalExecutable } | { readonly reason: string };

/** Runs the CLI's `--version` and `--help`: a file that cannot run here, or lacks a needed option, is no finding. */
export async function examineExecutable(path: string): Promise<Finding> {
  try {
    const [version, help] = await Promise.all([run(path, ['--version']), run(path, ['server', 'start-dev', '--help'])]);
    const missing = NEEDED_FLAGS.filter((flag) => !help.includes(`${flag} `));
    const firstLine = version.split('\n', 1)[0] ?? '';
    if (missing.length > 0) return { reason: `${path} (${firstLine}) is too old: it has no ${missing.join(', ')}` };
    const flags = { disableNewsFetch: help.includes('--ui-disable-news-fetch') };
    return { executable: { path, version: firstLine, flags } };
  } catch (error) {
    return { reason: `${path} does not run: ${errorMessage(error).split('\n', 1)[0]}` };
  }
}

/** Looks for the Temporal CLI in the directories of `PATH`, as a shell does. */
export async function findOnPath(environment: NodeJS.ProcessEnv = process.env): Promise<Finding> {
  const directories = (environment['PATH'] ?? '').split(delimiter).filter((directory) => directory !== '');
  for (const directory of directories) {
    const candidate = join(directory, executableName());
    if (await isExecutable(candidate)) return examineExecutable(candidate);
  }
  return { reason: `no ${executableName()} in the ${directories.length} directories of PATH` };
}

/** Whether `path` is there and may be executed by this user. */
export async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

function run(path: string, parameters: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(path, parameters, { timeout: 20_000, env: withoutTemporalVariables() }, (error, stdout) => {
      if (error === null) resolve(stdout);
      else reject(new Error(error.message, { cause: error }));
    });
  });
}

/** The environment without `TEMPORAL_*`, which are meant for clients and must not reach a server that we start. */
export function withoutTemporalVariables(environment: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('TEMPORAL_')));
}

/** The message of whatever was thrown. (`instanceof` fails for system errors where modules run in their own context.) */
export function errorMessage(error: unknown): string {
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
}
