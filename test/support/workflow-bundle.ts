import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WorkflowBundleOption } from '@temporalio/worker';

const ROOT = join(__dirname, '..', '..');
const CACHE = join(ROOT, 'node_modules', '.cache', 'workflow-bundles');

/** The workflows, bundled once for each state of their sources and shared by all test files. */
export async function workflowBundle(): Promise<WorkflowBundleOption> {
  const codePath = join(CACHE, `${sourcesDigest()}.js`);
  if (!existsSync(codePath)) {
    const { DefaultLogger, bundleWorkflowCode } = await import('@temporalio/worker');
    const { code } = await bundleWorkflowCode({
      workflowsPath: join(ROOT, 'workflows', 'index.ts'),
      payloadConverterPath: join(ROOT, 'src', 'contracts', 'payload-converter.ts'),
      logger: new DefaultLogger('ERROR'),
    });
    mkdirSync(CACHE, { recursive: true });
    const unfinished = `${codePath}.${process.pid}`;
    writeFileSync(unfinished, code);
    renameSync(unfinished, codePath);
  }
  return { codePath };
}

function sourcesDigest(): string {
  const hash = createHash('sha256').update(readFileSync(join(ROOT, 'package-lock.json')));
  for (const folder of ['workflows', join('src', 'contracts')]) {
    for (const file of readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).sort()) {
      if (file.endsWith('.ts')) hash.update(file).update(readFileSync(join(ROOT, folder, file)));
    }
  }
  return hash.digest('hex').slice(0, 32);
}
