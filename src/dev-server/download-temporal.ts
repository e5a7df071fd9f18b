import { execFile } from 'node:child_process';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { examineExecutable, isExecutable } from './executable';
import type { Finding } from './executable';
import type { OnProgress } from './find-temporal-server';
import { projectRoot, userCacheDirectory } from './locations';

const DOWNLOAD_DEADLINE_MS = 180_000;

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
export async function findDownloaded(environment: NodeJS.ProcessEnv = process.env): Promise<Finding> {
  const directory = downloadDirectory(environment);
  const names = await readdir(directory).catch(() => []);
  // The SDK names the file after itself and its version; beside it lie only unfinished downloads.
  for (const name of names.filter((entry) => /^temporal-cli-.*\d(\.exe)?$/.test(entry)).sort()) {
    const path = join(directory, name);
    if (!(await isExecutable(path))) continue;
    const finding = await examineExecutable(path);
    if ('executable' in finding) return finding;
  }
  return { reason: 'nothing downloaded so far' };
}

/** Downloads the CLI with the Temporal SDK into the user's cache. Fails within a moment where its host is not reached. */
export async function downloadTemporal(environment: NodeJS.ProcessEnv, onProgress: OnProgress): Promise<Finding> {
  const directory = downloadDirectory(environment);
  onProgress('No Temporal CLI here: trying the download of the Temporal SDK.');
  const reason = await mkdir(directory, { recursive: true }).then(
    () => runDownload(directory, environment),
    (error: Error) => error.message,
  );
  const found = await findDownloaded(environment);
  return 'executable' in found || reason === undefined ? found : { reason };
}

function runDownload(directory: string, environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  const testing = require.resolve('@temporalio/testing', { paths: [projectRoot()] });
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['-e', DOWNLOAD_PROGRAM, testing, directory],
      { timeout: DOWNLOAD_DEADLINE_MS, killSignal: 'SIGKILL', env: environment },
      (error, stdout) => {
        if (error === null) resolve(undefined);
        else if (error.killed === true) resolve(`not finished within ${DOWNLOAD_DEADLINE_MS / 1000} s`);
        else resolve((stdout || error.message).trim().split('\n', 1)[0] ?? 'failed');
      },
    );
  });
}
