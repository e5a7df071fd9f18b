import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DefaultLogger } from '@temporalio/worker';
import { projectRoot } from '../src/dev-server/locations';
import { BUNDLE_PATH, writeWorkflowBundle } from './workflow-bundle';

/** Build step: writes the bundle of the workflows that the worker loads. */
async function main(): Promise<void> {
  const root = projectRoot();
  if (!existsSync(join(root, 'workflows', 'index.ts')))
    throw new Error('workflows/index.ts is missing: nothing to bundle.');
  const size = await writeWorkflowBundle(join(root, BUNDLE_PATH), new DefaultLogger('WARN'));
  console.log(`${BUNDLE_PATH}: ${(size / 1024 / 1024).toFixed(1)} MiB`);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
