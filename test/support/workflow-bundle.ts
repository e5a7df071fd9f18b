import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DefaultLogger, IllegalStateError, Runtime } from '@temporalio/worker';
import type { WorkflowBundleOption } from '@temporalio/worker';
import { writeWorkflowBundle } from '../../scripts/bundle-workflows';
import { ROOT } from './documents';

const CACHE = join(ROOT, 'node_modules', '.cache', 'workflow-bundles');

/**
 * The workflow bundle: the one that `npm test` has just built, or else one that is built once for each state of the
 * sources and shared by all test files.
 */
export async function workflowBundle(): Promise<WorkflowBundleOption> {
  const built = process.env['RUNBOOKS_TEST_BUNDLE'];
  if (built !== undefined) return { codePath: join(ROOT, built) };
  const codePath = join(CACHE, `${sourcesDigest()}.js`);
  if (!existsSync(codePath)) {
    await writeWorkflowBundle(codePath, new DefaultLogger('ERROR'));
  }
  return { codePath };
}

function sourcesDigest(): string {
  const hash = createHash('sha256').update(readFileSync(join(ROOT, 'package-lock.json')));
  // The bundle also contains other parts of `src` than the contracts, such as the report.
  for (const folder of ['workflows', 'src']) {
    for (const file of readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).sort()) {
      if (file.endsWith('.ts')) hash.update(file).update(readFileSync(join(ROOT, folder, file)));
    }
  }
  return hash.digest('hex').slice(0, 32);
}

/** The SDK core logs only errors. One runtime serves all test files of a process: the first one installs it. */
export function quietRuntime(): void {
  try {
    Runtime.install({ logger: new DefaultLogger('ERROR') });
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}
